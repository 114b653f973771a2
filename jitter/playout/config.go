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

// ErrTwoLinks is returned by New if the streams of a Group have different Links. See "Streams in
// step".
var ErrTwoLinks = errors.New("playout: streams in step must use one Link")

// Config configures a Buffer. Fields that are zero have the defaults.
type Config struct {
	// Latency is the time from capture to ear or eye. It must be longer than the sum of a frame,
	// the delay of the way, its jitter, and Output. 0: it follows the arrivals, between Least and
	// Most.
	Latency time.Duration
	// Least is the shortest latency that follows the arrivals. The default is 10 ms.
	Least time.Duration
	// Most is the longest one. The default is 500 ms. In a conversation 200 ms are as long as
	// most people like to wait.
	Most time.Duration
	// Share is the share of frames that may come too late, where the latency follows the
	// arrivals. The default is 0.01.
	Share float64

	// DropLate drops frames that come later than Most, or a fixed Latency, allows. Without it
	// they are played late, if more than 1 in 20 frames come so late.
	DropLate bool
	// Overdue is by how much a single frame may be late and still be played. What a Card plays
	// after it is late, too, until corrections have made up for it: about 4 s for the
	// default, 20 ms.
	Overdue time.Duration

	// Output is how long the device takes after Pop or Card.Next until the frame is seen or
	// heard: a display 10 to 50 ms, Bluetooth 100 to 300. What waits before a Card does not count.
	Output time.Duration

	// Interval is the time from one frame to the next, or less. The default is 20 ms. The buffer
	// has room for the frames of twice the longest latency.
	Interval time.Duration

	// Group keeps this stream in step with others. nil: this stream is alone.
	Group *Group
	// Link is what converts times of capture to this clock, usually a *link.Link. It is only
	// compared: all streams of a Group must have the same.
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
