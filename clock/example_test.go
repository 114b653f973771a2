// The example of the documentation.

package clock_test

import (
	"fmt"
	"time"

	"timesync/clock"
)

// To test with clocks that are apart, make a function of the readings of this package, and pass
// what it returns instead: of Now, of Received, and of the times of receipt of package rxtime. Two
// processes have clocks that are apart anyway, since each counts from its own start. There
// Time(reading).UnixMicro() is the truth that both can compare, while nobody sets the wall clock.
func Example_apart() {
	start := clock.Now()
	own := func(usec uint64) uint64 { // 83 minutes ahead, and 40 ppm faster
		passed := int64(usec - start)
		return usec + 5_000_000_000 + uint64(passed*40/1_000_000)
	}
	ahead := own(start+1_000_000) - (start + 1_000_000) // after a second
	fmt.Println(time.Duration(ahead) * time.Microsecond)
	// Output: 1h23m20.00004s
}
