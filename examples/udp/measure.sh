#!/usr/bin/env bash
# Runs examples/udp between two hosts in network namespaces, 10 ms and up to 2 ms of jitter
# apart, whose clocks run 80 ppm apart, and says how far off each is. Linux, root, iproute2, Go.
#
#	examples/udp/measure.sh            30 s
#	examples/udp/measure.sh -for 10s   less
exec "$(dirname "$0")/../internal/lab/measure.sh" udp "udp between two hosts" "$@"
