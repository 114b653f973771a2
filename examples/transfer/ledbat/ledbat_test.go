// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that no caller and no receiver brings a controller out of its limits. What a
// transfer does to a link, the tests of examples/transfer prove.
package ledbat

import (
	"math"
	"testing"
	"time"
)

// TestGreed: acknowledgements of what was never sent, of more than was sent, and without a delay
// open nothing.
func TestGreed(t *testing.T) {
	var c, unknown Controller
	d := NewDelay(10*time.Millisecond, 0, true)
	for i := range uint64(1000) {
		c.OnAck(i*1000, 0, 1<<30, d)
		unknown.OnSend(i*1000, Segment)
		unknown.OnAck(i*1000+500, i*1000, Segment, NewDelay(0, 0, false))
	}
	if c.Window() != MinWindow || unknown.Window() != MinWindow {
		t.Errorf("the window is %d after acknowledgements of nothing, %d after those without a delay",
			c.Window(), unknown.Window())
	}
	c.OnSend(1e6, Segment)
	c.OnAck(1e6+20000, 1e6, 1<<30, d)
	if got := c.Window(); got > MinWindow+Segment || c.InFlight() != 0 {
		t.Errorf("an acknowledgement of too much opens the window to %d", got)
	}
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		owd   time.Duration
		steps uint32
		ok    bool
		want  time.Duration
	}{
		{0, 0, true, 0},
		{time.Second, 7, true, time.Second},
		{15 * time.Microsecond, 8, true, 8 * time.Microsecond},
		{-time.Second, 9, true, 0},
		{time.Hour, 1, true, (1<<21 - 2) * 8 * time.Microsecond},
		{math.MaxInt64, math.MaxUint32, true, (1<<21 - 2) * 8 * time.Microsecond},
		{math.MinInt64, 0, true, 0},
		{time.Second, 5, false, 0},
	} {
		b := NewDelay(c.owd, c.steps, c.ok).Append(nil)
		owd, steps, ok := ReadDelay(b).Read()
		if len(b) != 3 || ok != c.ok || ok && owd != c.want || steps != c.steps%8 {
			t.Errorf("%+v: %v %v %v in %d bytes", c, owd, steps, ok, len(b))
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var c Controller
	now := uint64(0)
	if n := testing.AllocsPerRun(10000, func() {
		c.OnSend(now, Segment)
		c.CanSend(now, Segment)
		c.OnAck(now+20000, now, Segment, NewDelay(10*time.Millisecond, 0, true))
		c.OnLoss(now+30000, now, Segment)
		now += 1000
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzController: no order of calls with any values leaves a window outside of its limits,
// bytes under way below zero, or a controller that does not work any more.
func FuzzController(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 2, 9, 9, 9, 3})
	f.Add([]byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Controller
		now := uint64(0)
		next := func() (v uint64) {
			for i := range 4 {
				if len(b) > 0 {
					v |= uint64(b[0]) << (8 * i)
					b = b[1:]
				}
			}
			return v * 0x1_0001 // some are far beyond 32 bits
		}
		for len(b) > 0 {
			op := b[0]
			b = b[1:]
			now += next() >> (op >> 3)
			before := c.Window()
			switch op & 7 {
			case 0:
				c.OnSend(now, int(int32(next())))
			case 1:
				c.OnAck(now, now-next(), int(int32(next())), Delay(next()))
			case 2:
				c.OnLoss(now, now-next(), int(int32(next())))
			case 3:
				c.OnTimeout(now)
			case 4:
				now = next() << 32
			case 5, 6, 7:
				c.OnSend(now, Segment)
				now += next() & 0xffff
				sent := now - next()&0xffff
				owd := time.Duration(next()&0xffff) * time.Microsecond
				c.OnAck(now, sent, Segment, NewDelay(owd, 0, true))
			}
			if w := c.Window(); w < MinWindow || w > MaxWindow || c.InFlight() < 0 || w > before+MaxWindow {
				t.Fatalf("window %d, %d under way", w, c.InFlight())
			}
			if queueing, _ := c.Queueing(); queueing < 0 || c.Timeout() <= 0 {
				t.Fatalf("queueing delay %v, timeout %v", queueing, c.Timeout())
			}
			if wait, ok := c.CanSend(now, Segment); wait < 0 || wait > time.Second || ok && wait != 0 {
				t.Fatalf("wait for %v, %v", wait, ok)
			}
		}
		works(t, &c, now)
	})
}

// works proves that a transfer gets going again after an hour, whatever was before.
func works(t *testing.T, c *Controller, now uint64) {
	now += 3600e6
	c.OnTimeout(now)
	for range 20_000 { // 200 s
		now += 10_000
		c.OnSend(now, Segment)
		c.OnSend(now, Segment)
		c.OnAck(now+5000, now, Segment, NewDelay(2*time.Millisecond, 0, true))
		c.OnAck(now+5000, now, Segment, NewDelay(2*time.Millisecond, 0, true))
		if c.Window() > 2*MinWindow {
			return
		}
	}
	t.Fatalf("the window stays at %d: %+v", c.Window(), c)
}
