// These tests prove that two links know each other's whole clock wherever the clocks start,
// that headers carry what they must and no more, that nothing is taken from a datagram
// that is refused, and that no two goroutines get into each other's way.
package link

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync/internal/testkit"
)

// newPair returns a model whose ends send 50 datagrams a second each, which take 15 to 25 ms,
// overtake each other, and get lost: one in ten.
func newPair(t *testing.T, seed uint64) *model {
	const ms = time.Millisecond
	m := newModel(t, seed, 20*ms)
	for i, e := range m.ends {
		e.clock.SetRate(0, 0)
		m.delay[i] = 15 * ms
		m.jitter[i] = 10 * ms
		m.loss[i] = 0.1
	}
	return m
}

// near demands that both ends know the other's clock.
func (m *model) near(when string, within int64) {
	m.t.Helper()
	for i, e := range m.ends {
		remote, ok := e.RemoteTime(m.clock(i))
		if err := int64(remote - m.clock(1-i)); !ok || max(err, -err) > within {
			m.fail("%s: end %d is %d us off, ok %v", when, i, err, ok)
		}
	}
}

// TestOlderVersion: a datagram of version 2, which never set flag 4, is refused by
// name and changes nothing.
func TestOlderVersion(t *testing.T) {
	var a, b Link
	datagram := a.AppendHeader(nil, 1e9)
	older := append([]byte{datagram[0] &^ flagVersion}, datagram[1:]...)
	if _, _, _, err := b.ReadHeader(older, 1e9); !errors.Is(err, ErrVersion) {
		t.Errorf("an older version: %v", err)
	}
	if _, heard := b.SinceHeard(1e9); heard {
		t.Error("an older version was heard")
	}
	if _, _, _, err := b.ReadHeader(datagram, 1e9); err != nil {
		t.Errorf("this version: %v", err)
	}
}

// TestReportsGo: a report goes with the first datagram after one has come, then each half
// second, after 20 s each second, and after one that was not sent: 4.4 bytes a datagram
// at 60 a second, or less.
func TestReportsGo(t *testing.T) {
	var a, b Link
	bytes, datagrams, reports := 0, 0, 0
	for now := uint64(1e9); now < 1e9+120e6; now += 16_667 {
		there := a.AppendHeader(nil, now)
		b.ReadHeader(there, now+20_000)
		a.ReadHeader(b.AppendHeader(nil, now), now+20_000)
		datagrams++
		bytes += len(there)
		if there[0]&flagReport != 0 {
			reports++
		}
		if datagrams == 3 && reports == 0 {
			t.Error("no report in the first datagrams")
		}
	}
	if mean := float64(bytes) / float64(datagrams); mean > 4.4 || reports < 135 || reports > 145 {
		t.Errorf("%v bytes a datagram, %d reports in 120 s", mean, reports)
	}
	a.SendFailed()
	if a.AppendHeader(nil, 1e9+120e6)[0]&flagReport == 0 {
		t.Error("no report after one that was not sent")
	}
}

var heldSeed = flag.Uint64("held.seed", 1, "the first one's seed of TestHeldAnchor")

// TestHeldAnchor: an anchor that somebody holds back does not turn the clock by a ring, even
// if it is held back for as long as the ring.
func TestHeldAnchor(t *testing.T) {
	for _, seconds := range []float64{20, 40, 60, 67.1, 100, 130, 134.2, 134.5, 150, 201} {
		for seed := *heldSeed; seed < *heldSeed+uint64(testkit.Sized(2, 10, 50)); seed++ {
			hold := time.Duration(seconds * float64(second))
			p := newPair(t, seed)
			p.held = [2]time.Duration{hold, hold}
			p.run(second) // all of these arrive later
			p.held = [2]time.Duration{}
			p.run(20 * second)
			p.near("before", 3000)
			p.run(hold + 20*second)
			p.near(fmt.Sprint("after ", seconds, " s"), 3000)
		}
	}
}

