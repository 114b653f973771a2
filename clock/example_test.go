// The example of the documentation.

package clock_test

import (
	"fmt"
	"time"

	"timesync/clock"
)

// A clock that is apart is a function of the readings.
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
