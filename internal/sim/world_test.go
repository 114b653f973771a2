// These tests prove that a world delivers in the order of time, and that its networks
// connect what they say.

package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestWorldOrder(t *testing.T) {
	w := NewWorld(1)
	var got []string
	at := func(t time.Duration, what string) { w.At(t, func() { got = append(got, fmt.Sprint(w.Now(), what)) }) }
	at(2*sec, "c")
	at(sec, "a")
	at(2*sec, "d")
	w.At(sec, func() { at(0, "b") }) // the past is now
	at(4*sec, "never")
	w.Run(3 * sec)
	if want := []string{"1sa", "1sb", "2sc", "2sd"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if w.Now() != 3*sec {
		t.Errorf("now %v", w.Now())
	}
}

// starLog lets three nodes ping a fourth and returns all that happens.
func starLog(seed uint64) (log []string) {
	w := NewWorld(seed)
	node := func(i int) *Node {
		return w.Node(fmt.Sprint("node", i), NewClock(ClockSpec{OffsetUsec: uint64(i) << 40, SkewPPM: float64(i)}, seed))
	}
	hub := node(0)
	hub.OnReceive = func(from *Node, b []byte) { hub.Send(from, append(b, 'x')) }
	for i := range 3 {
		s := node(i + 1)
		w.Connect(s, hub, &Link{Base: Fixed(30 * ms), Delay: Exp(3 * ms), Loss: Bernoulli(0.1)}, &Link{Base: Fixed(10 * ms)})
		s.OnReceive = func(from *Node, b []byte) {
			log = append(log, fmt.Sprint(s.Name, from.Name, string(b), s.NowUsec(), w.Now()))
		}
		var tick func()
		tick = func() { s.Send(hub, []byte(s.Name)); w.At(w.Now()+50*ms, tick) }
		w.At(uniform(w.Rand(s.Name), 0, 50*ms), tick)
	}
	w.Run(5 * sec)
	return log
}

func TestStar(t *testing.T) {
	log := starLog(1)
	if len(log) < 220 || len(log) > 300 {
		t.Errorf("%d answers", len(log))
	}
	if !slices.Equal(log, starLog(1)) || slices.Equal(log, starLog(2)) {
		t.Error("the same seed gave another world, or another seed the same")
	}
}
