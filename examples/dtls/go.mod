module timesync/examples/dtls

go 1.26.0

require (
	github.com/pion/dtls/v3 v3.1.15
	github.com/pion/transport/v5 v5.1.5
	timesync v0.0.0
)

require (
	github.com/pion/logging v0.2.4 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace timesync => ../..
