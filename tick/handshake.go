package tick

import (
	"encoding/binary"
	"errors"
)

// Errors of the handshake.
var (
	// ErrMessage says that bytes are not the message that they should be.
	ErrMessage = errors.New("tick: malformed message")
	// ErrEpoch says that a message is of an earlier epoch, or overtaken by a later
	// one of the same epoch. It was ignored.
	ErrEpoch = errors.New("tick: message of an old epoch")
	// ErrRole says that a Welcome came to a server or a Hello to a client.
	ErrRole = errors.New("tick: message for the other side")
	// ErrRate says that the peer is to be disconnected, since its rate differs and
	// the server's OnMismatch is Disconnect.
	ErrRate = errors.New("tick: tick rate differs")
)

// Welcome is what a server tells a client: on approval, at every change (Resume) and
// now and then, as every second, since the offset of a TimeSynchronizer is known
// modulo 67.1 s and Tick decides which one it is.
type Welcome struct {
	Epoch      uint32 // of the server's game time
	Rate       Rate   // of the server
	OriginUsec uint64 // what the server's clock reads at game time zero, microseconds
	Tick       Tick   // now on the server: the approval tick
}

// Hello is what a client tells the server once it is synchronized. It may be sent
// again.
type Hello struct {
	Epoch uint32 // of the Welcome that it answers
	Rate  Rate   // of the client
}

// The sizes of the messages in bytes. All is little-endian, and the first byte says
// which it is:
//
//	Hello    1  Epoch 4  Num 4  Den 4
//	Welcome  2  Epoch 4  Num 4  Den 4  OriginUsec 8  Tick 8
const (
	HelloSize   = 1 + 4 + 4 + 4
	WelcomeSize = HelloSize + 8 + 8
)

const (
	kindHello   = 1
	kindWelcome = 2
)

func appendHead(b []byte, kind byte, epoch uint32, r Rate) []byte {
	r = r.orDefault()
	b = binary.LittleEndian.AppendUint32(append(b, kind), epoch)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, r.Num), r.Den)
}

func readHead(b []byte, kind byte, size int) (epoch uint32, r Rate, err error) {
	if len(b) != size || b[0] != kind {
		return 0, Rate{}, ErrMessage
	}
	r = Rate{binary.LittleEndian.Uint32(b[5:]), binary.LittleEndian.Uint32(b[9:])}
	if r == (Rate{}) || !r.Valid() {
		return 0, Rate{}, ErrMessage
	}
	return binary.LittleEndian.Uint32(b[1:]), r, nil
}

// AppendBinary appends the HelloSize bytes of the message. The error is always nil.
func (h Hello) AppendBinary(b []byte) ([]byte, error) {
	return appendHead(b, kindHello, h.Epoch, h.Rate), nil
}

// UnmarshalBinary reads a message. It returns ErrMessage, and leaves h alone, if b is
// none or its rate is not Valid.
func (h *Hello) UnmarshalBinary(b []byte) error {
	epoch, r, err := readHead(b, kindHello, HelloSize)
	if err == nil {
		*h = Hello{epoch, r}
	}
	return err
}

// AppendBinary appends the WelcomeSize bytes of the message. The error is always nil.
func (w Welcome) AppendBinary(b []byte) ([]byte, error) {
	b = appendHead(b, kindWelcome, w.Epoch, w.Rate)
	b = binary.LittleEndian.AppendUint64(b, w.OriginUsec)
	return binary.LittleEndian.AppendUint64(b, uint64(w.Tick)), nil
}

// UnmarshalBinary reads a message. It returns ErrMessage, and leaves w alone, if b is
// none, its rate is not Valid or its tick more than 73 years (2^61 ns) from tick 0.
func (w *Welcome) UnmarshalBinary(b []byte) error {
	epoch, r, err := readHead(b, kindWelcome, WelcomeSize)
	if err != nil {
		return err
	}
	v := Welcome{epoch, r, binary.LittleEndian.Uint64(b[13:]), Tick(binary.LittleEndian.Uint64(b[21:]))}
	if !v.plausible() {
		return ErrMessage
	}
	*w = v
	return nil
}

// maxStart bounds the game time of a Welcome and what a loop believes of a remote
// clock: with it, sums of two cannot overflow.
const maxStart = 1 << 61

func (w Welcome) plausible() bool {
	d := w.Rate.Duration(w.Tick)
	return -maxStart <= d && d <= maxStart
}

// Action is what to do when the tick rates of a client and its server differ
// (Tickrate Mismatch Action). Whatever it is, RateMismatch is reported.
type Action uint8

