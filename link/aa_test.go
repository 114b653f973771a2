package link
import ("testing";"fmt";"os")
func TestZZ(t *testing.T) {
	if os.Getenv("ZZ")=="" {t.Skip()}
	var seed uint64; fmt.Sscan(os.Getenv("ZZ"), &seed)
	m := newModel(t, seed, second/20)
	m.run(second + m.draw(10*second)) // a start is over after some round trips
	done := false
	m.Every(second/4, 0, func() {
		if m.Now() < 158*second || done { return }
		for i, e := range m.ends {
			s, ok := e.Snapshot(m.clock(i))
			fmt.Printf("%.2f end %d ok %v off %d %v: %v\n", m.Now().Seconds(), i, ok, int64(s.RemoteUsec-m.clock(1-i)), s.Within(second*3600), s)
		}
	})
	for range 1 + m.rng.IntN(3) {
		m.event()
		m.run(second + m.draw(2*second))
	}
	m.Run(m.lastHeld)
	m.run(healed)
	fmt.Println(m.misses(), m.log)
}
