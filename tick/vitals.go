// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// The other side counts as silent when it was not heard for silence, in which it should have
// announced itself, or sent inputs, three times. Its Welcomes are then no longer believed, and any
// other Welcome is.
const silence = 3 * time.Second

// vitals says when the other side was heard last.
type vitals struct {
	known  bool   // it was heard
	silent bool   // it has fallen silent, and that is reported
	atUsec uint64 // local time, us, when it was heard last
}
