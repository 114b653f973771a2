#!/usr/bin/env bash
# Tests timesync.mjs in Node: the vectors, and beside a Go end. It installs Node if it can;
# without Node it says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v node >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	(timeout 60 apt-get -qq update && timeout 150 apt-get -qq install -y --no-install-recommends nodejs) >/dev/null 2>&1 || true
fi
if ! command -v node >/dev/null; then
	echo "NOT TESTED in JavaScript: there is no Node"
	exit 0
fi
go test ./examples/js
