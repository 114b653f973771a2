module timesync/examples/browser

go 1.26.0

replace timesync => ../..

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.0
	github.com/coder/websocket v1.8.15
	github.com/quic-go/quic-go v0.64.0 // webtransport-go v0.13.0 does not build with v0.65
	github.com/quic-go/webtransport-go v0.13.0
	timesync v0.0.0-00010101000000-000000000000
)

require (
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)
