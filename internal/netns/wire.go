// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package netns

import (
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Wire joins two namespaces by a pair of tun devices and delays what goes through, since not every
// kernel has netem. Packets overtake each other only if there is jitter. It is there until the
// program ends.
type Wire struct {
	Delay  [2]atomic.Int64 // ns: from the first port to the second, and back
	Jitter atomic.Int64    // ns: each packet waits up to this much longer
	// Seen is given each packet that arrives at the second port without jitter; nil: none.
	Seen atomic.Pointer[func(packet []byte)]
	// Passed is given each packet after it left; nil: none. Several goroutines may call it at once.
	Passed atomic.Pointer[func(p Passage)]
	ends   [2]*os.File
}

// Passage is how a packet left a wire. It may be later than it should have, by 0.1 ms and on a busy
// machine by more, since timers are late.
type Passage struct {
	Way      int // index of Delay
	Packet   []byte
	Released time.Time // just before it was given back to the kernel, which stamps it
	Stamped  time.Time // just after that
}

// release gives a packet to the kernel at the other end.
func (w *Wire) release(way int, packet []byte) {
	released := time.Now()
	_, _ = w.ends[1-way].Write(packet) // the device may be down: a loss
	if passed := w.Passed.Load(); passed != nil {
		(*passed)(Passage{
			Way:      way,
			Packet:   packet,
			Released: released,
			Stamped:  time.Now(),
		})
	}
}

const wireQueue = 1 << 14 // packets under way: 250 Mbit/s over 0.8 s

// Join joins two namespaces by a wire.
func Join(a, b Port, delay time.Duration) *Wire {
	w := &Wire{}
	for i, p := range []Port{a, b} {
		w.ends[i] = tun("wire")
		w.Delay[i].Store(int64(delay))
		// The device moves, and the file stays joined to it.
		Run("ip", "link", "set", "wire", "netns", p.space)
		Run("ip", "-n", p.space, "link", "set", "wire", "name", p.device)
		up(p)
	}
	for i := range w.ends {
		packets := make(chan packet, wireQueue)
		go w.read(i, packets)
		go w.write(i, packets)
	}
	return w
}

// packet is one that is under way.
type packet struct {
	due   time.Time
	bytes []byte
}

func (w *Wire) read(way int, packets chan<- packet) {
	for {
		buf := make([]byte, 2048)
		n, err := w.ends[way].Read(buf)
		if err != nil {
			return
		}
		arrived := time.Now()
		bytes := buf[:n]
		wait := time.Duration(w.Delay[way].Load())
		if j := w.Jitter.Load(); j > 0 {
			// Each for itself: a queue in order would pass the jitter of one on to all.
			due := arrived.Add(wait + time.Duration(rand.Int64N(j)))
			go func() {
				sleepUntil(due)
				w.release(way, bytes)
			}()
			continue
		}
		packets <- packet{arrived.Add(wait), bytes}
	}
}

func (w *Wire) write(way int, packets <-chan packet) {
	for p := range packets {
		sleepUntil(p.due)
		if seen := w.Seen.Load(); seen != nil && way == 0 {
			(*seen)(p.bytes)
		}
		w.release(way, p.bytes)
	}
}

// sleepUntil sleeps until due. Go's timers alone would be up to a millisecond late, because the
// runtime lets the kernel wait for whole milliseconds. That would be jitter that nobody asked for.
func sleepUntil(due time.Time) {
	time.Sleep(time.Until(due) - time.Millisecond)
	for left := time.Until(due); left > 0; left = time.Until(due) {
		rest := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&rest, nil) // a signal ends it early
	}
}

// tun makes a tun device.
func tun(name string) *os.File {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	built(os.NewSyscallError("/dev/net/tun", err))
	var request struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:15], name)
	request.flags = syscall.IFF_TUN | syscall.IFF_NO_PI
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL,
		uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		built(os.NewSyscallError("/dev/net/tun", errno))
	}
	// It does not block, so a goroutine waits for a packet, not a thread.
	return os.NewFile(uintptr(fd), name)
}
