// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a file arrives whole or not at all, whatever the network, the disk
// and the other end do, and that nothing that was acknowledged is sent again.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/examples/internal/exampletest"
	"timesync/examples/transfer/ledbat"
)

const hexKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// room is a sender and a receiver in virtual time, with a link of 10 Mbit/s between them that loses
// and swaps.
type room struct {
	s           *sender
	r           *receiver
	rng         *rand.Rand
	now         uint64 // us
	loss        float64
	data        int       // datagrams with data that were sent
	free, way   uint64    // us: when the link has sent all that waits; how long each way is
	stops       uint64    // us: until when the sender stands still
	forth, back []passing // what is under way
	err         error     // of the sender
	cut         int       // no more datagrams arrive after so many with data; 0: never
}

// passing is a datagram under way.
type passing struct {
	at, sent uint64 // us
	message  []byte
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func offerOf(file []byte) offer {
	return offer{content{uint64(len(file)), sha256.Sum256(file)}, "file"}
}

func newRoom(folder string, file []byte, seed uint64) *room {
	return &room{
		s: newSender(offerOf(file), bytes.NewReader(file), 0), way: 5000,
		r: &receiver{folder: folder}, rng: rand.New(rand.NewPCG(seed, 0)),
	}
}

// run goes on for so many virtual seconds, or until the sender is done or fails. It returns which part of the
// link was used.
func (x *room) run(seconds int) (used float64) {
	for end := x.now + uint64(seconds)*1e6; x.now < end && x.err == nil && !x.s.over; x.now += 500 {
		if x.now >= x.stops {
			used += x.send() / float64(seconds)
		}
		for ; len(x.forth) > 0 && x.forth[0].at <= x.now; x.forth = x.forth[1:] {
			d := x.forth[0]
			if x.rng.Float64() < x.loss || x.cut > 0 && x.data > x.cut {
				continue
			}
			delay := ledbat.NewDelay(time.Duration(d.at-d.sent)*time.Microsecond, 0, true)
			if answer := x.r.take(d.message, delay, x.now); answer != nil && x.rng.Float64() >= x.loss {
				x.back = append(x.back, passing{x.now + x.way, x.now, answer})
			}
		}
		// It runs in a goroutine; virtual time waits for it.
		for x.r.checked != nil && !x.r.over && x.r.failed == nil {
			time.Sleep(time.Millisecond)
			x.r.check()
		}
	}
	return used
}

// send takes what has come to the sender, and sends what may be sent. It returns for how many seconds that keeps
// the link busy.
func (x *room) send() (busy float64) {
	for ; len(x.back) > 0 && x.back[0].at <= x.now && x.err == nil; x.back = x.back[1:] {
		x.err = x.s.take(x.back[0].message, x.now)
	}
	for x.err == nil {
		message, _, err := x.s.poll(x.now)
		if x.err = err; message == nil {
			break
		}
		if message[0] == kindData {
			x.data++
		}
		takes := uint64(len(message)+60) * 8 / 10
		x.free = max(x.free, x.now) + takes
		busy += float64(takes) / 1e6
		x.forth = append(x.forth, passing{x.free + x.way, x.now, message})
		if n := len(x.forth); n > 1 && x.loss > 0 && x.rng.IntN(4) == 0 {
			a, b := &x.forth[n-1], &x.forth[n-2]
			a.message, b.message = b.message, a.message
		}
	}
	return busy
}

// arrives lets it run to its end: the file has arrived, and nothing else.
func (x *room) arrives(t *testing.T, file []byte) {
	t.Helper()
	x.run(3600)
	got, err := os.ReadFile(filepath.Join(x.r.folder, "file"))
	entries, _ := os.ReadDir(x.r.folder)
	if x.err != nil || err != nil || !bytes.Equal(got, file) || len(entries) != 1 {
		t.Errorf("%d bytes, %v lost: %v, %v, %d bytes, %d files", len(file), x.loss, x.err, err, len(got), len(entries))
	}
}

// TestLosses: the file arrives, however many datagrams are lost either way, and soon if they are few.
func TestLosses(t *testing.T) {
	for _, size := range []int{0, 1, chunkLen, chunkLen + 1, 2_000_000} {
		for _, loss := range []float64{0, 0.02, 0.3} {
			file := random(size)
			x := newRoom(t.TempDir(), file, uint64(size))
			x.loss = loss
			if x.arrives(t, file); loss < 0.1 && x.now > 8e6 {
				t.Errorf("%d bytes, %v lost: they take %d us", size, loss, x.now)
			}
		}
	}
}

// stream is a room with a file that lasts, 20 s after its start, on a path of 20 ms.
func stream(t *testing.T) *room {
	x := newRoom(t.TempDir(), nil, 1)
	x.s, x.way = newSender(offer{content{Size: 1e9}, ""}, nil, 0), 10_000
	x.run(20)
	return x
}

// TestFarPath: where the round trip becomes longer than the sender waits for an acknowledgement, it is measured all the
// same, and the file goes on.
func TestFarPath(t *testing.T) {
	for _, roundTrip := range []uint64{150_000, 350_000, 450_000, 600_000} { // us
		x := stream(t)
		x.way = roundTrip / 2
		if used := x.run(120); used < 0.4 || x.err != nil {
			t.Errorf("round trip %d ms: %.3f of the link, %v", roundTrip/1000, used, x.err)
		}
	}
}

// TestStop: a sender that stood still does not take its stop for a round trip.
func TestStop(t *testing.T) {
	x := stream(t)
	x.stops = x.now + 30e6
	x.run(32)
	for second := 2; second < 90; second++ {
		if used := x.run(1); used < 0.8 || x.err != nil {
			t.Errorf("%.2f of the link %d s after the stop, %v", used, second, x.err)
		}
	}
}

// TestRestarts: one end or both die and start again. What was written is not sent again, the file is
// not there before it is whole, and what is left of another file of that name is not mixed in.
func TestRestarts(t *testing.T) {
	file := random(400_000)
	for _, c := range []struct {
		who     string
		seconds int // until they start again
		next    []byte
	}{
		{"both", 60, file},
		{"the receiver", 2, file},
		{"both, for another file", 60, bytes.Repeat([]byte("other"), 60_000)},
	} {
		x := newRoom(t.TempDir(), file, 1)
		x.loss, x.cut = 0.02, 200
		x.run(c.seconds)
		if alone := c.who == "the receiver"; errors.Is(x.err, errVanished) == alone {
			t.Fatalf("%s: a receiver that is cut off: %v", c.who, x.err)
		}
		acked := x.s.offer.chunks() - x.s.left
		if _, err := os.Stat(filepath.Join(x.r.folder, "file")); err == nil || acked < 100 {
			t.Fatalf("%s: %v, %d acknowledged", c.who, err, acked)
		}
		there := len(x.r.store.had) - x.r.store.left
		if len(c.next) != len(file) {
			there = 0
		}
		x.r.store.close()
		y := newRoom(x.r.folder, c.next, 2)
		if c.who == "the receiver" {
			y.s, y.now = x.s, x.now
		}
		y.arrives(t, c.next)
		if want := y.s.offer.chunks() - there; y.data != want {
			t.Errorf("%s: %d chunks sent after, want %d", c.who, y.data, want)
		}
	}
}

// TestStoreFails: a store on a disk that fails says so, keeps what it acknowledged, and goes on.
func TestStoreFails(t *testing.T) {
	for _, which := range []string{"part", "have"} {
		file := random(20 * chunkLen)
		x := newRoom(t.TempDir(), file, 1)
		x.r.take(x.s.offer.message(), 0, 0)
		// The copy changes nothing.
		for _, i := range []uint32{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9} {
			x.r.take(message(kindData, data{i, i}, file[i*chunkLen:(i+1)*chunkLen]), 0, 0)
		}
		map[string]*os.File{"part": x.r.store.part, "have": x.r.store.have}[which].Close()
		last := x.r.take(message(kindData, data{10, 10}, file[10*chunkLen:11*chunkLen]), 0, 0)
		says := last[0] == kindOver && strings.Contains(string(last), "10 of 20 chunks are kept")
		if !errors.Is(x.r.failed, os.ErrClosed) || !says {
			t.Errorf("%s: %v, %q", which, x.r.failed, last)
		}
		x.r.store.close()
		x = newRoom(x.r.folder, file, 1)
		if x.arrives(t, file); x.data != 10 {
			t.Errorf("%s: %d chunks sent", which, x.data)
		}
	}
}

// TestFileChanges: a file that becomes shorter ends the sender; one that changes fails the
// checksum and leaves nothing behind.
func TestFileChanges(t *testing.T) {
	file := random(100_000)
	changed := bytes.Clone(file)
	changed[99_999]++
	for _, c := range []struct {
		source []byte
		want   string
		files  int
	}{{file[:50_000], "became shorter", 2}, {changed, "checksum", 0}} {
		x := newRoom(t.TempDir(), file, 1)
		x.s.source = bytes.NewReader(c.source)
		x.run(60)
		entries, _ := os.ReadDir(x.r.folder)
		if x.err == nil || !strings.Contains(x.err.Error(), c.want) || len(entries) != c.files {
			t.Errorf("%v, want %q; %d files are left", x.err, c.want, len(entries))
		}
		x.r.store.close()
	}
}

// TestLyingReceiver: acknowledgements of what was never sent end the transfer.
func TestLyingReceiver(t *testing.T) {
	for _, far := range []uint32{0, 1000} { // how far in the future
		x := newRoom(t.TempDir(), random(2_000_000), 1)
		x.s.take(x.s.pieces.message(), 0)
		for number := far; x.now < 60e6 && x.err == nil; x.now += 1000 {
			x.send()
			// It acknowledges whether it came or not.
			if far > 0 || int(number-x.s.oldest) < len(x.s.window) {
				x.err = x.s.take(message(kindAck, ack{Number: number}, ""), x.now)
				number++
			}
		}
		if !errors.Is(x.err, errNeverSent) {
			t.Errorf("a receiver that acknowledges every number from %d: %v", far, x.err)
		}
	}
}

// TestNames: a sender cannot write outside of the folder, nor over a file.
func TestNames(t *testing.T) {
	folder := t.TempDir()
	os.WriteFile(filepath.Join(folder, "there"), nil, 0o666)
	for _, name := range []string{"../x", "/etc/x", ".", "..", ".hidden", "a/b", `a\b`, "c:x", "x\x00", strings.Repeat("x", 201), "there"} {
		if s, err := openStore(folder, offer{name: name}); err == nil {
			t.Errorf("%q becomes %s", name, s.path)
		}
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 1 {
		t.Errorf("%d files", len(entries))
	}
}

// TestHave: what the receiver has survives the message, holes and all.
func TestHave(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		want := newPieces(rng.IntN(200))
		for i := range want.had {
			if rng.IntN(10) > 0 {
				want.add(i)
			}
		}
		got, err := readHave(want.message()[1:], len(want.had))
		if err != nil || !slices.Equal(got.had, want.had) || got.left != want.left {
			t.Fatalf("%v becomes %v, %v", want, got, err)
		}
	}
}

// TestAbsurd: numbers beyond all chunks are refused, also where an int has 32 bits.
func TestAbsurd(t *testing.T) {
	x := newRoom(t.TempDir(), random(5000), 1)
	x.r.take(x.s.offer.message(), 0, 0)
	for _, chunk := range []uint32{5, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		if err := x.r.store.write(chunk, make([]byte, chunkLen)); !errors.Is(err, errMalformed) {
			t.Errorf("chunk %d of 5: %v", chunk, err)
		}
		have := message(kindHave, chunk+1, []byte{255})
		if _, err := readHave(have[1:], 5); chunk != 1<<32-1 && !errors.Is(err, errMalformed) {
			t.Errorf("all before chunk %d of 5: %v", chunk, err)
		}
	}
	huge := offer{content{Size: maxSize + 1}, "x"}
	if _, err := readOffer(huge.message()[1:]); !errors.Is(err, errMalformed) {
		t.Errorf("%d bytes: %v", huge.Size, err)
	}
	x.r.store.close()
}

// FuzzMessages: no message of a peer that has the key makes an end panic.
func FuzzMessages(f *testing.F) {
	o := offer{content{Size: 5000}, ""}
	some := newPieces(50)
	f.Add(o.message(), message(kindData, data{1, 2}, make([]byte, 10)), message(kindAck, ack{1, [3]byte{2}, 3}, ""))
	f.Add(some.message(), over("text"), []byte{kindHave, 1, 0, 0, 0, 7})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		if len(a) > 9 && a[0] == kindOffer {
			copy(a[4:9], make([]byte, 5)) // up to 16 MB
		}
		s := newSender(o, bytes.NewReader(make([]byte, 5000)), 0)
		r := &receiver{folder: "/nowhere/at/all"}
		for _, message := range [][]byte{a, b, c, a, b, c} {
			for range 3 {
				s.poll(0)
			}
			s.take(message, 0)
			r.take(message, 0, 0)
		}
		if s.left < 0 || r.store != nil && r.store.left < 0 {
			t.Fatalf("%d, %+v", s.left, r.store)
		}
	})
}

