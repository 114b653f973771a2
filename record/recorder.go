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

// synchronizer is embedded under a name that callers cannot use, so that nothing reaches it without
// being recorded.
type synchronizer = timesync.TimeSynchronizer

// Recorder is a synchronizer that writes down what it is given. It has the methods of
// timesync.TimeSynchronizer with the same rules: one goroutine at a time may call those that
// change it, and any goroutine may call all others, also Flush, Close and Dropped.
type Recorder struct {
	*synchronizer

	mu      sync.Mutex
	askedAt uint64 // local time, us, of the last answer
	asked   bool   // whether there is one
	filling coder
	number  uint32 // of the block that is being filled
	dropped uint64 // blocks
	closed  bool
	wrapped bool // Wrap was called

	err error // the io.Writer's last error; belongs to the writing goroutine until that has ended

	// Of two buffers one is being filled. The other one is free, or it is away: ready, or being
	// written.
	other []byte
	ready []byte
	away  bool

	full    chan struct{} // signals that a block is ready
	flush   chan bool     // asks to write what there is, if true
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writing goroutine has ended
}

const (
	// flushAfter leaves a tenth of a second for the machine, so that no more than the last
	// second is lost with the process.
	flushAfter = 900 * time.Millisecond

	askEvery = 1_000_000 // us between two answers
	askLate  = 2_500_000 // us: while nothing arrives
)

// New makes a Recorder with a fresh synchronizer. It writes to w from its own goroutine until
// Close. w need not be buffered: it gets about one block a second, 0.4 kB at 60 datagrams a second
// and at most 4 kB.
func New(w io.Writer) *Recorder {
	return start(w, time.NewTicker(flushAfter))
}

var errExited = errors.New("the io.Writer ended its goroutine, as t.Fatal does")

var errSlow = errors.New("the writer is too slow")

// start is New with its clock: at each tick the goroutine writes what there is.
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
			// A recording must not end the program.
			if v := recover(); v != nil {
				r.err = fmt.Errorf("the io.Writer panicked: %v", v)
			}
		}()
		r.write(w, tick.C)
	}()
	return r
}

// Wrap makes r record s instead of its own synchronizer. link.Link calls it. Call it before
// anything else, with a fresh s, since a replay starts with a fresh one. A second call panics:
// each connection needs a Recorder of its own.
func (r *Recorder) Wrap(s *timesync.TimeSynchronizer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrapped {
		panic("record: a Recorder records one connection: take a new one for each Link")
	}
	r.synchronizer = s
	r.wrapped = true
}

// OnAuthenticatedDatagramTimestamp calls and records that of timesync.TimeSynchronizer.
func (r *Recorder) OnAuthenticatedDatagramTimestamp(
	remoteSendTS24 timesync.Counter24, localRecvUsec uint64,
) (owd time.Duration, ok bool) {
	r.mu.Lock() // held for both, so that an answer comes before both or after both
	owd, ok = r.synchronizer.OnAuthenticatedDatagramTimestamp(remoteSendTS24, localRecvUsec)
	if r.room() {
		r.filling.datagram(uint32(remoteSendTS24)&(1<<24-1), localRecvUsec)
		since := int64(localRecvUsec - r.askedAt)
		if !r.asked || since >= askEvery || since <= -askEvery {
			r.ask(localRecvUsec)
		}
	}
	r.mu.Unlock()
	return owd, ok
}

// OnPeerMinDeltaTS24 calls and records that of timesync.TimeSynchronizer.
func (r *Recorder) OnPeerMinDeltaTS24(minDelta timesync.Counter24, localRecvUsec uint64) {
	r.input(&Event{Kind: Report, Counter: minDelta, LocalUsec: localRecvUsec})
}

// Anchor calls and records that of timesync.TimeSynchronizer.
func (r *Recorder) Anchor(localUsec, remoteUsec uint64) {
	r.input(&Event{Kind: Anchor, LocalUsec: localUsec, RemoteUsec: remoteUsec})
}

// Reset calls and records that of timesync.TimeSynchronizer.
func (r *Recorder) Reset() { r.input(&Event{Kind: Reset}) }

// input passes an event to the synchronizer and records it.
func (r *Recorder) input(e *Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.give(r.synchronizer)
	if r.room() {
		r.filling.append(e)
	}
}

// ask records what the synchronizer knows. The caller holds mu.
func (r *Recorder) ask(localUsec uint64) {
	r.askedAt = localUsec
	r.asked = true
	a := Ask(r.synchronizer, localUsec)
	r.room()
	r.filling.append(&Event{Kind: Answered, LocalUsec: localUsec, Answer: a})
}

// MinDeltaTS24 calls that of timesync.TimeSynchronizer. If nothing has arrived for a while, it
// also records what the synchronizer knows. So a recording shows that the peer fell silent, even
// if it never returned.
func (r *Recorder) MinDeltaTS24(localUsec uint64) (minDelta timesync.Counter24, ok bool) {
	r.mu.Lock()
	if r.asked && int64(localUsec-r.askedAt) >= askLate && r.room() {
		r.ask(localUsec)
	}
	r.mu.Unlock()
	return r.synchronizer.MinDeltaTS24(localUsec)
}

// room makes room for an event, and reports whether to record it. The caller holds mu.
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
	default: // the writing goroutine knows already
	}
	return true
}

// handOver makes the block ready and starts another in the other buffer, which must be free. The
// caller holds mu.
func (r *Recorder) handOver() {
	b := r.filling.b
	seal(b, r.number, time.Now())
	r.number++
	r.filling.begin(r.other)
	r.ready = b
	r.other = b
	r.away = true
}

// Dropped returns how many blocks were dropped because the io.Writer was slow or failed.
func (r *Recorder) Dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Flush waits until everything recorded so far is written, or the io.Writer has refused it. A
// simulation runs faster than time and should call it now and then, or the writer cannot keep up.
func (r *Recorder) Flush() {
	// The second request is accepted when the first one is done.
	for _, due := range [...]bool{true, false} {
		select {
		case r.flush <- due:
		case <-r.done:
		}
	}
}

// Close writes what is left and waits for that, as long as the io.Writer takes. It returns an
// error if blocks were dropped, with the io.Writer's last one. It does not close the io.Writer.
// Afterwards the Recorder still works as a synchronizer, but records nothing.
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
	if r.away { // the io.Writer did not take all of it, or nobody knows how much
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

// write writes blocks until Close. A block that the io.Writer took in part is completed before the
// next, so that it is in the recording as a whole or not at all.
func (r *Recorder) write(to io.Writer, tick <-chan time.Time) {
	rest := r.offer(to, []byte(magic)) // what remains of the current block
	for over := false; !over; {
		due := true // whether to write the block that is being filled
		select {
		case <-r.full:
			due = false
		case <-tick:
		case due = <-r.flush:
		case <-r.closing:
			over = true
		}
		for {
			rest = r.offer(to, rest)
			if len(rest) > 0 {
				break // the io.Writer refuses it: it is offered again at the next tick
			}
			rest, due = r.next(due)
			if rest == nil {
				break
			}
		}
	}
}

// offer writes b, and returns what the io.Writer did not take.
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

// next returns the block to write next, or nil. If due, the block that is being filled counts,
// once.
func (r *Recorder) next(due bool) (block []byte, stillDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready == nil {
		r.away = false
		if due && !r.filling.empty() {
			r.handOver()
			due = false
		}
	}
	block = r.ready
	r.ready = nil
	return block, due
}
