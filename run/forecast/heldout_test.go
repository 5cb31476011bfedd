package forecast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
)

// plant generates the runs of one plan. Its durations are not known to the forecast.
type plant struct {
	r     *rand.Rand
	kind  string
	steps []plantStep
	made  int
	added int // the number of runs before the last step was added to the plan; 0 for a plan that does not change
}

type plantStep struct {
	outline run.StepOutline
	scale   float64 // seconds
}

var plantKinds = []string{"lognormal", "bimodal", "drifting", "changed"} //nolint:gochecknoglobals // a table

var origin = time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func newPlant(r *rand.Rand, kind string, runs int) *plant {
	p := &plant{r: r, kind: kind}
	types := []string{"COMMAND", "DBT_RUN", "DBT_TEST"}
	for i := range 4 + r.IntN(7) {
		s := plantStep{scale: math.Exp(4 + 0.5*r.NormFloat64())}
		s.outline = run.StepOutline{StepID: fmt.Sprintf("s%02d", i), Type: types[r.IntN(len(types))]}
		for j := range i {
			if j == i-1 && r.IntN(3) > 0 || r.IntN(4) == 0 {
				s.outline.DependsOn = append(s.outline.DependsOn, fmt.Sprintf("s%02d", j))
			}
		}
		p.steps = append(p.steps, s)
	}
	if kind == "changed" { // the last step is like another one of its type, and runs in some of the runs or in none
		like := p.steps[r.IntN(len(p.steps)-1)]
		last := &p.steps[len(p.steps)-1]
		last.outline.Type, last.scale = like.outline.Type, like.scale
		p.added = runs - r.IntN(10)
	}
	return p
}

// next returns the durations of the steps in the next run. The size of its data is common to them.
func (p *plant) next() []float64 {
	volume := math.Exp(0.35 * p.r.NormFloat64())
	switch {
	case p.kind == "bimodal" && p.r.IntN(10) < 3:
		volume = 3 * math.Exp(0.1*p.r.NormFloat64())
	case p.kind == "bimodal":
		volume = math.Exp(0.1 * p.r.NormFloat64())
	case p.kind == "drifting":
		volume *= math.Exp(0.005 * float64(p.made))
	}
	out := make([]float64, len(p.steps))
	for i, s := range p.steps {
		out[i] = s.scale * volume * math.Exp(0.15*p.r.NormFloat64())
	}
	p.made++
	return out
}

// state returns a run with these durations as far as it has come after some seconds, and its end in seconds.
func (p *plant) state(id string, created time.Time, took []float64, until float64) (run.State, float64) {
	steps := p.steps
	if p.added > 0 && p.made-1 < p.added {
		steps = steps[:len(steps)-1]
	}
	started := created.Add(time.Second)
	s := run.State{Header: run.Header{Identity: run.Identity{RunID: id, TenantID: "acme", PlanID: "p"},
		CreatedAt: created, StartedAt: &started, Status: run.Running}}
	ends, end := map[string]float64{}, 0.0
	for i, ps := range steps {
		ready := 0.0
		for _, need := range ps.outline.DependsOn {
			ready = max(ready, ends[need])
		}
		ends[ps.outline.StepID] = ready + took[i]
		end = max(end, ready+took[i])
		step := &run.Step{StepOutline: ps.outline, Ord: run.Ord(i), Status: run.StepPending}
		if ready <= until {
			at := after(started, ready)
			a := run.Attempt{LogicalAttempt: 1, Status: run.StepRunning, StartedAt: &at}
			if ready+took[i] <= until {
				done := after(started, ready+took[i])
				a.Status, a.CompletedAt, a.DurationMS = run.StepSuccess, &done, int64(took[i]*1000)
			}
			step.Status, step.Attempts, step.LogicalAttempt = a.Status, []run.Attempt{a}, 1
		}
		s.Steps = append(s.Steps, step)
	}
	if end <= until {
		s.Status, s.CompletedAt = run.Completed, new(after(started, end))
	}
	return s, end
}

func after(t time.Time, seconds float64) time.Time {
	return t.Add(time.Duration(seconds * float64(time.Second)))
}

