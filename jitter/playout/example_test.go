package playout_test

import (
	"fmt"
	"slices"
	"time"

	"timesync/jitter/playout"
)

// resample makes so many samples of a frame: each lies on a straight line between two of the
// frame.
func resample(frame []float32, samples int) []float32 {
	out := make([]float32, samples)
	for i := range out {
		place := float64(i) * float64(len(frame)-1) / float64(samples-1)
		before := int(place)
		after := min(before+1, len(frame)-1)
		part := float32(place - float64(before))
		out[i] = (1-part)*frame[before] + part*frame[after]
	}
	return out
}

// A sound card that plays 300 ppm slower than the clock. Its driver says how many samples wait
// before it. Without a Card sound would be 0.18 s later after 10 minutes.
func ExampleCard() {
	buffer, err := playout.New(playout.Config{Latency: 100 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	const rate, perFrame = 48_000, 960
	config := playout.CardConfig{Rate: rate, Queue: 40 * time.Millisecond}
	card, err := playout.NewCard(buffer, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	frame := make([]float32, perFrame) // what is decoded of a payload
	waiting := 0.0                     // samples before the card
	var late time.Duration
	const start, lasting = 1 << 40, 10 * time.Minute
	for passed := time.Duration(0); passed < lasting; passed += 2 * time.Millisecond {
		now := start + uint64(passed.Microseconds())
		if passed%(20*time.Millisecond) == 0 { // a frame arrives, 50 ms after it was captured
			_ = buffer.Push(now-50_000, now, []byte("a frame"))
		}
		waiting = max(waiting-0.002*rate*(1-300e-6), 0)
		sound := card.Next(nil, now, int(waiting))
		if sound.Samples == 0 {
			continue // enough waits before the card
		}
		if sound.Payload != nil {
			heard := passed + time.Duration(waiting/rate*float64(time.Second))
			captured := time.Duration(sound.CapturedUsec-start) * time.Microsecond
			late = heard - captured
			waiting += float64(len(resample(frame, sound.Samples)))
		} else {
			waiting += float64(sound.Samples) // of silence
		}
	}
	stats := card.Stats()
	left := stats.Samples - stats.Silence
	share := float64(stats.Dropped-stats.Inserted) / float64(left)
	fmt.Println("after 10 minutes heard", late.Round(5*time.Millisecond), "after capture")
	fmt.Printf("%.4f of the samples were left out\n", share)
	// Output:
	// after 10 minutes heard 100ms after capture
	// 0.0003 of the samples were left out
}

// The system calls a function for each block of 10 ms, while the device plays the block before. A
// frame seldom ends with a block: what is left of it is kept for the next one.
func ExampleCard_callback() {
	buffer, err := playout.New(playout.Config{Latency: 100 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	const rate, perFrame, perBlock = 48_000, 960, 480
	card, err := playout.NewCard(buffer, playout.CardConfig{Rate: rate}) // without a Queue
	if err != nil {
		fmt.Println(err)
		return
	}
	frame := make([]float32, perFrame) // what is decoded of a payload
	var kept []float32
	var late time.Duration // of the last frame
	fill := func(block []float32, now uint64, inDevice int) {
		for len(kept) < len(block) {
			queued := inDevice + len(kept)
			sound := card.Next(nil, now, queued)
			if sound.Payload == nil {
				kept = append(kept, make([]float32, sound.Samples)...) // silence
				continue
			}
			heard := now + uint64(queued)*1e6/rate
			late = time.Duration(heard-sound.CapturedUsec) * time.Microsecond
			kept = append(kept, resample(frame, sound.Samples)...)
		}
		copied := copy(block, kept)
		kept = slices.Delete(kept, 0, copied)
	}

	// This card plays 300 ppm slower than the clock.
	const start, minutes, blocksPerMinute = 1 << 40, 10, 6000
	const blockUsec = perBlock * 1e6 / (rate * (1 - 300e-6))
	block := make([]float32, perBlock)
	arrives := uint64(start)
	for n := range minutes * blocksPerMinute {
		now := start + uint64(float64(n)*blockUsec)
		for ; arrives <= now; arrives += 20_000 { // 50 ms after its capture
			_ = buffer.Push(arrives-50_000, arrives, []byte("a frame"))
		}
		fill(block, now, perBlock)
	}
	fmt.Println("after 10 minutes heard", late.Round(5*time.Millisecond), "after capture")
	// Output:
	// after 10 minutes heard 100ms after capture
}

// Sound takes 30 ms to arrive, and pictures 80 ms. Both are played at the same time after
// capture, also with headphones that take 150 ms.
func ExampleGroup() {
	var together playout.Group
	link := new(int) // the *link.Link of the speaker, over which both come
	sound, _ := playout.New(playout.Config{Group: &together, Link: link})
	pictures, _ := playout.New(playout.Config{Group: &together, Link: link})
	const start = 1 << 40
	for captured := uint64(start); captured < start+5_000_000; captured += 20_000 {
		_ = sound.Push(captured, captured+30_000, nil)
		_ = pictures.Push(captured, captured+80_000, nil)
	}
	say := func() {
		const about = 5 * time.Millisecond
		fmt.Println(sound.Latency().Round(about), pictures.Latency().Round(about))
	}
	say()
	_ = sound.SetOutput(150 * time.Millisecond)
	say()
	// Output:
	// 80ms 80ms
	// 180ms 180ms
}
