// SPDX-License-Identifier: BSD-3-Clause

// All is a program for the browser with the core, tick and ping, to be weighed: see
// size.sh.
package main

import (
	"syscall/js"

	"timesync"
	"timesync/ping"
	"timesync/tick"
)

func main() {
	var peer timesync.TimeSynchronizer
	var clock ping.Clock
	game, err := tick.NewClient(tick.ClientConfig{}, &peer)
	if err != nil {
		panic(err)
	}
	bytes := func(v js.Value) []byte {
		b := make([]byte, v.Length())
		js.CopyBytesToGo(b, v)
		return b
	}
	// exchange(nowUsec, stamp, report, reply, welcome) takes what came and returns what to
	// send, and the times.
	js.Global().Set("exchange", js.FuncOf(func(_ js.Value, args []js.Value) any {
		now := uint64(args[0].Float())
		peer.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(uint64(args[1].Int())), now)
		peer.OnPeerMinDeltaTS24(timesync.NewCounter24(uint64(args[2].Int())), now)
		verdict := clock.HandleReply(bytes(args[3]), now)
		var welcome tick.Welcome
		if welcome.UnmarshalBinary(bytes(args[4])) == nil && game.OnWelcome(welcome, now) == nil {
			game.Start(now)
		}
		report, _ := peer.MinDeltaTS24(now)
		request := js.Global().Get("Uint8Array").New(ping.RequestSize)
		js.CopyBytesToJS(request, clock.AppendRequest(nil, now))
		ticks := game.Advance(now)
		s, ok := peer.Snapshot(now)
		p, _ := clock.Snapshot(now)
		return []any{
			uint32(timesync.LocalTimeToDatagramTS24(now)), uint32(report), request, ticks,
			float64(s.RemoteUsec), float64(p.RemoteUsec), verdict.String(), ok,
		}
	}))
	select {} // the function stays
}
