// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Package netns builds networks out of Linux network namespaces for measurements: hosts,
// cables and wires that delay. It needs root, and ip of iproute2. measure.sh runs a program that
// builds in namespaces of its own, so all that it has built is gone when it ends, however it does.
package netns

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Key is what -key of an example wants.
const Key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// Exit says what err is and ends the program, unless err is nil.
func Exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// built ends the program if a part of the network cannot be built here, which is no failure: it
// says that nothing was tested, and why.
func built(err error) {
	if err != nil {
		fmt.Println("NOT TESTED: the network cannot be built here:", err)
		os.Exit(0)
	}
}

// Run runs a command that builds.
func Run(name string, args ...string) {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		built(fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out)))
	}
}

// Alone returns a command that runs a program as measure.sh does.
func Alone(program string, args ...string) *exec.Cmd {
	const enter = `mount -t tmpfs none /run && exec "$@"`
	return exec.Command("unshare", append([]string{"--mount", "--net", "sh", "-c", enter, "sh", program}, args...)...)
}

// Spaces makes namespaces. Each is a router, if it has two cables.
func Spaces(names ...string) {
	for _, ns := range names {
		Run("ip", "netns", "add", ns)
		Run("ip", "-n", ns, "link", "set", "lo", "up")
		Run("ip", "netns", "exec", ns, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	}
}

// Name gives the namespace of this program a name.
func Name(name string) { Run("ip", "netns", "attach", name, fmt.Sprint(os.Getpid())) }

// Command returns a command to be started in a namespace, which ends when this process does.
func Command(ns, program string, args ...string) *exec.Cmd {
	c := exec.Command("ip", append([]string{"netns", "exec", ns, program}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Port is an end of a cable or wire.
type Port struct {
	space, device, address string
}

// At returns the port of a namespace. The address has a length: 10.0.0.1/24.
func At(space, device, address string) Port { return Port{space, device, address} }

func up(p Port) {
	Run("ip", "-n", p.space, "addr", "add", p.address, "dev", p.device)
	Run("ip", "-n", p.space, "link", "set", p.device, "up")
}

// Cable joins two namespaces without delay.
func Cable(a, b Port) {
	Run("ip", "-n", a.space, "link", "add", a.device, "type", "veth", "peer", "name", b.device, "netns", b.space)
	up(a)
	up(b)
}

// Route adds the default route of a namespace.
func Route(ns, via string) { Run("ip", "-n", ns, "route", "add", "default", "via", via) }

// Wire joins two namespaces by a pair of tun devices and delays what goes through, since not
// every kernel has netem. Packets overtake each other only if there is jitter. It is there until the
// program ends.
type Wire struct {
	Delay  [2]atomic.Int64 // ns: from the first port to the second, and back
	Jitter atomic.Int64    // ns: each packet waits up to so much longer
	// Seen is given each packet that arrives at the second port without jitter; nil: none.
	Seen atomic.Pointer[func(packet []byte)]
	ends [2]*os.File
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
		go w.write(1-i, packets)
	}
	return w
}

// packet is one that is under way.
type packet struct {
	due   time.Time
	bytes []byte
}

func (w *Wire) read(from int, packets chan<- packet) {
	for {
		buf := make([]byte, 2048)
		n, err := w.ends[from].Read(buf)
		if err != nil {
			return
		}
		wait := w.Delay[from].Load()
		if j := w.Jitter.Load(); j > 0 {
			// Each for itself: a queue in order would pass the jitter of one on to all.
			time.AfterFunc(time.Duration(wait+rand.Int64N(j)), func() { _, _ = w.ends[1-from].Write(buf[:n]) })
			continue
		}
		packets <- packet{time.Now().Add(time.Duration(wait)), buf[:n]}
	}
}

func (w *Wire) write(to int, packets <-chan packet) {
	for p := range packets {
		time.Sleep(time.Until(p.due))
		if seen := w.Seen.Load(); seen != nil && to == 1 {
			(*seen)(p.bytes)
		}
		_, _ = w.ends[to].Write(p.bytes) // the device may be down: a loss
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
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request))); e != 0 {
		built(os.NewSyscallError("/dev/net/tun", e))
	}
	return os.NewFile(uintptr(fd), name) // not blocking, so a goroutine waits for a packet, not a thread
}
