// SPDX-License-Identifier: BSD-3-Clause

//go:build !windows

package clock

import "time"

// elapsed returns for how long the process has run.
func elapsed() time.Duration { return time.Since(start) }

// age returns for how long the process has run at t, and timeOf the time at which it has run that
// long.
func age(t time.Time) time.Duration          { return t.Sub(start) }
func timeOf(elapsed time.Duration) time.Time { return start.Add(elapsed) }
