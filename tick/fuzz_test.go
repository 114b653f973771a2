// No bytes from the network and no order of calls do harm.

package tick

import (
	"bytes"
	"math"
	"testing"
)

// What decodes encodes to the same bytes, and only what is in bounds decodes.
func FuzzHandshake(f *testing.F) {
	hello, _ := Hello{7, Hz(60)}.AppendBinary(nil)
	welcome, _ := Welcome{
		Epoch:      7,
		Rate:       Rate{60000, 1001},
		OriginUsec: 1 << 63,
		Tick:       216_000,
		Heard:      true,
	}.AppendBinary(nil)
	told := Welcome{Epoch: 7, Rate: Hz(60), Tick: 9}
	told.inputs.add(8, ms(20))
	told.inputs.add(11, -ms(1))
	inputs, _ := told.AppendBinary(nil)
	far, _ := Welcome{Tick: math.MinInt64}.AppendBinary(nil)
	// a tick takes years
	slow, _ := Welcome{Epoch: 7, Rate: Rate{48, math.MaxUint32}, Tick: 1}.AppendBinary(nil)
	for flags := range byte(16) {
		f.Add(append(welcome[:33:33], flags, 1, 2))
	}
	behind, _ := Welcome{Epoch: 7, Tick: 9, Debt: 300}.AppendBinary(nil)
	f.Add(behind)
	for _, b := range [][]byte{
		inputs,
		inputs[:len(inputs)-1],
		slow,
		hello,
		welcome,
		far,
		welcome[:33],
		{},
		append([]byte{kindWelcome}, hello[1:]...),
		append(hello[:17:17], 0),
		append(welcome[:36:36], 0),
		append(hello[:13:13], 0, 0, 0, 0),              // 60/0
		append(hello[:9:9], 0, 0, 0, 0, 0, 0, 0, 0),    // 0/0
		append(hello[:9:9], 1, 2, 3, 0x80, 1, 0, 0, 0), // more than 10^9 a second
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h := Hello{Epoch: 99}
		if err := h.UnmarshalBinary(b); err == nil {
			again, _ := h.AppendBinary(nil)
			if !bytes.Equal(again, b) || !h.Rate.valid() || len(b) != 17 {
				t.Errorf("% x decodes to %+v", b, h)
			}
		} else if err != refusal(b) || h != (Hello{Epoch: 99}) {
			t.Errorf("% x: %v, %+v", b, err, h)
		}
		w := Welcome{Epoch: 99}
		if err := w.UnmarshalBinary(b); err == nil {
			again, _ := w.AppendBinary(nil)
			if !bytes.Equal(again, b) || !w.Rate.valid() || len(b) < 36 {
				t.Errorf("% x decodes to %+v", b, w)
			}
			signals := ClientConfig{Config: Config{OnMismatch: MismatchSignal}}
			c := startClient(signals, &fakeRemote{})
			check(t, c.OnWelcome(w, 0), nil, "%+v", w)
			c.Advance(1)
			c.Advance(2)
		} else if err != refusal(b) || w != (Welcome{Epoch: 99}) {
			t.Errorf("% x: %v, %+v", b, err, w)
		}
	})
}

// Any sequence of calls and messages that a fuzzer chooses keeps what TestModel looks at.
func FuzzAdvances(f *testing.F) {
	f.Add([]byte("0000000700000100\"10X0\xaaA00700100B00100"))
	f.Fuzz(func(t *testing.T, b []byte) {
		newModel(uint64(len(b)), b, nil).play(t, min(len(b), 500))
	})
}
