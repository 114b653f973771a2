// SPDX-License-Identifier: BSD-3-Clause

// Package js holds timesync.mjs, the peer for browsers and Node, for Go servers whose pages load
// it.
package js

import _ "embed"

// Timesync is the text of timesync.mjs. Serve it as text/javascript. Do not change it.
//
//go:embed timesync.mjs
var Timesync []byte
