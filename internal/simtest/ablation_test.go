// This test proves that each rule of the estimator is worth its lines: it measures the
// worlds without each of them.

package simtest

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

	"timesync/internal/sim"
	"timesync/internal/sim/authorbench"
	"timesync/internal/sim/simnet"
)

var (
	ablation = flag.Bool("ablation", false,
		"print what each rule of the estimator buys: "+
			"about half a minute of processor time for each")
	ablationRule = flag.String("ablation.rule", "",
		"only rules of that table whose name matches this regexp")
	ablationColumn = flag.String("ablation.column", "",
		"only columns of that table whose name matches this regexp")
	ablationFile = flag.String("ablation.file", "",
		"write the figures of that table for this copy of the estimator to this file")
)

// The estimator is in subjectFile of the folder root.
const root, subjectFile = "../..", "synchronizer.go"

// rule is a rule of the estimator. Its line ends in a comment of its own, or stands below that:
//
//	// rule: NAME
//
// Without the rule the text in the line that the regexp from finds is to, with $1 for the first
// group. Without from, the condition of an if or a case is false, and any other statement is
// not there.
type rule struct{ name, from, to string }

var rules = []rule{
	{name: "two floors that part are a rate"},
	{name: "a round trip shorter than nothing is a clock's"},
	{"what clocks may drift apart unseen is no step", `if .*`, `if true {`},
	{name: "a slew is late by what lacks, a queue by more"},
	{name: "a line that sinks starts anew"},
	{name: "until its slope is known a floor is where it was seen"},
	{name: "a long silence measures the rate"},
	{"a clock that is set moves both floors", `:= .*`, `:= opens`},
	{name: "a queue teaches no round trip"},
	{name: "what lacks may be a clock's"},
	{name: "originals are told apart"},
	{"what is late may be a clock that no report has shown yet", `if (.*) {`, `if true || $1 {`},
	{name: "a new rate may be two ways that change places"},
	{name: "no clock makes a round trip longer: a path ramps"},
	{name: "what no queue explains is the clock"},
	{"longer than a well known round trip is another one", `return .*`, `return false`},
	{name: "a shorter round trip is taken at once in warm-up"},
	{name: "another round trip that lasts is learnt"},
	{name: "asymmetries decay"},
	{name: "outliers come neither three times, nor in each bucket"},
	{"what is congested opens no gate", `-w\.congestedFor`, ``},
	{name: "what is near may be late"},
	{name: "the first bucket need not be over"},
	{name: "what lasts is no queue"},
	{name: "spans double"},
	{"both clocks may be coarse", `return .*`, `return 0`},
}

var (
	ruleMark  = regexp.MustCompile(`^(.*?)\s*// rule: (.+?)(?:; without: .*)?$`)
	condition = regexp.MustCompile(`^(\s*(?:(?:\} else )?if (?:.*; )?|case ))(.+?)( \{|:)\s*$`)
)

// findMarks returns the numbers of the lines that rules are about, from 0 on.
func findMarks(lines []string) (at map[string][]int) {
	at = map[string][]int{}
	for i, line := range lines {
		if m := ruleMark.FindStringSubmatch(line); m != nil {
			if m[1] == "" {
				i++
			}
			at[m[2]] = append(at[m[2]], i)
		}
	}
	return at
}

// without returns the source without the rule.
func (r rule) without(source string) (string, error) {
	lines := strings.Split(source, "\n")
	at := findMarks(lines)[r.name]
	if len(at) != 1 || at[0] >= len(lines) {
		return "", fmt.Errorf("rule %q: %d lines are marked with it, want 1", r.name, len(at))
	}
	line, _, _ := strings.Cut(lines[at[0]], " // rule: ")
	switch m := condition.FindStringSubmatch(line); {
	case r.from != "":
		from := regexp.MustCompile(r.from)
		if n := len(from.FindAllString(line, -1)); n != 1 {
			return "", fmt.Errorf("rule %q: %q is found %d times, want once, in line %d: %s",
				r.name, r.from, n, at[0]+1, line)
		}
		line = from.ReplaceAllString(line, r.to)
	case m != nil:
		line = m[1] + "false && (" + m[2] + ")" + m[3]
	default:
		line = ""
	}
	lines[at[0]] = line
	return strings.Join(lines, "\n"), nil
}

