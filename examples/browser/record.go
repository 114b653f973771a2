// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"log"

	"timesync/examples/internal/program"
	"timesync/link"
)

// recorded records a session into a file of its own until stop is called, if that is wanted.
func (s *server) recorded(l *link.Link) (stop func()) {
	r, err := program.RecordIn(l, s.record, "browser-*.tsr")
	if err != nil {
		log.Print("not recorded: ", err)
	}
	return func() {
		if err := r.Close(); err != nil {
			log.Print("recording: ", err)
		}
	}
}
