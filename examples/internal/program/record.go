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

// Record begins one in a new file of a folder, which it makes if need be; the name of the file has
// a number for the star of the pattern. Without a folder there is none.
func Record(l *link.Link, folder, pattern string) (*Recording, error) {
	if folder == "" {
		return nil, nil
	}
	_ = os.MkdirAll(folder, 0o777) // without it no file can be made
	file, err := os.CreateTemp(folder, pattern)
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
