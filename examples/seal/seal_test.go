// The tests prove that what an attacker sends changes nothing, that restarts of either end
// are followed, how often and whom an end answers, and that one file can be copied.
package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"
)

var (
	testKey = [32]byte{1, 2, 3}
	home    = netip.MustParseAddrPort("192.0.2.1:1")
	away    = netip.MustParseAddrPort("192.0.2.2:2")
)

const testDelay = 20_000 // microseconds, each way

// exchange lets a, which calls, send to b, which answers, and b back. It returns what each was
// sent.
func exchange(a, b *End, now uint64) (toA, toB [][]byte) {
	call := a.Seal(nil, nil, now)
	toB = [][]byte{bytes.Clone(call)}
	_, answer, _ := b.Take(call, home, now+testDelay, 0)
	for _, datagram := range [][]byte{answer, b.Seal(nil, nil, now)} {
		if datagram != nil {
			toA = append(toA, bytes.Clone(datagram))
			a.Open(datagram, home, now+testDelay)
		}
	}
	return toA, toB
}

// knows reports whether an end knows its peer's clock.
func knows(e *End) bool {
	_, known := e.Link.Snapshot(0)
	return known
}

// pair is two ends that have adopted each other and are synchronized, and their time.
func pair(t testing.TB) (a, b *End, now uint64) {
	t.Helper()
	a, b = New(testKey, 0), New(testKey, 1)
	for now = 1_000_000_000; now < 1_002_400_000; now += 100_000 {
		exchange(a, b, now)
	}
	if !knows(a) || !knows(b) {
		t.Fatal("24 datagrams each way did not synchronize them")
	}
	return a, b, now
}

// stateOf is all that an attacker might want to change in an end that he cannot
// talk to: its clock, its window, where it sends and whom it has adopted.
func stateOf(e *End, now uint64) []any {
	snapshot, _ := e.Link.Snapshot(now)
	return []any{snapshot, e.Link.Stats(), e.session, e.seen, e.newest, e.next.challenge, e.peer}
}

