// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Package lab builds networks out of Linux network namespaces for measurements: hosts,
// cables and wires that delay. It needs root, and ip of iproute2.
package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Lab is a set of namespaces. One goroutine at a time may use it. What goes wrong while it builds, Built
// returns: the rest is then left out.
type Lab struct {
	mu     sync.Mutex
	spaces []string
	made   int
	failed error // the first that went wrong
}

// open checks that networks can be built here. The error says in a line why not.
func (l *Lab) open(tools []string) error {
	for _, tool := range append(tools, "ip") {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("there is no %s (Debian: apt-get install iproute2 nftables)", tool)
		}
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		l.close()
		os.Exit(1)
	}()
	if l.Space("try"); l.failed != nil {
		return fmt.Errorf("no network namespaces here, as in many containers and without root: %w", l.failed)
	}
	return nil
}

// Key is what -key of an example wants.
const Key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// Exit says what err is and ends the program, unless err is nil.
func Exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// Measure builds the example of that name, and gives the program and a Lab to measure. Where
// networks cannot be built it says that what was not tested, and why, which is no failure.
func Measure(what, example string, tools []string, measure func(l *Lab, program string) error) (err error) {
	l := &Lab{}
	defer l.close()
	if l.failed = l.open(tools); l.failed == nil {
		err = l.measure(example, measure)
	}
	if l.failed != nil {
		fmt.Printf("NOT TESTED: %s: %v\n", what, l.failed)
		return nil
	}
	return err
}

func (l *Lab) measure(example string, measure func(l *Lab, program string) error) error {
	folder, err := os.MkdirTemp("", example)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, example)
	if err := run("go", "build", "-o", program, "timesync/examples/"+example); err != nil {
		return err
	}
	return measure(l, program)
}

// Built returns what went wrong in building.
func (l *Lab) Built() error { return l.failed }

// close removes all namespaces. An interrupt does so, too, and ends the program.
func (l *Lab) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ns := range l.spaces {
		_ = run("ip", "netns", "del", ns)
	}
}

// run runs a command; the error has what it said.
func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Run runs a command that builds.
func (l *Lab) Run(name string, args ...string) {
	if l.failed == nil {
		l.failed = run(name, args...)
	}
}

// Space makes a namespace and returns its name.
func (l *Lab) Space(name string) string {
	ns := fmt.Sprintf("lab%d-%s", os.Getpid(), name)
	l.Run("ip", "netns", "add", ns)
	l.mu.Lock()
	l.spaces = append(l.spaces, ns)
	l.mu.Unlock()
	l.Run("ip", "-n", ns, "link", "set", "lo", "up")
	return ns
}

// Command returns a command to be started in a namespace, which ends when this process does.
func Command(ns, program string, args ...string) *exec.Cmd {
	c := exec.Command("ip", append([]string{"netns", "exec", ns, program}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Forward makes a namespace a router.
func (l *Lab) Forward(ns string) {
	l.Run("ip", "netns", "exec", ns, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
}

// Port is an end of a cable or wire.
type Port struct {
	Space, Device, Address string // Address has a length: 10.0.0.1/24
}

// At returns a Port.
func At(space, device, address string) Port { return Port{space, device, address} }

func (l *Lab) up(p Port) {
	l.Run("ip", "-n", p.Space, "addr", "add", p.Address, "dev", p.Device)
	l.Run("ip", "-n", p.Space, "link", "set", p.Device, "up")
}

// Cable joins two namespaces without delay.
func (l *Lab) Cable(a, b Port) {
	l.Run("ip", "-n", a.Space, "link", "add", a.Device, "type", "veth", "peer", "name", b.Device, "netns", b.Space)
	l.up(a)
	l.up(b)
}

// Route adds the default route of a namespace.
func (l *Lab) Route(ns, via string) { l.Run("ip", "-n", ns, "route", "add", "default", "via", via) }

// Wire joins two namespaces by a pair of tun devices and delays what goes through, since not
// every kernel has netem. Packets overtake each other only if there is jitter. It is there until the
// program ends.
type Wire struct {
	Delay  [2]atomic.Int64 // ns: from the first port to the second, and back
	Jitter atomic.Int64    // ns: each packet waits up to so much longer
	ends   [2]*os.File
}

const wireQueue = 1 << 14 // packets under way: 250 Mbit/s over 0.8 s

// Wire joins two namespaces.
func (l *Lab) Wire(a, b Port, delay time.Duration) *Wire {
	w := &Wire{}
	for i, p := range []Port{a, b} {
		l.made++
		name := fmt.Sprintf("t%d.%d", os.Getpid(), l.made)
		if l.failed == nil {
			w.ends[i], l.failed = tun(name)
		}
		w.Delay[i].Store(int64(delay))
		// The device moves, and the file stays joined to it.
		l.Run("ip", "link", "set", name, "netns", p.Space)
		l.Run("ip", "-n", p.Space, "link", "set", name, "name", p.Device)
		l.up(p)
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
	var last time.Time
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
		if due := time.Now().Add(time.Duration(wait)); due.After(last) { // else the delay became shorter
			last = due
		}
		packets <- packet{last, buf[:n]}
	}
}

func (w *Wire) write(to int, packets <-chan packet) {
	for p := range packets {
		time.Sleep(time.Until(p.due))
		_, _ = w.ends[to].Write(p.bytes) // the device may be down: a loss
	}
}

// tun makes a tun device.
func tun(name string) (*os.File, error) {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	var request struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:15], name)
	request.flags = syscall.IFF_TUN | syscall.IFF_NO_PI
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request))); e != 0 {
		syscall.Close(fd)
		return nil, fmt.Errorf("/dev/net/tun: %w", e)
	}
	return os.NewFile(uintptr(fd), name), nil // not blocking, so Close ends a Read
}
