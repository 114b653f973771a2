package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"timesync/internal/sim"
	"timesync/internal/upstream"
)

func main() {
	start := time.Now()
	var ws []world
	for _, sc := range sim.Scenarios() {
		if len(os.Args) < 2 || slices.Contains(os.Args[1:], sc.Name) {
			ws = append(ws, simWorld(sc, simulated, 6))
		}
	}
	up, err := upstream.Scenarios()
	if err != nil {
		panic(err)
	}
	if len(os.Args) < 2 {
		for _, sc := range up {
			ws = append(ws, authorWorld(sc, published, upstream.Mode{}, 3))
		}
	}
	rs := make([][]result, len(ws))
	each(len(ws), func(i int) { rs[i] = measure(ws[i], 1) })
	fmt.Printf("%-30s", "")
	for _, c := range columns() {
		fmt.Printf("%11s", c)
	}
	fmt.Println()
	geo := make([][]float64, len(columns()))
	for i, w := range ws {
		fmt.Printf("%-30s", w.name)
		for k, r := range rs[i] {
			fmt.Printf("%11.0f", quantile(r.errs, .99))
			geo[k] = append(geo[k], math.Max(1, quantile(r.errs, .99)))
		}
		fmt.Println()
	}
	for k := range geo {
		fmt.Printf("%11.1f", geometric(geo[k]))
	}
	fmt.Println(time.Since(start))
}
