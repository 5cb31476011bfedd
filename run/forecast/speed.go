package forecast

import (
	"math"
	"slices"
)

// speed learns from earlier runs how far the part of a run that has ended tells how long the rest takes: a day with
// twice the data makes all steps slower, while other steps are slow by themselves.
type speed struct {
	now   float64   // what has ended in this run, in seconds
	past  []float64 // the same steps in each earlier run
	still []float64 // the open steps in each earlier run
}

func newSpeed(rows int) *speed {
	return &speed{past: make([]float64, rows), still: make([]float64, rows)}
}

// done counts a step that has ended in this run.
func (s *speed) done(took float64, spans []float64) {
	if add(s.past, spans) {
		s.now += max(0, took)
	}
}

// rest counts an open step.
func (s *speed) rest(spans []float64) { add(s.still, spans) }

// add adds the spans of a step to sums. Runs without the step count like the middle one. It returns false for a step
// that fewer than half of the runs had, which would say more about the plan than about the size of a run.
func add(sums, spans []float64) bool {
	known := slices.DeleteFunc(slices.Clone(spans), func(x float64) bool { return x == unknownSpan })
	if 2*len(known) < len(spans) || len(known) == 0 {
		return false
	}
	slices.Sort(known)
	for i, x := range spans {
		if x == unknownSpan {
			x = known[len(known)/2]
		}
		sums[i] += x
	}
	return true
}

// scale returns for each earlier run the factor that brings its open steps to the speed of this run. It is the slope of
// the rest over the ended part in a logarithmic scale, pulled towards 0 as far as it may be chance. It returns false
// when nothing was fitted.
func (s *speed) scale() ([]float64, bool) {
	out := make([]float64, len(s.past))
	for i := range out {
		out[i] = 1
	}
	const least = 1e-3 // seconds
	if len(out) < minFit || s.now < least {
		return out, false
	}
	n := float64(len(out))
	x, y := make([]float64, len(out)), make([]float64, len(out))
	var mx, my float64
	for i := range out {
		x[i], y[i] = math.Log(max(least, s.past[i])), math.Log(max(least, s.still[i]))
		mx += x[i] / n
		my += y[i] / n
	}
	var xx, xy, yy float64
	for i := range out {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
		yy += (y[i] - my) * (y[i] - my)
	}
	if xx <= 0 || xy <= 0 || yy <= 0 {
		return out, false
	}
	slope := xy / xx
	noise := max(0, yy-slope*xy) / (n - 2) / xx // the square of the error of the slope
	slope *= max(0, 1-noise/(slope*slope))
	slope = min(slope, 1)
	for i := range out {
		out[i] = math.Exp(slope * (math.Log(s.now) - x[i]))
	}
	return out, slope > 0
}
