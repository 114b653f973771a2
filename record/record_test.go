// These tests prove that a recording is small, that a replay answers the same as the
// recorded synchronizer to every question, and that of two recordings the events come in the
// order of time.
package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"timesync"
	"timesync/internal/testkit"
)

// must ends the test if something fails that is to work.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check fails if a test got something else than it wants.
func check[T comparable](t *testing.T, got, want T, format string, args ...any) {
	t.Helper()
	if got != want { // String may hide a field, hence %#v
		t.Errorf("%s: %#v, want %#v", fmt.Sprintf(format, args...), got, want)
	}
}

// still returns a Recorder that writes when a block is full or at Flush: no time passes.
func still(w io.Writer) *Recorder { return start(w, new(time.Ticker)) }

// all returns what Read or Replay yields until the first error.
func all[T any](yielded iter.Seq2[T, error]) (values []T, err error) {
	for v, err := range yielded {
		if err != nil {
			return values, err
		}
		values = append(values, v)
	}
	return values, nil
}

// read returns the events of a recording.
func read(b []byte) ([]Event, error) { return all(Read(bytes.NewReader(b))) }

// TestMethods: the methods of a synchronizer that a Recorder does not record are questions, which
// everything asks; a new method has to be one or the other.
func TestMethods(t *testing.T) {
	const inputs = "Anchor OnAuthenticatedDatagramTimestamp OnPeerMinDeltaTS24 Reset "
	const questions = "AppendEvent ErrorBound IsSynchronized LocalTime MinDeltaTS24 " +
		"MinimumDelayToPeer MinimumOneWayDelay RemoteTime Skew Snapshot Stats " +
		"ToRemoteTime16 ToRemoteTime23"
	known := strings.Fields(inputs + questions)
	of := reflect.TypeFor[*timesync.TimeSynchronizer]()
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; !slices.Contains(known, name) {
			t.Errorf("%s: is it recorded?", name)
		}
	}
}

// TestSilence: while nothing arrives, what is known is recorded now and then, as reports are asked
// for.
func TestSilence(t *testing.T) {
	var file bytes.Buffer
	r := still(&file)
	r.MinDeltaTS24(9_000_000) // nothing has come yet
	r.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(500), 1000)
	for now := uint64(100_000); now <= 10_000_000; now += 100_000 {
		r.MinDeltaTS24(now)
	}
	must(t, r.Close())
	r.MinDeltaTS24(20_000_000)
	events, err := all(Read(&file))
	must(t, err)
	var asked []uint64
	for _, e := range events {
		if e.Kind == Answered {
			asked = append(asked, e.LocalUsec)
		}
	}
	check(t, fmt.Sprint(asked), "[1000 2600000 5100000 7600000]", "answers at")
}

// answers is what a synchronizer says to every question about a few local times.
type answers [10]any

// both is an answer, and whether it is known.
func both[T any](answer T, ok bool) any { return [2]any{answer, ok} }

func everything(s *timesync.TimeSynchronizer, local uint64) answers {
	a := answers{
		both(s.ToRemoteTime23(local)),
		both(s.ToRemoteTime16(local)),
		s.IsSynchronized(),
		both(s.MinimumOneWayDelay()),
		both(s.MinimumDelayToPeer()),
		both(s.ErrorBound(local)),
		both(s.Skew()),
	}
	for i, at := range [...]uint64{local, local + 1_234_567, local - 54_321} {
		remote, _ := s.RemoteTime(at)
		a[7+i] = [...]any{
			Ask(s, at),
			both(s.RemoteTime(at)),
			both(s.LocalTime(remote)),
			both(s.MinDeltaTS24(at)),
		}
	}
	return a
}

// life plays a peer to r: datagrams with jitter and loss, reports, clocks that are set, paths
// that change, silences, receive times that go back, anchors, and Reset. It calls did after
// each call, with the local time.
func life(rng *rand.Rand, r *Recorder, calls int, did func(local uint64)) {
	local := rng.Uint64()
	offset := rng.Uint64()
	delay := 20_000.0
	for range calls {
		local += 16_667 + uint64(rng.IntN(2000)) - 1000
		switch rng.IntN(400) {
		case 0:
			offset += rng.Uint64N(1 << 24)
		case 1:
			delay += 10_000 * rng.ExpFloat64()
		case 2:
			local += rng.Uint64N(300_000_000)
		case 3:
			local -= rng.Uint64N(100_000_000)
		case 4:
			if rng.IntN(10) == 0 {
				r.Reset()
				did(local)
				if r.IsSynchronized() {
					panic("no Reset")
				}
			}
		case 5:
			r.Anchor(local, local+offset)
			did(local)
		case 6:
			delay = 20_000
		case 7:
			offset = rng.Uint64()
		case 8:
			local = rng.Uint64()
		}
		if rng.IntN(50) == 0 {
			continue // lost
		}
		recv := local + uint64(delay+5000*rng.ExpFloat64())
		// What is above the ring does not count.
		above := timesync.Counter24(rng.Uint32()&0xff) << 24
		stamp := timesync.LocalTimeToDatagramTS24(local+offset) | above
		r.OnAuthenticatedDatagramTimestamp(stamp, recv)
		did(recv)
		if rng.IntN(60) == 0 {
			least := uint64(delay + float64(rng.IntN(100)))
			r.OnPeerMinDeltaTS24(timesync.NewCounter24(least>>3+offset>>3), recv)
			did(recv)
		}
	}
}

