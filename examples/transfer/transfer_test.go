// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a file arrives whole or not at all, whatever the network, the disk
// and the other end do, and that nothing that was acknowledged is sent again.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

const hexKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func offerOf(file []byte) offer {
	return offer{uint64(len(file)), sha256.Sum256(file), "file"}
}

// files is a transfer of a file into a folder, on a world of its own.
func files(folder string, file []byte, seed uint64) *flow {
	return nets[0].world(seed).transfer(&flow{
		offer:  offerOf(file),
		source: bytes.NewReader(file),
		r:      &receiver{folder: folder},
	})
}

// run goes on for so many seconds of virtual time, or until the sender is done or fails.
func (f *flow) run(seconds int) {
	for range seconds {
		f.w.Run(f.w.Now() + time.Second)
		if f.err != nil {
			return
		}
	}
}

// arrives lets it run to its end: the file has arrived, and nothing else.
func (f *flow) arrives(t *testing.T, file []byte) {
	t.Helper()
	f.run(3600)
	got, err := os.ReadFile(filepath.Join(f.r.folder, "file"))
	entries, _ := os.ReadDir(f.r.folder)
	if f.err != io.EOF || err != nil || !bytes.Equal(got, file) || len(entries) != 1 {
		t.Errorf("%d bytes: %v, %v, %d bytes, %d files", len(file), f.err, err, len(got), len(entries))
	}
}

// TestLosses: the file arrives, however many datagrams are lost either way, and soon if they are
// few.
func TestLosses(t *testing.T) {
	for _, size := range []int{0, 1, chunkLen, chunkLen + 1, 2_000_000} {
		for _, loss := range []float64{0, 0.02, 0.3} {
			file := random(size)
			f := files(t.TempDir(), file, uint64(size))
			f.w.loses(loss)
			f.arrives(t, file)
			if loss < 0.1 && f.w.Now() > ready+8*time.Second {
				t.Errorf("%d bytes, %v lost: they take %v", size, loss, f.w.Now()-ready)
			}
		}
	}
}

// TestRestarts: one end or both die and start again. What was written is not sent again, the file
// is not there before it is whole, and what is left of another file of that name is not mixed in.
func TestRestarts(t *testing.T) {
	file := random(400_000)
	for _, c := range []struct {
		who     string
		seconds int // until they start again
		next    []byte
	}{
		{"both", 60, file},
		{"the receiver", 5, file},
		{"both, for another file", 60, bytes.Repeat([]byte("other"), 60_000)},
	} {
		f := files(t.TempDir(), file, 1)
		f.w.loses(0.1)
		f.cut = 200
		f.run(c.seconds)
		_, _, err := f.r.poll(f.usec(1))
		senderEnded := errors.Is(f.err, errVanished)
		receiverEnded := errors.Is(err, errVanished)
		want := c.who != "the receiver"
		if senderEnded != want || receiverEnded != want {
			t.Fatalf("%s: ends that are cut off: %v, %v", c.who, f.err, err)
		}
		acked := f.s.chunks() - f.s.left
		there := len(f.r.store.had) - f.r.store.left
		if _, err := os.Stat(filepath.Join(f.r.folder, "file")); err == nil || acked < 100 {
			t.Fatalf("%s: %v, %d acknowledged", c.who, err, acked)
		}
		if len(c.next) != len(file) {
			there = 0
		}
		f.r.store.close()
		if c.who == "the receiver" {
			f.r, f.cut, f.data = &receiver{folder: f.r.folder}, 0, 0
			f.w.loses(0)
		} else {
			f = files(f.r.folder, c.next, 2)
		}
		f.arrives(t, c.next)
		if want := f.s.chunks() - there; f.data != want {
			t.Errorf("%s: %d chunks sent after, want %d", c.who, f.data, want)
		}
	}
}

// TestFailures: a disk that fails ends both ends, and what was acknowledged is kept, as it is if
// the file becomes shorter. A file that changes fails the checksum and leaves nothing behind. Each
// time it goes on with what is there.
func TestFailures(t *testing.T) {
	file := random(100_000)
	changed := bytes.Clone(file)
	changed[99_999]++
	becomes := func(file []byte) func(*flow) error {
		return func(f *flow) error {
			f.s.source = bytes.NewReader(file)
			return nil
		}
	}
	partFails := func(f *flow) error { return f.r.store.part.Close() }
	haveFails := func(f *flow) error { return f.r.store.have.Close() }
	const closed = "file already closed; 11 of 90 chunks are kept"
	for _, c := range []struct {
		fails func(*flow) error
		want  string
		files int
	}{
		{partFails, closed, 2},
		{haveFails, closed, 2},
		{becomes(file[:50_000]), "became shorter", 2},
		{becomes(changed), "checksum", 0},
	} {
		f := files(t.TempDir(), file, 1)
		for f.r.store == nil || f.r.store.left > 79 {
			f.w.Run(f.w.Now() + time.Millisecond)
		}
		failed := c.fails(f)
		f.run(60)
		entries, _ := os.ReadDir(f.r.folder)
		if failed != nil || f.err == nil || !strings.Contains(f.err.Error(), c.want) {
			t.Errorf("%v, %v, want %q", failed, f.err, c.want)
		}
		if len(entries) != c.files {
			t.Errorf("%s: %d files are left, want %d", c.want, len(entries), c.files)
		}
		there := f.s.chunks() - f.r.store.left
		if c.files == 0 {
			there = 0
		}
		f.r.store.close()
		f = files(f.r.folder, file, 1)
		f.arrives(t, file)
		if f.data != f.s.chunks()-there {
			t.Errorf("%s: %d chunks sent after, %d were there", c.want, f.data, there)
		}
	}
}