// refused fails unless e refuses the datagram as want and is none the wiser.
func refused(t *testing.T, e *End, datagram []byte, now uint64, what string, want ...error) {
	t.Helper()
	before, echo := stateOf(e, now), e.next.echo
	_, _, _, err := e.Open(bytes.Clone(datagram), away, now)
	if !slices.Contains(want, err) {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
	if err == ErrUnproven {
		echo = e.next.echo // which proves nothing to the living
	}
	if after := stateOf(e, now); !reflect.DeepEqual(after, before) || e.next.echo != echo {
		t.Fatalf("%s: refused, but it changed %+v to %+v", what, before, after)
	}
}

// TestForged: what the peer has not made with the key changes nothing.
func TestForged(t *testing.T) {
	a, b, now := pair(t)
	datagram := a.Seal(nil, []byte("payload"), now)
	for i := range datagram {
		for bit := range 8 {
			forged := bytes.Clone(datagram)
			forged[i] ^= 1 << bit
			refused(t, b, forged, now, "byte "+strconv.Itoa(i)+" bit "+strconv.Itoa(bit), ErrForged)
		}
		refused(t, b, datagram[:i], now, "length "+strconv.Itoa(i), ErrForged)
	}
	refused(t, b, append(bytes.Clone(datagram), 0), now, "one byte more", ErrForged)
	refused(t, b, New([32]byte{9}, 0).Seal(nil, nil, now), now, "another key", ErrForged)
	refused(t, a, a.Seal(nil, nil, now), now, "our own datagram, reflected", ErrForged)
	// Even in the session of a peer that has drawn the very number of ours.
	twin := New(testKey, 0)
	twin.next = b.next
	twin.next.session = b.next.session&^1 | a.next.session&1
	a.session = twin.next.session
	refused(t, a, twin.Seal(nil, nil, now), now, "our own direction", ErrForged)
	if _, _, _, err := b.Open(datagram, home, now+testDelay); err != nil {
		t.Errorf("the true one after the forged ones: %v", err)
	}
}

// TestReplayWindow tries every position after every first step, and all sequences
// of four of the steps at the edges, against a reference that remembers every
// counter it has seen. The peer's address is always that of the newest datagram.
func TestReplayWindow(t *testing.T) {
	const adopted = 100_000
	if window < 5*200 {
		t.Errorf("of 200 datagrams a second, those that come 5 s late are %d counters late", 5*200)
	}
	_, b, now := pair(t)
	open := func(counter uint32) bool {
		from := netip.AddrPortFrom(home.Addr(), uint16(counter))
		return b.admit(header{session: b.session, counter: counter}, from, now) == nil
	}
	try := func(steps ...int) {
		b.begin(adopted)
		b.first(adopted)
		b.peer.Addr = netip.AddrPortFrom(home.Addr(), adopted&0xffff)
		newest, seen := adopted, map[int]bool{adopted: true}
		for i, step := range steps {
			c := newest + step
			want := c > adopted && newest-c < window && !seen[c]
			if got := open(uint32(c)); got != want {
				t.Fatalf("steps %v, number %d: counter %d accepted: %v, want %v", steps, i, c, got, want)
			}
			seen[c] = true
			if newest = max(newest, c); b.Peer().Addr.Port() != uint16(newest) {
				t.Fatalf("steps %v, number %d: counter %d moved the peer to that of %d",
					steps, i, c, b.Peer().Addr.Port())
			}
		}
	}
	for late := window - 70; late < window+140; late++ {
		for from := range 70 { // wherever in a word
			try(from+window+200, -late, 64-from, -late)
		}
	}
	const all = 64 * words
	edges := []int{-all, 1 - window, -window, -65, -64, -63, -1, 0, 1, 2, 63, 64, 65, window - 1,
		window, all, all + 1, 3 * all}
	for _, i := range edges {
		for _, j := range edges {
			for _, k := range edges {
				for _, l := range []int{-window, 1 - window, -64, -1, 0, 1, 64} {
					try(i, j, k, l)
				}
			}
		}
	}
	// More than half of all counters behind is still the past.
	b.begin(1<<31 + 2000)
	if open(1500) {
		t.Error("a counter of 2^31 before is accepted")
	}
}

// TestNoAllocations: sealing into a buffer with room, and opening, allocate nothing.
func TestNoAllocations(t *testing.T) {
	a, b, now := pair(t)
	buf, payload := make([]byte, 0, 1500), make([]byte, 1000)
	take := func(d Datagram, answer []byte, err error) {
		if err != nil || answer != nil || len(d.Payload) != len(payload) {
			t.Fatalf("%d bytes, an answer of %d, %v", len(d.Payload), len(answer), err)
		}
	}
	if n := testing.AllocsPerRun(1000, func() {
		now += 5000
		take(b.Take(a.Seal(buf, payload, now), home, now+testDelay, 0))
		datagram, _ := b.SealFor(b.Peer().Session, buf, payload, now)
		take(a.Take(datagram, home, now+testDelay, 0))
	}); n != 0 {
		t.Errorf("%g allocations for a datagram each way", n)
	}
}

// unwanted returns what an attacker without the key can send to b, by name. Each function makes
// such a datagram from a genuine one.
func unwanted(a, b *End, payload []byte, now uint64) map[string]func(genuine []byte) []byte {
	recorded := New(testKey, 0).Seal(nil, payload, now)
	replayed := a.Seal(nil, payload, now)
	b.Open(bytes.Clone(replayed), home, now+testDelay)
	flip := func(g []byte, at int, bits byte) []byte {
		g[at] ^= bits
		return g
	}
	return map[string]func(genuine []byte) []byte{
		"a changed tag":                func(g []byte) []byte { return flip(g, len(g)-1, 1) },
		"a changed header":             func(g []byte) []byte { return flip(g, 0, 4) },
		"a changed payload":            func(g []byte) []byte { return flip(g, headerLen+5, 1) },
		"a tag alone":                  func(g []byte) []byte { return g[len(g)-tagLen:] },
		"cut short":                    func(g []byte) []byte { return g[:len(g)-1] },
		"nothing":                      func(g []byte) []byte { return g[:0] },
		"a replay":                     func(g []byte) []byte { return append(g[:0], replayed...) },
		"a recording of another start": func(g []byte) []byte { return append(g[:0], recorded...) },
	}
}

// TestForgedAllocateNothing: what an attacker sends allocates nothing, and neither do the answers.
func TestForgedAllocateNothing(t *testing.T) {
	a, b, now := pair(t)
	payload := make([]byte, 1000)
	buf := make([]byte, 0, 1500)
	for name, forge := range unwanted(a, b, payload, now) {
		genuine := a.Seal(nil, payload, now)
		if n := testing.AllocsPerRun(1000, func() {
			forged := forge(append(buf, genuine...))
			if _, _, err := b.Take(forged, away, now+testDelay, 0); err == nil {
				t.Errorf("%s is accepted", name)
			}
		}); n != 0 {
			t.Errorf("%s: %g allocations for a datagram", name, n)
		}
	}
}

// TestVectors: testdata/vectors.json says what a datagram is made of, for who writes another
// implementation. The tags are those of another AES-GCM, OpenSSL's.
func TestVectors(t *testing.T) {
	text, _ := os.ReadFile("testdata/vectors.json")
	var vectors []struct {
		Key, Body, Datagram      string
		Session                  string // a JSON number holds 53 bits
		Counter, Challenge, Echo uint32
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 4 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	unhex := func(s string) []byte {
		b, _ := hex.DecodeString(s)
		return b
	}
	for i, v := range vectors {
		session, _ := strconv.ParseUint(v.Session, 16, 64)
		head := header{session, v.Counter, v.Challenge, v.Echo}
		key := [32]byte(unhex(v.Key))
		a, b := New(key, session&1), New(key, session&1^1)
		plain := append(a.head(nil, head), unhex(v.Body)...)
		if sealed := hex.EncodeToString(a.seal(plain, 0)); sealed != v.Datagram {
			t.Errorf("vector %d: sealed\n%s, want\n%s", i, sealed, v.Datagram)
		}
		got, body, err := b.unseal(unhex(v.Datagram))
		if err != nil || got != head || hex.EncodeToString(body) != v.Body {
			t.Errorf("vector %d: opened %+v, %x, %v", i, got, body, err)
		}
	}
}

// TestRecordings replays whole sessions to the living, who may have restarted since, and to the
// newborn, who knows nobody: the recordings must not become its peer. No nonce is used twice, also
// where the key is used again, and at the end of the counters, where another session follows, and
// is adopted.
func TestRecordings(t *testing.T) {
	now := uint64(1_000_000_000)
	ends := [2]*End{New(testKey, 0), New(testKey, 1)}
	var sent [2][][]byte // to each, everything ever
	used := map[[nonceLen]byte]bool{}
	for life := range 6 {
		if life == 3 { // both are new
			ends[0].next.counter = 1<<32 - 5
		}
		for range 30 {
			to0, to1 := exchange(ends[0], ends[1], now)
			for _, datagram := range append(to0, to1...) {
				nonce := [nonceLen]byte(datagram)
				if used[nonce] {
					t.Fatalf("life %d: nonce % x used twice", life, nonce)
				}
				used[nonce] = true
			}
			sent[0], sent[1] = append(sent[0], to0...), append(sent[1], to1...)
			now += 100_000
		}
		for i, e := range ends {
			if peer := ends[1-i]; !knows(e) || e.session != peer.next.session || peer.next.counter > 1000 {
				t.Fatalf("life %d: end %d is not synchronized with its peer", life, i)
			}
			for _, d := range sent[i] {
				refused(t, e, d, now-50_000, "recording", ErrReplayed, ErrUnproven)
			}
		}
		for i := range ends { // each alone is born anew, then both
			born := life%3 != i
			if born {
				ends[i] = New(testKey, uint64(i))
			}
			for _, d := range sent[i] {
				ends[i].Open(bytes.Clone(d), away, now)
			}
			if born && knows(ends[i]) || ends[i].Peer().Addr == away {
				t.Fatalf("life %d: a recording is the peer of end %d", life, i)
			}
		}
	}
}

// TestAnswerRate: one answer for each address in 100 ms, also if others come between; the first
// from the first microsecond of the clock on.
func TestAnswerRate(t *testing.T) {
	for _, start := range []uint64{0, 1, 99_999, 1<<64 - 1} {
		b := New(testKey, 1)
		last, total := map[uint64]uint64{}, 0
		for ms := uint64(0); ms < 2000; ms++ {
			port := ms % 7
			if b.Answer(nil, netip.AddrPortFrom(home.Addr(), uint16(port)), start+1000*ms, false) == nil {
				continue
			}
			if before, again := last[port]; again && 1000*(ms-before) < answerGap {
				t.Fatalf("from %d us on: answers after %d and %d ms", start, before, ms)
			}
			last[port], total = ms, total+1
		}
		if total < 20 || total > 7*20 { // all in one slot; each in one of its own
			t.Errorf("%d answers to 7 addresses in 2 s", total)
		}
	}
}

// TestReplayFlood: no rate of replays keeps a dialer out: neither a new one, nor one whose
// listener was started anew.
func TestReplayFlood(t *testing.T) {
	for _, rate := range []int{10, 100, 1000, 5000} {
		for _, f := range []flood{{rate, 0, 0}, {0, rate, 0}, {0, 0, rate}, {rate, rate, rate}} {
			for _, dialer := range []bool{true, false} {
				most := uint64(0)
				for seed := range uint64(3) {
					most = max(most, f.delays(t, dialer, seed))
				}
				if t.Logf("%+v, new dialer %v: served after up to %d ms", f, dialer, most/1000); most == never {
					t.Errorf("%+v, new dialer %v: not served after %d s", f, dialer, never/1_000_000)
				}
			}
		}
	}
}

// flood is what attackers replay: recordings of dialers, at the listener, from the dialer's own
// address or from any; and recordings of listeners, at the dialer.
type flood struct{ own, others, stale int } // a second each

// never is how long a dialer waits under a flood, in microseconds. The slowest is one that has an
// answer among 500 recordings, 10 times a second, and echoes 1 of 80: that takes 8 s in the
// mean, and 1 in 10^10 takes longer than this.
const never = 200_000_000

// delays returns how long it takes until both ends, of which one is new, have adopted each other.
func (f flood) delays(t *testing.T, dialer bool, seed uint64) (usec uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var toListener, toDialer [][]byte // of former lives
	for range 5 {
		toListener = append(toListener, New(testKey, 0).Seal(nil, nil, 0))
		toDialer = append(toDialer, New(testKey, 1).Seal(nil, nil, 0))
	}
	a, b, now := pair(t)
	if dialer {
		a = New(testKey, 0)
	} else {
		b = New(testKey, 1)
	}
	now -= now % 100_000
	begin := now + 1_000_000 // the attack is there before
	atListener := func(datagram []byte, from netip.AddrPort) {
		if _, answer, _ := b.Take(bytes.Clone(datagram), from, now, 0); answer != nil && from == home {
			a.Open(answer, away, now)
		}
	}
	due := func(perSecond int) bool { return perSecond > 0 && now%uint64(1_000_000/perSecond) == 0 }
	for ; now < begin+never; now += 100 {
		if due(f.own) {
			atListener(toListener[rng.IntN(5)], home)
		}
		if due(f.others) {
			atListener(toListener[rng.IntN(5)], netip.AddrPortFrom(home.Addr(), uint16(rng.Uint32())))
		}
		if now >= begin && due(f.stale) {
			a.Open(bytes.Clone(toDialer[rng.IntN(5)]), away, now)
		}
		if now >= begin && now%16_000 == 0 {
			atListener(a.Seal(nil, nil, now), home)
			if b.Peer().Addr == home {
				a.Open(b.Seal(nil, nil, now), away, now)
			}
		}
		if a.session == b.next.session && b.session == a.next.session {
			return now - begin
		}
	}
	return never
}

// TestTake: who calls from elsewhere is refused for as long as the peer is held, and not answered
// by the end that calls. Whoever is refused is told by the true peer, cannot prove itself by it,
// and is served without a restart once there is room. Then nothing of the peer before is left.
func TestTake(t *testing.T) {
	caller, called, now := pair(t)
	heard := now - 100_000 + testDelay
	stranger := New(testKey, 0)
	for _, c := range []struct {
		from    netip.AddrPort
		after   int64 // us, since the peer was heard; below 0 our clock was set back
		hold    time.Duration
		refused bool
	}{
		{away, 200_000, time.Second, true},
		{away, 999_999, time.Second, true},
		{away, 1_100_000, time.Second, false},
		{home, 1_200_000, time.Minute, false},
		{away, 1, 0, false},
		{away, -1_100_000, time.Second, false},
		{away, -1, time.Second, true},
	} {
		call := stranger.Seal(nil, nil, now)
		size := len(call)
		_, answer, err := called.Take(call, c.from, heard+uint64(c.after), c.hold)
		if err != ErrUnproven || answer == nil || len(answer) > size {
			t.Fatalf("%+v: %v, answer %x to %d bytes", c, err, answer, size)
		}
		_, _, err = stranger.Take(answer, home, now, 0)
		if (err == ErrRefused) != c.refused || (err == ErrAnswer) == c.refused ||
			stranger.Peer().Refused != c.refused {
			t.Errorf("%+v: %v, %+v", c, err, stranger.Peer())
		}
		if !c.refused {
			stranger = New(testKey, 0)
		}
	}
	d, answer, err := called.Take(caller.Seal(nil, []byte("hello"), now), home, now+testDelay+1000, 0)
	want := Datagram{[]byte("hello"), home, now + testDelay + 1000, d.OWD, true, 1}
	if err != nil || answer != nil || !reflect.DeepEqual(d, want) ||
		(d.OWD-21*time.Millisecond).Abs() > 16*time.Microsecond {
		t.Errorf("%+v, %x, %v, want %+v", d, answer, err, want)
	}
	_, answer, err = caller.Take(New(testKey, 1).Seal(nil, nil, now), home, now, 0)
	if err != ErrUnproven || answer != nil {
		t.Errorf("the end that calls: %v, answer %x", err, answer)
	}
	now += 1_000_000
	session := called.Peer().Session
	_, answer, _ = called.Take(stranger.Seal(nil, nil, now), home, now, 0)
	stranger.Open(answer, home, now)
	d, _, err = called.Take(stranger.Seal(nil, nil, now), home, now, 0)
	if err != nil || d.Session != session+1 || d.Known || knows(called) {
		t.Errorf("%+v, %v: what was learnt of the caller is believed of the stranger", d, err)
	}
	if got, err := called.SealFor(session, []byte("x"), nil, now); err != ErrSession ||
		string(got) != "x" {
		t.Errorf("a stamp for the caller is sealed for the stranger: %v", err)
	}
}
