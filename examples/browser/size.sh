#!/usr/bin/env bash
# Prints how large programs for the browser are: without anything of timesync, with the core alone,
# with tick and ping, and the page of this example. The first three are written here.
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d ./size.XXXXXX) # within the module
trap 'rm -rf "$folder"' EXIT

# program NAME IMPORTS STATEMENTS: exchange gives the page what the statements return.
program() {
	mkdir "$folder/$1"
	cat >"$folder/$1/main_js.go" <<-END
		package main

		import (
		"syscall/js"
		$2
		)

		func main() {
			js.Global().Set("exchange", js.FuncOf(func(_ js.Value, args []js.Value) any {
				$3
			}))
			select {} // the function stays
		}
		$4
	END
}
program none '' 'return args[0]' ''
core='
	now := uint64(args[0].Float())
	peer.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(uint64(args[1].Int())), now)
	peer.OnPeerMinDeltaTS24(timesync.NewCounter24(uint64(args[2].Int())), now)
	report, _ := peer.MinDeltaTS24(now)
	s, ok := peer.Snapshot(now)
	answer := []any{uint32(timesync.LocalTimeToDatagramTS24(now)), uint32(report), float64(s.RemoteUsec), float64(s.ErrorBound.Microseconds()), ok}'
program core '"timesync"' "$core; return answer" 'var peer timesync.TimeSynchronizer'
program all '"timesync"; "timesync/ping"; "timesync/tick"' "$core"'
	verdict := clock.HandleReply(bytes(args[3]), now)
	var welcome tick.Welcome
	if welcome.UnmarshalBinary(bytes(args[4])) == nil && game.OnWelcome(welcome, now) == nil {
		game.Start(now)
	}
	request := js.Global().Get("Uint8Array").New(ping.RequestSize)
	js.CopyBytesToJS(request, clock.AppendRequest(nil, now))
	p, _ := clock.Snapshot(now)
	return append(answer, request, game.Advance(now), float64(p.RemoteUsec), verdict.String())' '
var (
	peer  timesync.TimeSynchronizer
	clock ping.Clock
	game  = must(tick.NewClient(tick.ClientConfig{}, &peer))
)

func must(c *tick.Client, err error) *tick.Client {
	if err != nil {
		panic(err)
	}
	return c
}

func bytes(v js.Value) []byte {
	b := make([]byte, v.Length())
	js.CopyBytesToGo(b, v)
	return b
}'

echo "| WebAssembly with | bytes | gzip -9 |"
echo "|---|---|---|"
while IFS=: read -r package what; do
	GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$folder/out" "./$package"
	echo "| $what | $(wc -c <"$folder/out") | $(gzip -9 -c "$folder/out" | wc -c) |"
done <<-END
	$folder/none:nothing but Go
	$folder/core:the core alone
	$folder/all:the core, tick and ping
	page:the page of examples/browser
END
