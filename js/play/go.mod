module timesync/js/play

go 1.26.0

replace timesync => ../..

require (
	github.com/coder/websocket v1.8.15
	timesync v0.0.0-00010101000000-000000000000
)
