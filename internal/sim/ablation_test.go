package sim_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
)

var (
	ablation     = flag.Bool("ablation", false, "print what each rule of the estimator buys: about 40 s for each")
	ablationRule = flag.String("ablation.rule", "", "only rules of that table whose name matches this regexp")
	scoreFile    = flag.String("score", "", "write the figures of the table of -ablation for this copy of the estimator to this file")
)

// ablations are the rules of the estimator, each with the edit of its files that
// removes it. The edit must leave code that compiles.
var ablations = []struct{ rule, old, new string }{
	{"slope: the floor has one", "slope = min(max(skew0+skewVar/(skewVar+fitVar)*(slope-skew0), -maxSkew), maxSkew)", "slope = 0"},
	{"slope: shrinks to what was known", "skew0+skewVar/(skewVar+fitVar)*(slope-skew0)", "slope"},
	{"slope: what was known drifts", "drift := skewDrift * (x - l.fitAt)", "drift := 0.0"},
	{"slope: surprises", "d*d < surprise*surprise*(skewVar+fitVar)", "d*d < math.Inf(1)"},
	{"slope: what bends for 12 s", "if l.bentFor > lateTime {", "if false {"},
	{"slope: a smaller one is believed then", "if abs(slope) < max(abs(skew0), priorSkew) {", "if false {"},
	{"slope: surprising as a level ends, unknown", "if l.bentFor > 0 {", "if false {"},
	{"slope: nothing comes near two levels", "rest < maxSkew*s.lateFor {", "rest < 0 {"},
	{"slope: outlives a level", "if l.n >= knowPoint {", "if false {"},
	{"slope: a line that sinks starts anew", "if l.sunk > l.gate && l.n >= fitPoints {", "if false {"},
	{"slope: a clock that is set again is slewed", "s.own.slewed() // so little, or again", ""},
	{"points: spans double", "if l.width < maxWidth && !longer(16*float64(l.width)) {", "if false {"},
	{"points: window follows the noise", "return t > minWindow && (t > maxWindow || t*t*t > cube)", "return t > 4*minWindow+0*cube"},
	{"points: the dip is noise at first", "noise = max(noise, 18*float64(dip)/float64(l.n))", ""},
	{"points: noise rises by halves", "l.noise = min(spread, 1.5*l.noise+1)", "l.noise = spread"},
	{"points: an oldest one that was wrong", "if lo > hi/2+minGate {", "if false {"},
	{"gate: of buckets, follows the dip", "return s.own.gate + min(6*s.dip, 2*s.mean)", "return s.own.gate"},
	{"gate: from the first bucket", "s.own.noise == unknown && s.calm == 0 && s.count >= bucketRun", "false"},
	{"gate: a new level is rough here", "s.own.gate = max(s.own.gate, min(s.mean, unknown))", ""},
	{"gate: a new level is rough at the peer", "s.peerNoise = max(s.peerNoise, s.mean/4)", ""},
	{"late: 12 s are a level", "if s.lateFor > lateTime {", "if false {"},
	{"late: what holds still is a level", "case s.runFor > levelTime && s.stands():", "case false:"},
	{"late: what holds still is reported early", "if (s.alien == 0 || s.events > vague) && s.peered && x > youth && s.stands() {", "if false {"},
	{"late: what is alike, follows the dip", "min(max(minGate, 2*s.dip), 2*minGate)", "minGate"},
	{"late: a bucket under way denies nothing", "(s.count <= bucketRun || low > s.runMin)", "s.count <= bucketRun"},
	{"late: nothing is told early in the first 6 s", "s.peered && x > youth && s.stands()", "s.peered && s.stands()"},
	{"late: silence is not lateness", "s.run, s.isLate = 0, false // silence is not lateness", ""},
	{"falls: what told a step had queued", "case a < 0 && s.stale != 0:", "case false:"},
	{"falls: strays do not come thrice", "if s.strays < strayRun {", "if false {"},
	{"events: the offset holds", "s.hold = hold\n", "_ = hold\n"},
	{"events: a clock, if the round trip is what it was", "case abs(lack) < min(noise, abs(d)/2) &&", "case false &&"},
	{"events: a clock takes the hold back", "s.hold = s.held\n", "_ = s.held\n"},
	{"events: what the peer lacks, we were late by", "lack > minGate && d <= min(late, lack)/2", "false && d <= min(late, lack)/2"},
	{"events: young falls are believed", "case s.young && low, s.trip < -noise:", "case s.trip < -noise:"},
	{"events: no round trip below nothing", "return s.peered && s.roundTrip() < -s.own.gate-s.peerGate()", "return false"},
	{"events: reports older than a step", "s.stale != 0 && x-s.eventAt < rough && abs(b) > s.peerGate()", "false"},
	{"events: small moves of the peer", "&& abs(b) < mildStep && abs(s.lack()) < abs(b)/4", "&& false"},
	{"events: what may have drifted in silence", "case s.isClock, abs(d) < s.drift:", "case s.isClock:"},
	{"events: vague holds are forgotten", "if over && s.hold != 0 &&", "if false &&"},
	{"events: what one path accounts for is not vague", "abs(rest) > s.noise()", "rest == rest"},
	{"events: a level when nothing was held", "s.events, s.known = 0, float32(s.calm)*bucket", "s.events = 0\n\t\t}\n\t\t{\n\t\t\ts.known = float32(s.calm) * bucket"},
	{"events: the hold is refined here", "} else if x-s.ownAt < rough && s.holds(x) {", "} else if false {"},
	{"events: the hold is refined by the peer", "if x-s.peerAt < rough && s.holds(x) {", "if false {"},
	{"events: what has settled moves slowly", "d *= min(float32(dt)/settling, 1)", ""},
	{"peer: rounding is averaged", "b /= 2\n", "_ = b\n"},
	{"guard: the round trip limits the hold", "if limit >= 0 {", "if false {"},
	{"guard: so does what it was", "|| abs(s.hold) > was+s.noise() {", "{"},
	{"clock: set back or far ahead", "if back <= setBack && back >= -setAhead {", "if true {"},
	{"clock: corrections of it are steps", "(s.isClock || s.drift != 0) && x-s.eventAt < verdict", "false"},
	{"alien: peers are told apart", "s.alien = alienRun\n", "_ = alienRun\n"},
	{"alien: an original forgets late", "v -= float64(s.rise) // an original has not forgotten either", "_ = v"},
	{"alien: falls beside it are believed", "s.young = s.young || s.alien != 0 && fell && low // an original tells rises late", "_ = fell"},
	{"bound: the crest", "s.slack + s.crest", "s.slack"},
	{"bound: what fell had queued", "s.crest -= 2 * y", "s.crest -= y"},
	{"bound: silence", "maxSkew*max(abs(float64(x))-float64(v.quiet), 0)", "0"},
	{"bound: what the round trip shrank by", "v.bound = s.wide - r/2", "v.bound = s.wide/2"},
	{"bound: the widest round trip", "s.wide = max(s.wide, r)", "s.wide = r"},
	{"bound: the first buckets count less", "min(s.calm-s.calm/4, calmRun)", "min(s.calm, calmRun)"},
	{"bound: floors of different clocks", "if min(r, s.trip) < -minGate {", "if false {"},
	{"bound: reports older than a step", "v.bound += abs(s.stale) + s.crest\n", "_ = x\n"},
}

