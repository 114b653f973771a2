#!/usr/bin/env bash
# Vets everything that runs in a browser, and runs the tests of clock, the core, tick, ping
# and link as WebAssembly, by Node. It installs Node if it can; without Node it says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GOOS=js GOARCH=wasm
packages=(./clock . ./tick ./ping ./link)
go vet "${packages[@]}"
(cd examples/browser && go vet ./page ./client ./game)
if ! .ci/need node nodejs; then
	echo "NOT TESTED as WebAssembly: there is no Node"
	exit 0
fi
# .ci/run says what is too slow.
go test -short -skip "${slow:-^\$}" -exec="$(go env GOROOT)/lib/wasm/go_js_wasm_exec" "${packages[@]}"
