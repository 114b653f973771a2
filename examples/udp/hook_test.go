package main

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync"
)

var testKey = [32]byte{1, 2, 3}

const testDelay = 20_000 // microseconds, each way

// pair is two hooks that have adopted each other, and their time.
func pair(t testing.TB) (a, b *Hook, now uint64) {
	t.Helper()
	a, b = NewHook(testKey, 0), NewHook(testKey, 1)
	now = 1_000_000_000
	introduce(t, a, b, &now)
	return a, b, now
}

// introduce passes datagrams to and fro until both are synchronized.
func introduce(t testing.TB, a, b *Hook, now *uint64) {
	t.Helper()
	for range 4 + 20 { // the next report to one that lost its samples may be 2 s away
		b.Open(a.Seal(nil, nil, *now), *now+testDelay)
		a.Open(b.Seal(nil, nil, *now), *now+testDelay)
		*now += 100_000
	}
	if !a.Sync.IsSynchronized() || !b.Sync.IsSynchronized() {
		t.Fatal("24 datagrams each way did not synchronize them")
	}
}

// state is all that an attacker might want to change in a hook that he cannot
// talk to: its clock, its window and whom it has adopted.
type state struct {
	minDelta      timesync.Counter24
	remote        uint64
	delay         time.Duration
	ok1, ok2, ok3 bool
	peer, seen    uint64
	newest        uint32
	challenge     uint32
}

func stateOf(h *Hook, now uint64) (s state) {
	s.minDelta, s.ok1 = h.Sync.MinDeltaTS24(now)
	s.remote, s.ok2 = h.Sync.RemoteTime(now)
	s.delay, s.ok3 = h.Sync.MinimumOneWayDelay()
	s.peer, s.seen, s.newest, s.challenge = h.peer, h.seen, h.newest, h.next.Challenge
	return s
}

// refused fails unless h refuses the datagram as want and is none the wiser.
func refused(t *testing.T, h *Hook, datagram []byte, now uint64, what string, want ...error) {
	t.Helper()
	before := stateOf(h, now)
	_, _, _, err := h.Open(bytes.Clone(datagram), now)
	for _, w := range want {
		if err == w {
			if after := stateOf(h, now); after != before {
				t.Fatalf("%s: refused, but it changed %+v to %+v", what, before, after)
			}
			return
		}
	}
	t.Fatalf("%s: got %v, want %v", what, err, want)
}

// TestHookIsSmall holds hook.go to what the README promises of it: one file to copy,
// under 120 lines, that needs nothing but the standard library and timesync.
func TestHookIsSmall(t *testing.T) {
	src, err := os.ReadFile("hook.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(src, []byte("\n")); n >= 120 {
		t.Errorf("hook.go has %d lines, want under 120", n)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "hook.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := " append bool byte error false int int64 len max min nil true uint16 uint32 uint64 "
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if strings.Contains(path, ".") {
			t.Errorf("hook.go imports %s", path)
		}
		known += path[strings.LastIndex(path, "/")+1:] + " "
	}
	for _, id := range file.Unresolved {
		if !strings.Contains(known, " "+id.Name+" ") {
			t.Errorf("hook.go uses %s of another file", id.Name)
		}
	}
}

func TestOpen(t *testing.T) {
	a, b, now := pair(t)
	payload, owd, ok, err := b.Open(a.Seal(nil, []byte("hello"), now), now+testDelay+1000)
	if err != nil || !ok || string(payload) != "hello" || (owd-21*time.Millisecond).Abs() > 16*time.Microsecond {
		t.Fatalf("got %q, %v, %v, %v; want hello after 21ms", payload, owd, ok, err)
	}
	dst := []byte("before")
	if got := a.Seal(dst, []byte("again"), now); !bytes.HasPrefix(got, dst) {
		t.Errorf("Seal does not append: % x", got)
	} else if payload, _, _, err := b.Open(got[len(dst):], now+testDelay); err != nil || string(payload) != "again" {
		t.Errorf("got %q, %v", payload, err)
	}
}