// heldOut is what one held-out run shows at a moment.
type heldOut struct {
	in, warned, late bool
	width            float64
}

// hold makes the earlier runs of a plant and predicts the next one at each share of its duration.
func hold(t *testing.T, r *rand.Rand, kind string, shares []float64) []heldOut {
	t.Helper()
	n := 12 + r.IntN(39)
	p := newPlant(r, kind, n)
	var ended []forecast.Ended
	var totals []float64
	for i := range n {
		s, end := p.state(fmt.Sprintf("r%03d", i), origin.AddDate(0, 0, i), p.next(), math.Inf(1))
		ended = append(ended, forecast.Ended{Header: s.Header, Steps: s.Steps})
		totals = append(totals, end)
	}
	h := forecast.NewHistory(ended)
	took, created := p.next(), origin.AddDate(0, 0, n)
	_, end := p.state("now", created, took, 0)
	deadline := totals[r.IntN(len(totals))] * (0.9 + 0.4*r.Float64())
	var out []heldOut
	for _, share := range shares {
		s, _ := p.state("now", created, took, share*end)
		now := after(*s.StartedAt, share*end)
		f := forecast.Of(s, h, now)
		if f.Gap != "" {
			t.Fatalf("a %s plant after %d runs has no forecast: %s %s", kind, n, f.Gap, f.StepID)
		}
		at := after(*s.StartedAt, end)
		due := after(*s.StartedAt, deadline)
		out = append(out, heldOut{in: !at.Before(f.Earliest) && !at.After(f.Latest),
			width: f.Latest.Sub(f.Earliest).Seconds(), warned: f.WillBeLate(due), late: at.After(due)})
	}
	return out
}

// The band covers four of five runs that the forecast has not seen, at the start and at half time, whatever the shape
// of the durations and after a change of the plan. At half time it is half as wide.
func TestOf_BandCoversFourOfFiveHeldOutRuns(t *testing.T) {
	t.Parallel()
	plants, tolerance := 600, 0.05
	if os.Getenv("TEST_LONG") != "" {
		plants, tolerance = 20_000, 0.02
	}
	shares := []float64{0, 0.25, 0.5}
	for _, kind := range plantKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, uint64(len(kind)))) //nolint:gosec // a test
			in, width := make([]int, len(shares)), make([]float64, len(shares))
			for range plants {
				for i, o := range hold(t, r, kind, shares) {
					if o.in {
						in[i]++
					}
					width[i] += o.width
				}
			}
			for i, share := range shares {
				got := float64(in[i]) / float64(plants)
				t.Logf("after %.0f %% of the run the band covers %.1f %%, and its width is %.2f of that at the start",
					100*share, 100*got, width[i]/width[0])
				if math.Abs(got-forecast.Confidence) > tolerance {
					t.Errorf("after %.0f %% of the run the band covers %.1f %% of %d held-out runs, "+
						"want 80 %% within %.1f points",
						100*share, 100*got, plants, 100*tolerance)
				}
			}
			if half := width[2] / width[0]; half > 0.5 {
				t.Errorf("at half time the band is %.2f times as wide as at the start, want at most half", half)
			}
		})
	}
}

// Of the runs that are warned about at half time, nine of ten end after their deadline.
func TestWillBeLate_IsRightNineTimesInTen(t *testing.T) {
	t.Parallel()
	plants := 600
	if os.Getenv("TEST_LONG") != "" {
		plants = 20_000
	}
	for _, kind := range plantKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(11, uint64(len(kind)))) //nolint:gosec // a test
			warned, right, late := 0, 0, 0
			for range plants {
				o := hold(t, r, kind, []float64{0.6})[0]
				if o.late {
					late++
				}
				if o.warned {
					warned++
					if o.late {
						right++
					}
				}
			}
			precision := float64(right) / float64(max(1, warned))
			t.Logf("%d warnings, %.1f %% right; %d of %d runs were late", warned, 100*precision, late, plants)
			if precision < 0.9 || warned < late/2 {
				t.Errorf("%d warnings are right in %.1f %%, of %d late runs; want 90 %% and half of the late runs",
					warned, 100*precision, late)
			}
		})
	}
}
