package sim_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
)

var (
	ablation     = flag.Bool("ablation", false, "print what each rule of the estimator buys: some seconds for each")
	ablationRule = flag.String("ablation.rule", "", "only rules of that table whose name contains this")
	scoreFile    = flag.String("score", "", "write the figures of the table of -ablation for this copy of the estimator to this file")
)

// ablations are the rules of the estimator, each with the edit of its file that
// removes it. The edit must leave code that compiles.
var ablations = []struct{ rule, old, new string }{
	{"skew: the floor has a slope", "s.slope = min(max(s.skew0+gain*(slope-s.skew0), -maxSkew), maxSkew)", "s.slope = 0 * gain"},
	{"skew: shrink to what was known", "gain := s.skewVar / (s.skewVar + s.fitVar)", "gain := 1.0"},
	{"skew: what was known drifts", "drift := skewDrift * (x - s.fitAt)", "drift := 0.0"},
	{"skew: surprises", "if d := slope - s.skew0; d*d >", "if d := slope - s.skew0; d*d > 1e9*"},
	{"points: spans double", "if s.width < maxWidth && 16*s.width <= window {", "if false {"},
	{"points: window follows the noise", "window = min(max(window, minWindow), maxWindow)", "window = 4 * minWindow"},
	{"points: the path adds to the noise", "noise = max(noise, s.mean/float64(k))", "_ = k"},
	{"gate: late for 12 s is a level", "if x-s.lateAt > lateTime {", "if false {"},
	{"gate: what holds still is a level", "if s.stands(x, levelTime) {", "if false {"},
	{"gate: what holds still is reported early", "if s.peered && s.stands(x, tellTime) {", "if false {"},
	{"gate: silence is not lateness", "if gap > tellTime {", "if false {"},
	{"gate: grows in silence", "s.gate += (gapSkew + 3*s.slopeError()) * gap", ""},
	{"falls: strays do not come thrice", "if s.fallN < fallRun {", "if false {"},
	{"verdict: hold until both floors tell", "s.pending, s.since, s.held = true, x, s.hold", "s.pending, s.since, s.held = false, x, s.hold"},
	{"verdict: the peer saw the other side", "if s.pending && s.freshN >= lateRun &&", "if false &&"},
	{"verdict: no round trip below nothing", "{ return s.roundTrip() < -s.gate-s.peerGate() }", "{ return false }"},
	{"verdict: reports older than a step", "if s.stale != 0 && x-s.staleAt < staleTime &&", "if false &&"},
	{"peer: moves with our floor", "if s.freshN >= lateRun && b < -minGate {", "if false {"},
	{"guard: the round trip limits the hold", "if limit >= 0 {", "if false {"},
	{"bound: the latest residual", "slack + float64(s.odd)", "slack"},
	{"bound: moves that wait", "bound += math.Abs(s.own) + math.Abs(s.peer)", ""},
}

// score are the figures of the table.
type score struct {
	Mean    float64 // geometric mean of p99 relative to the original's
	Worst   float64 // and the worst scenario's, with 25 us added to both
	Where   string
	Mixture float64 // p99 in the mixture of faults, us
	Beyond  int     // of 1000 random worlds, those with an error beyond the bound
	Bound   float64 // median bound there, us
	Slow    int     // faults of TestSteps, TestSuspends and their like not right again within 2.5 s, of 100
	Start   float64 // geometric mean of mean errors in the first 10 s relative to the original's
	Traces  float64 // geometric mean of p99 on the recorded series, 0 without -traces
}

func (s score) String() string {
	return fmt.Sprintf("%6.3f %6.2f %-22s %8.0f %6d %8.0f %5d %7.3f %7.3f", s.Mean, s.Worst, s.Where, s.Mixture, s.Beyond, s.Bound, s.Slow, s.Start, s.Traces)
}

const scoreHeader = "  mean  worst where                   mixture beyond    bound  slow   start  traces"

func scorePairs() []sim.Pair {
	return []sim.Pair{{A: &sim.Original{}, B: &sim.Original{}}, {A: &subject{}, B: &subject{}}}
}

// newScore measures this copy of the estimator.
func newScore(t *testing.T) (s score) {
	var mean geometricMean
	for _, sc := range sim.Scenarios() {
		worlds := 2
		if sc.Name == "mixture" {
			worlds = 16
		}
		r := measure(sc, scorePairs, worlds)
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

	b := playBounds(1, 1000)
	s.Beyond, s.Bound = len(b.worst), b.all.quantile(0.5)

	var cases []faultCase
	for i := range 100 {
		size := time.Duration(math.Pow(10, float64(i)/13) * float64(ms)) // 1 ms to 10 h
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
// becomes of the figures:
//
//	go test ./internal/sim -run TestAblation -v -timeout 30m -ablation -traces FOLDER
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
	file := filepath.Join("internal", "sim", subjectFile)
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range ablations {
		if n := strings.Count(string(source), a.old); n != 1 {
			t.Errorf("rule %q: its text occurs %d times in %s, want once: %s", a.rule, n, file, a.old)
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
	measureCopy := func(text string) (s score, err error) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			return s, err
		}
		out := filepath.Join(dir, "score")
		os.Remove(out)
		cmd := exec.Command("go", "test", "./internal/sim", "-run", "^TestAblation$", "-count", "1", "-vet", "off", "-timeout", "3m", "-score", out, "-traces", traces)
		cmd.Dir = dir
		if log, err := cmd.CombinedOutput(); err != nil {
			return s, fmt.Errorf("%w\n%s", err, log[max(0, len(log)-1000):])
		}
		b, err := os.ReadFile(out)
		if err != nil {
			return s, err
		}
		return s, json.Unmarshal(b, &s)
	}
	t.Logf("%-40s %s", "without the rule", scoreHeader)
	s, err := measureCopy(string(source))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-40s %v", "(nothing removed)", s)
	for _, a := range ablations {
		if !strings.Contains(a.rule, *ablationRule) {
			continue
		}
		s, err := measureCopy(strings.Replace(string(source), a.old, a.new, 1))
		if err != nil {
			t.Errorf("%s: %v", a.rule, err)
			continue
		}
		t.Logf("%-40s %v", a.rule, s)
	}
}

// copyModule copies the Go files of the module and the test data of this package.
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
		if !slices.Contains([]string{".go", ".mod"}, filepath.Ext(name)) || !e.Type().IsRegular() {
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
