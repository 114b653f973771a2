// These tests prove that the program of the documents is one: two ends hear each other, say when
// the other is gone or busy, and go on after the one that calls has restarted. What is heard
// stays in step for hours, whatever the sound card. A clock that is set does not look like a
// lost connection.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/clock/rxtime"
	"timesync/examples/seal"
	"timesync/internal/testkit"
)

// frames numbers what all microphones of this test hear, and captured has when that was. All
// samples of a frame are its number, so that it is known however many samples are made of it. 0
// is silence.
var (
	frames   atomic.Uint32
	captured [1 << 15]atomic.Uint64
)

// voice is a sound card: a microphone that hears a frame each 20 ms, and a loudspeaker.
type voice struct {
	t      *testing.T
	chat   *chat
	heard  atomic.Int64 // frames that were played
	latest uint64       // when the last of them was captured; of the goroutine that plays
	next   time.Time
	ends   time.Time // when all that was written has been played
	closed atomic.Bool
}

func (v *voice) Read(b []byte) (int, error) {
	v.next = v.next.Add(frame)
	time.Sleep(time.Until(v.next))
	if v.closed.Load() {
		return 0, io.EOF
	}
	number := max(frames.Add(1)%uint32(len(captured)), 1)
	captured[number].Store(clock.At(v.next) - uint64(frame.Microseconds()))
	for i := 0; i < len(b); i += 2 {
		binary.LittleEndian.PutUint16(b[i:], uint16(number))
	}
	return len(b), nil
}

func (v *voice) Write(sound []byte) (int, error) {
	if v.closed.Load() {
		return 0, io.EOF
	}
	v.ends = later(v.ends, time.Now())
	heard := clock.At(v.ends)
	v.ends = v.ends.Add(time.Duration(len(sound)/2) * time.Second / rate)
	number := binary.LittleEndian.Uint16(sound)
	if number == 0 {
		return len(sound), nil
	}
	captured := captured[number].Load()
	took := time.Duration(int64(heard-captured))*time.Microsecond + played
	over := took - v.chat.buffer.Latency()
	const late = 2*frame + time.Second // the machine may be busy
	if int64(captured-v.latest) <= 0 || over < -frame || over > late {
		v.t.Errorf("captured at %d, after %d, heard %v too late", captured, v.latest, over)
	}
	v.latest = captured
	v.heard.Add(1)
	return len(sound), nil
}

func (v *voice) queued() int { return int(max(time.Until(v.ends), 0) * rate / time.Second) }

// begin starts an end, and returns what ends it and all that it started.
func begin(t *testing.T, to netip.AddrPort) (v *voice, end func()) {
	c, err := newChat([32]byte{7}, netip.MustParseAddrPort("127.0.0.1:0"), to, played)
	if err != nil {
		t.Skip("NOT TESTED: no sockets: ", err) // js/wasm
	}
	v = &voice{t: t, chat: c, next: time.Now()}
	var running sync.WaitGroup
	running.Go(func() { c.end.Serve(rxtime.NewConn(c.udp), c.udp, hold, c.take) })
	running.Go(func() { _ = c.speak(v) })
	running.Go(func() { _ = c.play(v) })
	return v, func() {
		if !v.closed.Swap(true) {
			c.Close()
			running.Wait()
		}
	}
}

func TestChat(t *testing.T) {
	called, end := begin(t, netip.AddrPort{})
	defer end()
	if s := called.chat.state(); s != "nobody is there" {
		t.Errorf("at first: %s", s)
	}
	at := called.chat.udp.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	for life := range 2 {
		was := called.heard.Load()
		caller, end := begin(t, at)
		defer end()
		testkit.Eventually(t, "both hear 50 frames", func() bool {
			return called.heard.Load() >= was+50 && caller.heard.Load() >= 50
		})
		const connected = "connected, playing"
		testkit.Eventually(t, connected, func() bool {
			return called.chat.state() == connected && caller.chat.state() == connected
		})
		if life == 0 {
			second, end := begin(t, at)
			defer end()
			const busy = "busy: it talks to another"
			testkit.Eventually(t, "one of two callers is refused", func() bool {
				return second.chat.state() == busy || caller.chat.state() == busy
			})
			end()
		}
		end()
		if life == 1 {
			testkit.Eventually(t, "gone", func() bool {
				return called.chat.state() == "the peer is gone"
			})
		}
	}
	t.Logf("%+v", called.chat.buffer.Stats())
}

// loudspeaker is a sound card behind a pipe that takes all. It plays slower than the clock.
type loudspeaker struct {
	t      *testing.T
	chat   *chat
	length time.Duration // of a sample
	ends   time.Time     // when all that was written has been played
	since  time.Time
	worst  time.Duration // from the 10th second on
	frames int
}

func (l *loudspeaker) Write(sound []byte) (int, error) {
	l.ends = later(l.ends, time.Now())
	heard := l.ends
	l.ends = l.ends.Add(time.Duration(len(sound)/2) * l.length)
	number := binary.LittleEndian.Uint16(sound)
	if number == 0 {
		return len(sound), nil
	}
	l.frames++
	off := heard.Sub(clock.Time(captured[number].Load())) - l.chat.buffer.Latency()
	if time.Since(l.since) > 10*time.Second {
		l.worst = max(l.worst, off.Abs())
	}
	return len(sound), nil
}

