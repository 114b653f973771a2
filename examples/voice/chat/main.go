// SPDX-License-Identifier: BSD-3-Clause

// Chat is a voice chat of two ends, to be copied with examples/seal/seal.go. Sound is 16 bits,
// one channel, 16 kHz. The sound card paces it: card.go says how much waits in the pipe before
// it.
//
//	arecord -qt raw -f S16_LE -r 16000 --buffer-time 40000 |
//		go run ./examples/voice/chat -listen 0.0.0.0:9000 |
//		aplay -qt raw -f S16_LE -r 16000 --buffer-time 40000
//
// The other end has -dial IP:9000 instead. Both need the same 64 hex digits in TIMESYNC_KEY. With
// Bluetooth, add what its headphones take to -output.
package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/clock/rxtime"
	"timesync/examples/seal"
	"timesync/jitter/playout"
	"timesync/link"
)

const (
	rate     = 16_000 // samples a second
	frame    = 20 * time.Millisecond
	frameLen = rate * 2 / 50   // bytes: with all that is added a datagram is to have 1,200 at most
	eventLen = 3               // what link.AppendEvent appends
	gone     = time.Second     // a living peer sends each frame, or an empty payload
	hold     = time.Second / 2 // for how long a caller that restarts at another port is refused
	slept    = time.Second     // after such a sleep the frames that wait are of no use

	// queue is how much sound waits in the pipe before the player.
	queue = 40 * time.Millisecond
	// played is how long the player keeps sound before it is heard: from half of its buffer of
	// 40 ms to all of it.
	played = 35 * time.Millisecond
)

type chat struct {
	end    *seal.End
	udp    *net.UDPConn
	to     netip.AddrPort // whom to call; not valid: we are called
	buffer *playout.Buffer
	card   *playout.Card
	sleep  clock.SleepWatch
	ctx    context.Context // until Close
	stop   context.CancelFunc
}

func newChat(key [32]byte, own, to netip.AddrPort, output time.Duration) (*chat, error) {
	direction := uint64(1) // 0 at the end that calls
	if to.IsValid() {
		direction = 0
	}
	c := &chat{end: seal.New(key, direction), to: to}
	c.ctx, c.stop = context.WithCancel(context.Background())
	var err error
	c.buffer, err = playout.New(playout.Config{Most: 200 * time.Millisecond, Output: output})
	if err != nil {
		return nil, err
	}
	card := playout.CardConfig{Rate: rate, Frame: frame, Queue: queue}
	c.card, err = playout.NewCard(c.buffer, card)
	if err != nil {
		return nil, err
	}
	c.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(own))
	return c, err
}

// Close ends play at once, Serve, and speak when the microphone says something.
func (c *chat) Close() error {
	c.stop()
	c.buffer.Close()
	return c.udp.Close()
}

// take takes what arrives. With an error there is no payload, and Serve has answered if it must.
func (c *chat) take(d seal.Datagram, err error) {
	if err != nil || len(d.Payload) != eventLen+frameLen {
		return
	}
	if s, ok := c.end.Link.Snapshot(d.RecvUsec); ok {
		c.buffer.Steps(s.Steps) // after a clock was set the latency is what it was before
	}
	captured, err := c.end.Link.ReadEvent(d.RecvUsec, d.Payload, time.Second)
	if err == nil || errors.Is(err, link.ErrBefore) {
		_ = c.buffer.Push(captured, clock.Now(), d.Payload[eventLen:]) // Stats count what it refuses
	}
}

// speak sends what the microphone hears. An end that is muted sends a nil payload four times a
// second or more, or the peer takes it for gone.
func (c *chat) speak(microphone io.Reader) error {
	const frameUsec = uint64(frame / time.Microsecond)
	sound := make([]byte, frameLen)
	var captured uint64 // the first sample
	for ready := 0; c.ctx.Err() == nil; {
		asked := clock.Now()
		if _, err := io.ReadFull(microphone, sound); err != nil {
			return err
		}
		now := clock.Now()
		// A frame follows the last one, and card and clock differ by less than 1 %: one that
		// seems to come later has waited in the pipe.
		next := captured + frameUsec + frameUsec/100
		if captured = now - frameUsec; captured-next < 5*frameUsec {
			captured = next
		}
		if ready++; now-asked > frameUsec/4 {
			ready = 0
		}
		to := cmp.Or(c.to, c.end.Peer().Addr) // where it has called from
		// Nobody has called; or this program was stopped, and old sound waits in the pipe.
		if !to.IsValid() || ready > 4 {
			continue
		}
		payload := append(link.AppendEvent(nil, captured), sound...)
		datagram := c.end.Seal(nil, payload, clock.Now())
		if _, err := c.udp.WriteToUDPAddrPort(datagram, to); err != nil {
			c.end.Link.SendFailed()
		}
	}
	return nil
}

// play plays each frame when it is due. Where the card and the clock run at different rates, a
// frame becomes a little longer or shorter.
func (c *chat) play(out output) error {
	for c.ctx.Err() == nil {
		sound := c.card.Next(nil, clock.Now(), out.queued())
		if sound.Samples == 0 {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if _, err := out.Write(stretch(sound.Payload, sound.Samples)); err != nil {
			c.card.Stop()
			return err
		}
		if c.sleep.Slept() > slept {
			c.buffer.Drop()
		}
	}
	return nil
}

// state says what to show: what is wrong with the connection, or else what is heard.
func (c *chat) state() string {
	now := clock.Now()
	ago, heard := c.end.Link.SinceHeard(now)
	s, _ := c.end.Link.Snapshot(now)
	switch err := s.Within(100 * time.Millisecond); {
	case c.end.Peer().Refused:
		return "busy: it talks to another"
	case !heard:
		return "nobody is there"
	case ago > gone:
		return "the peer is gone"
	// A clock was set: that is audible for 2 s at most.
	case err != nil && !errors.Is(err, timesync.ErrStepped):
		return err.Error()
	}
	return "connected, " + c.card.State(now).String()
}

func main() {
	var key [32]byte
	var own, to netip.AddrPort
	flag.TextVar(&own, "listen", netip.AddrPort{}, "wait for a call at this `address`, IP:PORT")
	flag.TextVar(&to, "dial", netip.AddrPort{}, "call this `address`, IP:PORT")
	output := flag.Duration("output", played, "how long the player keeps sound before it is heard")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"usage: arecord ... | chat -listen or -dial IP:PORT | aplay ...\n"+
				"Sound on stdin and stdout: 16 bits, one channel, 16 kHz. The first lines of main.go\n"+
				"have the whole commands. The key, 64 hex digits, is in $TIMESYNC_KEY at both ends.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if n, err := hex.Decode(key[:], []byte(os.Getenv("TIMESYNC_KEY"))); err != nil || n != len(key) {
		log.Fatal("TIMESYNC_KEY: want 64 hex digits, as go run ./cmd/owd -newkey prints them")
	}
	c, err := newChat(key, own, to, *output)
	if err != nil {
		log.Fatal(err)
	}
	go c.end.Serve(rxtime.NewConn(c.udp), c.udp, hold, c.take)
	go func() { log.Fatal(c.play(&pipe{file: os.Stdout})) }()
	go func() {
		for range time.Tick(time.Second) {
			latency, frames, samples := c.buffer.Latency(), c.buffer.Stats(), c.card.Stats()
			log.Printf("%s; latency %v; %+v %+v", c.state(), latency, frames, samples)
		}
	}()
	log.Fatal(c.speak(os.Stdin))
}
