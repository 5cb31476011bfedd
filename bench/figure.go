package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const repetitions = 3

// figure is one claim with at least one goal.
type figure struct {
	name  string
	what  string // what is measured against what
	goals []goal
	unit  string // of what is counted; empty when times are measured
	setup func(ctx context.Context, r *rig) (*trial, error)
}

// trial measures a figure as often as asked.
type trial struct {
	repeat func(ctx context.Context) (sample, error)
	done   func() error // may be nil
}

func (t *trial) close() {
	if t.done != nil {
		_ = t.done() // its files go anyway
	}
}

// sample is what one repetition found: what one operation takes.
type sample struct{ cost, floor time.Duration }

// measure returns what one operation takes; i counts its calls within a repetition.
type measure func(ctx context.Context, i int) (time.Duration, error)

// byTurns is the medians of n calls of each, one after the other, which keeps what disturbs the machine out of their
// ratio.
func byTurns(n int, cost, floor measure) func(context.Context) (sample, error) {
	return func(ctx context.Context) (sample, error) {
		costs, floors := make([]time.Duration, n), make([]time.Duration, n)
		for i := range n {
			var err error
			if floors[i], err = floor(ctx, i); err != nil {
				return sample{}, err
			}
			if costs[i], err = cost(ctx, i); err != nil {
				return sample{}, err
			}
		}
		return sample{cost: quantile(costs, 0.5), floor: quantile(floors, 0.5)}, nil
	}
}

// leastOf is byTurns with the least of the calls, for work that is the same each time.
func leastOf(n int, cost, floor measure) func(context.Context) (sample, error) {
	return func(ctx context.Context) (sample, error) {
		var least sample
		for i := range n {
			f, err := floor(ctx, i)
			if err != nil {
				return sample{}, err
			}
			c, err := cost(ctx, i)
			if err != nil {
				return sample{}, err
			}
			if i == 0 {
				least = sample{cost: c, floor: f}
			}
			least.cost, least.floor = min(least.cost, c), min(least.floor, f)
		}
		return least, nil
	}
}

// timed is how long call takes.
func timed(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// median of n timed calls.
func median(n int, call func(i int) error) (time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range n {
		var err error
		if took[i], err = timed(func() error { return call(i) }); err != nil {
			return 0, err
		}
	}
	return quantile(took, 0.5), nil
}

// quantile sorts took and returns its q-th quantile.
func quantile(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}

// goal is what a figure's value is to be. Make it with atMost, atLeast or within.
type goal struct {
	name  string // the line's, when it is not the figure's
	kind  kind
	bound float64 // a ratio, seconds, or 10^-9 of what is counted
}

type kind int

const (
	costly   kind = iota // cost over floor, at most the bound
	fast                 // operations per second over those of the floor, at least the bound
	absolute             // the cost itself, a time or a count, at most the bound
)

func atMost(ratio float64) goal        { return goal{kind: costly, bound: ratio} }
func atLeast(ratio float64) goal       { return goal{kind: fast, bound: ratio} }
func within(limit time.Duration) goal  { return goal{kind: absolute, bound: limit.Seconds()} }
func (g goal) called(name string) goal { g.name = name; return g }
func seconds(v float64) time.Duration  { return time.Duration(v * float64(time.Second)) }
func (g goal) met(value float64) bool {
	return value == g.bound || (value > g.bound) == (g.kind == fast)
}

// value is what a sample says about the goal.
func (g goal) value(s sample) float64 {
	switch g.kind {
	case costly:
		return float64(s.cost) / float64(s.floor)
	case fast:
		return float64(s.floor) / float64(s.cost)
	default:
		return s.cost.Seconds()
	}
}

// text is a value of the goal: a ratio, a time, or a count of unit.
func (g goal) text(value float64, unit string) string {
	switch {
	case g.kind != absolute:
		return fmt.Sprintf("%.*f", digits(g.bound), value)
	case unit != "":
		return fmt.Sprintf("%d %s", seconds(value), unit)
	}
	return short(seconds(value))
}

// digits that tell a ratio from its bound.
func digits(bound float64) int {
	if bound < 0.1 {
		return 4
	}
	return 2
}

// short is a time to three digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for unit*1000 <= d {
		unit *= 10
	}
	return d.Round(unit).String()
}

// line says how the samples of a figure meet one of its goals.
func (f figure) line(g goal, samples []sample) string {
	values, floors := make([]float64, len(samples)), make([]time.Duration, len(samples))
	for i, s := range samples {
		values[i], floors[i] = g.value(s), s.floor
	}
	slices.Sort(values)
	slices.Sort(floors)
	word, name, what, sign := "short", f.name, "ratio", "<="
	if g.met(values[len(values)/2]) {
		word = "ok"
	}
	if g.name != "" {
		name = g.name
	}
	switch g.kind {
	case fast:
		sign = ">="
	case absolute:
		what = "time"
		if f.unit != "" {
			what = "count"
		}
	}
	floor := short(floors[len(floors)/2])
	if f.unit != "" {
		floor = fmt.Sprintf("%d %s", floors[len(floors)/2], f.unit)
	}
	return fmt.Sprintf("%-5s  %-26s  %s %-7s  goal %s %-6s  floor %-8s  spread %-15s  (%s)", word, name,
		what, g.text(values[len(values)/2], f.unit), sign, g.text(g.bound, f.unit), floor,
		g.text(values[0], f.unit)+"-"+g.text(values[len(values)-1], f.unit), f.what)
}

// measure returns one line for each goal.
func (f figure) measure(ctx context.Context, r *rig) (lines []string, err error) {
	t, err := f.setup(ctx, r)
	if err != nil {
		return nil, err
	}
	defer t.close()
	samples := make([]sample, repetitions)
	for i := range samples {
		if samples[i], err = t.repeat(ctx); err != nil {
			return nil, err
		}
		if samples[i].cost <= 0 || samples[i].floor <= 0 {
			return nil, fmt.Errorf("a repetition took no time: %v", samples[i])
		}
	}
	for _, g := range f.goals {
		lines = append(lines, f.line(g, samples))
	}
	return lines, nil
}

func figureOf(name string) (figure, bool) {
	for _, f := range figures() {
		if f.name == name || slices.ContainsFunc(f.goals, func(g goal) bool { return g.name == name }) {
			return f, true
		}
	}
	return figure{}, false
}

func names() (out []string) {
	for _, f := range figures() {
		out = append(out, f.name)
	}
	return out
}