// score are the figures of the table.
type score struct {
	Mean    float64 // geometric mean of p99 relative to the original's
	Worst   float64 // and the worst scenario's, with 25 us added to both
	Where   string
	Mixture float64 // p99 in the mixture of faults, us
	Stuck   int     // ends of 1600 that stay off by more than 1 ms after it
	Beyond  int     // of 20000 random worlds, those with an error beyond the bound
	Bound   float64 // median bound there, us
	Calm    float64 // greatest one in the calm ones, less 200 us, over half the round trip
	Slow    int     // faults of TestSteps, TestSuspends and their like not right again within 2.5 s, of 2000
	Start   float64 // geometric mean of mean errors in the first 10 s relative to the original's
	Traces  float64 // geometric mean of p99 on the recorded series, 0 without -traces
}

func (s score) String() string {
	return fmt.Sprintf("%6.3f %6.2f %-22s %8.0f %5d %6d %8.0f %5.2f %5d %7.3f %7.3f", s.Mean, s.Worst, s.Where, s.Mixture, s.Stuck, s.Beyond, s.Bound, s.Calm, s.Slow, s.Start, s.Traces)
}

const scoreHeader = "  mean  worst where                   mixture stuck beyond    bound  calm  slow   start  traces tests that fail"

// scoreTests are the tests of this package that a copy of the estimator runs,
// TestAblation for the figures. All of its own run as well.
const scoreTests = "^Test(Ablation|Interop|Start|Traces|Steps|Suspends|Restarts|Routes|Nuisances|Monotone|Upstream)$"

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (?:Test)?(\w+)`)

func scorePairs() []sim.Pair {
	return []sim.Pair{{A: &sim.Original{}, B: &sim.Original{}}, {A: &subject{}, B: &subject{}}}
}

// newScore measures this copy of the estimator.
func newScore(t *testing.T) (s score) {
	scenarios := sim.Scenarios()
	results := make([][]result, len(scenarios))
	eachOf(len(scenarios), func(next func() (int, bool)) {
		for i, ok := next(); ok; i, ok = next() {
			worlds := 2
			if scenarios[i].Name == "mixture" {
				worlds = 16
			}
			results[i] = measure(scenarios[i], scorePairs, worlds)
		}
	})
	var mean geometricMean
	for i, sc := range scenarios {
		r := results[i]
		p, q := r[1].poll.quantile(0.99), r[0].poll.quantile(0.99)
		mean.add(p, q)
		if ratio := (p + 25) / (q + 25); ratio > s.Worst {
			s.Worst, s.Where = ratio, sc.Name
		}
		if sc.Name == "mixture" {
			s.Mixture = p
		}
	}
	s.Mean = mean.value()

	off, _ := mixtureEnds(800)
	s.Stuck = off[1]

	b := playBounds(1, 20000)
	s.Beyond, s.Bound, s.Calm = len(b.worst), b.all.quantile(0.5), b.calmUse.quantile(1)/1000

	var cases []faultCase
	for i := range 2000 {
		size := time.Duration(math.Pow(10, float64(i)/260) * float64(ms)) // 1 ms to 10 h
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
		if max(c.v.within[0], c.v.within[1]) > 2500*ms {
			s.Slow++
		}
	}

	var start geometricMean
	for _, sc := range startupWorlds() {
		sc.Duration, sc.Warmup = 10*sec, sec
		r := measure(sc, scorePairs, 10)
		start.add(r[1].poll.mean(), r[0].poll.mean())
	}
	s.Start = start.value()

	paths, err := filepath.Glob(filepath.Join(flag.Lookup("traces").Value.String(), "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var traces geometricMean
	for _, path := range paths {
		if strings.Contains(path, "symsplit") || strings.Contains(path, "modelled") {
			continue
		}
		sc, err := sim.Replay("", path)
		if err != nil {
			t.Fatal(err)
		}
		r := measure(sc, scorePairs, 2)
		traces.add(r[1].poll.quantile(0.99), r[0].poll.quantile(0.99))
	}
	if traces.n > 0 {
		s.Traces = traces.value()
	}
	return s
}

// TestAblation removes one rule of the estimator after the other and prints what
// becomes of the figures, and which tests fail then:
//
//	go test ./internal/sim -run TestAblation -v -timeout 90m -ablation -traces FOLDER
//
// Without the flag it only checks that every rule is still there.
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
	sources := map[string]string{}
	for _, name := range subjectFiles {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(source)
	}
	for _, a := range ablations {
		n := 0
		for _, source := range sources {
			n += strings.Count(source, a.old)
		}
		if n != 1 {
			t.Errorf("rule %q: its text occurs %d times in %v, want once: %s", a.rule, n, subjectFiles, a.old)
		}
	}
	if !*ablation || t.Failed() {
		return
	}
	traces := flag.Lookup("traces").Value.String()
	if traces != "" {
		if traces, err = filepath.Abs(traces); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	copyModule(t, root, dir)
	// measureCopy returns a line of the table, for the sources with old replaced by new.
	measureCopy := func(old, new string) (line string, err error) {
		for name, source := range sources {
			if old != "" {
				source = strings.Replace(source, old, new, 1)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o666); err != nil {
				return "", err
			}
		}
		out := filepath.Join(dir, "score")
		os.Remove(out)
		cmd := exec.Command("go", "test", "./internal/sim", "-run", scoreTests, "-count", "1", "-vet", "off", "-timeout", "3m",
			"-score", out, "-traces", traces)
		cmd.Dir = dir
		log, failed := cmd.CombinedOutput()
		core := exec.Command("go", "test", "-short", "-count", "1", "-vet", "off", "-timeout", "3m", ".")
		core.Dir = dir
		coreLog, _ := core.CombinedOutput()
		b, err := os.ReadFile(out)
		if err != nil {
			return "", fmt.Errorf("%w, %w\n%s", failed, err, log[max(0, len(log)-1000):])
		}
		var s score
		for _, m := range failedTest.FindAllSubmatch(append(log, coreLog...), -1) {
			line += " " + string(m[1])
		}
		if failed != nil && line == "" {
			line = " " + failed.Error()
		}
		err = json.Unmarshal(b, &s)
		return s.String() + line, err
	}
	t.Logf("%-46s %s", "without the rule", scoreHeader)
	s, err := measureCopy("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-46s %v", "(nothing removed)", s)
	match := regexp.MustCompile(*ablationRule)
	for _, a := range ablations {
		if !match.MatchString(a.rule) {
			continue
		}
		s, err := measureCopy(a.old, a.new)
		if err != nil {
			t.Errorf("%s: %v", a.rule, err)
			continue
		}
		t.Logf("%-46s %v", a.rule, s)
	}
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
