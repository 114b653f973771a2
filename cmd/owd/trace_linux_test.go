package main

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"timesync"
	"timesync/internal/netns"
	"timesync/internal/program"
	"timesync/internal/testkit"
	"timesync/link"
	"timesync/record"
)

// stamp tells the datagrams of a test apart: they repeat after 134 s.
type stamp struct {
	way     int
	counter timesync.Counter24
}

// watch collects the datagrams of owd that pass a wire from or to a UDP port. What it returns
// returns those so far.
func watch(wire *netns.Wire, port uint16) func() map[stamp]netns.Passage {
	var mu sync.Mutex
	all := map[stamp]netns.Passage{}
	passed := func(p netns.Passage) {
		const ipHeader, protocol, udp, udpHeader = 20, 9, 17, 8
		if len(p.Packet) < ipHeader+udpHeader || p.Packet[protocol] != udp {
			return
		}
		source := binary.BigEndian.Uint16(p.Packet[ipHeader:])
		destination := binary.BigEndian.Uint16(p.Packet[ipHeader+2:])
		if source != port && destination != port {
			return
		}
		counter, ok := stampOf(p.Packet[ipHeader+udpHeader:])
		if !ok {
			return // an answer of seal
		}
		mu.Lock()
		all[stamp{p.Way, counter}] = p
		mu.Unlock()
	}
	wire.Passed.Store(&passed)
	return func() map[stamp]netns.Passage {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
}

// stampOf opens a datagram, since the test knows the key, and returns its TS24.
func stampOf(datagram []byte) (counter timesync.Counter24, ok bool) {
	const sealHeader, nonce = 20, 12 // bytes; see package seal
	if len(datagram) < idLen+sealHeader {
		return 0, false
	}
	secret, _ := program.Key(netns.Key)
	key := id(datagram[:idLen]).key(secret)
	block, _ := aes.NewCipher(key[:])
	aead, _ := cipher.NewGCM(block) // none of these fail: the key is right
	sealed := datagram[idLen:]
	header := sealed[:sealHeader]
	body, err := aead.Open(nil, header[:nonce], sealed[sealHeader:], header)
	if err != nil || len(body) < link.MinHeader {
		return 0, false
	}
	return timesync.Counter24(uint32(body[1]) | uint32(body[2])<<8 | uint32(body[3])<<16), true
}

// trace is of the datagrams of one way whose delays owd knew.
type trace struct {
	name             string
	way              int
	sender, receiver *host
	all              []traced
}

// traced is a datagram: what owd made of it, and the truth.
type traced struct {
	received time.Time
	shown    time.Duration // delay, as owd knew it
	truth    time.Duration
	// late is how late the receive time is, which is in shown but not in true. A host that is
	// interrupted while it reads its clocks takes the time of reading for that of receipt, for a
	// second.
	late time.Duration
}

// off returns by how much the clocks made the delay wrong.
func (d traced) off() time.Duration { return d.shown - d.late - d.truth }

// read takes the first most datagrams with a known delay from the receiver's recording.
//
// A delay begins with the stamp in the datagram and ends when the receiver's kernel gets it, which
// the wire knows.
func (tr *trace) read(t *testing.T, passages map[stamp]netns.Passage, most int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tr.receiver.recorded, "*.tsr"))
	testkit.Must(t, err)
	if len(files) != 1 {
		t.Fatalf("%d recordings", len(files))
	}
	file, err := os.Open(files[0])
	testkit.Must(t, err)
	defer file.Close()
	for m, err := range record.Replay(file) {
		testkit.Must(t, err)
		if m.Kind != record.Datagram || !m.Known || len(tr.all) == most {
			continue
		}
		p, passed := passages[stamp{tr.way, m.Counter}]
		if !passed {
			t.Fatal("a datagram is in the recording that was never on the wire")
		}
		received := tr.receiver.wall(m.LocalUsec)
		late := outside(p, received)
		tr.all = append(tr.all, traced{
			received: received,
			shown:    m.OWD,
			truth:    received.Add(-late).Sub(tr.sent(m)),
			late:     late,
		})
	}
	if len(tr.all) != most {
		t.Errorf("%d delays in the recording, %d in the summary", len(tr.all), most)
	}
}