// TestFreshBesideOld: an end that starts anew knows the other's clock within 0.3 s, and the old end
// the new one's, wherever that starts, and whatever is under way just then.
func TestFreshBesideOld(t *testing.T) {
	for seed := range uint64(100) {
		p := newPair(t, seed)
		p.run(30*second + time.Duration(seed)*37*time.Millisecond)
		p.near("before", 3000)
		p.startAnew(1, []int64{0, 40_000_000, 1 << 50, -5_000_000, 8 << 23, 70_000}[seed%6])
		p.run(300 * time.Millisecond)
		p.near("0.3 s after that", 10_000)
		p.run(10 * second)
		p.near("10 s after that", 3000)
	}
}

func TestAllocations(t *testing.T) {
	var a, b Link
	now := uint64(0)
	buf := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(1000, func() {
		now += 16_000
		buf = append(a.AppendHeader(buf[:0], now), 1, 2, 3)
		b.ReadHeader(buf, now+5000)
		buf = append(b.AppendHeader(buf[:0], now), 1, 2, 3)
		a.ReadHeader(buf, now+5000)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReadHeader: whatever arrives, ReadHeader either refuses it, or returns the end of it; and
// what it took is what the bytes say.
func FuzzReadHeader(f *testing.F) {
	var l Link
	f.Add(l.AppendHeader(nil, 5), uint64(6))
	f.Add([]byte{flagVersion | flagReport, 1, 2, 3, 4, 5, 6, 7}, uint64(1<<63))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint64) {
		var l Link
		for range 3 {
			kept := bytes.Clone(data)
			payload, owd, ok, err := l.ReadHeader(data, at)
			if !bytes.Equal(kept, data) {
				t.Fatal("ReadHeader changed the datagram")
			}
			if err != nil {
				named := []error{ErrTruncated, ErrReserved, ErrVersion, ErrAnchor}
				isNamed := slices.Contains(named, err)
				if payload != nil || owd != 0 || ok || !isNamed {
					t.Fatalf("%v, with %x, %v", err, payload, owd)
				}
				if _, ok := l.sync.MinDeltaTS24(at); ok {
					t.Fatalf("taken, but %v", err)
				}
				return
			}
			n := MinHeader
			if data[0]&flagReport != 0 {
				n += reportLen
			}
			if data[0]&flagAnchor != 0 {
				n += anchorLen
			}
			if !bytes.Equal(payload, data[n:]) || n > MaxHeader {
				t.Fatalf("payload %x of %x", payload, data)
			}
			if _, _, _, err := new(Link).ReadHeader(l.AppendHeader(nil, at), at); err != nil {
				t.Fatalf("own header: %v", err)
			}
			at += 1000
		}
	})
}

// TestGoroutines: any goroutine may call anything.
func TestGoroutines(t *testing.T) {
	var a, b Link
	var clock atomic.Uint64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				now := clock.Add(5000)
				b.ReadHeader(a.AppendHeader(nil, now), now)
				a.ReadHeader(b.AppendHeader(nil, now), now)
				for _, l := range []*Link{&a, &b} {
					l.Snapshot(now)
					l.Stats()
					l.SinceHeard(now)
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	now := clock.Load()
	remote, ok := a.RemoteTime(now)
	if d := int64(remote - now); !ok || max(d, -d) > second.Microseconds() {
		t.Errorf("one clock for both ends, but %d us apart, ok %v", d, ok)
	}
}

// TestSetBack: where the clock is set back by an hour after a peer asked, reports are
// not held back for an hour.
func TestSetBack(t *testing.T) {
	var s streak
	s.add(true, 2e6, 0)
	s.add(false, 2e6, 0)
	early := s.over(2e6, restartTakes) || s.over(2e6-1, restartTakes)
	setBack := s.over(^uint64(3600e6), restartTakes)
	if early || !setBack {
		t.Error("over at once, or not at all")
	}
}
