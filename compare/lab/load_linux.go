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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"timesync/internal/sim"
)

const (
	linkRate  = 10e6 // bits a second of the router, as in queue.sh
	linkFlows = 4    // TCP connections that fill a direction: one alone leaves it empty at times
	crossPort = 7100
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
func within[T any](namespace string, do func() (T, error)) (made T, err error) {
	var moved sync.WaitGroup
	moved.Go(func() {
		runtime.LockOSThread()
		var there *os.File
		if there, err = os.Open("/run/netns/" + namespace); err != nil {
			return
		}
		defer there.Close()
		if err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err == nil {
			made, err = do()
		}
	})
	moved.Wait()
	return made, err
}

// after is the time after a share of the run.
func (l *link) after(share float64) time.Duration { return time.Duration(share * float64(l.lasting)) }

// fill fills the link from one side until ctx is over: with random traffic, or with TCP whenever the
// phases say so.
func (l *link) fill(ctx context.Context, side int) {
	var err error
	if l.load.share > 0 {
		err = l.cross(ctx, side)
	}
	for _, p := range l.load.phases {
		if !p.fill[side] {
			continue
		}
		time.Sleep(l.after(p.from) - time.Since(l.begun))
		var flows errgroup.Group
		for range linkFlows {
			flows.Go(func() error { return l.flow(side, l.after(p.to)-l.after(p.from)) })
		}
		err = errors.Join(err, flows.Wait())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: load:", err)
	}
}

// flow is one TCP connection from one host to the other that sends as much as it can.
func (l *link) flow(side int, lasting time.Duration) error {
	deadline := time.Now().Add(lasting)
	listener, err := within(l.spaces[1-side], func() (net.Listener, error) {
		return net.Listen("tcp4", netip.AddrPortFrom(linkHosts[1-side], 0).String())
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		if in, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, in)
			in.Close()
		}
	}()
	conn, err := within(l.spaces[side], func() (net.Conn, error) {
		return net.DialTimeout("tcp4", listener.Addr().String(), lasting)
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