// checker returns what checks that the package of a folder compiles when one of its files is
// another.
func checker(folder string) func(name, source string) error {
	fset := token.NewFileSet()
	all := importer.ForCompiler(token.NewFileSet(), "source", nil)
	return func(name, source string) error {
		var files []*ast.File
		for _, path := range must(filepath.Glob(filepath.Join(folder, "*.go"))) {
			var text any
			if filepath.Base(path) == name {
				text = source
			}
			if !strings.HasSuffix(path, "_test.go") {
				file, err := parser.ParseFile(fset, path, text, 0)
				if err != nil {
					return err
				}
				files = append(files, file)
			}
		}
		_, err := (&types.Config{Importer: all}).Check("timesync", fset, files, nil)
		return err
	}
}

// TestAblation removes one rule of the estimator after the other and prints for each column
// what becomes of its figure, most often the p99 of the error: without the rule over with it.
// Above 1 the rule helps. Behind the columns stands the single kind of world that needs it most.
// A rule that no column needs by more than 5 % is marked: "needed by no column".
//
// Without the flag it only checks that every rule in the source is in the table, that
// every one in the table is marked once in the source, and that what is left without it compiles.
func TestAblation(t *testing.T) {
	if *ablationFile != "" {
		measured := must(json.Marshal(newFigures(t)))
		if err := os.WriteFile(*ablationFile, measured, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	source := string(must(os.ReadFile(filepath.Join(root, subjectFile))))
	for name := range findMarks(strings.Split(source, "\n")) {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			t.Errorf("%s: rule %q is not in the table", subjectFile, name)
		}
	}
	check := checker(root)
	for _, r := range rules {
		without, err := r.without(source)
		if err == nil {
			err = check(subjectFile, without)
		}
		if err != nil {
			t.Errorf("%s without rule %q: %v", subjectFile, r.name, err)
		}
	}
	if *ablation && !t.Failed() {
		printAblation(t, source)
	}
}

// TestRulesExplained: DESIGN explains each rule, with its name in italics.
func TestRulesExplained(t *testing.T) {
	design := strings.ToLower(string(must(os.ReadFile(filepath.Join(root, "docs/DESIGN.md")))))
	words := strings.Join(strings.Fields(design), " ") // a name may go on in the next line
	for _, r := range rules {
		italics := regexp.MustCompile(`\*` + regexp.QuoteMeta(strings.ToLower(r.name)) + `\.?\*`)
		if !italics.MatchString(words) {
			t.Errorf("docs/DESIGN.md does not have *%s*", r.name)
		}
	}
}

// ablated measures the estimator with this source, in a process of its own.
func ablated(dir, source string) (f figures, err error) {
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must(0, os.WriteFile(path, content, 0o666))
		return path
	}
	subject := must(filepath.Abs(filepath.Join(root, subjectFile)))
	replaced := write("replaced.go", []byte(source))
	replace := map[string]map[string]string{"Replace": {subject: replaced}}
	overlay := write("overlay.json", must(json.Marshal(replace)))
	out := write("figures", nil)
	command := exec.Command("go", "test",
		"-overlay", overlay,
		"-run", "^TestAblation$",
		"-timeout", "30m",
		".",
		"-args",
		"-ablation.file", out,
		"-ablation.column", *ablationColumn,
		"-traces", *traces,
		"-seed.first", fmt.Sprint(*seedFirst),
	)
	log, failed := command.CombinedOutput()
	if err := json.Unmarshal(must(os.ReadFile(out)), &f); err != nil {
		return nil, fmt.Errorf("%v, %w\n%s", failed, err, log[max(0, len(log)-1000):])
	}
	return f, nil
}

