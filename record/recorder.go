// SPDX-License-Identifier: BSD-3-Clause

package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"timesync"
)

// synchronizer is embedded under a name that callers cannot use, so that nothing is given
// to it behind the back of its Recorder.
type synchronizer = timesync.TimeSynchronizer

// Recorder is a synchronizer that writes down what it is given. It has the methods of
// timesync.TimeSynchronizer, with the same rules: one goroutine at a time may call those
// that change it, and all others may be called from any goroutine. So may Flush, Close and
// Dropped.
type Recorder struct {
	*synchronizer

	mu      sync.Mutex
	askedAt uint64 // local time, us, of the last answer
	asked   bool   // there is one
	filling coder
	number  uint32 // of the block that is being filled
	dropped uint64 // blocks
	closed  bool
	wrapped bool // Wrap was called

	err error // what the io.Writer last complained of; the writer's until it has ended

	// One of two buffers is being filled. The other is free, or away: ready, or being written.
	other, ready []byte
	away         bool

	full    chan struct{} // a block is ready
	flush   chan bool     // write what there is, if true
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has ended
}

const (
	// flushAfter leaves a tenth of a second for the machine, so that no more than the last
	// second is lost with the process.
	flushAfter = 900 * time.Millisecond

	askEvery = 1_000_000 // us between two answers
	askLate  = 2_500_000 // us: while nothing arrives
)

// New makes a Recorder of a fresh synchronizer, which writes to w from a goroutine of its
// own until Close. w need not be buffered: it gets about one block a second, of 0.4 kB at
// 60 datagrams a second and of 4 kB at most.
func New(w io.Writer) *Recorder {
	return start(w, time.NewTicker(flushAfter))
}

var errExited = errors.New("the io.Writer ended its goroutine, as t.Fatal does")

var errSlow = errors.New("the writer is too slow")

// start is New with its clock: at each tick, what there is is written.
func start(w io.Writer, tick *time.Ticker) *Recorder {
	r := &Recorder{
		synchronizer: new(timesync.TimeSynchronizer),
		other:        make([]byte, blockLen),
		full:         make(chan struct{}, 1),
		flush:        make(chan bool),
		closing:      make(chan struct{}),
		done:         make(chan struct{}),
	}
	r.filling.begin(make([]byte, blockLen))
	go func() {
		defer close(r.done)
		defer tick.Stop()
		defer func() {
			// A recording is no reason to end the program.
			if v := recover(); v != nil {
				r.err = fmt.Errorf("the io.Writer panicked: %v", v)
			}
		}()
		r.write(w, tick.C)
	}()
	return r
}

// Wrap makes r record s instead of the synchronizer of its own. Call it before r is given
// anything. s must be fresh, or a replay, which starts with a fresh one, answers otherwise.
// A link.Link calls it. A second call panics: each connection needs a Recorder of its own.
func (r *Recorder) Wrap(s *timesync.TimeSynchronizer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrapped {
		panic("record: a Recorder records one connection: take a new one for each Link")
	}
	r.synchronizer, r.wrapped = s, true
}

// OnAuthenticatedDatagramTimestamp is that of timesync.TimeSynchronizer, and is recorded.
func (r *Recorder) OnAuthenticatedDatagramTimestamp(remoteSendTS24 timesync.Counter24, localRecvUsec uint64) (owd time.Duration, ok bool) {
	r.mu.Lock() // first: an answer that another goroutine asks for is either before both or after both
	owd, ok = r.synchronizer.OnAuthenticatedDatagramTimestamp(remoteSendTS24, localRecvUsec)
	if r.room() {
		r.filling.datagram(uint32(remoteSendTS24)&(1<<24-1), localRecvUsec)
		if since := int64(localRecvUsec - r.askedAt); since >= askEvery || since <= -askEvery || !r.asked {
			r.ask(localRecvUsec)
		}
	}
	r.mu.Unlock()
	return owd, ok
}

// OnPeerMinDeltaTS24 is that of timesync.TimeSynchronizer, and is recorded.
func (r *Recorder) OnPeerMinDeltaTS24(minDelta timesync.Counter24, localRecvUsec uint64) {
	r.input(&Event{Kind: Report, Counter: minDelta, LocalUsec: localRecvUsec})
}

// Anchor is that of timesync.TimeSynchronizer, and is recorded.
func (r *Recorder) Anchor(localUsec, remoteUsec uint64) {
	r.input(&Event{Kind: Anchor, LocalUsec: localUsec, RemoteUsec: remoteUsec})
}

