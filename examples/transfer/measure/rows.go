// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"timesync/internal/stat"
)

// The rows of the table.

const (
	settle = 5 * time.Second  // flows start in it, and it counts for nothing
	length = 40 * time.Second // of a run
	late   = 20 * time.Second // a latecomer starts

	tries = 4 // of a row, while the machine is busy
	quiet = 5 // ms: a machine that is later than that measures itself
)

// available reports whether the kernel has a congestion control.
func available(cc string) bool {
	b, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	return slices.Contains(strings.Fields(string(b)), cc)
}

func (b *bench) rows(quick bool, only string) error {
	fmt.Printf("\n%v:\n\n| what runs | transfers | TCP | game p50, ms | p99, ms | machine late, ms |\n|---|---|---|---|---|---|\n", b.network)
	if quick {
		if err := b.row("", "one transfer", []string{"ledbat"}, "", 4*time.Second); err != nil {
			return err
		}
		if _, p99 := b.gameDelay(0); !(b.share("0", time.Second, time.Hour) > 0) || math.IsNaN(p99) {
			return errors.New("no transfer, or no game, went through")
		}
		return nil
	}
	for _, r := range []struct {
		name      string
		transfers []string
		tcp       string
	}{
		{"nothing", nil, ""},
		{"TCP, CUBIC", nil, "cubic"},
		{"TCP, BBR", nil, "bbr"},
		{"one transfer", []string{"ledbat"}, ""},
		{"one without control", []string{"none"}, ""},
		{"one transfer and CUBIC", []string{"ledbat"}, "cubic"},
		{"one transfer and BBR", []string{"ledbat"}, "bbr"},
	} {
		if err := b.row(only, r.name, r.transfers, r.tcp, length); err != nil {
			return err
		}
	}
	for _, n := range []int{2, 4} {
		if err := b.shares(only, n); err != nil {
			return err
		}
	}
	return b.longer(only)
}

// measured runs what measures a row, and prints it. If the machine was too busy, once more:
// of all tries the one in which it was least late counts, and the row says how late.
func (b *bench) measured(only, name string, run func() (cells string, err error)) error {
	if !strings.Contains(name, only) {
		return nil
	}
	best, least := "", math.Inf(1)
	for try := 0; try < tries && least > quiet; try++ {
		if err := b.begin(); err != nil {
			b.end()
			return err
		}
		cells, err := run()
		b.end()
		if err != nil {
			return err
		}
		if l := b.lateness(); l < least {
			best, least = cells, l
		}
	}
	fmt.Printf("| %s | %s | %.1f |\n", name, best, least)
	return nil
}

func percent(share float64) string {
	return strings.ReplaceAll(fmt.Sprintf("%.1f %%", 100*share), "NaN %", "-")
}

// row measures one combination.
func (b *bench) row(only, name string, transfers []string, tcp string, length time.Duration) error {
	if tcp != "" && !available(tcp) {
		fmt.Printf("NOT TESTED: %s: this kernel has no %s\n", name, tcp)
		return nil
	}
	return b.measured(only, name, func() (string, error) {
		if tcp != "" {
			if err := b.tcp("tcp", tcp, "7100"); err != nil {
				return "", err
			}
		}
		for i, cc := range transfers {
			if err := b.transfer(fmt.Sprint(i), cc, fmt.Sprint(7200+i)); err != nil {
				return "", err
			}
		}
		from := min(settle, length/2)
		time.Sleep(length)
		median, p99 := b.gameDelay(from)
		return fmt.Sprintf("%s | %s | %.2f | %.2f", percent(b.share("0", from, length)), percent(b.share("tcp", from, length)), median, p99), nil
	})
}

// shares measures how transfers share, of which the last comes late: a minute after that,
// for half a minute.
func (b *bench) shares(only string, n int) error {
	return b.measured(only, fmt.Sprintf("%d transfers, one late", n), func() (string, error) {
		for i := range n {
			if i == n-1 {
				time.Sleep(late)
			}
			if err := b.transfer(fmt.Sprint(i), "ledbat", fmt.Sprint(7200+i)); err != nil {
				return "", err
			}
		}
		from := time.Since(b.start) + time.Minute
		time.Sleep(90 * time.Second)
		var shares []string
		least, most := 1.0, 0.0
		for i := range n {
			s := b.share(fmt.Sprint(i), from, time.Hour)
			shares, least, most = append(shares, percent(s)), min(least, s), max(most, s)
		}
		median, p99 := b.gameDelay(from)
		return fmt.Sprintf("%s: factor %.2f | - | %.2f | %.2f", strings.Join(shares, ", "), most/least, median, p99), nil
	})
}

// longer measures how long a transfer needs to have 85 % of the link again after one way
// became longer for good: until the last time that it lacked it for more than 2 s, which is
// longer than a slowdown.
func (b *bench) longer(only string) error {
	return b.measured(only, "one transfer, one way longer by 20 ms", func() (string, error) {
		if err := b.transfer("0", "ledbat", "7200"); err != nil {
			return "", err
		}
		time.Sleep(20 * time.Second)
		change := time.Since(b.start)
		b.wire.Delay[0].Add(int64(longer))
		time.Sleep(40 * time.Second)
		median, p99 := b.gameDelay(change)
		return fmt.Sprintf("%s; back after %.0f s | - | %.2f | %.2f",
			percent(b.share("0", change+20*time.Second, time.Hour)), b.back(change).Seconds(), median, p99), nil
	})
}

// back returns how long after a change a transfer lacked 85 % of the link for the last time.
func (b *bench) back(change time.Duration) (back time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run, points := 0, b.bytes["0"]
	for i, p := range points {
		if i == 0 || p.at < change {
			continue
		}
		share := p.value * 8 / 1e6 / (p.at - points[i-1].at).Seconds() / float64(b.mbit)
		if run++; share >= 0.85 || math.IsNaN(share) {
			run = 0
		}
		if run > 2 {
			back = p.at - change
		}
	}
	return back
}

// share returns the part of the link that a flow had from a time on.
func (b *bench) share(flow string, from, to time.Duration) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum, first, last := 0.0, time.Duration(0), time.Duration(0)
	for _, p := range b.bytes[flow] {
		if p.at < from {
			first = p.at
		} else if p.at <= to {
			sum, last = sum+p.value, p.at
		}
	}
	if last <= first {
		return math.NaN()
	}
	return sum * 8 / 1e6 / (last - first).Seconds() / float64(b.mbit)
}

// gameDelay returns the median and the 99th percentile of the game's delays, in ms.
func (b *bench) gameDelay(from time.Duration) (median, p99 float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ms []float64
	for _, p := range b.game {
		if p.at >= from {
			ms = append(ms, p.value)
		}
	}
	return stat.OrNaN(ms, 0.5), stat.OrNaN(ms, 0.99)
}