// recording returns one of a life, and calls did after each call.
func recording(t testing.TB, seed uint64, calls int, did func(r *Recorder, local uint64)) []byte {
	t.Helper()
	var file bytes.Buffer
	r := still(&file)
	n := 0
	life(rand.New(rand.NewPCG(seed, 34)), r, calls, func(local uint64) {
		did(r, local)
		n++
		if n%40 == 0 {
			r.Flush()
		}
	})
	must(t, r.Close())
	return file.Bytes()
}

func unseen(*Recorder, uint64) {}

func TestReplayIsIdentical(t *testing.T) {
	for seed := range testkit.Sized[uint64](3, 20, 20) {
		var want []answers
		file := recording(t, seed, 5000, func(r *Recorder, local uint64) {
			want = append(want, everything(r.synchronizer, local))
		})
		n, asked := 0, 0
		for m, err := range Replay(bytes.NewReader(file)) {
			must(t, err)
			if m.Kind == Answered {
				if got := Ask(m.Ends[0], m.LocalUsec); got != m.Answer {
					t.Fatalf("seed %d, event %d: answers\n%+v, recorded\n%+v",
						seed, n, got, m.Answer)
				}
				asked++
				continue
			}
			if m.Kind != Reset { // its local time is not recorded
				if got := everything(m.Ends[0], m.LocalUsec); got != want[n] {
					t.Fatalf("seed %d, event %d: answers\n%+v, live\n%+v", seed, n, got, want[n])
				}
			}
			n++
		}
		if n != len(want) || asked < 60 {
			t.Errorf("seed %d: %d events and %d answers, %d calls", seed, n, asked, len(want))
		}
	}
}

// TestSize: at 60 datagrams a second, a block each 0.9 s. A datagram takes a byte more if it was
// under way 32 ms longer or shorter than the one before, or comes out of turn, or after a lost one.
func TestSize(t *testing.T) {
	for _, world := range []struct {
		name               string
		pace, jitter, loss float64 // us, us, share
		most               float64 // bytes a datagram
	}{
		{"two hosts in a room", 50, 50, 0, 6},
		{"a good line", 500, 2000, 0.001, 6},
		{"a bad line", 2000, 10_000, 0.02, 6},
		{"a crowded cell", 2000, 40_000, 0.05, 7},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		var file bytes.Buffer
		r := still(&file)
		var arrived [][2]uint64 // sent, received
		for local := uint64(1 << 50); local < 1<<50+120_000_000; local += 16_667 {
			sent := local + uint64(world.pace*rng.Float64())
			if rng.Float64() >= world.loss {
				took := uint64(20_000 + world.jitter*rng.ExpFloat64())
				arrived = append(arrived, [2]uint64{sent, sent + took})
			}
		}
		slices.SortFunc(arrived, func(a, b [2]uint64) int { return cmp.Compare(a[1], b[1]) })
		const ahead = 987_654_321 // us
		for i, a := range arrived {
			sent := a[0]
			received := a[1]
			stamp := timesync.LocalTimeToDatagramTS24(sent + ahead)
			r.OnAuthenticatedDatagramTimestamp(stamp, received)
			if i%120 == 0 {
				r.OnPeerMinDeltaTS24(timesync.NewCounter24((20_000+ahead)>>3), received)
			}
			if i%54 == 0 {
				r.Flush()
			}
		}
		must(t, r.Close())
		perDatagram := float64(file.Len()) / float64(len(arrived))
		t.Logf("%s: %.2f bytes a datagram, %.2f MB an hour",
			world.name, perDatagram, float64(file.Len())*30/1e6)
		if perDatagram > world.most {
			t.Errorf("%s: %.2f bytes a datagram", world.name, perDatagram)
		}
	}
}

