// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Measure connects pairs of peers behind NATs in network namespaces, with and without the
// instant. See measure.sh.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"timesync/internal/netns"
	"timesync/internal/testkit"
)

const (
	server = "10.79.3.2:9000"
	jitter = 5 * time.Millisecond
	giveUp = 5 * time.Second
	atOnce = 10 // pairs that try at the same time, each with its own ports

	// apart is the time between the starts of two pairs. A peer spins before its instant, so on a
	// machine with few cores the instants of the pairs must differ.
	apart = 100 * time.Millisecond
)

// kinds are the NATs. All masquerade; they differ in what they do with unsolicited packets.
var kinds = []struct{ name, post, rules string }{
	{"answers as a router does", "masquerade", ""},
	{"drops them (endpoint-dependent filtering)", "masquerade", `
		chain in { type filter hook input priority 0; iifname "wan" ct state new drop; }`},
	{"drops them, and the port for 10 s", "masquerade", `
		set banned { type inet_service; flags dynamic,timeout; timeout 10s; }
		chain pre { type filter hook prerouting priority -300;
			iifname "wan" meta l4proto { tcp, udp } th dport @banned drop; }
		chain in { type filter hook input priority 0;
			iifname "wan" ct state new meta l4proto { tcp, udp } add @banned { th dport } drop; }`},
	{"answers TCP with a reset", "masquerade", `
		chain in { type filter hook input priority 0;
			iifname "wan" ct state new meta l4proto tcp reject with tcp reset;
			iifname "wan" ct state new drop; }`},
	{"drops them; a new port for each destination", "masquerade fully-random", `
		chain in { type filter hook input priority 0; iifname "wan" ct state new drop; }`},
}

// column is how the peers connect, and when they send.
type column struct{ name, args string }

var columns = []column{
	{"UDP, at the instant", ""},
	{"UDP, when told", "-random"},
	{"UDP, when ready, up to 200 ms later", "-random -ready 200ms"},
	{"TCP, at the instant", "-tcp"},
	{"TCP, when told", "-tcp -random"},
	{"TCP, when ready, up to 200 ms later", "-tcp -random -ready 200ms"},
}

// delays are one-way delays from each NAT to the core: paths of 10 to 80 ms.
var delays = [][2]time.Duration{{5e6, 5e6}, {5e6, 20e6}, {20e6, 20e6}, {10e6, 45e6}, {40e6, 40e6}}

// bench is the network: two hosts, each behind a NAT, and the server, joined by a router.
type bench struct {
	wires [2]*netns.Wire // from the NATs
	room  int

	connected int // pairs of all kinds
	// How far apart the first packets left with the instant, for all kinds, ms.
	together []float64
}

func main() {
	quick := flag.Bool("quick", false, "a few seconds: is it alive?")
	only := flag.String("only", "", "kinds of NAT whose name contains this")
	flag.Parse()
	var b bench
	b.build()
	netns.Exit(netns.Command("server", "punch", "-serve", ":9000", "-key", netns.Key).Start())
	time.Sleep(300 * time.Millisecond)
	if *quick {
		b.table(4, "reset", columns[3:4]) // the peers join by UDP
	} else {
		b.table(50, *only, columns)
	}
	if b.connected == 0 {
		netns.Exit(errors.New("no pair of peers was connected"))
	}
}

func (b *bench) build() {
	netns.Spaces("router", "server", "nat0", "nat1", "host0", "host1")
	netns.Cable(netns.At("server", "eth0", "10.79.3.2/24"),
		netns.At("router", "server", "10.79.3.1/24"))
	netns.Route("server", "10.79.3.1")
	for i := range b.wires {
		host, nat := fmt.Sprint("host", i), fmt.Sprint("nat", i)
		lan, wan := fmt.Sprintf("192.168.%d.", i), fmt.Sprintf("10.79.%d.", i)
		netns.Cable(netns.At(host, "eth0", lan+"2/24"), netns.At(nat, "lan", lan+"1/24"))
		b.wires[i] = netns.Join(netns.At(nat, "wan", wan+"2/24"), netns.At("router", nat, wan+"1/24"), 0)
		b.wires[i].Jitter.Store(int64(jitter))
		netns.Route(host, lan+"1")
		netns.Route(nat, wan+"1")
	}
}

