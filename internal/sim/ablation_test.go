// This test proves that each rule of the estimator is worth its lines: it measures the
// worlds without each of them.

package sim_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/rivals"
	"timesync/internal/sim"
	"timesync/internal/upstream"
)

var (
	ablation      = flag.Bool("ablation", false, "print what each rule of the estimator buys: about 10 s of processor time for each and base")
	ablationRule  = flag.String("ablation.rule", "", "only rules of that table whose name matches this regexp")
	ablationBases = flag.Int("ablation.bases", 4, "sets of seeds on which each is measured")
	scoreFile     = flag.String("score", "", "write the figures of the table of -ablation for this copy of the estimator to this file")
)

// A rule of the estimator is marked where it stands, at the end of its line or on a
// line of its own before it:
//
//	if cond { // rule: NAME
//	case cond: // rule: NAME
//
// without the rule the condition is false;
//
//	statement // rule: NAME
//
// without the rule the line is not there;
//
//	statement // rule: NAME; without: OTHER STATEMENT
//
// without the rule the other one stands there. A line that opens or closes more than it
// closes or opens needs the third form, or what is left does not compile.
var (
	ruleMark  = regexp.MustCompile(`^(.*?)// rule: (.+?)(?:; without: (.+))?$`)
	condition = regexp.MustCompile(`^(\s*(?:(?:\} else )?if (?:.*; )?|case ))(.+?)( \{|:)\s*$`)
)

// rule is a marked rule of the estimator.
type rule struct {
	name    string
	file    string
	line    int    // of the mark, from 1 on
	without string // the whole file without the rule
}

func (r rule) String() string { return fmt.Sprintf("%s:%d: rule %q", r.file, r.line, r.name) }

// findRules returns the rules that a file marks.
func findRules(file, source string) (rules []rule) {
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		m := ruleMark.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		code, at := m[1], i
		if strings.TrimSpace(code) == "" && i+1 < len(lines) {
			at = i + 1
			code = lines[at]
		}
		without := m[3]
		if c := condition.FindStringSubmatch(code); c != nil && without == "" {
			without = c[1] + "false && (" + c[2] + ")" + c[3]
		}
		rest := slices.Clone(lines)
		rest[at] = without
		rules = append(rules, rule{m[2], file, i + 1, strings.Join(rest, "\n")})
	}
	return rules
}

// estimatorRules returns the rules of all of the estimator's files.
func estimatorRules(t *testing.T, root string) (rules []rule) {
	for _, name := range subjectFiles {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, findRules(name, string(source))...)
	}
	return rules
}

// compiler checks that a package still compiles when one of its files is another.
type compiler struct {
	fset     *token.FileSet
	files    map[string]*ast.File
	importer types.Importer
}

