// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Package netns builds networks out of Linux network namespaces for measurements: hosts,
// cables and wires that delay. It needs root, and ip of iproute2. measure.sh runs a program that
// builds in namespaces of its own, so all that it has built is gone when it ends, however it does.
package netns

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
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
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		command := name + " " + strings.Join(args, " ")
		built(fmt.Errorf("%s: %w: %s", command, err, bytes.TrimSpace(out)))
	}
}

// Alone returns a command that runs a program as measure.sh does.
func Alone(program string, args ...string) *exec.Cmd {
	const enter = `mount -t tmpfs none /run && exec "$@"`
	inside := append([]string{"--mount", "--net", "sh", "-c", enter, "sh", program}, args...)
	return exec.Command("unshare", inside...)
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
	Run("ip", "-n", a.space, "link", "add", a.device,
		"type", "veth", "peer", "name", b.device, "netns", b.space)
	up(a)
	up(b)
}

// Route adds the default route of a namespace.
func Route(ns, via string) { Run("ip", "-n", ns, "route", "add", "default", "via", via) }