// TestLoopback: the program sends a file to itself over real sockets.
func TestLoopback(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	file := random(3_000_000)
	path := filepath.Join(from, "file")
	exampletest.Must(t, os.WriteFile(path, file, 0o666))
	exampletest.Together(t, run, func(at []string) []string {
		return []string{
			"-listen " + at[0] + " -key " + hexKey + " -in " + to,
			"-dial " + at[0] + " -key " + hexKey + " " + path,
		}
	})
	if got, err := os.ReadFile(filepath.Join(to, "file")); !bytes.Equal(got, file) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}

func TestFlags(t *testing.T) {
	exampletest.Flags(t, "transfer", run, map[string]string{
		"":                                    "-listen or -dial",
		"-listen :0 -dial :1":                 "-listen or -dial",
		"-listen :0 -key " + hexKey + " file": `unexpected argument "file"`,
		"-dial 127.0.0.1:1 -key " + hexKey:    "needs one file",
		"-dial 127.0.0.1:1 -mb 1 -key " + hexKey + " file": "needs one file",
		"-dial 127.0.0.1:1 -mb -1 -key " + hexKey:          "needs one file",
		"-dial 127.0.0.1:1 -cc reno -mb 1 -key " + hexKey:  "ledbat or none",
		"-listen :0 -key abc":                              "64 hex digits",
	})
	for _, c := range []struct{ args, want string }{
		{"-dial 127.0.0.1:1 -key " + hexKey + " /no/such/file", "no such file"},
		{"-dial 127.0.0.1:1 -key " + hexKey + " /", "no regular file"},
		{"-dial :0 -mb 1 -key " + hexKey, "needs a host and a port"},
	} {
		var stdout, stderr exampletest.Output
		code := run(context.Background(), strings.Fields(c.args), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit status %d, %s", c.args, code, stderr.String())
		}
	}
}