func TestForgedBitFlips(t *testing.T) {
	a, b, now := pair(t)
	datagram := a.Seal(nil, []byte("payload"), now)
	for i := range datagram {
		for bit := range 8 {
			forged := bytes.Clone(datagram)
			forged[i] ^= 1 << bit
			want := []error{ErrForged}
			if i == headerLen-2 || i == headerLen-1 {
				want = append(want, ErrTruncated) // it now claims to be longer
			}
			refused(t, b, forged, now, "byte "+strconv.Itoa(i)+" bit "+strconv.Itoa(bit), want...)
		}
	}
	refused(t, b, append(bytes.Clone(datagram), 0), now, "one byte more", ErrForged)
	if _, _, _, err := b.Open(datagram, now+testDelay); err != nil {
		t.Errorf("the true one after the forged ones: %v", err)
	}
}

func TestTruncated(t *testing.T) {
	a, b, now := pair(t)
	datagram := a.Seal(nil, []byte("payload"), now)
	for n := range datagram {
		refused(t, b, datagram[:n], now, "length "+strconv.Itoa(n), ErrTruncated)
	}
	if _, _, _, err := b.Open(datagram, now+testDelay); err != nil {
		t.Errorf("the whole one after the truncated ones: %v", err)
	}
}

func TestForeign(t *testing.T) {
	a, b, now := pair(t)
	refused(t, a, a.Seal(nil, nil, now), now, "our own datagram, reflected", ErrForged)
	// Even in the session of a peer that has drawn the very number of ours.
	twin := NewHook(testKey, 0)
	twin.next = b.next
	twin.next.Session = b.next.Session&^1 | a.next.Session&1
	a.peer = twin.next.Session
	refused(t, a, twin.Seal(nil, nil, now), now, "our own direction", ErrForged)
	refused(t, b, NewHook([32]byte{9}, 0).Seal(nil, nil, now), now, "another key", ErrForged)
}

// TestReplayWindow tries every position after every first step, and all sequences
// of four of the steps at the edges, against a reference that remembers every
// counter it has seen.
func TestReplayWindow(t *testing.T) {
	const adopted = 1000
	a, b, now := pair(t)
	sealed := map[uint32][]byte{}
	open := func(counter uint32) bool {
		datagram, ok := sealed[counter]
		if !ok {
			a.next.Counter = counter
			datagram = a.Seal(nil, nil, now)
			sealed[counter] = datagram
		}
		_, _, _, err := b.Open(bytes.Clone(datagram), now+testDelay)
		if err != nil && err != ErrReplayed {
			t.Fatal(err)
		}
		return err == nil
	}
	try := func(steps ...int) {
		b.newest, b.seen = adopted, ^uint64(0)
		newest, seen := adopted, map[int]bool{adopted: true}
		for i, step := range steps {
			c := newest + step
			want := c > adopted && newest-c < 64 && !seen[c]
			if got := open(uint32(c)); got != want {
				t.Fatalf("steps %v, number %d: counter %d accepted: %v, want %v", steps, i, c, got, want)
			}
			seen[c] = true
			newest = max(newest, c)
		}
	}
	for first := -70; first <= 200; first++ {
		for second := -140; second <= 70; second++ {
			try(first, second, second)
		}
	}
	edges := []int{-65, -64, -63, -62, -33, -32, -1, 0, 1, 2, 31, 62, 63, 64, 65, 500}
	for _, i := range edges {
		for _, j := range edges {
			for _, k := range edges {
				for _, l := range []int{-64, -63, -32, -1, 0, 1, 64} {
					try(i, j, k, l)
				}
			}
		}
	}
}

// TestRecordings replays whole sessions to the living, who may have restarted since.
func TestRecordings(t *testing.T) {
	now := uint64(1_000_000_000)
	var toA, toB [][]byte // everything that was ever sent
	talk := func(a, b *Hook) {
		for range 10 {
			toB = append(toB, a.Seal(nil, nil, now))
			b.Open(bytes.Clone(toB[len(toB)-1]), now+testDelay)
			toA = append(toA, b.Seal(nil, nil, now))
			a.Open(bytes.Clone(toA[len(toA)-1]), now+testDelay)
			now += 100_000
		}
	}
	a, b := NewHook(testKey, 0), NewHook(testKey, 1)
	for life := range 6 {
		talk(a, b)
		if !a.Sync.IsSynchronized() || !b.Sync.IsSynchronized() {
			t.Fatalf("life %d: not synchronized", life)
		}
		for _, d := range toA {
			refused(t, a, d, now-50_000, "recording to a", ErrReplayed, ErrUnproven)
		}
		for _, d := range toB {
			refused(t, b, d, now-50_000, "recording to b", ErrReplayed, ErrUnproven)
		}
		switch life % 3 { // each alone, then both
		case 0:
			b = NewHook(testKey, 1)
		case 1:
			a = NewHook(testKey, 0)
		case 2:
			a, b = NewHook(testKey, 0), NewHook(testKey, 1)
		}
		// The newborn knows nobody; the recordings must not become its peer.
		for _, d := range toA {
			a.Open(bytes.Clone(d), now)
		}
		for _, d := range toB {
			b.Open(bytes.Clone(d), now)
		}
		if life%3 != 0 && a.Sync.IsSynchronized() || life%3 != 1 && b.Sync.IsSynchronized() {
			t.Fatalf("life %d: synchronized to a recording", life)
		}
	}
}

