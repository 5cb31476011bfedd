package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Limits of the simulation.
const (
	draws      = 20 // simulations of each earlier run when a part of them is drawn at random
	minFit     = 8  // earlier runs from which the speed of the run so far counts
	minRanks   = 10 // earlier runs from which their ranks bound the band
	maxPool    = 500
	stretchFor = 0.2 // mean of the further time, relative to the elapsed, of a step that takes longer than ever
)

// model is a run and the earlier runs as numbers: seconds since the start of the run.
type model struct {
	now     float64
	steps   []openStep // those that have not ended, in the order of the graph
	ended   float64    // when the last step that has ended did so
	over    []float64  // by earlier run: the time after its last step
	scale   []float64  // by earlier run: how much longer its steps would take in this run
	similar bool       // no earlier run had one of the open steps
	drawn   bool       // some earlier runs did not have one of the open steps
	unknown string     // a step about which nothing is known
	spent   int        // earlier runs that the fits of the speed and of similar steps used up
}

type openStep struct {
	after  float64 // when the last of its ended predecessors ended
	needs  []int   // predecessors among the open steps
	passed float64 // since its predecessors ended; 0 while one of them is open
	spans  []float64
	// pool has by earlier run the spans to draw from when that run did not have the step.
	pool [][]float64
	// blur is the standard deviation, in a logarithmic scale, by which a draw from few runs of the step itself misses.
	blur float64
}

func newModel(s run.State, h History, rows []Past, now time.Time) *model {
	since := func(t time.Time) float64 { return max(0, t.Sub(*s.StartedAt).Seconds()) }
	m := &model{now: since(now)}
	for _, p := range rows {
		m.over = append(m.over, p.over.Seconds())
	}
	open := map[string]int{}
	ends := map[string]float64{}
	speed := newSpeed(len(rows))
	pools := newPools(h, rows)
	for _, step := range inOrder(s.Steps) {
		end := endOf(step)
		ready := 0.0
		var needs []int
		for _, id := range step.DependsOn {
			if at, ok := open[id]; ok {
				needs = append(needs, at)
			}
			ready = max(ready, ends[id])
		}
		spans := h.spansOf(step.StepID, rows)
		if end != nil {
			at := since(*end)
			ends[step.StepID], m.ended = at, max(m.ended, at)
			if step.Status == run.StepSuccess {
				speed.done(at-ready, spans)
			}
			continue
		}
		one := openStep{after: ready, needs: needs, spans: spans}
		if len(needs) == 0 {
			one.passed = max(0, m.now-ready)
		}
		speed.rest(spans)
		if slices.Contains(spans, unknownSpan) {
			if one.pool, one.blur = pools.of(step, spans); one.pool == nil {
				m.unknown = step.StepID
				return m
			}
			m.drawn = true
			m.similar = m.similar || !slices.ContainsFunc(spans, func(x float64) bool { return x != unknownSpan })
		}
		open[step.StepID] = len(m.steps)
		m.steps = append(m.steps, one)
	}
	var fitted bool
	if m.scale, fitted = speed.scale(); fitted {
		m.spent = 2
	}
	if m.drawn {
		m.spent++
	}
	return m
}

// inOrder returns the steps with each one behind its predecessors. Steps in a circle, which no valid plan has, are left
// out.
func inOrder(steps []*run.Step) []*run.Step {
	missing, children := map[string]int{}, map[string][]*run.Step{}
	known := map[string]bool{}
	for _, s := range steps {
		known[s.StepID] = true
	}
	out := make([]*run.Step, 0, len(steps))
	for _, s := range steps {
		for _, id := range s.DependsOn {
			if known[id] {
				missing[s.StepID]++
				children[id] = append(children[id], s)
			}
		}
		if missing[s.StepID] == 0 {
			out = append(out, s)
		}
	}
	for i := 0; i < len(out); i++ {
		for _, child := range children[out[i].StepID] {
			if missing[child.StepID]--; missing[child.StepID] == 0 {
				out = append(out, child)
			}
		}
	}
	return out
}

// unknownSpan stands for a step that an earlier run did not have.
const unknownSpan = -1