// TestLyingReceiver: acknowledgements of what was never sent end the transfer.
func TestLyingReceiver(t *testing.T) {
	for _, far := range []uint32{1, 1000} { // from which number on
		s := newSender(offer{size: 2e6}, nil, 0)
		_, err := s.take(s.summary(), 0, 0)
		for number, now := far, uint64(0); now < 60e6 && err == nil; now += 1000 {
			for message := s.offer.message(); message != nil; { // until nothing more may be sent
				message, _, _ = s.poll(now)
			}
			// It acknowledges whether it came or not.
			if far > 1 || int(number-s.oldest) < len(s.window) {
				_, err = s.take(ackMessage(number, 0, 0), 0, now)
				number++
			}
		}
		if !errors.Is(err, errNeverSent) {
			t.Errorf("a receiver that acknowledges every number from %d: %v", far, err)
		}
	}
}

// TestNames: a sender cannot write outside of the folder, nor over a file.
func TestNames(t *testing.T) {
	folder := t.TempDir()
	os.WriteFile(filepath.Join(folder, "there"), nil, 0o666)
	for _, name := range []string{
		"../x", "/etc/x", ".", "..", ".hidden", "a/b", `a\b`, "c:x", "x\x00",
		strings.Repeat("x", 201), "there",
	} {
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
		want := newPieces(offer{size: chunkLen * rng.Uint64N(200)})
		for i := range want.had {
			if rng.IntN(10) > 0 {
				want.add(i)
			}
		}
		got, err := readHave(want.summary()[1:], want.offer)
		if err != nil || !slices.Equal(got.had, want.had) || got.left != want.left {
			t.Fatalf("%v becomes %v, %v", want, got, err)
		}
	}
}

// TestAbsurd: numbers beyond all chunks are refused, also where an int has 32 bits.
func TestAbsurd(t *testing.T) {
	f := files(t.TempDir(), random(5000), 1)
	f.r.take(f.s.offer.message(), 0, 0)
	for _, chunk := range []uint32{5, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		if err := f.r.store.write(chunk, make([]byte, chunkLen)); !errors.Is(err, errMalformed) {
			t.Errorf("chunk %d of 5: %v", chunk, err)
		}
		have := append(wire.AppendUint32([]byte{kindHave}, chunk+1), 255)
		if _, err := readHave(have[1:], f.s.offer); chunk != 1<<32-1 && !errors.Is(err, errMalformed) {
			t.Errorf("all before chunk %d of 5: %v", chunk, err)
		}
	}
	huge := offer{size: maxSize + 1}
	if _, err := readOffer(huge.message()[1:]); !errors.Is(err, errMalformed) {
		t.Errorf("%d bytes: %v", huge.size, err)
	}
	f.r.store.close()
}

// FuzzMessages: no message of a peer that has the key makes an end panic.
func FuzzMessages(f *testing.F) {
	o := offer{size: 5000}
	some := newPieces(offer{size: 50 * chunkLen})
	f.Add(o.message(), appendData(nil, 1, 2, make([]byte, 10)), ackMessage(1, 2, 3))
	f.Add(some.summary(), over(errors.New("text")), []byte{kindHave, 1, 0, 0, 0, 7})
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
			s.take(message, 0, 0)
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
	testkit.Must(t, os.WriteFile(path, file, 0o666))
	programtest.Together(t, run, func(at []string) []string {
		return []string{
			"-listen " + at[0] + " -key " + hexKey + " -in " + to,
			"-dial " + at[0] + " -key " + hexKey + " " + path,
		}
	})
	if got, err := os.ReadFile(filepath.Join(to, "file")); !bytes.Equal(got, file) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}

// TestNamesEverywhere: what a sender may call a file, on whatever system the receiver runs.
func TestNamesEverywhere(t *testing.T) {
	for _, name := range []string{
		"a", "film.mp4", "Übung 1.txt", "console.log", "com10", "a.part.txt",
	} {
		if err := checkName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".profile", "a/b", `a\b`, "a:b", "/etc/passwd", strings.Repeat("a", 201),
		"a\x00b", "\x1b[2Jclear", "a\nb", "a\u202egpj.exe", "a\xff", "a.", "a ",
		"CON", "nul.txt", "COM1", "lpt9.log", "con .txt", "a.part", "a.have", "what?", "a*",
	} {
		err := checkName(name)
		if err == nil {
			t.Errorf("%q is accepted", name)
		} else if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: the error has what cannot be printed", name)
		}
	}
}

func TestFlags(t *testing.T) {
	programtest.Flags(t, "transfer", run, map[string]string{
		"":                                    "-listen or -dial",
		"-listen :0 -dial :1":                 "-listen or -dial",
		"-listen :0 -key " + hexKey + " file": "1 arguments after the flags, want 0",
		"-dial 127.0.0.1:1 -key " + hexKey:    "needs one file",
		"-dial 127.0.0.1:1 -mb 1 -key " + hexKey + " file": "needs one file",
		"-dial 127.0.0.1:1 -mb -1 -key " + hexKey:          "needs one file",
		"-dial 127.0.0.1:1 -cc reno -mb 1 -key " + hexKey:  "ledbat or none",
		"-listen :0 -key abc":                              "64 hex digits",
	})
	for _, c := range []struct{ args, want string }{
		{"-dial 127.0.0.1:1 -key " + hexKey + " /no/such/file", "no such file"},
		{"-dial 127.0.0.1:1 -key " + hexKey + " /", "no regular file"},
		{"-dial :0 -mb 1 -key " + hexKey, "want HOST:PORT"},
	} {
		var stdout, stderr testkit.Output
		code := run(context.Background(), strings.Fields(c.args), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit status %d, %s", c.args, code, stderr.String())
		}
	}
}
