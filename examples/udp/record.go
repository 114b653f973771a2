// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"os"

	"timesync/examples/internal/program"
	"timesync/link"
)

// startRecording records into a new file; an empty name is no file.
func startRecording(l *link.Link, name string) (*program.Recording, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	return program.Record(l, file, err)
}