func (h History) spansOf(stepID string, rows []Past) []float64 {
	out := make([]float64, len(rows))
	at, known := h.index[stepID]
	for i, p := range rows {
		out[i] = unknownSpan
		if known && at < len(p.samples) && p.samples[at].span > 0 {
			out[i] = float64(p.samples[at].span-1) / 1000
		}
	}
	return out
}

// pools finds the steps that are like one that some earlier runs do not have.
type pools struct {
	h    History
	rows []Past
	size []float64 // by run: the steps of all runs together, in seconds
	// noise is the usual standard deviation of a step relative to the size of its run, in a logarithmic scale.
	noise float64
}

func newPools(h History, rows []Past) pools {
	p := pools{h: h, rows: rows, size: make([]float64, len(rows))}
	for _, s := range h.steps {
		add(p.size, h.spansOf(s.id, rows))
	}
	known := 0
	for _, s := range h.steps {
		if deviation, ok := p.deviation(h.spansOf(s.id, rows)); ok {
			p.noise += deviation
			known++
		}
	}
	p.noise /= float64(max(1, known))
	return p
}

// deviation returns the standard deviation of a step relative to the size of its runs. It needs minFit runs.
func (p pools) deviation(spans []float64) (float64, bool) {
	n, sum, square := 0.0, 0.0, 0.0
	for i, x := range spans {
		if x > 0 && p.size[i] > 0 {
			y := math.Log(x / p.size[i])
			n, sum, square = n+1, sum+y, square+y*y
		}
	}
	if n < minFit {
		return 0, false
	}
	return math.Sqrt(max(0, (square-sum*sum/n)/(n-1))), true
}

// of returns by run the spans that a step without one can have had there: those of the step itself in other runs, else
// those of steps with its name, else those of steps of its type. nil when there are none. Spans of other runs are
// brought to the size of the run, because a day with twice the data makes all steps slower. The second result is the
// blur of the draws.
func (p pools) of(step *run.Step, spans []float64) ([][]float64, float64) {
	out := make([][]float64, len(p.rows))
	if slices.ContainsFunc(spans, func(x float64) bool { return x != unknownSpan }) {
		for i := range out {
			for j, x := range spans {
				if x == unknownSpan {
					continue
				}
				if p.size[i] > 0 && p.size[j] > 0 {
					x *= p.size[i] / p.size[j]
				}
				out[i] = append(out[i], x)
			}
		}
		// k draws have a variance of (k-1)/k of the noise, and the next value one of 1+1/k around their mean.
		return out, p.noise * math.Sqrt(2/float64(len(out[0])))
	}
	for _, like := range []func(stepName) bool{
		func(n stepName) bool { return step.Name != "" && n.name == step.Name },
		func(n stepName) bool { return n.kind == step.Type },
	} {
		var all []float64
		for i, row := range p.rows {
			for at, x := range row.samples {
				if x.span > 0 && len(out[i]) < maxPool && like(p.h.steps[at]) {
					out[i] = append(out[i], float64(x.span-1)/1000)
				}
			}
			all = append(all, out[i]...)
		}
		if len(all) == 0 {
			continue
		}
		for i := range out {
			if len(out[i]) == 0 {
				out[i] = all
			}
		}
		return out, 0
	}
	return nil, 0
}

// band returns the bounds of the end and its middle, in seconds since the start.
func (m *model) band(r *rand.Rand) (low, middle, high float64) {
	rows := m.consistent()
	n := len(rows)
	times := 1
	if m.drawn || n < len(m.over) {
		times = draws
	}
	ends := make([]float64, 0, n*times)
	at := make([]float64, len(m.steps))
	for _, row := range rows {
		for range times {
			if end, fits := m.simulate(r, row, at, true); fits {
				ends = append(ends, end)
			}
		}
	}
	if len(ends) < n { // the running steps take longer than nearly all draws
		ends = ends[:0]
		for _, row := range rows {
			for range times {
				end, _ := m.simulate(r, row, at, false)
				ends = append(ends, end)
			}
		}
	}
	slices.Sort(ends)
	if n < minRanks {
		return m.narrow(ends, n)
	}
	// The rank k of n earlier values is exceeded by the next one with a probability of 1 - k/(n+1). Runs that were
	// spent on the fit do not count.
	tail := max(0, ((1-Confidence)/2*float64(n+1-m.spent)-0.5)/float64(n))
	return quantile(ends, tail), quantile(ends, 0.5), quantile(ends, 1-tail)
}

