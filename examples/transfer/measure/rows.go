// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	settle = 5 * time.Second  // flows start in it, and it counts for nothing
	length = 40 * time.Second // of a run
	after  = 20 * time.Second // a latecomer starts, or a way becomes longer

	tries = 4 // of a row, while the machine is busy
	quiet = 5 // ms: a machine that is later than that measures itself
)

// row is one of the table: what runs.
type row struct {
	name      string
	transfers int
	cc        string // of the transfers
	tcp       string // congestion control of a flow of TCP, if any
	late      bool   // the last transfer comes late; half a minute is measured, a minute after that
	longer    bool   // one way becomes longer
}

var rows = []row{
	{name: "nothing"},
	{name: "TCP, CUBIC", tcp: "cubic"},
	{name: "TCP, BBR", tcp: "bbr"},
	{name: "one transfer", transfers: 1, cc: "ledbat"},
	{name: "one without control", transfers: 1, cc: "none"},
	{name: "one transfer and CUBIC", transfers: 1, cc: "ledbat", tcp: "cubic"},
	{name: "one transfer and BBR", transfers: 1, cc: "ledbat", tcp: "bbr"},
	{name: "2 transfers, one late", transfers: 2, cc: "ledbat", late: true},
	{name: "4 transfers, one late", transfers: 4, cc: "ledbat", late: true},
	{name: "one transfer, one way longer by 20 ms", transfers: 1, cc: "ledbat", longer: true},
}

// available reports whether the kernel has a congestion control.
func available(cc string) bool {
	b, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	return cc == "" || slices.Contains(strings.Fields(string(b)), cc)
}

// table measures the rows whose name contains only.
func (b *bench) table(quick bool, only string) error {
	fmt.Printf("\n%v:\n\n| what runs | transfers | TCP | game p50, ms | p99, ms | machine late, ms |\n|---|---|---|---|---|---|\n", b.network)
	if quick {
		if err := b.measured(rows[3], 4*time.Second); err != nil {
			return err
		}
		if math.IsNaN(b.quantile(game, 0, 0.5)) || !(b.share("0", time.Second) > 0) {
			return errors.New("no transfer, or no game, went through")
		}
		return nil
	}
	for _, r := range rows {
		if !available(r.tcp) {
			fmt.Printf("NOT TESTED: %s: this kernel has no %s\n", r.name, r.tcp)
		} else if strings.Contains(r.name, only) {
			if err := b.measured(r, length); err != nil {
				return err
			}
		}
	}
	return nil
}

// measured measures a row, and prints it. If the machine was too busy, once more:
// of all tries the one in which it was least late counts, and the row says how late.
func (b *bench) measured(r row, length time.Duration) error {
	best, least := "", math.Inf(1)
	for try := 0; try < tries && least > quiet; try++ {
		cells, err := b.run(r, length)
		b.end()
		if err != nil {
			return err
		}
		if l := b.quantile(late, 0, 0.999); l < least {
			best, least = cells, l
		}
	}
	fmt.Printf("| %s | %s | %.1f |\n", r.name, best, least)
	return nil
}

func percent(share float64) string {
	return strings.ReplaceAll(fmt.Sprintf("%.1f %%", 100*share), "NaN %", "-")
}

// run lets a row run, and returns its cells. It says how long a transfer needs to have 85 % of the link
// again after one way became longer.
func (b *bench) run(r row, length time.Duration) (cells string, err error) {
	if err := b.begin(); err != nil {
		return "", err
	}
	if r.tcp != "" {
		if err := b.tcp(r.tcp); err != nil {
			return "", err
		}
	}
	for i := range r.transfers {
		if r.late && i == r.transfers-1 {
			time.Sleep(after)
		}
		if err := b.transfer(i, r.cc); err != nil {
			return "", err
		}
	}
	from := min(settle, length/2)
	more := ""
	if r.late {
		from = time.Since(b.start) + time.Minute
		length = 90 * time.Second
	}
	if r.longer {
		time.Sleep(after)
		from = time.Since(b.start)
		b.wire.Delay[0].Add(int64(longer))
	}
	time.Sleep(length)
	median, p99 := b.quantile(game, from, 0.5), b.quantile(game, from, 0.99)
	if r.longer {
		more = fmt.Sprintf("; back after %.0f s", b.back(from).Seconds())
		from += after
	}
	var shares []float64
	var texts []string
	for i := range r.transfers {
		shares = append(shares, b.share(fmt.Sprint(i), from))
		texts = append(texts, percent(shares[i]))
	}
	if r.late {
		more = fmt.Sprintf(": factor %.2f", slices.Max(shares)/slices.Min(shares))
	}
	tcp := percent(b.share("tcp", from))
	return fmt.Sprintf("%s%s | %s | %.2f | %.2f", cmp.Or(strings.Join(texts, ", "), "-"), more, tcp, median, p99), nil
}

// back returns how long after a change a transfer lacked 85 % of the link for the last time.
func (b *bench) back(change time.Duration) (back time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run, points := 0, b.series["0"]
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
func (b *bench) share(flow string, from time.Duration) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum, first, last := 0.0, time.Duration(0), time.Duration(0)
	for _, p := range b.series[flow] {
		if p.at < from {
			first = p.at
		} else {
			sum, last = sum+p.value, p.at
		}
	}
	if last <= first {
		return math.NaN()
	}
	return sum * 8 / 1e6 / (last - first).Seconds() / float64(b.mbit)
}
