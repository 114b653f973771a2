// SPDX-License-Identifier: BSD-3-Clause

// Command mutate measures how well tests guard the code of a package. It makes one small
// mistake at a time in the package (a mutant) and runs the package's own tests with -short. If
// they pass, it runs those of the packages that -tests names and that use the package, the
// quickest first. Tests that all pass have let the mutant survive: either they do not look
// there, or the mistake changes nothing that matters.
//
//	go run ./internal/mutate -pkg ./ping -n 200 -seed 1
//	go run ./internal/mutate -pkg . -tests ./... -n 120     how many its own tests kill, and how many all
//
// The mistakes: a comparison or its bound changed (< becomes <=, == becomes !=, min
// becomes max), a sign or an operator changed (+ becomes -, << becomes >>, && becomes
// ||), a constant changed, a condition negated, a statement removed. Those that do not
// compile are not counted. The tree stays as it is: the compiler is given the changed
// file in place of the original (go build -overlay). Each run may take -limit of processor
// time, four times that by the clock, and 4 GB; a mutant that exceeds them counts as killed.
//
// Survivors that are known to change nothing that matters stand in equivalent.txt, with
// the reason. They are printed and count neither as killed nor as survivors.
//
// A run takes about a second a mutant on 2 cores: 200 of ping took 138 s. Further tests take
// more for those mutants only that the package's own let survive.
//
// It needs a Unix shell.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"
)

func main() {
	log.SetFlags(0)
	pkg := flag.String("pkg", "", "the package, such as ./ping")
	tests := flag.String("tests", "", "further packages whose tests run after its own, such as ./internal/vectors,./internal/sim or ./...")
	n := flag.Int("n", 200, "number of mutants, drawn at random; 0 for all")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	limit := flag.Duration("limit", 0, "processor time for the tests of one package; 0 for ten times what they take, at least 10 s")
	workers := flag.Int("j", runtime.NumCPU(), "mutants at a time")
	least := flag.Float64("min", 0, "fail if fewer percent are killed, by its own tests or by others")
	list := flag.Bool("list", false, "list the mutants and run nothing")
	flag.Parse()
	if *pkg == "" || flag.NArg() > 0 || *workers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	p, err := load(*pkg)
	if err != nil {
		log.Fatal(err)
	}
	mutants := p.mutants()
	all := len(mutants)
	r := rand.New(rand.NewPCG(*seed, 0))
	r.Shuffle(all, func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	if *n > 0 && *n < all {
		mutants = mutants[:*n]
	}
	fmt.Printf("%s: %d of %d mutants, seed %d\n", p.path, len(mutants), all, *seed)
	if *list {
		for _, m := range mutants {
			fmt.Println(m)
		}
		return
	}
	if share := judge(p, mutants, *tests, *limit, *workers); share < *least {
		log.Fatalf("less than %.1f %%", *least)
	}
}

// judge runs the tests against all mutants, prints what survives, and returns the
// percentage that was killed.
func judge(p *pkg, mutants []mutant, tests string, limit time.Duration, workers int) float64 {
	known, err := equivalents(p.path)
	if err != nil {
		log.Fatal(err)
	}
	t, err := newTester(p, tests, limit)
	if err != nil {
		log.Fatal(err)
	}
	defer t.close()
	start := time.Now()
	var count [fates_]int
	own := 0
	for r := range runAll(t, mutants, workers) {
		reason, ok := known[r.mutant.key()]
		switch {
		case r.fate != survived:
		case ok:
			r.fate = equivalent
			fmt.Printf("equivalent: %v\n\tbecause %s\n", r.mutant, reason)
		default:
			fmt.Printf("survived: %v\n", r.mutant)
		}
		count[r.fate]++
		if r.own && (r.fate == killed || r.fate == timedOut) {
			own++
		}
	}
	killed := count[killed] + count[timedOut]
	all := float64(max(killed+count[survived], 1))
	share := 100 * float64(killed) / all
	if len(t.tests) > 1 {
		fmt.Printf("%.1f %% killed by the package's own tests: %d\n", 100*float64(own)/all, own)
	}
	fmt.Printf("%.1f %% killed: %d (%d of them by the time limit), %d survived, %d equivalent, %d did not build; %.0f s\n",
		share, killed, count[timedOut], count[survived], count[equivalent], count[broken], time.Since(start).Seconds())
	return share
}

// result is what became of one mutant.
type result struct {
	mutant mutant
	fate   fate
	own    bool // the package's own tests decided that
}

// runAll runs the tests against all mutants and sends what became of each.
func runAll(t *tester, mutants []mutant, workers int) <-chan result {
	next, results := make(chan int), make(chan result)
	go func() {
		for i := range mutants {
			next <- i
		}
		close(next)
	}()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				results <- t.run(i, mutants[i])
			}
		})
	}
	go func() {
		wg.Wait()
		close(results)
	}()
	return results
}
