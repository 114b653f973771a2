package waiting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"timesync/internal/testkit"
)

// Seldom is the kind of all worlds with stops where one is sent a second: what a stop holds up is
// then a single thing, and nobody can tell it from any other delay.
const Seldom = "stops, 1 a second"

// Group returns the kind with which a world is judged.
func (c *Course) Group() string {
	if c.Rate < 5 && (len(c.Stops) > 0 || c.tailed) && c.Kind != Recorded {
		return Seldom
	}
	return c.Kind
}

// Row is what an estimator did in all worlds of a kind.
type Row struct {
	Group      string
	Worlds     int
	Late       float64 // mean share of those that came late
	TooLate    int     // worlds with more than 1.5 times what was asked, beyond chance
	Ratio      float64 // geometric mean of the wait over that of the oracle
	AfterStop  []float64
	Up, Down   []float64 // at 10 and more a second
	WithoutOne float64   // mean
}

// Judged judges estimators of one make in all courses, by kind and in the order of the courses.
func Judged(courses []*Course, play func(c *Course) Score) (rows []*Row) {
	for _, c := range courses {
		at := slices.IndexFunc(rows, func(r *Row) bool { return r.Group == c.Group() })
		if at < 0 {
			at = len(rows)
			rows = append(rows, &Row{Group: c.Group()})
		}
		r, s := rows[at], play(c)
		r.Worlds++
		r.Late += s.Late
		r.Ratio += math.Log(s.Ratio)
		r.WithoutOne += s.WithoutOne
		r.AfterStop = append(r.AfterStop, s.AfterStop...)
		if s.Late > 1.5*c.Share+2*math.Sqrt(c.Share/max(1, s.Counted)) {
			r.TooLate++
		}
		if c.Rate >= 10 {
			r.Up = append(r.Up, s.Up...)
			r.Down = append(r.Down, s.Down...)
		}
	}
	for _, r := range rows {
		n := float64(r.Worlds)
		r.Late /= n
		r.WithoutOne /= n
		r.Ratio = math.Exp(r.Ratio / n)
	}
	return rows
}

// String returns a row of a table.
func (r *Row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %4d worlds, late %5.2f %%, %2d too late, wait %5.2f",
		r.Group, r.Worlds, 100*r.Late, r.TooLate, r.Ratio)
	if r.WithoutOne > 0 {
		fmt.Fprintf(&b, ", without the next %.2f %%", 100*r.WithoutOne)
	}
	if len(r.AfterStop) > 0 {
		fmt.Fprintf(&b, ", after a stop %.1f, at most %.1f ms",
			testkit.Quantile(r.AfterStop, 0.5), testkit.Quantile(r.AfterStop, 1))
	}
	if len(r.Up) > 0 {
		fmt.Fprintf(&b, ", up in %.0f and down in %.0f ms",
			testkit.Quantile(r.Up, 0.5), testkit.OrNaN(r.Down, 0.5))
	}
	return b.String()
}

// All sums up rows: each kind counts once.
func All(rows []*Row) *Row {
	sum := &Row{Group: "all kinds"}
	for _, r := range rows {
		sum.Worlds += r.Worlds
		sum.TooLate += r.TooLate
		sum.Late += r.Late / float64(len(rows))
		sum.Ratio += math.Log(r.Ratio) / float64(len(rows))
	}
	sum.Ratio = math.Exp(sum.Ratio)
	return sum
}

// Courses prepares the worlds of some kinds, or of all if none is named, at all rates: of so many
// seeds from first on.
func Courses(names []string, first uint64, seeds int, share float64) (courses []*Course) {
	if len(names) == 0 {
		names = Kinds()
	}
	for _, name := range names {
		for _, rate := range Rates {
			for seed := range uint64(max(seeds, 0)) {
				courses = append(courses, Prepare(New(name, rate, first+seed), share))
			}
		}
	}
	return courses
}

// Compare returns the rows of our estimator with those of the rivals beside them, which know the
// best factor for each world.
func Compare(courses []*Course) (table string) {
	ours := Judged(courses, func(c *Course) Score { return c.Judge(NewOurs(c.Share)) })
	var lines []string
	others := map[string][]*Row{}
	for _, r := range Rivals {
		others[r.Name] = Judged(courses, func(c *Course) Score { return c.Best(r) })
	}
	for i, row := range append(ours, All(ours)) {
		line := fmt.Sprintf("%-22s ours %5.2f %% %5.2f", row.Group, 100*row.Late, row.Ratio)
		best := math.Inf(1)
		for _, r := range Rivals {
			other := All(others[r.Name])
			if i < len(ours) {
				other = others[r.Name][i]
			}
			best = min(best, other.Ratio)
			line += fmt.Sprintf("  %s %.2f", r.Name, other.Ratio)
		}
		lines = append(lines, line+fmt.Sprintf("  over the best %.2f", row.Ratio/cmp.Or(best, 1)))
	}
	return strings.Join(lines, "\n")
}
