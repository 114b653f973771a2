// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"log"
	"net/http"

	"timesync/clock"
	"timesync/js"
)

// A server of one's own for dashboard.html: beside dashboard.go, this is all of it.
func Example_dashboard() {
	http.Handle("GET /", http.FileServer(http.Dir("static")))
	http.HandleFunc("GET /timesync.mjs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(js.Timesync) // the page sees what is wrong
	})
	http.Handle("GET /events", &events{clock.Now, clock.Received, context.Background()})
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}
