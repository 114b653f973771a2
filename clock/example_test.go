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

// A program that asks in each frame drops what waited in its buffers while the machine slept.
func ExampleSleepWatch() {
	var watch clock.SleepWatch
	buffered := []string{"a frame of sound"}
	for frame := range 2 {
		if slept := watch.Slept(); slept > time.Second {
			buffered = nil // all of it is older than it seems
		}
		fmt.Println("frame", frame, "has", len(buffered))
	}
	// Output:
	// frame 0 has 1
	// frame 1 has 1
}
