package rig

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const repetitions = 3

// figure is one claim with at least one goal.
type Figure struct {
	Name  string
	What  string // what is measured against what
	Goals []Goal
	Unit  string // of what is counted; empty when times are measured
	Setup func(ctx context.Context, r *Rig) (*Trial, error)
}

// trial measures a figure as often as asked.
type Trial struct {
	Repeat func(ctx context.Context) (Sample, error)
	Done   func() error // may be nil
}

func (t *Trial) Close() {
	if t.Done != nil {
		_ = t.Done() // its files go anyway
	}
}

// sample is what one repetition found: what one operation takes.
type Sample struct{ Cost, Floor time.Duration }

// measure returns what one operation takes; i counts its calls within a repetition.
type Measure func(ctx context.Context, i int) (time.Duration, error)

// byTurns is the medians of n calls of each, one after the other, which keeps what disturbs the machine out of their
// ratio.
func ByTurns(n int, cost, floor Measure) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		costs, floors := make([]time.Duration, n), make([]time.Duration, n)
		for i := range n {
			var err error
			if floors[i], err = floor(ctx, i); err != nil {
				return Sample{}, err
			}
			if costs[i], err = cost(ctx, i); err != nil {
				return Sample{}, err
			}
		}
		return Sample{Cost: Quantile(costs, 0.5), Floor: Quantile(floors, 0.5)}, nil
	}
}

// leastOf is byTurns with the least of the calls, for work that is the same each time.
func LeastOf(n int, cost, floor Measure) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		var least Sample
		for i := range n {
			f, err := floor(ctx, i)
			if err != nil {
				return Sample{}, err
			}
			c, err := cost(ctx, i)
			if err != nil {
				return Sample{}, err
			}
			if i == 0 {
				least = Sample{Cost: c, Floor: f}
			}
			least.Cost, least.Floor = min(least.Cost, c), min(least.Floor, f)
		}
		return least, nil
	}
}

// timed is how long call takes.
func Timed(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// median of n timed calls.
func Median(n int, call func(i int) error) (time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range n {
		var err error
		if took[i], err = Timed(func() error { return call(i) }); err != nil {
			return 0, err
		}
	}
	return Quantile(took, 0.5), nil
}

// quantile sorts took and returns its q-th quantile.
func Quantile(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}

// goal is what a figure's value is to be. Make it with atMost, atLeast or within.
type Goal struct {
	Name  string // the line's, when it is not the figure's
	kind  kind
	bound float64 // a ratio, seconds, or 10^-9 of what is counted
}

type kind int

const (
	costly   kind = iota // cost over floor, at most the bound
	fast                 // operations per second over those of the floor, at least the bound
	absolute             // the cost itself, a time or a count, at most the bound
)

func AtMost(ratio float64) Goal        { return Goal{kind: costly, bound: ratio} }
func AtLeast(ratio float64) Goal       { return Goal{kind: fast, bound: ratio} }
func Within(limit time.Duration) Goal  { return Goal{kind: absolute, bound: limit.Seconds()} }
func (g Goal) Called(name string) Goal { g.Name = name; return g }
func seconds(v float64) time.Duration  { return time.Duration(v * float64(time.Second)) }
func (g Goal) met(value float64) bool {
	return value == g.bound || (value > g.bound) == (g.kind == fast)
}

// value is what a sample says about the goal.
func (g Goal) Value(s Sample) float64 {
	switch g.kind {
	case costly:
		return float64(s.Cost) / float64(s.Floor)
	case fast:
		return float64(s.Floor) / float64(s.Cost)
	default:
		return s.Cost.Seconds()
	}
}

// text is a value of the goal: a ratio, a time, or a count of unit.
func (g Goal) text(value float64, unit string) string {
	switch {
	case g.kind != absolute:
		return fmt.Sprintf("%.*f", digits(g.bound), value)
	case unit != "":
		return fmt.Sprintf("%d %s", seconds(value), unit)
	}
	return Short(seconds(value))
}

// digits that tell a ratio from its bound.
func digits(bound float64) int {
	if bound < 0.1 {
		return 4
	}
	return 2
}

// short is a time to three digits.
func Short(d time.Duration) string {
	unit := time.Duration(1)
	for unit*1000 <= d {
		unit *= 10
	}
	return d.Round(unit).String()
}

// line says how the samples of a figure meet one of its goals.
func (f Figure) line(g Goal, samples []Sample) string {
	values, floors := make([]float64, len(samples)), make([]time.Duration, len(samples))
	for i, s := range samples {
		values[i], floors[i] = g.Value(s), s.Floor
	}
	slices.Sort(values)
	slices.Sort(floors)
	word, name, what, sign := "short", f.Name, "ratio", "<="
	if g.met(values[len(values)/2]) {
		word = "ok"
	}
	if g.Name != "" {
		name = g.Name
	}
	switch g.kind {
	case fast:
		sign = ">="
	case absolute:
		what = "time"
		if f.Unit != "" {
			what = "count"
		}
	}
	floor := Short(floors[len(floors)/2])
	if f.Unit != "" {
		floor = fmt.Sprintf("%d %s", floors[len(floors)/2], f.Unit)
	}
	return fmt.Sprintf("%-5s  %-26s  %s %-7s  goal %s %-6s  floor %-8s  spread %-15s  (%s)", word, name,
		what, g.text(values[len(values)/2], f.Unit), sign, g.text(g.bound, f.Unit), floor,
		g.text(values[0], f.Unit)+"-"+g.text(values[len(values)-1], f.Unit), f.What)
}

// measure returns one line for each goal.
func (f Figure) Measure(ctx context.Context, r *Rig) (lines []string, err error) {
	t, err := f.Setup(ctx, r)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	samples := make([]Sample, repetitions)
	for i := range samples {
		if samples[i], err = t.Repeat(ctx); err != nil {
			return nil, err
		}
		if samples[i].Cost <= 0 || samples[i].Floor <= 0 {
			return nil, fmt.Errorf("a repetition took no time: %v", samples[i])
		}
	}
	for _, g := range f.Goals {
		lines = append(lines, f.line(g, samples))
	}
	return lines, nil
}