// TestBothEnds: two ends with clocks that are far apart tell each other; the events of both
// recordings come in the order of time: with an anchor and, by the time of day, without; before an
// end knows the other's clock again; and around a time at which an end slept.
func TestBothEnds(t *testing.T) {
	const far = 5_000_000_000     // us
	const once, always = 60, 3000 // turns in which anchors are sent
	eachTurn := [2]int{always, always}
	for name, c := range map[string]meeting{
		"the first has an anchor":  {apart: 1<<50 + 77, anchors: [2]int{once, 0}},
		"the second has an anchor": {apart: 1<<50 + 77, anchors: [2]int{0, once}},
		// The time of day is the same in both files, and so tells this much.
		"none":                     {apart: 1_500_000},
		"a reset":                  {apart: far, anchors: eachTurn, reset: true},
		"a sleep":                  {apart: far, anchors: eachTurn, slept: true, most: 200},
		"both":                     {apart: far, anchors: eachTurn, reset: true, slept: true, most: 200},
		"from the half of time on": {apart: far, anchors: eachTurn, start: 1<<63 + 1<<62},
	} {
		t.Run(name, func(t *testing.T) { c.inOrder(t, c.record(t)) })
	}
}

// meeting is a minute of two ends that send every 20 ms, with a report each second. Something
// happens after 30 s.
type meeting struct {
	// what the first end's clock shows at 0, and by how much the second one's is ahead, us
	start, apart uint64
	anchors      [2]int // in so many turns
	reset, slept bool   // of the first end; its clock stands still then
	most         int    // datagrams out of order: until a clock that was set is noticed
}

const nap = 20_000_000 // us

func (c meeting) clock(end int, at uint64) uint64 {
	u := c.start + at + uint64(end)*c.apart
	if c.slept && end == 1 && at >= 30_000_000 {
		u += nap
	}
	return u
}

func (c meeting) record(t *testing.T) (files [2]*bytes.Buffer) {
	files = [2]*bytes.Buffer{new(bytes.Buffer), new(bytes.Buffer)}
	ends := [2]*Recorder{New(files[0]), New(files[1])}
	for _, end := range ends {
		end.Reset() // as link does when the connection begins
	}
	for at, i := uint64(1_000_000), 0; i < 3000; at, i = at+20_000, i+1 {
		for k, end := range ends {
			if i%50 == 0 {
				end.Flush()
			}
			if c.reset && k == 0 && i == 1500 {
				end.Reset()
			}
			sent := c.clock(1-k, at)
			received := c.clock(k, at+5_000)
			end.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(sent), received)
			if d, ok := ends[1-k].MinDeltaTS24(sent); ok && i%50 == 0 {
				if i < c.anchors[k] {
					end.Anchor(received, sent)
				}
				end.OnPeerMinDeltaTS24(d, received)
			}
		}
	}
	for _, end := range ends {
		must(t, end.Close())
	}
	return files
}

// inOrder fails if the events of both recordings do not come in the order of time, or are placed
// elsewhere by an end that knows the other's clock.
func (c meeting) inOrder(t *testing.T, files [2]*bytes.Buffer) {
	var last uint64
	n := [2]int{}
	wrong := 0
	for m, err := range Replay(files[0], files[1]) {
		must(t, err)
		at := m.LocalUsec - c.clock(m.End, 0)
		if c.slept && m.End == 1 && at >= 30_000_000+nap {
			at -= nap
		}
		for i := range m.AtUsec {
			off := int64(m.AtUsec[i] - c.clock(i, at))
			if m.Ends[0].IsSynchronized() && !c.slept && max(off, -off) > 1000 {
				t.Fatalf("an event of end %d at %d is %d us off at end %d", m.End, at, off, i)
			}
		}
		if m.Kind == Datagram {
			n[m.End]++
			if at+1000 < last {
				wrong++
			}
			last = max(last, at)
		}
	}
	if n != [2]int{3000, 3000} || wrong > c.most {
		t.Errorf("%d datagrams, %d out of the order of time", n, wrong)
	}
}

// TestWrapTwice: a Recorder of two connections would give the input of one to the other.
func TestWrapTwice(t *testing.T) {
	r := still(io.Discard)
	defer r.Close()
	defer func() { check(t, recover() != nil, true, "a second Wrap is refused") }()
	r.Wrap(new(timesync.TimeSynchronizer))
	r.Wrap(new(timesync.TimeSynchronizer))
}

