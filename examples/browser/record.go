// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"log"
	"os"
	"path/filepath"

	"timesync/link"
	"timesync/record"
)

// recorded records a session into a file of its own until stop is called, if that is wanted.
func (s *server) recorded(l *link.Link) (stop func()) {
	if s.record == "" {
		return func() {}
	}
	file, err := os.CreateTemp(s.record, "browser-*.tsr")
	if err != nil {
		log.Print("not recorded: ", err)
		return func() {}
	}
	r := record.New(file)
	l.Record(r)
	return func() {
		if err := r.Close(); err != nil {
			log.Printf("%s: %v", filepath.Base(file.Name()), err)
		}
		file.Close()
	}
}