// printAblation prints the table of rules.
func printAblation(t *testing.T, source string) {
	dir := t.TempDir()
	whole := must(ablated(dir, source))
	header := ""
	with := ""
	for _, c := range columns {
		if whole[c.name] != nil {
			header += fmt.Sprintf(" %8s", c.name)
			with += fmt.Sprintf(" %8.4g", whole.mean(c.name))
		}
	}
	t.Logf("-seed.first %d; with all rules, most in us, then without/with\n%-54s%s\n%-54s%s",
		*seedFirst, "without the rule", header, "(with all rules)", with)
	match := regexp.MustCompile(*ablationRule)
	for _, r := range rules {
		if !match.MatchString(r.name) {
			continue
		}
		if f, err := ablated(dir, must(r.without(source))); err != nil {
			t.Errorf("rule %q: %v", r.name, err)
		} else {
			t.Logf("%-54s%s", r.name, f.beside(whole))
		}
	}
}

// mean returns the geometric mean of a column.
func (f figures) mean(column string) float64 {
	var logs errors
	for _, v := range f[column] {
		logs = append(logs, math.Log(v))
	}
	return math.Exp(logs.mean())
}

// beside returns a line of the table: these figures over those of the whole.
func (f figures) beside(whole figures) string {
	line := ""
	most := 0.0 // of all ratios of single worlds
	where := ""
	needed := false
	for _, c := range columns {
		column := c.name
		if whole[column] == nil {
			continue
		}
		ratio := f.mean(column) / whole.mean(column)
		needed = needed || ratio > 1.05
		line += fmt.Sprintf(" %8.3f", ratio)
		for _, name := range slices.Sorted(maps.Keys(f[column])) {
			if x := f[column][name] / whole[column][name]; x > most {
				most = x
				where = column + "/" + name
			}
		}
	}
	line += fmt.Sprintf("  most %.2f, %s", most, where)
	if !needed {
		line += "; NEEDED BY NO COLUMN"
	}
	return line
}

// figures are what came out in each kind of world of each column. Less is better.
type figures map[string]map[string]float64

const ablationSeeds = 6 // of each kind of world, at least

// columns are those of the table. Most have p99 of the error, in us. To each figure something is
// added that nobody would miss, or the ratio of two small ones would say too much.
var columns = []struct {
	name    string
	measure func() map[string]float64
}{
	{"calm", ofScenarios(isCalm)},
	{"slow", ofScenarios(isSlow)}, // at most 10 datagrams a second
	{"minute", p99Of(oneAMinute, ablationSeeds)},
	{"LAN", p99Of(lanWorlds, ablationSeeds)},
	{"bursts", ofScenarios(isBurst)}, // pairs, frames, jitter that lasts, bundles
	{"lossy", ofScenarios(tagged(sim.Lossy))},
	{"queues", ofScenarios(tagged(sim.Queued))},
	{"routes", ofScenarios(tagged(sim.Routed))},
	{"clocks", ofScenarios(tagged(sim.Jumped))},
	{"coarse", p99Of(coarseWorlds60, ablationSeeds)},
	{"mixture", mixtureWorlds},
	{"steps", stepWorlds},  // time until within 1 ms
	{"early", earlyWorlds}, // a clock is set in the first seconds: time until right
	{"fast", fastClocks},   // 300 to 1,000 ppm apart, or slewed by 500
	{"start", startWorlds},
	{"silence", silenceWorlds},
	{"outliers", outlierWorlds},
	{"hostile", siegeWorlds("wrong", func(o outcome) time.Duration { return o.wrong })},
	// the bound, there and in random worlds
	{"beyond", siegeWorlds("beyond", func(o outcome) time.Duration { return o.beyond })},
	{"bound", boundWidths}, // over half the round trip
	{"beside", besideWorlds},
	{"traces", p99Of(recordings, 2)}, // the delays are always the same
	{"begun", p99Of(begunWorlds, 1)}, // on a busy link
	{"ramps", rampWorlds},
}

func newFigures(t *testing.T) figures {
	f := figures{}
	match := regexp.MustCompile(*ablationColumn)
	for _, c := range columns {
		if !match.MatchString(c.name) {
			continue
		}
		start := time.Now()
		f[c.name] = c.measure()
		t.Logf("%s: %.1f s", c.name, time.Since(start).Seconds())
	}
	return f
}

// ---- Kinds of scenarios ----

