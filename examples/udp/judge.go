package main

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"timesync"
)

// The judge knows what peers cannot: true time, and what was really sent. It looks
// over their shoulders and tells them nothing.

// ledger is what one peer has really sent, by number.
type ledger struct {
	mu    sync.Mutex
	sent  []time.Duration // true send times
	taken []bool          // the other peer has accepted it
}

func (l *ledger) enter(sent time.Duration) (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.taken = append(l.sent, sent), append(l.taken, false)
	return uint64(len(l.sent) - 1)
}

// take reports whether the datagram was really sent, then, and not taken before.
func (l *ledger) take(number uint64, sent time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= uint64(len(l.sent)) || l.sent[number] != sent || l.taken[number] {
		return false
	}
	l.taken[number] = true
	return true
}

const (
	eventLen  = 3  // of the payload: the stamp of an event, with a flag in its spare bit
	judgeLen  = 24 // of the payload: the judge's number, send time and event time
	eventFlag = 0x80
	eventAge  = 50 * time.Millisecond // events wait for the next datagram at most so long
)

// judge rides with one peer. Errors are in microseconds.
type judge struct {
	sync interface {
		RemoteTime(localUsec uint64) (uint64, bool)
		ToRemoteTime23(localUsec uint64) (timesync.Counter23, bool)
	}
	local       clock
	remote      atomic.Pointer[clock] // the peer's; another one once that has restarted
	start       time.Duration         // when the peer started
	mine, other *ledger               // what this peer has sent, and the one it hears

	mu                      sync.Mutex
	rng                     *rand.Rand
	synced                  bool
	firstSync               time.Duration // since start
	intruders               int           // datagrams that got through and must not have
	sent, bytes, clockBytes int
	least                   time.Duration // the shortest true one-way delay
	offset, owd, event      []int64       // errors
}

// payload is an event of a moment ago, stamped in the receiver's time if that is
// known, and then the judge's own notes.
func (j *judge) payload(sent time.Duration) []byte {
	j.mu.Lock()
	happened := max(sent-time.Duration(j.rng.Int64N(int64(eventAge))), 0)
	j.mu.Unlock()
	b := make([]byte, eventLen, eventLen+judgeLen)
	if ts, ok := j.sync.ToRemoteTime23(j.local.at(happened)); ok {
		ts.Put(b)
		b[2] |= eventFlag
	}
	b = binary.LittleEndian.AppendUint64(b, j.mine.enter(sent))
	b = binary.LittleEndian.AppendUint64(b, uint64(sent))
	return binary.LittleEndian.AppendUint64(b, uint64(happened))
}

func (j *judge) sealed(datagram, payload int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent++
	j.bytes += datagram
	j.clockBytes += datagram - payload - headerLen - tagLen
}

func (j *judge) delivered(payload []byte, recv, owd time.Duration, synced bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(payload) != eventLen+judgeLen {
		j.intruders++
		return
	}
	notes := payload[eventLen:]
	sent := time.Duration(binary.LittleEndian.Uint64(notes[8:]))
	if !j.other.take(binary.LittleEndian.Uint64(notes), sent) {
		j.intruders++
		return
	}
	if j.least == 0 || recv-sent < j.least {
		j.least = recv - sent
	}
	now := j.local.at(recv)
	if payload[2]&eventFlag != 0 {
		happened := time.Duration(binary.LittleEndian.Uint64(notes[16:]))
		got := timesync.FromLocalTime23(now, timesync.ReadCounter23(payload))
		j.event = append(j.event, int64(got-j.local.at(happened)))
	}
	if err, ok := j.offsetError(recv); ok {
		if !j.synced {
			j.synced, j.firstSync = true, recv-j.start
		}
		j.offset = append(j.offset, err)
	}
	if synced {
		j.owd = append(j.owd, (owd - (recv - sent)).Microseconds())
	}
}

// offsetError is how far the peer's idea of the remote clock is off at true time t.
func (j *judge) offsetError(t time.Duration) (usec int64, ok bool) {
	truth := j.remote.Load().at(t)
	got, ok := j.sync.RemoteTime(j.local.at(t))
	return int64((got-truth)<<38) >> 38, ok // modulo 67.1 s
}

// spread sums up the sizes of many errors, in microseconds.
type spread struct {
	Samples int   `json:"samples"`
	Median  int64 `json:"median_us"`
	P99     int64 `json:"p99_us"`
	Max     int64 `json:"max_us"`
}

func spreadOf(errs []int64) spread {
	if len(errs) == 0 {
		return spread{}
	}
	sizes := make([]int64, len(errs))
	for i, e := range errs {
		sizes[i] = max(e, -e)
	}
	slices.Sort(sizes)
	at := func(q float64) int64 { return sizes[int(q*float64(len(sizes)-1)+0.5)] }
	return spread{len(sizes), at(0.5), at(0.99), at(1)}
}
