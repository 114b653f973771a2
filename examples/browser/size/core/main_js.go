// SPDX-License-Identifier: BSD-3-Clause

// Core is a program for the browser with the core alone, to be weighed: see size.sh.
package main

import (
	"syscall/js"

	"timesync"
)

func main() {
	var peer timesync.TimeSynchronizer
	// exchange(nowUsec, stamp, report) takes what came and returns what to send, and the
	// peer's clock.
	js.Global().Set("exchange", js.FuncOf(func(_ js.Value, args []js.Value) any {
		now := uint64(args[0].Float())
		peer.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(uint64(args[1].Int())), now)
		peer.OnPeerMinDeltaTS24(timesync.NewCounter24(uint64(args[2].Int())), now)
		report, _ := peer.MinDeltaTS24(now)
		s, ok := peer.Snapshot(now)
		return []any{
			uint32(timesync.LocalTimeToDatagramTS24(now)), uint32(report),
			float64(s.RemoteUsec), float64(s.ErrorBound.Microseconds()), ok,
		}
	}))
	select {} // the function stays
}