// TestDamaged cuts a recording at each byte, and changes each byte: all whole blocks before that
// are read, and nothing of the block.
func TestDamaged(t *testing.T) {
	whole := recording(t, 5, 200, unseen)
	want, err := read(whole)
	must(t, err)
	blocks := map[int]int{len(magic): 0} // where each begins or ends: events before
	r := &reader{src: bytes.NewReader(whole)}
	for n := range want {
		r.next()
		if len(r.waiting) == 0 {
			blocks[int(r.at)] = n + 1
		}
	}
	n := 0
	for i := range whole {
		wantErr := ErrTruncated
		if events, boundary := blocks[i]; boundary {
			n, wantErr = events, nil
		} else if i < len(magic) {
			wantErr = ErrFormat
		}
		if got, err := read(whole[:i]); !errors.Is(err, wantErr) || !slices.Equal(got, want[:n]) {
			t.Fatalf("cut at %d: %d events, want %d; %v, want %v", i, len(got), n, err, wantErr)
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 1 << (i % 8)
		got, err := read(changed)
		if !damaged(err) || errors.Is(err, ErrFormat) != (i < len(magic)) ||
			!slices.Equal(got, want[:n]) {
			t.Fatalf("byte %d changed: %d events, want %d; %v", i, len(got), n, err)
		}
	}
}

// TestNotOneRecording: after all events that can be read, an error says what is wrong. Whoever
// wants no more events gets none, or the loop panics.
func TestNotOneRecording(t *testing.T) {
	whole := recording(t, 5, 200, unseen)
	half := whole[:len(whole)/2]
	events, _ := read(whole)
	fewer, _ := read(half)
	type of = []io.Reader
	file := func(b []byte) io.Reader { return bytes.NewReader(b) }
	twice := io.MultiReader(file(whole), file(whole))
	fails := io.MultiReader(file(whole), iotest.ErrReader(errFull))
	for says, c := range map[string]struct {
		of  of
		n   [2]int // events of each
		err error
	}{
		"one recording or two": {nil, [2]int{}, errRecordings},
		"another recording":    {of{twice}, [2]int{len(events)}, ErrCorrupt},
		"second": {
			of{file(whole), file(half)},
			[2]int{len(events), len(fewer)},
			ErrTruncated,
		},
		"disk full": {of{fails}, [2]int{len(events)}, errFull},
	} {
		moments, err := all(Replay(c.of...))
		n := [2]int{}
		for _, m := range moments {
			n[m.End]++
		}
		if n != c.n || !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v events, want %v; %v", says, n, c.n, err)
		}
	}
	for range Read(file(whole)) {
		break
	}
	for _, files := range []of{{file(whole)}, {file(whole), file(whole)}} {
		for range Replay(files...) {
			break
		}
	}
}

// counted counts what is written.
type counted struct{ atomic.Int64 }

func (c *counted) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	return len(b), nil
}

// TestNoAllocations: each tick writes what there is, be it a single event. Neither the caller's
// goroutine nor, for a block, the writer's allocates.
func TestNoAllocations(t *testing.T) {
	tick := make(chan time.Time)
	var file counted
	r := start(&file, &time.Ticker{C: tick})
	defer r.Close()
	writes := func(does func()) {
		before := file.Load()
		does()
		tick <- time.Time{}
		tick <- time.Time{} // taken when the block of the first is written
		check(t, file.Load() > before, true, "a tick writes")
	}
	local := uint64(1)
	one, many := r.Reset, func() {
		feed(r, &local, 120)
		r.Anchor(local, local)
	}
	both := func() {
		writes(many)
		writes(one)
	}
	check(t, testing.AllocsPerRun(20, both), 0, "allocations")
}

// feed gives a synchronizer or a Recorder n datagrams of a stream of 60 a second, with a report
// every 2 s, and returns the time that each takes.
func feed(s interface {
	OnAuthenticatedDatagramTimestamp(timesync.Counter24, uint64) (time.Duration, bool)
	OnPeerMinDeltaTS24(timesync.Counter24, uint64)
}, local *uint64, n int) time.Duration {
	begin := time.Now()
	for range n {
		*local += 16_667
		recv := *local + 20_000 + *local>>7&1023
		s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(*local), recv)
		if *local/16_667%120 == 0 {
			s.OnPeerMinDeltaTS24(timesync.NewCounter24(20_000>>3), recv)
		}
	}
	return time.Since(begin) / time.Duration(n)
}

// BenchmarkRecorder reports what a Recorder adds to a datagram, in turns with a synchronizer
// that is not recorded, because a shared machine changes its pace: the median of the turns.
func BenchmarkRecorder(b *testing.B) {
	const turn = 5000
	r := New(io.Discard)
	defer r.Close()
	var plain timesync.TimeSynchronizer
	var added []float64
	localA := uint64(1)
	localB := uint64(1)
	for b.Loop() {
		without := feed(&plain, &localA, turn)
		with := feed(r, &localB, turn)
		added = append(added, float64(with-without))
	}
	b.ReportMetric(testkit.Quantile(added, 0.5), "ns-more/datagram")
}
