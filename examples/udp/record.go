// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"os"

	"timesync/link"
	"timesync/record"
)

// recording is a file into which a link is recorded; nil records nothing.
type recording struct {
	*record.Recorder
	file *os.File
}

// startRecording records into a new file; an empty name is no file.
func startRecording(l *link.Link, name string) (*recording, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	r := &recording{record.New(file), file}
	l.Record(r.Recorder)
	return r, nil
}

// close writes what is left.
func (r *recording) close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Recorder.Close(), r.file.Close())
}