func (l *loudspeaker) queued() int { return int(max(time.Until(l.ends), 0) / l.length) }

// TestSlowCard: with a sound card that is 30 or 300 ppm slow, sound is heard within the latency
// and 5 ms, for an hour. It was 108 ms later after one, and had to wait before the card.
func TestSlowCard(t *testing.T) {
	lasting := testkit.Sized(time.Minute, 10*time.Minute, time.Hour)
	for _, ppm := range []float64{30, 300} {
		synctest.Test(t, func(t *testing.T) {
			c, err := newChat([32]byte{7}, netip.AddrPort{}, netip.AddrPort{}, 0)
			if err != nil {
				t.Skip("NOT TESTED: no sockets: ", err) // js/wasm
			}
			out := &loudspeaker{t: t, chat: c, since: time.Now()}
			out.length = time.Duration(float64(time.Second) / rate * (1 + ppm/1e6))
			go func() {
				for i := range int(lasting / frame) { // frames, each of which needs 30 ms
					time.Sleep(frame)
					number := i%(1<<15-1) + 1
					now := clock.Now()
					captured[number].Store(now - 30_000)
					sound := make([]byte, frameLen)
					for k := 0; k < len(sound); k += 2 {
						binary.LittleEndian.PutUint16(sound[k:], uint16(number))
					}
					_ = c.buffer.Push(now-30_000, now, sound)
				}
				c.Close()
			}()
			if err := c.play(out); err != nil {
				t.Error(err)
			}
			t.Logf("%v ppm, %v: off by %v at most; %+v %+v",
				ppm, lasting, out.worst, c.buffer.Stats(), c.card.Stats())
			if out.worst > 5*time.Millisecond || out.frames < int(lasting/frame)-10 {
				t.Errorf("%v ppm: off by %v, %d frames", ppm, out.worst, out.frames)
			}
		})
	}
}

// TestPipe: what waits in a pipe is known, and what is no pipe plays as fast as the clock.
func TestPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Skip("NOT TESTED: no pipe: ", err) // js/wasm
	}
	defer reader.Close()
	defer writer.Close()
	p := &pipe{file: writer}
	testkit.Must(t, write(p, frameLen))
	if n := p.queued(); runtime.GOOS == "linux" && n != frameLen/2 {
		t.Errorf("%d samples wait, want %d", n, frameLen/2)
	}
	_, err = io.ReadFull(reader, make([]byte, frameLen))
	testkit.Must(t, err)
	if n := p.queued(); runtime.GOOS == "linux" && n != 0 {
		t.Errorf("%d samples wait", n)
	}
	file, err := os.CreateTemp(t.TempDir(), "sound")
	testkit.Must(t, err)
	defer file.Close()
	p = &pipe{file: file}
	testkit.Must(t, write(p, 60*2*rate))
	if n := p.queued(); n < rate || n > 60*rate { // a busy machine may take its time
		t.Errorf("%d samples wait of a minute", n)
	}
}

func write(p *pipe, bytes int) error {
	_, err := p.Write(make([]byte, bytes))
	return err
}

// TestStretch: a frame keeps its first and last sample, and is a straight line if it was one.
func TestStretch(t *testing.T) {
	line := make([]byte, 0, frameLen)
	for i := range frameLen / 2 {
		line = binary.LittleEndian.AppendUint16(line, uint16(int16(100*i-16_000)))
	}
	for _, samples := range []int{1, 2, 313, 319, 320, 321, 327} {
		got := stretch(line, samples)
		if len(got) != 2*samples {
			t.Errorf("%d samples, want %d", len(got)/2, samples)
		}
		for i := range samples {
			want := 100*319*float64(i)/float64(max(samples-1, 1)) - 16_000
			if off := float64(sample(got, i)) - want; off < -1 || off > 1 {
				t.Errorf("of %d samples %d is %d, want %v", samples, i, sample(got, i), want)
			}
		}
	}
	if got := stretch(nil, 3); !bytes.Equal(got, make([]byte, 6)) {
		t.Errorf("silence is %v", got)
	}
}

func TestClockSet(t *testing.T) {
	ends := [2]*seal.End{seal.New([32]byte{7}, 0), seal.New([32]byte{7}, 1)}
	from := netip.MustParseAddrPort("192.0.2.1:1")
	now := clock.Now()
	for ago := uint64(10_000_000); ago > 0; ago -= 20_000 { // us, in no time
		at := [2]uint64{now - ago, now - ago}
		if ago <= 4_000_000 {
			at[0] += 5_000_000 // the caller's clock
		}
		for side, end := range ends {
			_, answer, _ := ends[1-side].Take(end.Seal(nil, nil, at[side]-10_000), from, at[1-side], hold)
			if answer != nil {
				end.Take(answer, from, at[side], hold)
			}
		}
	}
	own := netip.MustParseAddrPort("127.0.0.1:0")
	c, err := newChat([32]byte{7}, own, netip.AddrPort{}, played)
	if err != nil {
		t.Skip("NOT TESTED: no sockets: ", err) // js/wasm
	}
	defer c.Close()
	c.end = ends[1]
	s, _ := c.end.Link.Snapshot(now)
	err = s.Within(100 * time.Millisecond)
	state := c.state()
	if !errors.Is(err, timesync.ErrStepped) || !strings.HasPrefix(state, "connected, ") {
		t.Errorf("%v: %v, and the chat says %s", s, err, state)
	}
}
