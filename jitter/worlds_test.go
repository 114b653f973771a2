package jitter_test

import (
	"flag"
	"testing"

	"timesync/internal/sim/waiting"
	"timesync/internal/testkit"
)

var (
	first  = flag.Uint64("worlds.first", 1, "the first seed of the drawn worlds")
	seeds  = flag.Int("worlds.seeds", 1, "how many seeds each kind and rate has")
	share  = flag.Float64("worlds.share", 0.01, "the share that may be late, of TestTable")
	folder = flag.String("worlds.recordings", "../internal/sim/testdata",
		"a folder with recordings")
	compare = flag.Bool("worlds.compare", false, "let TestTable judge the rivals, too: minutes")
)

func recordings(t *testing.T, share float64) (courses []*waiting.Course) {
	t.Helper()
	worlds, err := waiting.Recordings(*folder)
	if err != nil || len(worlds) == 0 {
		t.Fatalf("%d recordings, %v", len(worlds), err)
	}
	for _, w := range worlds {
		courses = append(courses, waiting.Prepare(w, share))
	}
	return courses
}

func ours(courses []*waiting.Course) []*waiting.Row {
	return waiting.Judged(courses, func(c *waiting.Course) waiting.Score {
		return c.Judge(waiting.NewOurs(c.Share))
	})
}

// TestTable prints what the estimator, and the rivals, make of all worlds.
//
// This is what changes if one thing is taken out, with seeds 900 and 901 and the recordings, where
// 1 % may be late. A wait of 1 is that of an oracle that knows 10 s of the future. The last column
// is how much longer the wait still is 2 s after a stop, at most.
//
//	                                     late   wait   after a stop
//	all of it                            1.03   0.98     6 ms
//	a median of 5                        +0.01  -0.01    the same
//	a median of 9                        -0.01  0.00     the same; shifts are believed later
//	halves of 10/share                   +0.02  0.00     the same
//	halves of 30/share                   0.00   0.00     the same
//	what was held up counts in full      -0.02  0.00    98 ms
//	of 10 ms, not 20                     +0.01  0.00     the same; recordings 2.0 %, not 1.8
//	what a stop held up, out of order,
//	    counts                           -0.01  0.00    61 ms
//	no stop is left out                  -0.07  +0.04  413 ms
//	every stop is left out               +0.06  -0.01    the same; recordings 2.9 %, not 1.8
//	late ones count at once              -0.07  +0.04  165 ms
//	the share is not fed back            +0.22  -0.06    the same; 36 worlds too late, not 15
//	with 1/30, not 1/45                  -0.03  +0.01    the same
//	up to what is asked for only         -0.02  0.00     the same
//	what was held up moves no share      +0.02  -0.01    the same; recordings 1.9 %, not 1.8
//	a mean estimate of the quantile      -0.01  0.00     the same; heavy tails wait 1 % longer
//	things that come twice count         -0.02  +0.01    the same
func TestTable(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("it only prints: run it with -v")
	}
	courses := append(waiting.Courses(nil, *first, *seeds, *share), recordings(t, *share)...)
	rows := ours(courses)
	for _, row := range append(rows, waiting.All(rows)) {
		t.Log(row)
	}
	if *compare {
		t.Log("\n" + waiting.Compare(courses))
	}
}

// TestWorlds: in each kind of world as few are late as are asked for, with about the wait of an
// oracle; a stop changes nothing, and a path that is longer or shorter is followed. With -long
// also where more may be late.
func TestWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	shares := []float64{0.01, 0.05, 0.1}
	for _, share := range shares[:testkit.Sized(1, 1, 3)] {
		rows := ours(append(waiting.Courses(nil, *first, *seeds, share), recordings(t, share)...))
		for _, row := range rows {
			if row.Late > 1.5*share {
				t.Errorf("of %v: %v", share, row)
			}
			if share == 0.01 {
				checkRow(t, row)
			}
		}
		if all := waiting.All(rows); all.Ratio > 1.05 {
			t.Errorf("of %v: %v", share, all)
		}
	}
}

// TestRecordings: of each recording few are late, also on LTE and 3G whose queue holds seconds.
// Those of other folders are judged with -worlds.recordings.
func TestRecordings(t *testing.T) {
	for _, c := range recordings(t, 0.01) {
		row := ours([]*waiting.Course{c})[0]
		if limit := 0.12; row.Late > limit {
			t.Errorf("%s: %v, at most %v", c.Name, row, limit)
		}
	}
}

func checkRow(t *testing.T, row *waiting.Row) {
	t.Helper()
	// A handover ends in another path, and one a second tells nothing of a stop.
	stops := len(row.AfterStop) > 0 && row.Group != "handover" && row.Group != waiting.Seldom
	if stops && testkit.Quantile(row.AfterStop, 1) > 10 {
		t.Errorf("after a stop the wait is longer: %v", row)
	}
	shifts := len(row.Up) > 0 && row.Group != "drift with steps" // of 250 ms, made up for at 25 %
	if shifts && max(testkit.Quantile(row.Up, 0.5), testkit.Quantile(row.Down, 0.5)) > 500 {
		t.Errorf("a path that shifts is followed late: %v", row)
	}
	// Recordings are not sent at an even rate.
	if row.WithoutOne > 0.015 && row.Group != waiting.Recorded {
		t.Errorf("the next one is missing: %v", row)
	}
}
