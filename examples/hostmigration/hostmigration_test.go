// These tests run the peers over real sockets, so they ask for nothing that a busy machine could
// break. How exactly peers agree, the tests of package session say in simulated time.
package main

import (
	"fmt"
	"strings"
	"testing"

	"timesync/internal/program"
	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
	"timesync/link"
	"timesync/session"
)

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("28 s")
	}
	t.Parallel()
	g := demo(t.Context(), programtest.Config(t, (*config).flags, (*config).check, ""), t.Output())
	testkit.Must(t, g.print(t.Output(), false))
	if len(g.aparts) < 500 {
		t.Errorf("%d moments", len(g.aparts))
	}
}

// TestElect, whatever a peer's own clock shows: who asks for an election while the first
// announcement is being accepted does not make itself host, but does when the host has been
// silent.
func TestElect(t *testing.T) {
	for _, start := range []uint64{
		0, 1 << 40, 1 << 62, 1<<63 - 5_000_000, 1<<63 + 1<<62, 1<<64 - 1_000_000,
	} {
		p := newPeer(2, [32]byte{}, program.Clock{Start: start}, nil)
		host, now := session.New(1), p.started
		var links [2]link.Link // the host's, and that of p
		testkit.Must(t, host.Create(now, 0))
		for range 100 {
			now += 20_000
			for i := range links {
				links[i].ReadHeader(links[1-i].AppendHeader(nil, now), now+1000)
			}
			p.elect(now)
		}
		announcement, _ := host.Announce(nil, now)
		testkit.Must(t, p.member.Accept(1, &links[1], announcement, now))
		p.elect(now)
		p.heard.Store(now)
		if r, ok := p.member.Read(now); !ok || r.Host != 1 {
			t.Errorf("from %d on: the host is %d at the first announcement", start, r.Host)
		}
		for range 100 {
			now += 50_000
			p.elect(now)
		}
		if r, ok := p.member.Read(now); !ok || r.Host != 2 {
			t.Errorf("from %d on: after 5 s of silence the host is %d, %v", start, r.Host, ok)
		}
	}
}

// TestProcesses: three peers as three processes would run them.
func TestProcesses(t *testing.T) {
	t.Parallel()
	programtest.Together(t, run, func(at []string) (processes []string) {
		for id := range 3 {
			processes = append(processes, fmt.Sprintf("-id %d -peers %s -key %s -for 8s -skew %d",
				id+1, strings.Join(at[:3], ","), strings.Repeat("49", 32), 20*id))
		}
		return processes
	})
}

func TestFlags(t *testing.T) {
	programtest.Flags(t, "hostmigration", run, map[string]string{
		"-peers a:1":                           "-id",
		"-id 1":                                "-peers",
		"-id 3 -peers 127.0.0.1:1,127.0.0.1:2": "-id",
		"-id 1 -peers 127.0.0.1:1 -key 12":     "-key",
		"-id 1 -peers 127.0.0.1:1 -for -1s":    "-for",
		"x":                                    "after the flags",
	})
}
