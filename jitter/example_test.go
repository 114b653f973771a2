package jitter_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"timesync/jitter"
)

// States of a game are sent 20 times a second, and take 30 to 45 ms. Shown are always two states,
// and what lies between them.
func ExampleEstimator() {
	random := rand.New(rand.NewPCG(1, 2))
	var estimator jitter.Estimator // 1 state in 100 may be late
	for i := range 1000 {
		sent := time.Duration(i) * 50 * time.Millisecond // by the server's clock
		jitter := time.Duration(random.Int64N(int64(15 * time.Millisecond)))
		estimator.Add(sent, sent+30*time.Millisecond+jitter)
	}
	wait, _ := estimator.Wait()
	behind := wait + estimator.Interval() // so that the later one of the two has come, too
	fmt.Println("show the world as it was", behind.Round(5*time.Millisecond), "ago")
	// Output: show the world as it was 100ms ago
}

// Frames of sound are sent each 20 ms. The path stops once, for half a second: that is heard, but
// no later frame is played later for it. Then the path becomes 40 ms longer.
func ExampleEstimator_sound() {
	estimator := jitter.Estimator{Share: 0.02}
	play := func(from, to int, delay func(sent time.Duration) time.Duration) {
		for i := from; i < to; i++ {
			sent := time.Duration(i) * 20 * time.Millisecond
			estimator.Add(sent, sent+delay(sent))
		}
		wait, _ := estimator.Wait()
		fmt.Println("play each frame", wait.Round(5*time.Millisecond), "after it was recorded")
	}
	usual := func(sent time.Duration) time.Duration {
		return 60*time.Millisecond + sent%(7*time.Millisecond)
	}
	play(0, 1000, usual)
	play(1000, 1025, func(sent time.Duration) time.Duration {
		return 20*time.Second + 560*time.Millisecond - sent
	})
	play(1025, 1050, usual)
	play(1050, 1100, func(sent time.Duration) time.Duration {
		return usual(sent) + 40*time.Millisecond
	})
	// Output:
	// play each frame 65ms after it was recorded
	// play each frame 65ms after it was recorded
	// play each frame 65ms after it was recorded
	// play each frame 105ms after it was recorded
}