const (
	Warn       Action = iota // log a warning and go on
	Disconnect               // the server refuses the client: OnHello returns ErrRate
	Adjust                   // the client takes the rate of the server
	Signal                   // only report
)

// Announce returns the Welcome to send now. ok is false on a client and on a server
// that is not started. It may be called from any goroutine.
func (l *Loop) Announce(nowUsec uint64) (w Welcome, ok bool) {
	s := l.snap.Load()
	if s == nil || l.remote != nil {
		return Welcome{}, false
	}
	t := s.read(predicted, nowUsec)
	usec, _ := floorDiv(int64(t), 1000)
	return Welcome{s.epoch, s.rate, nowUsec - uint64(usec), s.rate.Ticks(t)}, true
}

// OnWelcome takes the server's Welcome, which arrived at nowUsec. It must come from
// the server for certain (authenticated): it sets the game's time. The first one lets
// a client start; one of a later epoch (in serial arithmetic: after, in the half ring)
// makes it start again, unpaused, when the remote clock is that of the new server: call Reset
// on it before. Errors: ErrEpoch, ErrRole, ErrMessage. Any goroutine may call it.
func (l *Loop) OnWelcome(w Welcome, nowUsec uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch later := int32(w.Epoch - l.welcome.Epoch); {
	case l.remote == nil:
		return ErrRole
	case !w.Rate.Valid() || !w.plausible():
		return ErrMessage
	case l.welcomed && (later < 0 || later == 0 && w.Tick < l.welcome.Tick):
		l.oldEpoch.Add(1)
		return ErrEpoch
	case l.welcomed && later > 0:
		l.report(Event{Kind: EpochChanged, Epoch: w.Epoch})
		l.inited, l.now.paused = false, false
		l.unsync()
		l.snap.Store(nil)
	}
	known := l.welcomed && w.Epoch == l.welcome.Epoch && w.Rate.Equal(l.welcome.Rate)
	l.welcome, l.welcomed = w, true
	usec, _ := floorDiv(int64(w.Rate.Duration(w.Tick)), 1000)
	l.near, l.nearAt = w.OriginUsec+uint64(usec), nowUsec
	l.now.epoch = w.Epoch
	if !known && !w.Rate.Equal(l.now.rate) {
		l.report(Event{Kind: RateMismatch, Rate: w.Rate})
		if l.cfg.OnMismatch == Adjust {
			l.setRate(w.Rate)
		}
	}
	return nil
}

// Hello returns the message to send to the server when Synced was reported.
func (l *Loop) Hello() Hello {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Hello{l.now.epoch, l.now.rate}
}

// OnHello takes the Hello of a client. The first one of a peer is reported as
// ClientSynced (after_client_sync), unless the error is ErrRate, after which the
// caller should disconnect the peer. Other errors: ErrEpoch, ErrRole, ErrMessage. Any
// goroutine may call it.
func (l *Loop) OnHello(peer uint64, h Hello) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.remote != nil:
		return ErrRole
	case !h.Rate.Valid():
		return ErrMessage
	case !l.started || h.Epoch != l.now.epoch:
		l.oldEpoch.Add(1)
		return ErrEpoch
	case l.peers[peer]:
		return nil
	}
	if !h.Rate.Equal(l.now.rate) {
		l.report(Event{Kind: RateMismatch, Peer: peer, Rate: h.Rate})
		if l.cfg.OnMismatch == Disconnect {
			return ErrRate
		}
	}
	l.peers[peer] = true
	l.report(Event{Kind: ClientSynced, Peer: peer})
	return nil
}

// Forget forgets a peer that has left, so that it is reported when it comes again.
func (l *Loop) Forget(peer uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.peers, peer)
}

// Accept reports whether a message of a peer about tick n of an epoch deserves
// attention: its epoch is the present one and n is at most Config.Past ticks before
// and Config.Future ticks after the shared clock. What it refuses is counted. Any
// goroutine may call it.
func (l *Loop) Accept(epoch uint32, n Tick, nowUsec uint64) bool {
	s := l.snap.Load()
	if s == nil || epoch != s.epoch {
		l.oldEpoch.Add(1)
		return false
	}
	now := s.rate.Ticks(s.read(shared, nowUsec))
	if n < now-orDefault(l.cfg.Past, defaultPast) || n > now+orDefault(l.cfg.Future, defaultFuture) {
		l.refused.Add(1)
		return false
	}
	return true
}

// setRate changes the rate: the time stays, the ticks are counted anew.
func (l *Loop) setRate(r Rate) {
	l.now.rate = r
	l.setNext(firstFrom(r.time(l.now.lines[predicted].base)))
	if l.inited {
		l.publish()
	}
}