// TestWithheld is the worst that an attacker on the path can do to an adoption:
// keep the proof of a session until that is dead, and deliver it to a peer that
// talks to its successor. The next datagrams must repair it.
func TestWithheld(t *testing.T) {
	now := uint64(1_000_000_000)
	dead, b := NewHook(testKey, 0), NewHook(testKey, 1)
	dead.Open(b.Seal(nil, nil, now), now)
	withheld := dead.Seal(nil, nil, now) // echoes b's challenge, which b has shown to all

	a := NewHook(testKey, 0)
	b.Open(a.Seal(nil, nil, now), now)
	if _, _, _, err := a.Open(b.Seal(nil, nil, now), now); err != nil {
		t.Fatal("a does not adopt b:", err)
	}
	if _, _, _, err := b.Open(withheld, now); err != nil {
		t.Fatal("b does not adopt the dead session; what is to be repaired?", err)
	}
	introduce(t, a, b, &now)
	if b.peer != a.next.Session || a.peer != b.next.Session {
		t.Error("a and b have not found each other again")
	}
	old := bytes.Clone(dead.Seal(nil, nil, now))
	refused(t, b, old, now, "the dead session", ErrUnproven)
}

// TestAdoptionResets: the clock of a restarted peer begins somewhere else; nothing
// that was learnt from the one before is true of it.
func TestAdoptionResets(t *testing.T) {
	for _, shift := range []uint64{5_000_000, 1<<64 - 5_000_000} { // one of them would be a new minimum anyway
		_, b, now := pair(t)
		a := NewHook(testKey, 0)
		a.Open(b.Seal(nil, nil, now), now+shift)
		if _, _, ok, err := b.Open(a.Seal(nil, nil, now+shift), now); err != nil || ok || b.Sync.IsSynchronized() {
			t.Errorf("clock moved by %d: the first datagram of the new session: synchronized %v, %v", int64(shift), ok, err)
		}
		got, ok := b.Sync.MinDeltaTS24(now)
		want := timesync.LocalTimeToDatagramTS24(now).Sub(timesync.LocalTimeToDatagramTS24(now + shift))
		if d := got.Distance(want); !ok || d < -2 || d > 2 {
			t.Errorf("clock moved by %d: minimum delta %v, %v; want about %v", int64(shift), got, ok, want)
		}
	}
}

// TestNoPastOnAdoption: what a session sent before it was adopted, and the attacker
// may have delivered before, in an adoption that did not last, is not welcome.
func TestNoPastOnAdoption(t *testing.T) {
	now := uint64(1_000_000_000)
	a, b := NewHook(testKey, 0), NewHook(testKey, 1)
	a.Open(b.Seal(nil, nil, now), now)
	early := a.Seal(nil, nil, now)
	if _, _, _, err := b.Open(a.Seal(nil, nil, now), now); err != nil {
		t.Fatal(err)
	}
	refused(t, b, early, now, "from before the adoption", ErrReplayed)
}

func TestNonceNeverTwice(t *testing.T) {
	used := map[[12]byte]bool{}
	seal := func(from, to *Hook, now uint64) {
		datagram := from.Seal(nil, nil, now)
		nonce := [12]byte(datagram)
		nonce[11] &^= 0x80 // the report flag must not be what tells two apart
		if used[nonce] {
			t.Fatalf("nonce % x used twice", nonce)
		}
		used[nonce] = true
		to.Open(datagram, now)
	}
	now := uint64(1_000_000_000)
	b := NewHook(testKey, 1)
	for range 20 {
		a := NewHook(testKey, 0) // restarts with the same key
		for range 500 {
			seal(a, b, now)
			seal(b, a, now)
			now += 20_000
		}
		// At the end of the counters another session follows, and is adopted.
		a.next.Counter = reportFlag - 5
		for range 5 + 110 { // 2.2 s: the session is new to b only, a reports as before
			seal(a, b, now)
			seal(b, a, now)
			now += 20_000
		}
		if a.next.Counter != 110 || b.peer != a.next.Session || !b.Sync.IsSynchronized() {
			t.Fatalf("after 2^31 datagrams: counter %d, adopted %v, synchronized %v",
				a.next.Counter, b.peer == a.next.Session, b.Sync.IsSynchronized())
		}
	}
}

