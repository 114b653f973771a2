// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// Errors of messages.
var (
	// ErrMessage says that bytes are not the message that they should be.
	ErrMessage = errors.New("tick: malformed message")
	// ErrVersion says that bytes are a message of another version of the format. Both sides need
	// the same.
	ErrVersion = errors.New("tick: message of another version")
	// ErrEpoch says that a message is out of date, and was ignored. A later one of the same epoch
	// has come, or its epoch is not the present one. Before Start and after Stop there is no
	// present epoch. It is normal at a join and after a hang: go on with the next message.
	ErrEpoch = errors.New("tick: message is out of date")
)

// Welcome is what a server tells a client about game time: when the client joins, at every change
// (Resume), and once a second. It also carries the server's clock, which a TimeSynchronizer
// without an Anchor knows only modulo 67.1 s. docs/WIRE.md has its bytes, for clients that are not
// written in Go.
type Welcome struct {
	Epoch      uint64 // of the server's game time, from 1 to 2^63-1; a later Start has a larger one
	Rate       Rate   // of the server
	OriginUsec uint64 // what the server's clock reads at game time zero, microseconds
	Tick       Tick   // now on the server, at most 73 years (2^61 ns) from tick 0
	Heard      bool   // the server has had this client's Hello
	Paused     bool   // the server's game time stands still: OriginUsec is that of now, and moves

	// Debt is how many ticks the server is behind: the due ticks less those of its usual frame, by
	// the last 16 frames. It is at most 65,535, and 0 while the server keeps up.
	Debt Tick

	// inputs says when those of this client came, where the server was told by AcceptInput.
	inputs arrivals
}

// Hello is what a client tells the server once it is synchronized. docs/WIRE.md has its bytes.
type Hello struct {
	Epoch uint64 // of the Welcome that it answers
	Rate  Rate   // of the client
}

// The messages in bytes. All is little-endian, and the first byte says which it is:
//
//	Hello    3  Epoch 8  Num 4  Den 4
//	Welcome  4  Epoch 8  Num 4  Den 4  OriginUsec 8  Tick 8
//	         Flags 1 (1: Heard, 2: Paused, 4: Inputs)  Debt 2
//	Inputs   Newest 8  N 1  and N times 2: by how many units of 0.1 ms the input for tick Newest,
//	         Newest-1, ... came early, negative for late, or -32768 if none has come
//
// Inputs follow a Welcome where the server was told of some. Each version of the format has two
// kinds: 1 and 2 were those of the first, which had no Debt. 5 to 16 are kept for those to come.
const (
	helloSize   = 1 + 8 + 4 + 4
	welcomeSize = helloSize + 8 + 8 + 1 + 2
	flagsAt     = helloSize + 8 + 8
	kindHello   = 3
	kindWelcome = 4
	kindMost    = 16 // of all versions
	flagHeard   = 1
	flagPaused  = 2
	flagInputs  = 4
)

// refusal returns why b is not a message of a kind: because of its version, if its first byte
// says so.
func refusal(b []byte) error {
	if len(b) > 0 && 0 < b[0] && b[0] <= kindMost && b[0] != kindHello && b[0] != kindWelcome {
		return ErrVersion
	}
	return ErrMessage
}

func appendHead(b []byte, kind byte, epoch uint64, r Rate) []byte {
	r = r.orDefault()
	b = binary.LittleEndian.AppendUint64(append(b, kind), epoch)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, r.Num), r.Den)
}

// readHead reads what appendHead has written, and checks nothing. The caller does: b is a message
// if the result is written in the same bytes.
func readHead(b []byte) (epoch uint64, r Rate) {
	r = Rate{binary.LittleEndian.Uint32(b[9:]), binary.LittleEndian.Uint32(b[13:])}
	return binary.LittleEndian.Uint64(b[1:]), r
}

// AppendBinary appends the 17 bytes of the message. The error is always nil.
func (h Hello) AppendBinary(b []byte) ([]byte, error) {
	return appendHead(b, kindHello, h.Epoch, h.Rate), nil
}

// UnmarshalBinary reads a message of exactly 17 bytes. If it returns an error it leaves h alone:
// ErrVersion for a message of another version, ErrMessage if b is none or its rate cannot be
// used.
func (h *Hello) UnmarshalBinary(b []byte) error {
	if len(b) != helloSize {
		return refusal(b)
	}
	epoch, r := readHead(b)
	if !bytes.Equal(appendHead(nil, kindHello, epoch, r), b) {
		return refusal(b)
	}
	*h = Hello{epoch, r}
	return nil
}

// AppendBinary appends the message: 36 bytes and, if the server was told of inputs, up to 137
// more. The error is always nil.
func (w Welcome) AppendBinary(b []byte) ([]byte, error) {
	b = appendHead(b, kindWelcome, w.Epoch, w.Rate)
	b = binary.LittleEndian.AppendUint64(b, w.OriginUsec)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Tick))
	b = append(b,
		flag(w.Heard, flagHeard)|flag(w.Paused, flagPaused)|flag(w.inputs.ticks > 0, flagInputs))
	b = binary.LittleEndian.AppendUint16(b, uint16(min(max(w.Debt, 0), math.MaxUint16)))
	return w.inputs.append(b), nil
}

func flag(set bool, f byte) byte {
	if set {
		return f
	}
	return 0
}

// UnmarshalBinary reads a message, which must be all of b: 36 to 173 bytes. If it returns an
// error it leaves w alone: ErrVersion for a message of another version, ErrMessage if b is none,
// its epoch is 0 or 2^63 or more, its rate cannot be used or its tick is too far from tick 0.
func (w *Welcome) UnmarshalBinary(b []byte) error {
	if len(b) < welcomeSize {
		return refusal(b)
	}
	epoch, r := readHead(b)
	flags := b[flagsAt]
	v := Welcome{
		Epoch:      epoch,
		Rate:       r,
		OriginUsec: binary.LittleEndian.Uint64(b[helloSize:]),
		Tick:       Tick(binary.LittleEndian.Uint64(b[helloSize+8:])),
		Heard:      flags&flagHeard != 0,
		Paused:     flags&flagPaused != 0,
		Debt:       Tick(binary.LittleEndian.Uint16(b[flagsAt+1:])),
	}
	v.inputs.read(b[welcomeSize:])
	if again, _ := v.AppendBinary(nil); !v.plausible() || !bytes.Equal(again, b) {
		return refusal(b)
	}
	*w = v
	return nil
}

func (w Welcome) plausible() bool {
	return w.Rate.valid() && 0 < w.Epoch && w.Epoch <= math.MaxInt64 &&
		w.Rate.Duration(w.Tick).Abs() <= maxStart
}

// before reports whether w is of an earlier epoch than o or was sent before it. In a pause the
// tick stays, and the origin tells.
func (w Welcome) before(o Welcome) bool {
	return w.Epoch < o.Epoch || w.Epoch == o.Epoch && int64(w.serverUsec()-o.serverUsec()) < 0
}

// serverUsec returns what the server's clock read at the start of the tick.
func (w Welcome) serverUsec() uint64 {
	return w.OriginUsec + uint64(wholeUsec(w.Rate.Duration(w.Tick)))
}
