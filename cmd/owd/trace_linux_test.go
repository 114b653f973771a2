package main

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
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
	port    uint16 // of the listener
	way     int
	counter timesync.Counter24
}

// watch collects the datagrams of owd that pass a wire. What it returns returns one of them, if it
// has been noted.
func watch(wire *netns.Wire) func(stamp) (p netns.Passage, noted bool) {
	var mu sync.Mutex
	all := map[stamp]netns.Passage{}
	passed := func(p netns.Passage) {
		const ipHeader, protocol, udp, udpHeader = 20, 9, 17, 8
		if len(p.Packet) < ipHeader+udpHeader || p.Packet[protocol] != udp {
			return
		}
		port := binary.BigEndian.Uint16(p.Packet[ipHeader:]) // the sender's
		if p.Way == toListener {
			port = binary.BigEndian.Uint16(p.Packet[ipHeader+2:])
		}
		counter, ok := stampOf(p.Packet[ipHeader+udpHeader:])
		if !ok {
			return // an answer of seal
		}
		mu.Lock()
		all[stamp{port, p.Way, counter}] = p
		mu.Unlock()
	}
	wire.Passed.Store(&passed)
	return func(s stamp) (netns.Passage, bool) {
		mu.Lock()
		defer mu.Unlock()
		p, noted := all[s]
		return p, noted
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

// The ways of the wire.
const (
	toCaller = iota
	toListener
)

// trace is of the datagrams of one way whose delays owd knew.
type trace struct {
	port             uint16
	way              int
	sender, receiver *host
	all              []traced
}

// traced is a datagram: what owd made of it, and the truth.
type traced struct {
	way      int
	received time.Time
	shown    time.Duration // delay, as owd knew it
	bound    time.Duration // how far off that may be
	truth    time.Duration
	// late is how late the receive time is, which is in shown but not in truth. After a step of the
	// wall clock, a host takes the time of reading for that of receipt, for a second.
	late time.Duration
	// unknowable is half the difference of the fastest datagrams of the two ways until then. No
	// exchange of datagrams can show it, so whoever takes both ways for equal is off by as much.
	unknowable time.Duration
}

// off returns by how much the clocks made the delay wrong.
func (d traced) off() time.Duration { return d.shown - d.late - d.truth }

// name is for what is said about it.
func (tr *trace) name() string {
	if tr.way == toListener {
		return "to"
	}
	return "from"
}

// read takes the datagrams with a known delay from the receiver's recording.
//
// A delay begins with the stamp in the datagram and ends when the receiver's kernel gets it, which
// the wire knows.
func (tr *trace) read(t *testing.T, passage func(stamp) (netns.Passage, bool)) {
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
		if m.Kind != record.Datagram || !m.Known {
			continue
		}
		p, noted := passage(stamp{tr.port, tr.way, m.Counter})
		if !noted {
			t.Fatal("a datagram is in the recording that the wire has not noted")
		}
		received := tr.receiver.wall(m.LocalUsec)
		late := outside(p, received)
		bound, _ := m.Ends[0].ErrorBound(m.LocalUsec)
		tr.all = append(tr.all, traced{
			way:      tr.way,
			received: received,
			shown:    m.OWD,
			bound:    bound,
			truth:    received.Add(-late).Sub(tr.sent(m)),
			late:     late,
		})
	}
	if len(tr.all) == 0 {
		t.Fatal("the recording has no delays")
	}
}

// drop drops the datagrams of the start.
func (tr *trace) drop(t *testing.T, start time.Duration) {
	t.Helper()
	settled := tr.all[0].received.Add(start)
	tr.all = slices.DeleteFunc(tr.all, func(d traced) bool { return d.received.Before(settled) })
	if len(tr.all) == 0 {
		t.Fatalf("%s: nothing came after %v", tr.name(), start)
	}
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

// judgeSummary compares what owd printed in the end with the truth of the same datagrams. Beside
// what was unknowable, the mean may be wrong by that much. It returns by how much it is, and the
// mean of what was unknowable.
func (tr *trace) judgeSummary(
	t *testing.T, said delays, wrong time.Duration,
) (mean, unknowable time.Duration) {
	t.Helper()
	n := int(said.N)
	if len(tr.all) < n {
		t.Fatalf("%s: %d delays in the recording, %d in the summary", tr.name(), len(tr.all), n)
	}
	// What came after the listener's last message is in its recording only.
	summed := *tr
	summed.all = tr.all[:n]
	var truth, late, worst time.Duration
	for _, d := range summed.all {
		truth += d.truth
		late += d.late
		unknowable += d.unknowable
		worst = max(worst, d.unknowable)
	}
	truth /= time.Duration(n)
	late /= time.Duration(n)
	unknowable /= time.Duration(n)
	mean = time.Duration(said.Mean) - truth - late
	least := time.Duration(said.Min) - summed.least()
	usual := testkit.Quantile(summed.values(func(d traced) time.Duration { return d.late }), 0.5)
	t.Logf("%s: %d delays; the mean is off by %v, the least by %v", tr.name(), n, mean, least)
	t.Logf("%s: unknowable were %v in the mean, at most %v", tr.name(), unknowable, worst)
	t.Logf("%s: receive times are late by %v in the mean, half of them by %v",
		tr.name(), late, usual)
	if limit := unknowable + wrong; mean.Abs() > limit {
		t.Errorf("%s: the mean is off by %v, limit %v", tr.name(), mean, limit)
	}
	if limit := worst + startError; least.Abs() > limit {
		t.Errorf("%s: the least is off by %v, limit %v", tr.name(), least, limit)
	}
	if usual > stampError {
		t.Errorf("%s: half of the receive times are late by %v", tr.name(), usual)
	}
	return mean, unknowable
}

// judgeBounds asks that no delay is off by more than its bound.
func (tr *trace) judgeBounds(t *testing.T) {
	t.Helper()
	for i, d := range tr.all {
		if d.off().Abs() > d.bound {
			t.Errorf("%s: delay %d is shown as %v±%v, in truth %v; receive time late by %v",
				tr.name(), i, d.shown, d.bound, d.truth, d.late)
		}
	}
}

// median says how far off the delays are, and returns by how much half of them are.
func (tr *trace) median(t *testing.T) time.Duration {
	t.Helper()
	offs := tr.values(traced.off)
	lowest := testkit.Quantile(offs, 0.01)
	usual := testkit.Quantile(offs, 0.5)
	highest := testkit.Quantile(offs, 0.99)
	sizes := tr.values(func(d traced) time.Duration { return d.off().Abs() })
	t.Logf("%s: %d delays are off by %v to %v, half by %v, nine of ten by at most %v",
		tr.name(), len(offs), lowest, highest, usual, testkit.Quantile(sizes, 0.9))
	return usual
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
