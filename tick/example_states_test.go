package tick_test

import (
	"fmt"

	"timesync/tick"
)

// A client shows what is between the two states around ServerTime.
func ExampleStates() {
	var states tick.States[float64] // where a door is
	for n := tick.Tick(0); n <= 30; n += 3 {
		states.Put(n, float64(n)*10) // when AcceptState says that it is good
	}
	shown := tick.Hz(60).At(20, 0) // as ServerTime reads
	before, after, blend, _ := states.Around(shown)
	fmt.Printf("%.0f: between %v and %v\n", before+(after-before)*blend, before, after)
	// Output: 200: between 180 and 210
}
