#!/usr/bin/env bash
# Installs a Chromium for the tests of examples/browser if there is none and it can, and
# otherwise says that these tests will not run.
set -euo pipefail
names=(chromium chromium-browser chromium-headless-shell google-chrome)
found() { command -v "${CHROMIUM:-}" "${names[@]}" | head -n 1 | grep .; }
if ! found >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	timeout 60 apt-get -qq update >/dev/null 2>&1 || true
	for name in chromium-headless-shell chromium; do
		timeout 150 apt-get -qq install -y --no-install-recommends "$name" >/dev/null 2>&1 && break
	done || true
fi
if browser=$(found); then
	echo "browser tests run in $browser, $("$browser" --version 2>/dev/null || echo "version unknown")"
else
	echo "NOT TESTED in a browser: there is no Chromium and apt-get cannot install it"
fi