// consistent returns the earlier runs in which each running step took longer than it runs already. When there are fewer
// than MinRuns of them, all runs count, and simulate draws the running steps.
func (m *model) consistent() []int {
	var out, all []int
	for i := range m.over {
		all = append(all, i)
		fits := true
		for _, s := range m.steps {
			if x := s.spans[i]; s.passed > 0 && x != unknownSpan && x*m.scale[i] <= s.passed {
				fits = false
				break
			}
		}
		if fits {
			out = append(out, i)
		}
	}
	if len(out) < MinRuns {
		return all
	}
	return out
}

// simulate returns the end of the run if its open steps take as long as in an earlier run. A strict simulation is false
// when a running step would have ended before; others draw another span for it.
func (m *model) simulate(r *rand.Rand, row int, ends []float64, strict bool) (float64, bool) {
	last := m.ended
	for i, s := range m.steps {
		ready := s.after
		for _, need := range s.needs {
			ready = max(ready, ends[need])
		}
		span := s.spans[row]
		if span == unknownSpan {
			pool := s.pool[row]
			span = pool[r.IntN(len(pool))]
			if s.blur > 0 {
				span *= math.Exp(s.blur * r.NormFloat64())
			}
		}
		span *= m.scale[row]
		if s.passed > 0 && span <= s.passed {
			if strict {
				return 0, false
			}
			span = m.longer(r, s)
		}
		ends[i] = max(ready+span, m.now)
		last = max(last, ends[i])
	}
	return max(m.now, last+m.over[row]), true
}

// longer draws a span of a running step that is longer than the step runs already.
func (m *model) longer(r *rand.Rand, s openStep) float64 {
	var fit []float64
	for i, x := range s.spans {
		if x != unknownSpan && x*m.scale[i] > s.passed {
			fit = append(fit, x*m.scale[i])
		}
	}
	if len(fit) == 0 {
		for i, pool := range s.pool {
			for _, x := range pool[:min(len(pool), maxPool/len(s.pool)+1)] {
				if x*m.scale[i] > s.passed {
					fit = append(fit, x*m.scale[i])
				}
			}
		}
	}
	if len(fit) > 0 {
		return fit[r.IntN(len(fit))]
	}
	return s.passed * (1 + stretchFor*r.ExpFloat64())
}

// narrow returns the band of few earlier runs. Their ranks do not reach far enough, so that it takes the remaining time
// as lognormal.
func (m *model) narrow(ends []float64, n int) (low, middle, high float64) {
	mean, square := 0.0, 0.0
	const least = 1e-3
	for _, e := range ends {
		x := math.Log(max(least, e-m.now))
		mean += x / float64(len(ends))
		square += x * x / float64(len(ends))
	}
	deviation := math.Sqrt(max(0, square-mean*mean) * float64(n) / float64(n-1))
	wide := student(n-1) * deviation * math.Sqrt(1+1/float64(n))
	return m.now + math.Exp(mean-wide), m.now + math.Exp(mean), m.now + math.Exp(mean+wide)
}

// student returns the 90th percentile of Student's distribution for 1 to 8 degrees of freedom.
func student(freedom int) float64 {
	table := []float64{3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397}
	return table[min(max(freedom, 1), len(table))-1]
}

// quantile returns the value at a share of sorted values, between two of them by their distances.
func quantile(sorted []float64, share float64) float64 {
	at := share*float64(len(sorted)) - 0.5
	if at <= 0 {
		return sorted[0]
	}
	if at >= float64(len(sorted)-1) {
		return sorted[len(sorted)-1]
	}
	i := int(at)
	part := at - float64(i)
	return sorted[i]*(1-part) + sorted[i+1]*part
}
