// No bytes from the network and no order of calls do harm.

package tick

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// What decodes encodes to the same bytes, and only what is in bounds decodes.
func FuzzHandshake(f *testing.F) {
	hello, _ := Hello{7, Hz(60)}.AppendBinary(nil)
	welcome, _ := Welcome{Epoch: 7, Rate: Rate{60000, 1001}, OriginUsec: 1 << 63, Tick: 216_000, Heard: true}.AppendBinary(nil)
	told := Welcome{Epoch: 7, Rate: Hz(60), Tick: 9}
	told.inputs.add(8, ms(20))
	told.inputs.add(11, -ms(1))
	inputs, _ := told.AppendBinary(nil)
	far, _ := Welcome{Tick: math.MinInt64}.AppendBinary(nil)
	slow, _ := Welcome{Epoch: 7, Rate: Rate{48, math.MaxUint32}, Tick: 1}.AppendBinary(nil) // a tick takes years
	for flags := range byte(16) {
		f.Add(append(welcome[:33:33], flags))
	}
	for _, b := range [][]byte{
		inputs, inputs[:len(inputs)-1], slow, hello, welcome, far, welcome[:33], {},
		append([]byte{kindWelcome}, hello[1:]...), append(hello[:17:17], 0), append(welcome[:34:34], 0),
		append(hello[:13:13], 0, 0, 0, 0),              // 60/0
		append(hello[:9:9], 0, 0, 0, 0, 0, 0, 0, 0),    // 0/0
		append(hello[:9:9], 1, 2, 3, 0x80, 1, 0, 0, 0), // more than 10^9 a second
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, w := Hello{Epoch: 99}, Welcome{Epoch: 99}
		if err := h.UnmarshalBinary(b); err == nil {
			if again, _ := h.AppendBinary(nil); !bytes.Equal(again, b) || !h.Rate.valid() || len(b) != 17 {
				t.Errorf("% x decodes to %+v", b, h)
			}
		} else if err != ErrMessage || h != (Hello{Epoch: 99}) {
			t.Errorf("% x: %v, %+v", b, err, h)
		}
		if err := w.UnmarshalBinary(b); err == nil {
			if again, _ := w.AppendBinary(nil); !bytes.Equal(again, b) || !w.Rate.valid() || len(b) < 34 {
				t.Errorf("% x decodes to %+v", b, w)
			}
			c := startClient(ClientConfig{Config: Config{OnMismatch: MismatchSignal}}, &fakeRemote{})
			check(t, c.OnWelcome(w, 0), nil, "%+v", w)
			c.Advance(1)
			c.Advance(2)
		} else if err != ErrMessage || w != (Welcome{Epoch: 99}) {
			t.Errorf("% x: %v, %+v", b, err, w)
		}
	})
}

// Any sequence of calls, decoded from bytes: ticks come once and in order but for
// what events announce, clocks do not go back between steps, and the counts add up.
func FuzzAdvances(f *testing.F) {
	f.Add([]byte{0, 1, 10, 0, 0, 1, 20, 0, 2, 3, 0, 0, 1, 100, 0})
	f.Add([]byte{1, 1, 10, 0, 0, 4, 200, 3, 1, 255, 255, 5, 0, 0, 1, 1, 0, 6, 0, 0, 1, 50, 0})
	f.Add([]byte{6, 1, 0, 40, 4, 0, 128, 1, 16, 39, 7, 9, 0, 1, 16, 39, 8, 0, 0, 1, 16, 39, 2, 255, 255, 1, 1, 0})
	f.Add([]byte{11, 1, 1, 0, 3, 255, 255, 3, 255, 255, 1, 16, 0, 9, 36, 0, 1, 16, 0, 10, 0, 0, 1, 16, 0, 11, 1, 0, 11, 0, 0, 1, 9, 9})
	f.Add([]byte("0000000700000100\"10X0\xaaA00700100B00100")) // a new epoch during a pause
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 && len(b) <= 1500 { // 500 calls are enough
			if log := playCalls(b, nil); log.wrong != "" {
				t.Fatal(log.wrong)
			}
		}
	})
}

// playCalls calls what b says, three bytes a call, until something is wrong.
func playCalls(b []byte, provider Provider) *witness {
	cfg := Config{CatchUp: CatchUp(b[0] & 3), OnMismatch: MismatchAdjust, Provider: provider}
	if provider != nil && cfg.CatchUp == CatchUpRunAll {
		cfg.CatchUp = CatchUpKeep // it would run a year of ticks
	}
	isServer, neverBack := b[0]&4 != 0, b[0]&8 != 0
	b = b[1:]
	remote := &fakeRemote{delay: ms(50)}
	var l *loop
	var client *Client
	log := newWitness(neverBack && !isServer, -readerMargin, 0, readerMargin)
	if isServer {
		l = &mustServer(ServerConfig{Config: cfg, Handlers: log.handlers()}).loop
	} else {
		client = mustClient(ClientConfig{Config: cfg, Handlers: log.handlers(), NeverBack: neverBack}, remote)
		l = &client.loop
	}
	now := uint64(math.MaxUint64 - 1_000_000)
	epoch, rate := uint64(1), Hz(60)
	for ; len(b) >= 3; b = b[3:] {
		arg := binary.LittleEndian.Uint16(b[1:])
		switch b[0] % 12 {
		case 0:
			if !l.started {
				log.start()
			}
			l.Start(now)
		case 1:
			now += uint64(arg) * 10 // up to 0.66 s
			l.Advance(now)
		case 2:
			now += uint64(arg) * 1000 // up to 66 s
			l.Advance(now)
		case 3:
			now += uint64(arg)
			l.AdvanceOne(now)
		case 4:
			remote.offset += int64(int16(arg)) * 100
		case 5:
			l.Pause(now)
		case 6:
			l.Resume(now)
		case 7:
			if client != nil {
				_ = client.OnWelcome(Welcome{Epoch: epoch, Rate: rate, Tick: rate.Ticks(time.Duration(now) * 1000 % (1 << 50)), Heard: arg&1 == 1}, now)
			}
		case 8:
			remote.lost = arg&1 == 1
		case 9:
			rate = Rate{1 + uint32(arg)%200, 1}
		case 10:
			epoch = max(epoch+uint64(arg)%3-uint64(arg>>15), 1) // back, too
		case 11:
			if arg == 1 {
				l.Stop()
			} else {
				l.Advance(now - uint64(arg)) // back
			}
		}
		if log.look(l, now) != "" || log.ran > 1_000_000 {
			log.fail("%d ticks", log.ran)
			break
		}
	}
	return &log
}
