#!/usr/bin/env bash
# Runs examples/udp between two hosts in network namespaces, 10 ms and up to 2 ms of jitter
# apart, whose clocks run 80 ppm apart, and says how far off each is. Linux, root, iproute2, Go.
#
#	examples/udp/measure.sh            30 s
#	examples/udp/measure.sh -for 10s   less
set -euo pipefail
cd "$(dirname "$0")/measure"
[[ $(uname -s) == Linux ]] || { echo "NOT TESTED: udp between two hosts: network namespaces are Linux's"; exit 0; }
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" .
"$program" "$@"