func newCompiler(t *testing.T, folder string) *compiler {
	c := &compiler{token.NewFileSet(), map[string]*ast.File{}, importer.ForCompiler(token.NewFileSet(), "source", nil)}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, path := range paths {
		if name := filepath.Base(path); err == nil && !strings.HasSuffix(name, "_test.go") {
			c.files[name], err = parser.ParseFile(c.fset, path, nil, 0)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *compiler) check(name, source string) error {
	file, err := parser.ParseFile(c.fset, name, source, 0)
	if err != nil {
		return err
	}
	files := maps.Clone(c.files)
	files[name] = file
	_, err = (&types.Config{Importer: c.importer}).Check("timesync", c.fset, slices.Collect(maps.Values(files)), nil)
	return err
}

// scoreColumns are the columns of the table. Less is better in all of them.
var scoreColumns = [...]string{
	"mean",    // geometric mean of p99 relative to the original's
	"worst",   // and the worst scenario's, with 25 us added to both
	"mixture", // p99 in the mixture of faults, us
	"stuck",   // ends, per 1000, that stay off by more than 1 ms after it
	"beyond",  // random worlds, per 10000, with an error beyond the bound later than 15 s after a clock event
	"bound",   // median of bound - 200 us over half the round trip, worlds without clock events
	"slow",    // ends, per 1000, that are not within 1 ms 2.5 s after a step
	"start",   // geometric mean of mean errors in the first 10 s relative to the original's
	"traces",  // geometric mean of p99 on the recorded series, 0 without -traces
	"ramps",   // p95 relative to the original's in the worse of two worlds with queues that grow for long
	"strays",  // the largest error, us, where a stamp in a hundred is early
	"beside",  // the worst p99 of either end beside an original, relative to that of two, with 50 us added to both
}

// score are the figures of the table.
type score [len(scoreColumns)]float64

func (s score) String() string {
	line := ""
	for _, x := range s {
		line += fmt.Sprintf(" %8.3f", x)
	}
	return line
}

func scorePairs() []sim.Pair {
	return []sim.Pair{{A: &rivals.Original{}, B: &rivals.Original{}}, {A: &subject{}, B: &subject{}}}
}

// newScore measures this copy of the estimator on the seeds from -seed.first on.
func newScore(t *testing.T) score {
	mean, worst, mixture := scoreWorlds()

	const ends = 200
	off, _ := mixtureEnds(ends)

	const boundWorlds = 4000
	b := playBounds(*seedFirst+1, boundWorlds)

	return score{mean, worst, mixture, 1000 * float64(off[1]) / (2 * ends), 1e4 * float64(b.beyondWorlds) / boundWorlds,
		b.quietUse.quantile(0.5) / 1000, scoreSteps(), scoreStart(), scoreTraces(t), scoreRamps(t), scoreStrays(), scoreBeside()}
}

func scoreWorlds() (mean, worst, mixture float64) {
	scenarios := sim.Scenarios()
	results := make([][]result, len(scenarios))
	eachOf(len(scenarios), func(i int) {
		worlds := 3
		if scenarios[i].Name == "mixture" {
			worlds = 24
		}
		results[i] = measure(scenarios[i], scorePairs, worlds)
	})
	var ratios geometricMean
	for i, sc := range scenarios {
		r := results[i]
		p, q := r[1].poll.quantile(0.99), r[0].poll.quantile(0.99)
		ratios.add(p, q)
		worst = max(worst, (p+25)/(q+25))
		if sc.Name == "mixture" {
			mixture = p
		}
	}
	return ratios.value(), worst, mixture
}

func scoreSteps() (slow float64) {
	var cases []faultCase
	for i := range 400 {
		size := time.Duration(math.Pow(10, float64(i)/52) * float64(ms)) // 1 ms to 13 h
		if i&2 != 0 {
			size = -size
		}
		cases = append(cases, faultCase{size: size, to: settled, build: func() *duel {
			d := faultWorld(uint64(i))
			d.reports = []time.Duration{sec / 2, sec, 2 * sec}[i%3]
			d.step(i&1, settled, size)
			return d
		}})
	}
	judgeAll(cases)
	for _, c := range cases {
		for _, within := range c.v.within {
			if within > 2500*ms {
				slow++
			}
		}
	}
	return 1000 * slow / float64(2*len(cases))
}

func scoreStart() float64 {
	var ratios geometricMean
	for _, sc := range startupWorlds() {
		sc.Duration, sc.Warmup = 10*sec, sec
		r := measure(sc, scorePairs, 10)
		ratios.add(r[1].poll.mean(), r[0].poll.mean())
	}
	return ratios.value()
}

func scoreTraces(t *testing.T) float64 {
	paths, err := filepath.Glob(filepath.Join(*traces, "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var ratios geometricMean
	for _, path := range paths {
		if strings.Contains(path, "symsplit") || strings.Contains(path, "modelled") {
			continue
		}
		sc, err := sim.Replay("", path)
		if err != nil {
			t.Fatal(err)
		}
		r := measure(sc, scorePairs, 1)
		ratios.add(r[1].poll.quantile(0.99), r[0].poll.quantile(0.99))
	}
	if ratios.n == 0 {
		return 0
	}
	return ratios.value()
}

func scoreRamps(t *testing.T) (ratio float64) {
	scenarios, err := upstream.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range scenarios {
		if sc.ID == "E72" || sc.ID == "E125" {
			ratio = max(ratio, upMeasure(sc, upstream.Mode{Integrated: true, Skewed: true}, 8).ratio())
		}
	}
	return ratio
}

func scoreStrays() (worst float64) {
	for i := range 4 {
		d := faultWorld(uint64(i))
		d.until = 40 * sec
		earlyStamps(d)
		d.onQuery = func(q *query) {
			if q.ok && q.at > 10*sec {
				worst = max(worst, math.Abs(q.err))
			}
		}
		d.run()
	}
	return worst
}

func scoreBeside() (ratio float64) {
	for _, sc := range sim.Scenarios() {
		both, ours, theirs, _ := beside(sc, 1)
		ratio = max(ratio, (max(ours.quantile(0.99), theirs.quantile(0.99))+50)/(both.quantile(0.99)+50))
	}
	return ratio
}

// TestRuleMarks removes rules from a text.
func TestRuleMarks(t *testing.T) {
	const source = `package p

func f(a, b int) int {
	if a > b || a < 0 { // rule: one
		a = b
	} else if c := a + b; c > 1 { // rule: two
		a = c
	}
	switch {
	case a > 1, b > 1:
		a++ // rule: three
	case a > 2: // rule: four
		a--
	}
	// rule: five; without: b = 0
	b = min(a, b)
	return a + b // rule: six; without: return a
}
`
	want := []struct{ name, old, new string }{
		{"one", "if a > b || a < 0 { // rule: one", "if false && (a > b || a < 0) {"},
		{"two", "} else if c := a + b; c > 1 { // rule: two", "} else if c := a + b; false && (c > 1) {"},
		{"three", "\t\ta++ // rule: three", ""},
		{"four", "case a > 2: // rule: four", "case false && (a > 2):"},
		{"five", "\tb = min(a, b)", "b = 0"},
		{"six", "\treturn a + b // rule: six; without: return a", "return a"},
	}
	rules := findRules("p.go", source)
	if len(rules) != len(want) {
		t.Fatalf("found %v", rules)
	}
	for i, w := range want {
		if r := rules[i]; r.name != w.name || r.without != strings.Replace(source, w.old, w.new, 1) {
			t.Errorf("%v: without it\n%s", r, r.without)
		}
	}
}

// TestAblation removes one rule of the estimator after the other and prints what
// becomes of the figures, on several sets of seeds:
//
//	go test ./internal/sim -run TestAblation -v -timeout 90m -ablation -traces FOLDER
//
// A rule is "within the spread" if without it no figure becomes worse by more than the
// figures of the whole estimator differ between those sets.
//
// Without the flag it only checks that every rule has a name of its own and that what
// is left without it compiles.
func TestAblation(t *testing.T) {
	if *scoreFile != "" {
		b, err := json.Marshal(newScore(t))
		if err == nil {
			err = os.WriteFile(*scoreFile, b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	rules := estimatorRules(t, root)
	compiler := newCompiler(t, root)
	marks := map[string]rule{}
	for _, r := range rules {
		if first, twice := marks[r.name]; twice {
			t.Errorf("%v is at %v too", r, first)
		}
		marks[r.name] = r
		if err := compiler.check(r.file, r.without); err != nil {
			t.Errorf("%v: without it: %v", r, err)
		}
	}
	if len(rules) == 0 {
		t.Skipf("no line of %v is marked as a rule: // rule: NAME", subjectFiles)
	}
	t.Logf("%d rules", len(rules))
	if !*ablation || t.Failed() {
		return
	}
	printAblation(t, root, rules)
}

// printAblation prints the table of rules.
func printAblation(t *testing.T, root string, rules []rule) {
	folder := *traces
	if folder != "" {
		var err error
		if folder, err = filepath.Abs(folder); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	copyModule(t, root, dir)
	test, out := filepath.Join(dir, "score.test"), filepath.Join(dir, "score")
	// scores measures the copy on each base.
	scores := func() (all []score, err error) {
		build := exec.Command("go", "test", "-c", "-o", test, "./internal/sim")
		build.Dir = dir
		if log, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, log)
		}
		for i := range *ablationBases {
			os.Remove(out)
			cmd := exec.Command(test, "-test.run", "^TestAblation$", "-test.timeout", "3m", "-score", out, "-traces", folder,
				"-seed.first", fmt.Sprint(*seedFirst+uint64(i)*1_000_000))
			cmd.Dir = filepath.Join(dir, "internal", "sim")
			log, failed := cmd.CombinedOutput()
			b, err := os.ReadFile(out)
			if err != nil {
				return nil, fmt.Errorf("%v, %w\n%s", failed, err, log[max(0, len(log)-1000):])
			}
			var s score
			if err := json.Unmarshal(b, &s); err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		return all, nil
	}
	const format = "%-46s %v%s"
	header := ""
	for _, c := range scoreColumns {
		header += fmt.Sprintf(" %8s", c)
	}
	t.Logf(format, "without the rule", header, "")
	all, err := scores()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		t.Logf(format, fmt.Sprintf("(nothing removed, base %d)", i), s, "")
	}
	whole, spread := meanScore(all)
	t.Logf(format, "(nothing removed)", whole, "")
	t.Logf(format, "(spread between bases)", spread, "")
	match := regexp.MustCompile(*ablationRule)
	for _, r := range rules {
		if !match.MatchString(r.name) {
			continue
		}
		path := filepath.Join(dir, r.file)
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(r.without), 0o666); err != nil {
			t.Fatal(err)
		}
		all, err := scores()
		if err != nil {
			t.Errorf("%v: %v", r, err)
		} else {
			mean, _ := meanScore(all)
			note := "  within the spread"
			for i := range mean {
				if mean[i] > whole[i]+spread[i] {
					note = ""
				}
			}
			t.Logf(format, r.name, mean, note)
		}
		if err := os.WriteFile(path, source, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// meanScore returns the mean of scores, and by how much the greatest and the least differ.
func meanScore(all []score) (mean, spread score) {
	for i := range mean {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, s := range all {
			mean[i] += s[i] / float64(len(all))
			lo, hi = min(lo, s[i]), max(hi, s[i])
		}
		spread[i] = hi - lo
	}
	return mean, spread
}

// copyModule copies the module.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if strings.HasPrefix(e.Name(), ".") && name != "." {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o777)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}