// after returns the datagrams that came later than that after the first one.
func (tr *trace) after(start time.Duration) trace {
	later := *tr
	later.all = nil
	for _, d := range tr.all {
		if d.received.Sub(tr.all[0].received) > start {
			later.all = append(later.all, d)
		}
	}
	return later
}

// values returns one of each datagram.
func (tr *trace) values(of func(d traced) time.Duration) (all []time.Duration) {
	for _, d := range tr.all {
		all = append(all, of(d))
	}
	return all
}

// least returns how long the fastest datagram took in truth.
func (tr *trace) least() time.Duration {
	return slices.Min(tr.values(func(d traced) time.Duration { return d.truth }))
}

// unknowable returns half the difference of the fastest datagrams of the two ways. No exchange of
// datagrams can show it, so whoever takes both ways for equal is off by as much.
func unknowable(t *testing.T, to, from trace) time.Duration {
	half := (to.least() - from.least()).Abs() / 2
	t.Logf("the fastest take %v to the peer and %v from it; half the difference is %v",
		to.least(), from.least(), half)
	return half
}

// judgeSummary compares what owd printed in the end with the truth.
func (tr *trace) judgeSummary(t *testing.T, said delays, limit time.Duration) {
	t.Helper()
	var truth, late time.Duration
	for _, d := range tr.all {
		truth += d.truth
		late += d.late
	}
	n := time.Duration(len(tr.all))
	least := time.Duration(said.Min) - tr.least()
	mean := time.Duration(said.Mean) - (truth+late)/n
	t.Logf("%s: %d delays; the mean is off by %v, the least by %v", tr.name, n, mean, least)
	if mean.Abs() > limit {
		t.Errorf("%s: the mean is off by %v, limit %v", tr.name, mean, limit)
	}
	if least.Abs() > limit+startError {
		t.Errorf("%s: the least is off by %v, limit %v", tr.name, least, limit+startError)
	}
	usual := testkit.Quantile(tr.values(func(d traced) time.Duration { return d.late }), 0.5)
	t.Logf("%s: receive times are late by %v in the mean, half of them by %v",
		tr.name, late/n, usual)
	if usual > stampError {
		t.Errorf("%s: half of the receive times are late by more than %v", tr.name, usual)
	}
}

// judgeBound asks that no delay is off by more than the bound.
func (tr *trace) judgeBound(t *testing.T, bound time.Duration) {
	t.Helper()
	for i, d := range tr.all {
		if d.off().Abs() > bound {
			t.Errorf("%s: delay %d is shown as %v, in truth %v, and its receive time is late by %v",
				tr.name, i, d.shown, d.truth, d.late)
		}
	}
}

// judgeSettled asks that at least half of the delays are right.
func (tr *trace) judgeSettled(t *testing.T, limit time.Duration) {
	t.Helper()
	if len(tr.all) == 0 {
		t.Fatalf("%s: nothing came after %v", tr.name, hostSettling)
	}
	offs := tr.values(traced.off)
	lowest := testkit.Quantile(offs, 0.01)
	usual := testkit.Quantile(offs, 0.5)
	highest := testkit.Quantile(offs, 0.99)
	t.Logf("%s: after %v delays are off by %v to %v, half by %v",
		tr.name, hostSettling, lowest, highest, usual)
	if usual.Abs() > limit {
		t.Errorf("%s: after %v half of the delays are off by %v, limit %v",
			tr.name, hostSettling, usual, limit)
	}
}

// sent returns when a datagram was stamped.
func (tr *trace) sent(m record.Moment) time.Time {
	const unit, wrap = 8, 1 << 24 // of TS24, us
	now := tr.sender.reads(tr.receiver.wall(m.LocalUsec))
	ago := (now/unit - uint64(m.Counter)) % wrap
	return tr.sender.wall((now/unit - ago) * unit)
}

// outside returns by how much a receive time is too late, or, if negative, too early. The kernel
// stamps a packet while the wire hands it over.
func outside(p netns.Passage, received time.Time) time.Duration {
	switch {
	case received.Before(p.Released):
		return received.Sub(p.Released)
	case received.After(p.Stamped):
		return received.Sub(p.Stamped)
	default:
		return 0
	}
}
