// Command bench measures the speeds that dvt claims, each as a ratio to a floor
// measured in the same minute: `make bench`, or `make bench ONLY=name`. It prints
// one line a figure: ok or short, name, ratio, goal, floor, spread of the
// repetitions. The repetitions of a figure and its floor are interleaved and the
// median counts, because machines drift.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

const repetitions = 3

// figure is one claim: cost is measured against floor, both per operation.
type figure struct {
	name  string
	what  string
	goal  float64 // the ratio cost/floor is to be at most this
	setup func(ctx context.Context, dir string) (cost, floor measure, done func(), err error)
}

// measure returns what one operation costs.
type measure func(ctx context.Context) (time.Duration, error)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := os.Getenv("ONLY")
	found := false
	for _, f := range figures() {
		if only != "" && f.name != only {
			continue
		}
		found = true
		if err := f.print(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
	if !found {
		fmt.Fprintf(os.Stderr, "error: there is no figure %q; there are %s\n", only, strings.Join(names(), ", "))
		os.Exit(2)
	}
}

func names() (out []string) {
	for _, f := range figures() {
		out = append(out, f.name)
	}
	return out
}

func (f figure) print(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "dvt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cost, floor, done, err := f.setup(ctx, dir)
	if err != nil {
		return err
	}
	defer done()
	var ratios []float64
	var floors []time.Duration
	for range repetitions {
		low, err := floor(ctx)
		if err != nil {
			return err
		}
		high, err := cost(ctx)
		if err != nil {
			return err
		}
		floors = append(floors, low)
		ratios = append(ratios, float64(high)/float64(low))
	}
	slices.Sort(ratios)
	slices.Sort(floors)
	word := "ok"
	if ratios[repetitions/2] > f.goal {
		word = "short"
	}
	fmt.Printf("%-5s  %-24s  ratio %.2f  goal <= %.2f  floor %s  spread %.2f-%.2f  (%s)\n",
		word, f.name, ratios[repetitions/2], f.goal, floors[repetitions/2], ratios[0], ratios[repetitions-1], f.what)
	return nil
}

// median of n timed calls.
func median(n int, call func(i int) error) (time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range n {
		began := time.Now()
		if err := call(i); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[n/2], nil
}
