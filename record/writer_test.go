// These tests prove that writers that are slow or fail cost whole blocks and nothing else.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
func fill(r *Recorder, dropped uint64) (calls int) {
	for local := uint64(1); r.Dropped() < dropped; calls++ {
		local += 16_667
		r.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(local*local), local)
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
		r.OnAuthenticatedDatagramTimestamp(1, 1)
		r.Flush()
		fill(r, 3)
		r.Flush()
		g.let(takesAll)
		r.Flush()
		r.OnAuthenticatedDatagramTimestamp(77, 1)
		err := r.Close()
		missing, last := count(t, &g.Buffer)
		if !errors.Is(err, errFull) || r.Dropped() != 3 || missing != 3 || last.Counter != 77 {
			t.Fatalf("taken %d: dropped %d, %d are missing, the last is %v; %v",
				taken, r.Dropped(), missing, last, err)
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
	calls := fill(r, 100) // the test hangs if this waits
	close(release)
	err := r.Close()
	if err == nil || calls < 100*(blockLen-eventLen)/20 {
		t.Errorf("%d calls, %v", calls, err)
	}
	missing, _ := count(t, &g.Buffer)
	check(t, missing, r.Dropped(), "missing blocks")
}

// TestBrokenWriter: a writer fails for ever. If it panics, nobody knows how much it took, so it is
// given no more. Flush and Close return, Close says why each time, what was taken can be read, and
// later calls are not recorded.
func TestBrokenWriter(t *testing.T) {
	takesNothing := func() (int, error) { return 0, nil }
	panics := func() (int, error) { panic("broken") }
	exits := func() (int, error) {
		runtime.Goexit()
		return 0, nil
	}
	for name, c := range map[string]struct {
		first, second, then func() (int, error)
		says                string
		events              int // that are taken: a datagram and an answer
		dropped             uint64
	}{
		"takes nothing": {takesNothing, takesNothing, takesNothing, io.ErrShortWrite.Error(), 0, 1},
		"panics":        {takesAll, panics, takesAll, "broken", 2, 2},
		"exits":         {takesAll, exits, takesAll, "Fatal", 2, 2},
	} {
		g := &gate{}
		g.let(c.first)
		r := still(g)
		for _, next := range []func() (int, error){c.second, c.then} {
			r.OnAuthenticatedDatagramTimestamp(1, 1)
			r.Flush()
			g.let(next)
		}
		r.OnAuthenticatedDatagramTimestamp(3, 1)
		err := r.Close()
		r.OnAuthenticatedDatagramTimestamp(4, 1)
		r.Anchor(4, 4)
		r.OnPeerMinDeltaTS24(4, 1)
		r.Reset()
		got, _ := read(g.Bytes())
		if err == nil || !strings.Contains(err.Error(), c.says) || len(got) != c.events ||
			r.Dropped() != c.dropped {
			t.Errorf("%s: %v, %d events, dropped %d", name, err, len(got), r.Dropped())
		}
		check(t, fmt.Sprint(r.Close()), fmt.Sprint(err), "%s: the second Close", name)
	}
}