// setNATs sets the kind of both NATs.
func setNATs(post, rules string) {
	script := fmt.Sprintf(`flush ruleset
		table ip nat {
			chain post { type nat hook postrouting priority 100; oifname "wan" %s
			}
		}
		table ip filter {%s
		}
		`, post, rules)
	for _, nat := range []string{"nat0", "nat1"} {
		netns.Run("ip", "netns", "exec", nat, "nft", script)
	}
}

// table prints a row for each kind of NAT.
func (b *bench) table(tries int, only string, columns []column) {
	fmt.Printf("\n%d tries of each kind, one-way delays of 10 to 80 ms and jitter of %v; "+
		"connected within %v, the median time from when the other was known, and how far apart "+
		"the first packets left (and were planned to), 99th percentile:\n\n",
		tries, jitter, giveUp)
	fmt.Print("| what a NAT does with unsolicited packets |")
	for _, c := range columns {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Println("\n|---|" + strings.Repeat("---|", len(columns)))
	for _, k := range kinds {
		if !strings.Contains(k.name, only) {
			continue
		}
		setNATs(k.post, k.rules)
		fmt.Printf("| %s |", k.name)
		for _, c := range columns {
			o := b.tries(tries, strings.Fields(c.args))
			fmt.Printf(" %v |", o)
			if !strings.Contains(c.args, "-random") {
				b.together = append(b.together, o.apart...)
			}
		}
		fmt.Println()
	}
	if n := len(b.together); n > 0 {
		fmt.Printf("\nAt the instant, in all kinds: "+
			"%.2f ms apart in the median of %d, %.2f ms at the 99th percentile.\n",
			testkit.OrNaN(b.together, 0.5), n, testkit.OrNaN(b.together, 0.99))
	}
}

// outcome is the result that a peer prints.
type outcome struct {
	OK      bool    `json:"ok"`
	Ms      float64 `json:"ms"`
	First   int64   `json:"first_ns"`
	Planned int64   `json:"planned_ns"`
}

// outcomes are the results of many tries, in ms.
type outcomes struct {
	n     int
	took  []float64 // the times of pairs that connected
	apart []float64
	plans []float64 // how far apart they were planned: the error of the clocks
}

func (o *outcomes) String() string {
	text := fmt.Sprintf("%d of %d, %.0f ms, %.1f (%.1f) ms apart", len(o.took), o.n,
		testkit.OrNaN(o.took, 0.5), testkit.OrNaN(o.apart, 0.99), testkit.OrNaN(o.plans, 0.99))
	return strings.ReplaceAll(text, "NaN", "-")
}

// tries lets n pairs of peers meet.
func (b *bench) tries(n int, args []string) *outcomes {
	pairs := make([][2]outcome, n)
	var running sync.WaitGroup
	for i := range pairs {
		if i%atOnce == 0 {
			running.Wait()
			for host, w := range b.wires {
				d := int64(delays[i/atOnce%len(delays)][host])
				w.Delay[0].Store(d)
				w.Delay[1].Store(d)
			}
		}
		time.Sleep(apart)
		b.room++
		args := append([]string{"-room", fmt.Sprint("room", b.room)}, args...)
		for host := range b.wires {
			running.Go(func() { pairs[i][host] = meet(host, args) })
		}
	}
	running.Wait()
	all := outcomes{n: n}
	for _, p := range pairs {
		x, y := p[0], p[1]
		if x.First != 0 && y.First != 0 {
			all.apart = append(all.apart, math.Abs(float64(x.First-y.First))/1e6)
			all.plans = append(all.plans, math.Abs(float64(x.Planned-y.Planned))/1e6)
		}
		if x.OK && y.OK {
			all.took = append(all.took, max(x.Ms, y.Ms))
		}
	}
	b.connected += len(all.took)
	return &all
}

// meet runs a peer at a host. A peer that fails says so in its output.
func meet(host int, args []string) (o outcome) {
	args = append([]string{"-server", server, "-key", netns.Key, "-once", "-give-up",
		giveUp.String()}, args...)
	out, _ := netns.Command(fmt.Sprint("host", host), "punch", args...).Output()
	if err := json.Unmarshal(out, &o); err != nil {
		fmt.Fprintf(os.Stderr, "measure: a peer said %q\n", out)
	}
	return o
}