// TestReports: MinDelta goes as soon as there is one, every 0.5 s for 20 s, and then
// every 2 s; and from the start again for a peer that has restarted.
func TestReports(t *testing.T) {
	b := NewHook(testKey, 1)
	now := uint64(1_000_000_000)
	for range 2 {
		a := NewHook(testKey, 0)
		var reports []float64
		start := now
		for ; now < start+39_000_000; now += 10_000 {
			b.Open(a.Seal(nil, nil, now), now+testDelay)
			adopted := b.peer == a.next.Session
			datagram := b.Seal(nil, nil, now+testDelay)
			if adopted && len(datagram) == headerLen+6+tagLen {
				reports = append(reports, float64(now-start)/1e6)
			}
			a.Open(datagram, now+2*testDelay)
		}
		if reports[0] > 0.1 {
			t.Errorf("first report after %v s", reports[0])
		}
		for i := 1; i < len(reports); i++ {
			want := 0.5
			if reports[i-1] > reports[0]+19.9 {
				want = 2
			}
			if gap := reports[i] - reports[i-1]; gap < want-0.001 || gap > want+0.011 {
				t.Errorf("report %d comes %.3f s after the one at %.2f s, want %v", i, gap, reports[i-1], want)
			}
		}
		if n := len(reports); n < 49 || n > 51 {
			t.Errorf("%d reports in 39 s, want 41 in the first 20 and 9 later", n)
		}
	}
}

// TestNothingBeforeAdoption: greetings are no samples.
func TestNothingBeforeAdoption(t *testing.T) {
	a, b := NewHook(testKey, 0), NewHook(testKey, 1)
	for i := range uint64(100) {
		refusedGreeting := a.Seal(nil, nil, i*1000)
		if _, _, _, err := b.Open(refusedGreeting, i*1000); err != ErrUnproven {
			t.Fatal(err)
		}
	}
	if _, ok := b.Sync.MinDeltaTS24(0); ok {
		t.Error("a greeting has become a sample")
	}
}

// TestConcurrent is for the race detector: send, receive and read at once.
func TestConcurrent(t *testing.T) {
	a, b, now := pair(t)
	var tasks sync.WaitGroup
	datagrams := make(chan []byte, 100)
	tasks.Go(func() {
		for i := range uint64(1000) {
			datagrams <- a.Seal(nil, nil, now+i*1000)
		}
		close(datagrams)
	})
	tasks.Go(func() {
		for i := range uint64(1000) {
			b.Seal(nil, nil, now+i*1000)
			b.Sync.ToRemoteTime23(now)
			b.Sync.MinimumOneWayDelay()
		}
	})
	for range 2 {
		tasks.Go(func() {
			for d := range datagrams {
				if _, _, _, err := b.Open(d, now); err != nil && !errors.Is(err, ErrReplayed) {
					t.Error(err)
				}
			}
		})
	}
	tasks.Wait()
}

// FuzzOpen: whoever has no key is refused, whatever he sends, and so is what he
// makes of a true datagram.
func FuzzOpen(f *testing.F) {
	a, b, now := pair(f)
	datagram := a.Seal(nil, []byte("payload"), now)
	f.Add(append(bytes.Clone(datagram[1:]), 0), uint16(0), byte(1))
	f.Add([]byte{}, uint16(3), byte(0x80))
	f.Add(make([]byte, headerLen+3+tagLen), uint16(30), byte(7))
	f.Fuzz(func(t *testing.T, raw []byte, at uint16, flip byte) {
		if _, _, _, err := b.Open(raw, now); err != ErrForged && err != ErrTruncated {
			t.Errorf("% x: got %v", raw, err)
		}
		if flip == 0 {
			return
		}
		changed := bytes.Clone(datagram)
		changed[int(at)%len(changed)] ^= flip
		if _, _, _, err := b.Open(changed, now); err != ErrForged && err != ErrTruncated {
			t.Errorf("byte %d changed by %02x: got %v", int(at)%len(changed), flip, err)
		}
	})
}
