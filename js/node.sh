#!/usr/bin/env bash
# Tests timesync.mjs in Node: the vectors, beside a Go end, and in the game of js/play. It installs
# Node if it can; without Node it says so.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! .ci/need node nodejs; then
	echo "NOT TESTED in JavaScript: there is no Node"
	exit 0
fi
go test ./js
cd js/play && go test .