// Reset is that of timesync.TimeSynchronizer, and is recorded.
func (r *Recorder) Reset() { r.input(&Event{Kind: Reset}) }

// input gives an event to the synchronizer, and records it.
func (r *Recorder) input(e *Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.give(r.synchronizer)
	if r.room() {
		r.filling.append(e)
	}
}

// ask records what the synchronizer knows. mu is held.
func (r *Recorder) ask(localUsec uint64) {
	r.askedAt, r.asked = localUsec, true
	a := Ask(r.synchronizer, localUsec)
	r.room()
	r.filling.append(&Event{Kind: Answered, LocalUsec: localUsec, Answer: a})
}

// MinDeltaTS24 is that of timesync.TimeSynchronizer. If nothing has arrived for a while, what the
// synchronizer answers at localUsec is recorded: so a recording shows that the peer fell silent, also if
// it never spoke again.
func (r *Recorder) MinDeltaTS24(localUsec uint64) (minDelta timesync.Counter24, ok bool) {
	r.mu.Lock()
	if r.asked && int64(localUsec-r.askedAt) >= askLate && r.room() {
		r.ask(localUsec)
	}
	r.mu.Unlock()
	return r.synchronizer.MinDeltaTS24(localUsec)
}

// room makes room for an event, and reports whether it is to be recorded. mu is held.
func (r *Recorder) room() bool {
	if r.closed || !r.filling.full() {
		return !r.closed
	}
	if r.away {
		r.dropped++
		r.number++
		r.filling.begin(r.filling.b)
		return true
	}
	r.handOver()
	select {
	case r.full <- struct{}{}:
	default: // the writer was told
	}
	return true
}

// handOver makes the block ready and starts another in the other buffer, which must be free. mu is held.
func (r *Recorder) handOver() {
	b := r.filling.b
	seal(b, r.number, time.Now())
	r.number++
	r.filling.begin(r.other)
	r.ready, r.other, r.away = b, b, true
}

// Dropped returns how many blocks were dropped because the io.Writer was slow or failed.
func (r *Recorder) Dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Flush waits until what was recorded is written, or the io.Writer has refused it. Whoever
// plays faster than time, as a simulation does, calls it now and then, or the writer cannot
// keep up.
func (r *Recorder) Flush() {
	for _, due := range [...]bool{true, false} { // the second is taken when what the first asked for is done
		select {
		case r.flush <- due:
		case <-r.done:
		}
	}
}

// Close writes what is not yet written, and waits for that. It returns an error if blocks
// were dropped, with what the io.Writer last complained of. It does not close the
// io.Writer, and does not return before that does. The Recorder goes on as a synchronizer that
// records no more.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		close(r.closing)
	}
	r.closed = true
	r.mu.Unlock()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away { // the writer did not take all of it, or nobody knows how much
		r.away = false
		r.dropped++
	}
	if !r.filling.empty() {
		r.filling.begin(r.filling.b)
		r.dropped++
	}
	if r.dropped == 0 {
		return nil
	}
	return fmt.Errorf("record: %d blocks dropped: %w", r.dropped, cmp.Or(r.err, errSlow))
}

// write writes blocks until Close. What an io.Writer does not take, it is offered again at
// the next tick, so that a block is in the recording as a whole or not at all.
func (r *Recorder) write(to io.Writer, tick <-chan time.Time) {
	rest := r.offer(to, []byte(magic)) // of what is being written
	for over := false; !over; {
		due := true // the block that is being filled is
		select {
		case <-r.full:
			due = false
		case <-tick:
		case due = <-r.flush:
		case <-r.closing:
			over = true
		}
		for rest = r.offer(to, rest); len(rest) == 0; rest = r.offer(to, rest) {
			if rest, due = r.next(due); rest == nil {
				break
			}
		}
	}
}

// offer writes, and returns what was not taken.
func (r *Recorder) offer(to io.Writer, b []byte) (rest []byte) {
	if len(b) == 0 {
		return nil
	}
	last := r.err
	r.err = errExited // unless Write returns
	n, err := to.Write(b)
	rest = b[max(min(n, len(b)), 0):]
	if err == nil && len(rest) > 0 {
		err = io.ErrShortWrite
	}
	r.err = cmp.Or(err, last)
	return rest
}

// next returns the block to write after one that was written, or nil. If due, the block that is being filled
// counts, once.
func (r *Recorder) next(due bool) (block []byte, stillDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready == nil {
		if r.away = false; due && !r.filling.empty() {
			r.handOver()
			due = false
		}
	}
	block, r.ready = r.ready, nil
	return block, due
}
