// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"log"
	"os"

	"timesync/examples/internal/program"
	"timesync/link"
)

// recorded records a session into a file of its own until stop is called, if that is wanted.
func (s *server) recorded(l *link.Link) (stop func()) {
	if s.record == "" {
		return func() {}
	}
	file, err := os.CreateTemp(s.record, "browser-*.tsr")
	r, err := program.Record(l, file, err)
	if err != nil {
		log.Print("not recorded: ", err)
	}
	return func() {
		if err := r.Close(); err != nil {
			log.Print("recording: ", err)
		}
	}
}
