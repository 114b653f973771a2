package jitter_test

import (
	"flag"
	"testing"

	"timesync/internal/sim/waiting"
)

var (
	first   = flag.Uint64("worlds.first", 1, "the first seed of the drawn worlds")
	seeds   = flag.Int("worlds.seeds", 1, "how many seeds each kind and rate has")
	share   = flag.Float64("worlds.share", 0.01, "the share that may be late")
	folder  = flag.String("worlds.recordings", "../internal/sim/testdata", "a folder with recordings")
	compare = flag.Bool("worlds.compare", false, "print the rivals, too")
)

func TestTable(t *testing.T) {
	courses := waiting.Courses(nil, *first, *seeds, *share)
	recordings, err := waiting.Recordings(*folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range recordings {
		courses = append(courses, waiting.Prepare(w, *share))
	}
	rows := waiting.Judged(courses, func(c *waiting.Course) waiting.Score {
		return c.Judge(waiting.NewOurs(*share))
	})
	for _, row := range append(rows, waiting.All(rows)) {
		t.Log(row)
	}
	if *compare {
		t.Log("\n" + waiting.Compare(courses))
	}
}
