module timesync/examples/quic

go 1.26.0

require (
	github.com/quic-go/quic-go v0.65.0
	timesync v0.0.0
)

require (
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace timesync => ../..
