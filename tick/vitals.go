// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// silence is after how long the other side is taken to be silent: it should have announced itself,
// or sent inputs, three times. What its Welcomes said is then believed no more, and any other is.
const silence = 3 * time.Second

// vitals is when the other side was heard last.
type vitals struct {
	known  bool
	silent bool // and that is reported
	atUsec uint64
}
