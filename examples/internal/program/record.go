// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"errors"
	"os"

	"timesync/link"
	"timesync/record"
)

// Recording is a file into which a link is recorded; nil records nothing.
type Recording struct {
	recorder *record.Recorder
	file     *os.File
}

// Record begins one. err is that of opening the file.
func Record(l *link.Link, file *os.File, err error) (*Recording, error) {
	if err != nil {
		return nil, err
	}
	r := &Recording{record.New(file), file}
	l.Record(r.recorder)
	return r, nil
}

// Close writes what is left.
func (r *Recording) Close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.recorder.Close(), r.file.Close())
}
