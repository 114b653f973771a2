// SPDX-License-Identifier: BSD-3-Clause

package playout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
)

const (
	usualLeast    = 10 * time.Millisecond
	usualMost     = 500 * time.Millisecond
	usualShare    = 0.01
	usualOverdue  = 20 * time.Millisecond
	usualInterval = 20 * time.Millisecond

	// longest is the longest latency: what takes longer on its way is no call.
	longest = 10 * time.Second
)

// ErrTwoLinks is what New says to two Links in one Group. See the package's comment.
var ErrTwoLinks = errors.New("playout: streams in step must use one Link")

// Config is what New wants. Fields that are zero have the defaults.
type Config struct {
	// Latency is the time from capture to ear or eye. It must be longer than a frame, which is
	// captured before it is sent, the way, its jitter, and Output together. 0: it follows the
	// arrivals, between Least and Most.
	Latency time.Duration
	// Least is the shortest latency that follows the arrivals. The default is 10 ms.
	Least time.Duration
	// Most is the longest one. The default is 500 ms. In a conversation 200 ms are as long as
	// most people like to wait.
	Most time.Duration
	// Share is how many frames may come too late, where the latency follows the arrivals. The
	// default is 0.01.
	Share float64

	// DropLate drops what comes later than Most, or than a fixed Latency, allows. Without it
	// that is played late, if more than 1 in 20 frames come so late.
	DropLate bool
	// Overdue is by how much a single frame may be late and is still played. The default is 20
	// ms.
	Overdue time.Duration

	// Output is how long it takes until what Pop or Card.Next has returned is heard or seen: of a
	// display 10 to 50 ms, of Bluetooth 100 to 300. What waits before a Card is not part of it.
	Output time.Duration

	// Interval is from one frame to the next, or less. The default is 20 ms. So many frames may
	// wait as are captured in twice the longest latency.
	Interval time.Duration

	// Group is of the streams that are to be in step. nil: this stream is alone.
	Group *Group
	// Link is what makes times of this clock out of times of capture, usually a *link.Link. It
	// is only compared: all streams of a Group must have the same.
	Link any
}

// check puts in the defaults and refuses what cannot work, NaN too.
func (c *Config) check() error {
	c.Least = cmp.Or(c.Least, min(usualLeast, cmp.Or(max(c.Most, 0), usualLeast)))
	c.Most = cmp.Or(c.Most, max(usualMost, c.Least))
	c.Share = cmp.Or(c.Share, usualShare)
	c.Overdue = cmp.Or(c.Overdue, usualOverdue)
	c.Interval = cmp.Or(c.Interval, usualInterval)
	if c.Latency > 0 {
		c.Least = c.Latency
		c.Most = c.Latency
	}
	shortest := min(c.Latency, c.Least, c.Overdue, c.Output, c.Interval)
	switch {
	case shortest < 0, max(c.Latency, c.Most, c.Overdue, c.Output) > longest:
		return fmt.Errorf("playout: %+v: times must be from 0 to %v", *c, longest)
	case c.Least > c.Most:
		return fmt.Errorf("playout: Least %v is longer than Most %v", c.Least, c.Most)
	case c.DropLate && c.Output >= c.Most:
		return fmt.Errorf("playout: Output %v, latency %v: all would be dropped", c.Output, c.Most)
	case c.Interval < time.Millisecond || c.Interval > time.Second:
		return fmt.Errorf("playout: Interval %v: must be from 1 ms to 1 s", c.Interval)
	case !(c.Share > 0 && c.Share < 1):
		return fmt.Errorf("playout: Share %v: must be above 0 and below 1", c.Share)
	case c.Link != nil && !reflect.ValueOf(c.Link).Comparable():
		return fmt.Errorf("playout: Link is a %T: must be a pointer", c.Link)
	}
	return nil
}

// frames returns how many may wait.
func (c *Config) frames() int {
	most := longest
	if c.DropLate {
		most = c.Most
	}
	return int(math.Ceil(2*float64(most)/float64(c.Interval))) + 8
}
