// This test proves that the program of the documents is one: two ends hear each other, say when the
// other is gone or busy, and go on after the one that calls has started anew. A clock that is set does
// not look like a lost connection.
package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/clock/rxtime"
	"timesync/examples/seal"
	"timesync/internal/testkit"
)

// voice is a sound card: a microphone that hears a frame each 20 ms, which says when, and a loudspeaker.
type voice struct {
	t      *testing.T
	chat   *chat
	heard  atomic.Int64 // frames that were played
	latest uint64       // when the last of them was captured; of the goroutine that plays
	next   time.Time
	closed atomic.Bool
}

func (v *voice) Read(b []byte) (int, error) {
	v.next = v.next.Add(frame)
	time.Sleep(time.Until(v.next))
	if v.closed.Load() {
		return 0, io.EOF
	}
	clear(b)
	binary.LittleEndian.PutUint64(b, clock.Now()-uint64((time.Since(v.next)+frame).Microseconds()))
	return len(b), nil
}

func (v *voice) Write(sound []byte) (int, error) {
	if v.closed.Load() {
		return 0, io.EOF
	}
	captured := binary.LittleEndian.Uint64(sound)
	over := time.Duration(int64(clock.Now()-captured))*time.Microsecond - v.chat.buffer.Latency()
	// The machine may be busy.
	if late := 2*frame + time.Second; int64(captured-v.latest) <= 0 || over < -frame || over > late {
		v.t.Errorf("captured at %d, after %d, played %v too late", captured, v.latest, over)
	}
	v.latest = captured
	v.heard.Add(1)
	return len(sound), nil
}

// begin starts an end, and returns what ends it.
func begin(t *testing.T, to netip.AddrPort) (v *voice, end func()) {
	c, err := newChat([32]byte{7}, netip.MustParseAddrPort("127.0.0.1:0"), to)
	if err != nil {
		t.Skip("NOT TESTED: no sockets: ", err) // js/wasm
	}
	v = &voice{t: t, chat: c, next: time.Now()}
	var running sync.WaitGroup
	running.Go(func() { c.end.Serve(rxtime.NewConn(c.udp), c.udp, hold, c.take) })
	running.Go(func() { _ = c.speak(v) })
	go func() { _ = c.play(v) }() // until it has something to play
	return v, func() {
		if !v.closed.Swap(true) {
			c.udp.Close()
			running.Wait()
		}
	}
}

func TestChat(t *testing.T) {
	called, end := begin(t, netip.AddrPort{})
	defer end()
	if s := called.chat.state(); s != "nobody is there" {
		t.Errorf("at first: %s", s)
	}
	at := called.chat.udp.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	for life := range 2 {
		was := called.heard.Load()
		caller, end := begin(t, at)
		defer end()
		testkit.Eventually(t, "both hear 50 frames", func() bool { return called.heard.Load() >= was+50 && caller.heard.Load() >= 50 })
		testkit.Eventually(t, "connected", func() bool { return called.chat.state() == "connected" && caller.chat.state() == "connected" })
		if life == 0 {
			second, end := begin(t, at)
			defer end()
			const busy = "busy: it talks to another"
			testkit.Eventually(t, "one of two callers is refused", func() bool { return second.chat.state() == busy || caller.chat.state() == busy })
			end()
		}
		end()
		if life == 1 {
			testkit.Eventually(t, "gone", func() bool { return called.chat.state() == "the peer is gone" })
		}
	}
	t.Logf("%+v", called.chat.buffer.Stats())
}

func TestClockSet(t *testing.T) {
	ends := [2]*seal.End{seal.New([32]byte{7}, 0), seal.New([32]byte{7}, 1)}
	from := netip.MustParseAddrPort("192.0.2.1:1")
	now := clock.Now()
	for ago := uint64(10_000_000); ago > 0; ago -= 20_000 { // us, in no time
		at := [2]uint64{now - ago, now - ago}
		if ago <= 4_000_000 {
			at[0] += 5_000_000 // the caller's clock
		}
		for side, end := range ends {
			_, answer, _ := ends[1-side].Take(end.Seal(nil, nil, at[side]-10_000), from, at[1-side], hold)
			if answer != nil {
				end.Take(answer, from, at[side], hold)
			}
		}
	}
	c := chat{end: ends[1]}
	s, _ := c.end.Link.Snapshot(now)
	if err := s.Within(100 * time.Millisecond); !errors.Is(err, timesync.ErrStepped) || c.state() != "connected" {
		t.Errorf("%v: %v, and the chat says %s", s, err, c.state())
	}
}