func isBurst(sc sim.Scenario) bool {
	return sc.SendAB != nil || strings.HasPrefix(sc.Name, "lasting")
}

func isSlow(sc sim.Scenario) bool { return sc.RateAB > 0 && sc.RateAB <= 10 }

func isCalm(sc sim.Scenario) bool { return sc.Tag == sim.Calm && !isBurst(sc) && !isSlow(sc) }

func tagged(tag sim.Tag) func(sim.Scenario) bool {
	return func(sc sim.Scenario) bool { return sc.Tag == tag && !isBurst(sc) }
}

// p99s returns p99 of the errors in each scenario.
func p99s(scenarios []sim.Scenario, seeds int) map[string]float64 {
	named := map[string]float64{}
	p99 := eachSeed(len(scenarios), func(i uint64) float64 {
		return measure(scenarios[i], alone, seeds)[0].poll.p99()
	})
	for i, sc := range scenarios {
		named[sc.Name] = p99[i] + 2
	}
	return named
}

// p99Of returns what measures p99s.
func p99Of(scenarios func() []sim.Scenario, seeds int) func() map[string]float64 {
	return func() map[string]float64 { return p99s(scenarios(), seeds) }
}

func ofScenarios(is func(sim.Scenario) bool) func() map[string]float64 {
	return func() map[string]float64 {
		those := slices.DeleteFunc(sim.Scenarios(), func(sc sim.Scenario) bool { return !is(sc) })
		for i := range those {
			if those[i].Name == "frames-40" { // 4,800 datagrams a second
				those[i].Duration = 60 * sec
			}
		}
		return p99s(those, ablationSeeds)
	}
}

// ---- Columns ----

// coarseWorlds60 are clocks that advance in steps, at 60 datagrams a second.
func coarseWorlds60() []sim.Scenario { return slices.DeleteFunc(sim.CoarseScenarios(), isSlow) }

func lanWorlds() (scenarios []sim.Scenario) {
	for _, c := range oscillators {
		scenarios = append(scenarios, c.world())
	}
	return scenarios
}

func fastClocks() map[string]float64 {
	named := map[string]float64{}
	for _, slewed := range []bool{false, true} {
		results := eachSeed(60, func(seed uint64) fast {
			return fastRun(slewed, *seedFirst+seed+1)
		})
		var mean geometricMean
		for _, x := range results {
			mean.add(x.ours+50, 1)
		}
		named[fmt.Sprint("slewed ", slewed)] = mean.value()
	}
	return named
}

func mixtureWorlds() map[string]float64 {
	e := measure(sim.ScenarioNamed("mixture"), alone, 4*ablationSeeds)[0].poll
	return map[string]float64{"p99": e.p99() + 25, "max": e.most() + 100}
}

// stepWorlds measures p99 of the time, in s, until an end is within 1 ms after a step.
func stepWorlds() map[string]float64 {
	f := map[string]float64{}
	for _, reports := range []time.Duration{sec / 2, sec, 2 * sec} {
		verdicts := eachSeed(200, func(i uint64) verdict {
			size := time.Duration(math.Pow(10, float64(i)/26) * float64(ms)) // 1 ms to 13 h
			if i&2 != 0 {
				size = -size
			}
			d := faultWorld(i)
			d.reports = reports
			d.step(int(i&1), settled, size)
			return judge(d, settled, settled, 0)
		})
		var within errors
		for _, v := range verdicts {
			within = append(within, v.within[0].Seconds(), v.within[1].Seconds())
		}
		f[reports.String()] = within.p99() + 0.1
	}
	return f
}

// earlyWorlds measures for how long both ends are wrong when a clock is set by 10 to 100 ms within
// 6 s of the start.
func earlyWorlds() map[string]float64 {
	e := errors(eachSeed(300, func(seed uint64) float64 {
		r := simnet.Dice{R: newRand(*seedFirst+seed, 7)}
		at := r.Span(0, 6*sec)
		d := faultWorld(seed)
		d.until = 60 * sec
		d.reports = r.Span(500*ms, 2*sec)
		rate := r.Between(20, 60)
		base := r.Span(ms/2, 40*ms)
		for side := range d.ends {
			d.ends[side].rate = rate
			d.ends[side].base = base
		}
		side := r.R.IntN(2)
		step := time.Duration(r.Sign()) * r.Span(10*ms, 100*ms)
		d.step(side, at, step)
		v := judge(d, at, at, 0)
		return max(v.within[0], v.within[1]).Seconds()
	}))
	return map[string]float64{"p90": e.quantile(0.9) + 1, "p95": e.quantile(0.95) + 1}
}

