package rig

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// repetitions of each figure; their median counts.
const repetitions = 3

// Figure is one claim about speed or size, with at least one goal.
type Figure struct {
	Name  string
	What  string // what is measured, and against which floor
	Goals []Goal
	Unit  string // unit of the numbers in a Sample; empty when they are times
	// Setup prepares the measurement. The caller closes the Trial.
	Setup func(ctx context.Context, r *Rig) (*Trial, error)
}

// Trial is a prepared measurement of a figure.
type Trial struct {
	Repeat func(ctx context.Context) (Sample, error) // measures once; it may be called several times
	Done   func() error                              // releases the resources; may be nil
}

// Close calls Done. It ignores the error, because the directory of the Rig is removed anyway.
func (t *Trial) Close() {
	if t.Done != nil {
		_ = t.Done()
	}
}

// Sample is the result of one repetition: the time that one operation takes (Cost) and that of the operation which it
// is compared with (Floor). Figures with a Unit put numbers of that unit into both fields.
type Sample struct{ Cost, Floor time.Duration }

// Measure measures once and returns the time of one operation. i is the number of its earlier calls within the
// repetition.
type Measure func(ctx context.Context, i int) (time.Duration, error)

// Alternate returns a Repeat that calls floor and cost alternately, n times each, and takes the medians. A disturbance
// of the machine then affects both, and their ratio less.
func Alternate(n int, cost, floor Measure) func(context.Context) (Sample, error) {
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

// LeastOf is like Alternate but takes the minima. It suits work that is the same each time: a disturbance can only
// prolong a call.
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

// Pairs is for a cost that is close to its floor. It measures n pairs of both, the later pairs in the other order, and
// takes the median of their ratios: a pair lies so close together that the speed of the machine is the same, and a
// disturbance costs one pair.
func Pairs(n int, cost, floor Measure) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (Sample, error) {
		ratios, floors := make([]float64, n), make([]time.Duration, n)
		for i := range n {
			var took [2]time.Duration // of cost and floor
			for k := range took {
				which := (i + k + 1) % 2 // the floor first, then the cost twice, and so on
				var err error
				if took[which], err = []Measure{cost, floor}[which](ctx, i); err != nil {
					return Sample{}, err
				}
			}
			ratios[i], floors[i] = float64(took[0])/float64(took[1]), took[1]
		}
		slices.Sort(ratios)
		f := Quantile(floors, 0.5)
		return Sample{Cost: time.Duration((ratios[(n-1)/2] + ratios[n/2]) / 2 * float64(f)), Floor: f}, nil
	}
}

// Timed calls call and returns how long it took, together with its error.
func Timed(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// Median calls call n times and returns the median of the durations. It stops at the first error.
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

// Quantile sorts took and returns its quantile q, 0 <= q <= 1. It panics when took is empty.
func Quantile(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}

// Goal is the required value of a figure. Make it with AtMost, AtLeast or Within.
type Goal struct {
	Name  string // name of the goal's line; empty: that of the figure
	kind  kind
	bound float64 // a ratio, or seconds, or 10^-9 of the unit that is counted
}

// kind says how a Goal computes its value and on which side of the bound it must be.
type kind int

const (
	costly   kind = iota // cost divided by floor, at most the bound
	fast                 // operations per second divided by those of the floor, at least the bound
	absolute             // the cost itself, a time or a count, at most the bound
)

// AtMost requires that Cost divided by Floor is at most ratio.
func AtMost(ratio float64) Goal { return Goal{kind: costly, bound: ratio} }

// AtLeast requires that the operations per second, divided by those of the floor, are at least ratio.
func AtLeast(ratio float64) Goal { return Goal{kind: fast, bound: ratio} }

// Within requires that Cost itself is at most limit. With a Unit, limit is a number of that unit.
func Within(limit time.Duration) Goal { return Goal{kind: absolute, bound: limit.Seconds()} }

// Named returns a copy of the goal whose line has this name, for a figure with several goals.
func (g Goal) Named(name string) Goal { g.Name = name; return g }

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// isMet reports whether value is on the required side of the bound.
func (g Goal) isMet(value float64) bool {
	return value == g.bound || (value > g.bound) == (g.kind == fast)
}

// Value returns the value that the goal compares with its bound.
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

// text formats a value of the goal: a ratio, a time, or a number of unit.
func (g Goal) text(value float64, unit string) string {
	switch {
	case g.kind != absolute:
		return fmt.Sprintf("%.*f", digits(g.bound), value)
	case unit != "":
		return fmt.Sprintf("%d %s", seconds(value), unit)
	}
	return Short(seconds(value))
}

// digits returns the number of decimals with which a ratio and a bound of this size can be told apart.
func digits(bound float64) int {
	if bound < 0.1 {
		return 4
	}
	return 2
}

// Short formats a duration with at most three significant digits.
func Short(d time.Duration) string {
	unit := time.Duration(1)
	for unit*1000 <= d {
		unit *= 10
	}
	return d.Round(unit).String()
}

// line formats the result of one goal: whether the median of the samples meets it, the value, the bound, the floor and
// the spread.
func (f Figure) line(g Goal, samples []Sample) string {
	values, floors := make([]float64, len(samples)), make([]time.Duration, len(samples))
	for i, s := range samples {
		values[i], floors[i] = g.Value(s), s.Floor
	}
	slices.Sort(values)
	slices.Sort(floors)
	word, name, what, sign := "short", f.Name, "ratio", "<="
	if g.isMet(values[len(values)/2]) {
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

// Measure sets the figure up, repeats it and returns one line for each goal.
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
