// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"timesync/internal/sim"
)

const (
	linkRate  = 10e6 // bits a second of the router, as in queue.sh
	linkFlows = 4    // TCP connections that fill a direction: one alone leaves it empty at times
)

// linkLoad is what else crosses the link: TCP by phases, or random UDP traffic.
type linkLoad struct {
	name   string        // of files and rows
	share  float64       // of the rate, each way: of random traffic
	before time.Duration // for how long it has filled the link when the hosts begin to exchange datagrams
	phases []linkPhase
}

// linkPhase is a part of the run.
type linkPhase struct {
	name     string
	from, to float64 // shares of it
	fill     [2]bool // TCP from A to B, from B to A
}

// linkLoads are the experiments.
var linkLoads = []linkLoad{
	{name: "tcp", phases: []linkPhase{
		{"nothing else", 0, 0.15, [2]bool{}},
		{"TCP from A to B", 0.15, 0.40, [2]bool{true, false}},
		{"TCP from B to A", 0.40, 0.65, [2]bool{false, true}},
		{"TCP both ways", 0.65, 0.90, [2]bool{true, true}},
		{"nothing else again", 0.90, 1, [2]bool{}},
	}},
	{name: "cross60", share: 0.6},
	{name: "cross80", share: 0.8},
	{name: "cross90", share: 0.9},
	{name: "cross90-busy", share: 0.9, before: 10 * time.Second},
}

// within runs do in a network namespace. Sockets stay where they were made, and so do
// processes. The thread that was moved there ends with its goroutine, since it is not unlocked.
func within(namespace string, do func() error) error {
	var moved errgroup.Group
	moved.Go(func() error {
		runtime.LockOSThread()
		there, err := os.Open("/run/netns/" + namespace)
		if err != nil {
			return err
		}
		defer there.Close()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
		return do()
	})
	return moved.Wait()
}

// fill fills the link from one side until ctx is over.
func (l *link) fill(ctx context.Context, side int) {
	load := l.fillPhases
	if l.load.share > 0 {
		load = l.cross
	}
	if err := load(ctx, side); err != nil {
		fmt.Fprintln(os.Stderr, "lab: load:", err)
	}
}

// after is the time after a share of the run.
func (l *link) after(share float64) time.Duration { return time.Duration(share * float64(l.lasting)) }

// fillPhases fills the link from one side with TCP whenever its phases say so.
func (l *link) fillPhases(ctx context.Context, side int) error {
	for _, p := range l.load.phases {
		if !p.fill[side] {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.after(p.from) - time.Since(l.begun)):
		}
		if err := fill(l.spaces, side, l.after(p.to)-l.after(p.from)); err != nil {
			return err
		}
	}
	return nil
}

// fill sends as much as TCP can from one host to the other.
func fill(spaces [2]string, side int, lasting time.Duration) error {
	var listener net.Listener
	err := within(spaces[1-side], func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(linkHosts[1-side], linkPort).String())
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	var flows errgroup.Group
	for range linkFlows {
		flows.Go(func() error { return flow(spaces[side], listener.Addr().String(), lasting) })
	}
	return flows.Wait()
}

// flow is one TCP connection that sends as much as it can.
func flow(space, address string, lasting time.Duration) error {
	var conn net.Conn
	deadline := time.Now().Add(lasting)
	err := within(space, func() (err error) {
		conn, err = net.DialTimeout("tcp4", address, lasting)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetLinger(0) // what waits in the queue is not wanted any more
	conn.SetDeadline(deadline)
	for chunk := make([]byte, 1<<16); err == nil; {
		_, err = conn.Write(chunk)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

const crossPort = 7100

// cross sends bursts of packets at random moments: those of a Poisson process. A burst has
// 1 to 20 packets of 1,200 bytes.
func (l *link) cross(ctx context.Context, side int) error {
	const payload, header, longest = 1200, 14 + 20 + 8, 20       // Ethernet, IPv4, UDP
	conn, err := open(l.spaces[side], sim.Side(side), crossPort) // nobody reads it: what it has no room for is dropped
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(l.seed, uint64(side)))
	bits := float64(longest+1) / 2 * (payload + header) * 8
	gap := bits / (l.load.share * linkRate) * float64(time.Second)
	b := make([]byte, payload)
	peer := netip.AddrPortFrom(linkHosts[1-side], crossPort)
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Duration(random.ExpFloat64() * gap))
		time.Sleep(time.Until(next))
		for range 1 + random.IntN(longest) {
			conn.WriteToUDPAddrPort(b, peer)
		}
	}
	return nil
}
