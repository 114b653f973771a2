// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that writers that are slow or fail cost whole blocks and nothing else.
package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"timesync"
)

// gate is a writer that takes what it may.
type gate struct {
	bytes.Buffer
	most atomic.Value // of func() (int, error): how much it takes now
}

// let changes how much it takes.
func (g *gate) let(most func() (int, error)) { g.most.Store(most) }

func (g *gate) Write(b []byte) (int, error) {
	n, err := g.most.Load().(func() (int, error))()
	n, _ = g.Buffer.Write(b[:min(n, len(b))])
	return n, err
}

// takesAll is for a gate that does not fail.
func takesAll() (int, error) { return blockLen, nil }

var errFull = errors.New("disk full")

// fill gives r datagrams until it has dropped so many blocks.
func fill(r *Recorder, rng *rand.Rand, dropped uint64) (calls int) {
	local := rng.Uint64()
	for ; r.Dropped() < dropped; calls++ {
		local += 16_667
		r.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(rng.Uint64()), local)
	}
	return calls
}

// count returns how many blocks a recording says are missing, and its last datagram.
func count(t *testing.T, file io.Reader) (missing uint64, last Event) {
	t.Helper()
	for e, err := range Read(file) {
		must(t, err)
		switch e.Kind {
		case Missing:
			missing += uint64(e.Count)
		case Datagram:
			last = e
		}
	}
	return missing, last
}

// TestFailingWriter: a writer fails for a while, in the middle of a block or before it. Blocks
// are dropped as a whole, the recording says how many, and goes on when the writer does.
func TestFailingWriter(t *testing.T) {
	for taken := range 60 {
		left := 3*headLen + taken // the bytes that it takes
		g := &gate{}
		g.let(func() (int, error) {
			n := left
			left = max(left-blockLen, 0)
			return n, errFull
		})
		r := still(g)
		rng := rand.New(rand.NewPCG(uint64(taken), 1))
		r.OnAuthenticatedDatagramTimestamp(1, 1)
		r.Flush()
		fill(r, rng, 3)
		r.Flush()
		g.let(takesAll)
		r.Flush()
		r.OnAuthenticatedDatagramTimestamp(77, 1)
		err := r.Close()
		if !errors.Is(err, errFull) || r.Dropped() != 3 {
			t.Fatalf("taken %d: dropped %d, %v", taken, r.Dropped(), err)
		}
		missing, last := count(t, &g.Buffer)
		if missing != 3 || last.Counter != 77 {
			t.Fatalf("taken %d: %d blocks are missing, the last stamp is %d", taken, missing, last.Counter)
		}
	}
}

// TestHangingWriter: nobody waits for a writer that hangs, and Close says what was lost.
func TestHangingWriter(t *testing.T) {
	release := make(chan struct{})
	g := &gate{}
	g.let(func() (int, error) {
		<-release
		return blockLen, nil
	})
	r := New(g)
	calls := fill(r, rand.New(rand.NewPCG(1, 1)), 100) // the test hangs if this waits
	close(release)
	err := r.Close()
	if err == nil || calls < 100*(blockLen-eventLen)/20 {
		t.Errorf("%d calls, %v", calls, err)
	}
	missing, _ := count(t, &g.Buffer)
	check(t, missing, r.Dropped(), "missing blocks")
}

// TestNeverWritten: of a writer that takes nothing, Close tells, and does not hang.
func TestNeverWritten(t *testing.T) {
	g := &gate{}
	g.let(func() (int, error) { return 0, errFull })
	r := New(g)
	r.OnAuthenticatedDatagramTimestamp(1, 1)
	if err := r.Close(); !errors.Is(err, errFull) || r.Dropped() != 1 {
		t.Errorf("%v, dropped %d", err, r.Dropped())
	}
	if err := r.Close(); err == nil {
		t.Error("the second Close is content")
	}
	r.OnAuthenticatedDatagramTimestamp(2, 2)
	r.Anchor(2, 2)
	r.OnPeerMinDeltaTS24(2, 2)
	r.Reset()
	check(t, r.IsSynchronized(), false, "a closed Recorder records")
	check(t, r.Dropped(), 1, "dropped")
}

// breaking returns a Recorder whose writer took one datagram, and then does something else with the second.
func breaking(does func() (int, error)) (*gate, *Recorder) {
	g := &gate{}
	g.let(takesAll)
	r := still(g)
	r.OnAuthenticatedDatagramTimestamp(1, 1)
	r.Flush()
	g.let(does)
	r.OnAuthenticatedDatagramTimestamp(2, 2)
	r.Flush()
	return g, r
}

// TestPanickingWriter: a writer that panics does not end the program. As nobody knows how much
// it took, it is given no more, and what it took can be read.
func TestPanickingWriter(t *testing.T) {
	g, r := breaking(func() (int, error) { panic("broken") })
	g.let(takesAll)
	r.OnAuthenticatedDatagramTimestamp(3, 3)
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "broken") || r.Dropped() != 2 {
		t.Errorf("%v, dropped %d", err, r.Dropped())
	}
	checkEvents(t, &g.Buffer, []Event{{Kind: Datagram, LocalUsec: 1, Counter: 1}})
}

// TestExitingWriter: a writer that ends its goroutine, as t.Fatal does, lets neither Flush nor Close wait for
// ever, and Close tells.
func TestExitingWriter(t *testing.T) {
	_, r := breaking(func() (int, error) { runtime.Goexit(); return 0, nil })
	r.Flush()
	if err := r.Close(); !errors.Is(err, errExited) || r.Dropped() != 1 {
		t.Errorf("%v, dropped %d", err, r.Dropped())
	}
}
