// SPDX-License-Identifier: BSD-3-Clause

// Chat is a voice chat of two ends, in one file to be copied with examples/seal/seal.go and
// examples/voice/playout. Sound is 16 bits, one channel, 16 kHz; the sound card paces it:
//
//	arecord -qt raw -f S16_LE -r 16000 --buffer-time 40000 |
//		go run ./examples/voice/chat -listen 0.0.0.0:9000 | aplay -qt raw -f S16_LE -r 16000 --buffer-time 40000
//
// The other end has -dial IP:9000 instead. Both need the same 64 hex digits in TIMESYNC_KEY.
package main

import (
	"cmp"
	"encoding/hex"
	"errors"
	"flag"
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
	"timesync/examples/voice/playout"
	"timesync/link"
)

const (
	frame    = 20 * time.Millisecond
	frameLen = 16_000 * 2 / 50 // bytes: with all that is added a datagram is to have 1,200 at most
	eventLen = 3               // what link.AppendEvent appends
	gone     = time.Second     // a peer that lives sends each frame
	asleep   = time.Second / 5 // a machine that sleeps does so for longer, and no wall clock is slewed by as much
	hold     = time.Second / 2 // so long is a caller refused that restarts at another port
)

type chat struct {
	end    *seal.End
	udp    *net.UDPConn
	to     netip.AddrPort // whom to call; not valid: we are called
	buffer *playout.Buffer
}

func newChat(key [32]byte, own, to netip.AddrPort) (*chat, error) {
	direction := uint64(1) // 0 at the end that calls
	if to.IsValid() {
		direction = 0
	}
	buffer, err := playout.New(playout.Config{Most: 200 * time.Millisecond, Overdue: frame})
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(own))
	return &chat{seal.New(key, direction), udp, to, buffer}, err
}

// take takes what arrives. With an error there is no payload, and Serve has answered if it must.
func (c *chat) take(d seal.Datagram, err error) {
	if err != nil || len(d.Payload) != eventLen+frameLen {
		return
	}
	s, _ := c.end.Link.Snapshot(d.RecvUsec)
	c.buffer.Steps(s.Steps) // where a clock was set the latency begins anew
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
	for ready := 0; ; {
		asked := clock.Now()
		if _, err := io.ReadFull(microphone, sound); err != nil {
			return err
		}
		now := clock.Now()
		// A frame follows the last one, and card and clock differ by less than 1 %: one that seems to come
		// later has waited in the pipe.
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
		if _, err := c.udp.WriteToUDPAddrPort(c.end.Seal(nil, payload, clock.Now()), to); err != nil {
			c.end.Link.SendFailed()
		}
	}
}

// play plays each frame when it is due. When the latency falls, frames are due sooner after each other than the
// card takes to play them: one is left out where more than two would wait before the card.
func (c *chat) play(card io.Writer) error {
	var ends uint64 // when the card has played what it has
	var sleep clock.SleepWatch
	for {
		if sleep.Slept() > asleep {
			c.buffer.Drop() // what waits would be played as late as the sleep was long
		}
		sound, _, ok := c.buffer.Pop(nil, clock.Now())
		now := clock.Now()
		waits := max(int64(ends-now), 0)
		if !ok {
			time.Sleep(time.Millisecond)
		} else if waits <= 2*frame.Microseconds() {
			ends = now + uint64(waits+frame.Microseconds())
			if _, err := card.Write(sound); err != nil {
				return err
			}
		}
	}
}

// state says what to show. Sound is played in any of them.
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
	return "connected"
}

func main() {
	var key [32]byte
	var own, to netip.AddrPort
	flag.TextVar(&own, "listen", netip.AddrPort{}, "own `address`")
	flag.TextVar(&to, "dial", netip.AddrPort{}, "`address` to call")
	flag.Parse()
	if n, err := hex.Decode(key[:], []byte(os.Getenv("TIMESYNC_KEY"))); err != nil || n != len(key) {
		log.Fatal("TIMESYNC_KEY: 64 hex digits are wanted")
	}
	c, err := newChat(key, own, to)
	if err != nil {
		log.Fatal(err)
	}
	go c.end.Serve(rxtime.NewConn(c.udp), c.udp, hold, c.take)
	go func() { log.Fatal(c.play(os.Stdout)) }()
	go func() {
		for range time.Tick(time.Second) {
			log.Printf("%s; latency %v; %+v", c.state(), c.buffer.Latency(), c.buffer.Stats())
		}
	}()
	log.Fatal(c.speak(os.Stdin))
}
