#!/usr/bin/env bash
# Prints how large programs for the browser are: without anything of timesync, with the
# core alone, with tick and ping, and the page of this example.
set -euo pipefail
cd "$(dirname "$0")"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
echo "| WebAssembly with | bytes | gzip -9 |"
echo "|---|---|---|"
while IFS=: read -r package what; do
	GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$out" "./$package"
	echo "| $what | $(wc -c <"$out") | $(gzip -9 -c "$out" | wc -c) |"
done <<-END
	size/none:nothing but Go
	size/core:the core alone
	size/all:the core, tick and ping
	page:the page of examples/browser
END
