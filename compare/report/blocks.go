// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"timesync/compare/graph"
	"timesync/compare/kept"
	"timesync/compare/page"
	"timesync/compare/play"
)

// blocks are the parts of other documents that this program writes, by their files.
func (f *figures) blocks() (map[string]*page.Document, error) {
	readme, err := f.readmeBlock()
	return map[string]*page.Document{"../README.md": readme, "../docs/ACCURACY.md": f.accuracyBlock(), "../docs/DESIGN.md": designBlock()}, err
}

// writeBlocks writes them.
func (f *figures) writeBlocks() error {
	blocks, err := f.blocks()
	for path, d := range blocks {
		err = errors.Join(err, d.Block(path, "report"))
	}
	return err
}

// readmeBlock has the figures of the report, and those of the real queue.
func (f *figures) readmeBlock() (*page.Document, error) {
	queue, err := kept.ReadQueue()
	if err != nil {
		return nil, err
	}
	chronyd := min(queue[play.Chronyd], queue[play.ChronydOften])
	mine, orig, limit := f.means(play.Simulated, 0.99)
	d := new(page.Document)
	d.Words([][]string{
		{"error of the remote clock, 99th percentile", "", "command"},
		{fmt.Sprintf("geometric mean over %d simulated scenarios", len(f.of(play.Simulated))),
			fmt.Sprintf("**%s**; the C++ original's is %.0f times as large; chronyd, asking once a second, %s; an oracle that knows each series in advance is %.1f times better",
				graph.Micros(mine), orig/mine, graph.Micros(f.over(play.Chronyd, f.of(play.Simulated), 0.99)), mine/limit),
			"[REPORT](docs/REPORT.md): `cd compare && go run ./report`"},
		{"beside TCP that fills a real queue of 300 ms",
			fmt.Sprintf("**%s**; chronyd %s, the original %s", graph.Micros(queue[play.Ours]), graph.Micros(chronyd), graph.Micros(queue[play.Original])),
			"[QUEUE](docs/QUEUE.md): `sudo compare/lab/queue.sh FOLDER`"},
	})
	return d, nil
}

// accuracyWorlds are the worlds of ACCURACY.md, and what happens in them.
var accuracyWorlds = []struct{ world, what string }{
	{"ideal", "no jitter, 100 ppm"}, {"cellular", "4-10 ms of jitter, 100 ppm"}, {"mediumjitter", "exponential, 3 ms"}, {"bufferbloat-both", ""},
	{"clockstep", "5 ms"}, {"mediumjitter-1hz", "one datagram a second"}, {"slew", "by 500 ppm for 30 s"}, {"standingqueue", "for 150 s"},
}

// accuracyBlock is the table of ACCURACY.md.
func (f *figures) accuracyBlock() *page.Document {
	rows := [][]string{{"world", "timesync, median", "timesync", "C++ original", "NTP's filter", "netfox", "Slot", "one round trip, halved"}}
	for _, a := range accuracyWorlds {
		i := slices.IndexFunc(f.worlds, func(w play.World) bool { return w.Set == play.Simulated && w.Name == a.world })
		row := []string{strings.TrimSuffix(a.world+", "+a.what, ", "), number(f.value(i, play.Ours, 0.5), false)}
		for _, column := range []string{play.Ours, play.Original, play.NTP, play.Netfox, play.Slot, play.Sutphin} {
			row = append(row, number(f.value(i, column, 0.99), column == play.Ours))
		}
		rows = append(rows, row)
	}
	d := new(page.Document)
	d.Table(rows)
	return d
}

// designBlock is the picture of DESIGN.md.
func designBlock() *page.Document {
	d := new(page.Document)
	d.Picture("floors", "Floors, round trip and offset while a path and a clock change", "", func(path string, t graph.Theme) error {
		return graph.Charts(path, t, floorsCharts()...)
	})
	return d
}
