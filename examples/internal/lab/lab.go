// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Package lab builds networks out of Linux network namespaces for measurements: hosts,
// cables and wires that delay. It needs root, and ip of iproute2.
package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Lab is a set of namespaces. One goroutine at a time may use it.
type Lab struct {
	mu     sync.Mutex
	spaces []string
	wires  []*Wire
	made   int
}

// New checks that networks can be built here. The error says in a line why not.
func New(tools ...string) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("making network namespaces needs root")
	}
	for _, tool := range append(tools, "ip") {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("there is no %s (Debian: apt-get install iproute2 nftables)", tool)
		}
	}
	l := &Lab{}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		l.Close()
		os.Exit(1)
	}()
	if _, err := l.Space("try"); err != nil {
		return nil, fmt.Errorf("no network namespaces here, as in many containers: %w", err)
	}
	return l, nil
}

// notHere is why networks cannot be built.
type notHere struct{ error }

// NotHere says that err, nil excluded, is for want of what this machine lacks: see Measure.
func NotHere(err error) error { return notHere{err} }

// Key is what -key of an example wants.
const Key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// Exit ends a program that measures. It says what err is and fails, unless err is nil.
func Exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Measure builds the example of that name, and gives the program and a Lab to measure. Where
// networks cannot be built, or the error is NotHere, it says that what was not tested, and why,
// which is no failure.
func Measure(what, example string, tools []string, measure func(l *Lab, program string) error) error {
	err := measureIn(example, tools, measure)
	var reason notHere
	if errors.As(err, &reason) {
		fmt.Printf("NOT TESTED: %s: %v\n", what, reason)
		return nil
	}
	return err
}

func measureIn(example string, tools []string, measure func(l *Lab, program string) error) error {
	l, err := New(tools...)
	if err != nil {
		return NotHere(err)
	}
	defer l.Close()
	folder, err := os.MkdirTemp("", example)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, example)
	if err := Run("go", "build", "-o", program, "timesync/examples/"+example); err != nil {
		return err
	}
	return measure(l, program)
}

// Close removes everything. An interrupt does so, too, and ends the program.
func (l *Lab) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.wires {
		w.close()
	}
	for _, ns := range l.spaces {
		_ = Run("ip", "netns", "del", ns)
	}
}

// Run runs a command; the error has what it said.
func Run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Space makes a namespace and returns its name.
func (l *Lab) Space(name string) (string, error) {
	ns := fmt.Sprintf("lab%d-%s", os.Getpid(), name)
	if err := Run("ip", "netns", "add", ns); err != nil {
		return "", err
	}
	l.mu.Lock()
	l.spaces = append(l.spaces, ns)
	l.mu.Unlock()
	return ns, Run("ip", "-n", ns, "link", "set", "lo", "up")
}

// In runs a command in a namespace.
func In(ns string, args ...string) error {
	return Run("ip", append([]string{"netns", "exec", ns}, args...)...)
}

// Command returns a command to be started in a namespace, which ends when this process does.
func Command(ns, program string, args ...string) *exec.Cmd {
	c := exec.Command("ip", append([]string{"netns", "exec", ns, program}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Forward makes a namespace a router.
func Forward(ns string) error {
	return In(ns, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
}

// Port is an end of a cable or wire.
type Port struct {
	Space, Device, Address string // Address has a length: 10.0.0.1/24
}

// At returns a Port.
func At(space, device, address string) Port { return Port{space, device, address} }

func (p Port) up() error {
	err := Run("ip", "-n", p.Space, "addr", "add", p.Address, "dev", p.Device)
	return errors.Join(err, Run("ip", "-n", p.Space, "link", "set", p.Device, "up"))
}

// Cable joins two namespaces without delay.
func (l *Lab) Cable(a, b Port) error {
	if err := Run("ip", "-n", a.Space, "link", "add", a.Device, "type", "veth", "peer", "name", b.Device, "netns", b.Space); err != nil {
		return err
	}
	return errors.Join(a.up(), b.up())
}

// Route adds the default route of a namespace.
func Route(ns, via string) error { return Run("ip", "-n", ns, "route", "add", "default", "via", via) }