func startWorlds() map[string]float64 {
	scenarios := startupWorlds()
	for i := range scenarios {
		scenarios[i].Duration = 10 * sec
		scenarios[i].Warmup = sec
	}
	f := p99s(scenarios, 10)
	for name := range f {
		f[name] += 25
	}
	return f
}

func silenceWorlds() map[string]float64 {
	const worlds = 100
	by := make(errors, worlds)
	lasting := make(errors, worlds)
	eachOf(worlds, func(i int) { by[i], lasting[i] = afterSilence(*seedFirst + uint64(i)) })
	return map[string]float64{"further off, us": by.p99() + 25, "so long, s": lasting.p99() + 1}
}

func outlierWorlds() map[string]float64 {
	var e errors
	for i := range ablationSeeds {
		d := faultWorld(uint64(i))
		d.until = 40 * sec
		earlyStamps(d)
		d.onQuery = func(q *query) {
			if q.ok && q.at > 10*sec {
				e = append(e, math.Abs(q.err))
			}
		}
		d.run()
	}
	return map[string]float64{"p99": e.p99() + 2, "max": e.most() + 10}
}

// siegeWorlds measures for how long harm lasts after each attack, s.
func siegeWorlds(what string, of func(outcome) time.Duration) func() map[string]float64 {
	return func() map[string]float64 {
		all := map[string]errors{}
		for _, s := range playSieges(24 * len(attacks)) {
			for _, o := range s.outcomes {
				all[s.attack.name] = append(all[s.attack.name], max(of(o).Seconds(), 0))
			}
		}
		f := map[string]float64{}
		for name, e := range all {
			f[name] = e.p99() + 1
		}
		if what == "beyond" {
			const worlds = 3000
			f["random worlds"] = float64(playBounds(worlds).beyondWorlds) + 3
		}
		return f
	}
}

func boundWidths() map[string]float64 {
	b := playBounds(1000)
	return map[string]float64{
		"median": b.quietUse.quantile(0.5),
		"p95":    b.quietUse.quantile(0.95),
	}
}

// besideWorlds are worlds in which an original is the peer: p99 of our end, and of the original.
func besideWorlds() map[string]float64 {
	f := map[string]float64{}
	scenarios := slices.DeleteFunc(sim.Scenarios(), isBurst)
	results := eachSeed(len(scenarios), func(i uint64) beside {
		return besideOriginal(scenarios[i], 1)
	})
	for i, b := range results {
		name := scenarios[i].Name
		f[name+", ours"] = b.errs[1].p99() + 50
		f[name+", the original"] = b.errs[2].p99() + 50
	}
	return f
}

// recordings are those of the project, and those of -traces.
func recordings() (scenarios []sim.Scenario) {
	for _, path := range append(tracePaths(*traces), tracePaths("../sim/testdata")...) {
		sc := must(sim.Replay(filepath.Base(path), path))
		if strings.Contains(path, "-start") {
			sc.Warmup = 5 * sec
		}
		scenarios = append(scenarios, sc)
	}
	return scenarios
}

func begunWorlds() []sim.Scenario {
	scenarios := begunScenarios()
	for i, sc := range scenarios {
		scenarios[i] = sc.Apart(60)
	}
	return scenarios
}

// rampWorlds are queues that grow for long.
func rampWorlds() map[string]float64 {
	f := map[string]float64{}
	for _, sc := range must(authorbench.Scenarios()) {
		if sc.ID == "E72" || sc.ID == "E125" {
			job := upJob{
				sc:    sc,
				mode:  authorbench.Mode{Integrated: true, Skewed: true},
				seeds: 8,
			}
			f[sc.ID] = job.play().ratio() + 0.01
		}
	}
	return f
}
