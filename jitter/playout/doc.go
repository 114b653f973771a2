// SPDX-License-Identifier: BSD-3-Clause

// Package playout plays what was captured elsewhere a steady time after it was captured: sound,
// pictures, positions. It is a jitter buffer for ends that know each other's clock.
//
//	buffer, err := playout.New(playout.Config{})
//	err = buffer.Push(capturedUsec, clock.Now(), payload)      // for each frame that arrives
//	payload, capturedUsec, ok := buffer.Pop(nil, clock.Now())  // when Due says
//
// All times are readings of the clock of the end that plays, in microseconds. The end that
// captures writes a time with link.AppendEvent, and Link.ReadEvent converts it. Push the frame
// also if the error is link.ErrBefore; docs/USES.md has a voice chat. The latency is the time from
// capture to ear or eye. Package jitter finds the shortest one with which 99 of 100 frames arrive
// in time. This package starts no goroutine and reads no clock. It imports the standard library
// and package jitter.
//
// # Streams in step
//
// Sound and pictures of one speaker share the longer latency if their buffers are in one Group:
//
//	var together playout.Group
//	sound, err := playout.New(playout.Config{Group: &together, Link: l})
//	pictures, err := playout.New(playout.Config{Group: &together, Link: l, Output: display})
//
// Send both over one link.Link, or at least stamp and read both by one. With two Links of one
// speaker, each estimates the speaker's clock for itself, and the streams are apart by the errors
// of both. New refuses two Links in a Group (ErrTwoLinks).
//
// # Sound cards
//
// A sound card plays at a rate of its own, and 100 ppm are 0.36 s an hour. So sound must follow
// the card: a Card says for each frame how many samples to make of it, so that what is heard stays
// in step with the clock. It knows where the card is from how many samples the card was given, and
// how many of them still wait. Corrections stay below 0.5 %, which nobody hears, and below 2 %
// after the path has become shorter.
//
//	const queue = 40 * time.Millisecond
//	card, err := playout.NewCard(buffer, playout.CardConfig{Rate: 48000, Queue: queue})
//	for {
//		sound := card.Next(nil, clock.Now(), queued())
//		if sound.Samples == 0 {
//			time.Sleep(2 * time.Millisecond) // enough waits before the card
//			continue
//		}
//		write(resample(decode(sound.Payload), sound.Samples)) // no payload: silence
//	}
//
// Where the system calls a function to fill a block, see the example Callback of Card.
//
// # Too late
//
// A single frame that comes more than Config.Overdue too late is dropped. Where all of them come
// later than Config.Most, or a fixed Config.Latency, allows, they are played late, as soon as 19
// of 20 can be, and State says PlayingLate: most people would rather hear a speaker late than not
// at all. With Config.DropLate they are dropped, and State says TooLate. Loudspeakers that must
// play at one instant need that.
//
// # What changes the latency
//
// It grows at once where frames come too late. Where they need less for some seconds it falls: by
// an eighth of the excess a second, and by at most 1.5 %. A single stop of the network, of a
// program or of a card does not change it.
package playout
