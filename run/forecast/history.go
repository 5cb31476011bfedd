// Package forecast predicts when a run ends, from the ended runs of its plan. It is pure: it does no I/O and reads no
// clock, and the same input gives the same forecast.
package forecast

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// MaxRuns bounds the runs of a History. MaxSamples bounds its steps of all runs together.
const (
	MaxRuns    = 50
	MaxSamples = 20_000
)

// History has the durations of ended runs of one plan in one project and environment. The zero value knows no run. It
// is immutable and safe for concurrent use.
type History struct {
	runs  []Past // oldest first
	steps []stepName
	index map[string]int // of steps, by id
}

// Past is an ended run of a History.
type Past struct {
	RunID       string
	CreatedAt   time.Time
	CompletedAt time.Time
	// Completed is false for a run that failed or was cancelled. Its total says nothing about its plan.
	Completed bool
	Took      time.Duration // from start to end, pauses and waits included
	over      time.Duration // between the end of the last step and that of the run
	samples   []sample      // by index of the step
}

// sample is a step in one run. Its fields are 0 where nothing is known.
type sample struct {
	// span is the time from the end of the last predecessor to the end of the step, in milliseconds, plus 1. It
	// includes the wait in a queue and the automatic tries.
	span int64
	took int64 // duration of the successful attempt in milliseconds, plus 1
}

type stepName struct{ id, name, kind string }

// Ended is an ended run with its steps.
type Ended struct {
	Header run.Header
	Steps  []*run.Step
}

// NewHistory returns the history of some runs.
func NewHistory(ended []Ended) History { return History{}.With(ended) }

// With returns the history with further runs. It keeps the newest MaxRuns, and fewer when they have more than
// MaxSamples steps together. Runs that have not ended, never started or are known are left out. It costs O(steps of
// ended).
func (h History) With(ended []Ended) History {
	h.runs, h.steps, h.index = slices.Clone(h.runs), slices.Clone(h.steps), maps.Clone(h.index)
	if h.index == nil {
		h.index = map[string]int{}
	}
	for _, e := range ended {
		if e.Header.Duration() != nil && !h.Knows(e.Header.RunID) {
			h.add(e)
		}
	}
	slices.SortFunc(h.runs, func(a, b Past) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.RunID, b.RunID))
	})
	samples, first := 0, len(h.runs)
	for first > 0 && len(h.runs)-first < MaxRuns {
		if samples += len(h.runs[first-1].samples); samples > MaxSamples {
			break
		}
		first--
	}
	h.runs = slices.Delete(h.runs, 0, first)
	return h
}

// Knows reports whether the history has a run.
func (h History) Knows(runID string) bool {
	return slices.ContainsFunc(h.runs, func(p Past) bool { return p.RunID == runID })
}

// Runs returns the runs of the history, the oldest first. Do not modify the result.
func (h History) Runs() []Past { return h.runs }

// Before returns the part of the history with the runs that were created before a run.
func (h History) Before(createdAt time.Time, runID string) History {
	h.runs = slices.DeleteFunc(slices.Clone(h.runs), func(p Past) bool {
		c := p.CreatedAt.Compare(createdAt)
		return c > 0 || c == 0 && p.RunID >= runID
	})
	return h
}

func (h *History) add(e Ended) {
	p := Past{RunID: e.Header.RunID, CreatedAt: e.Header.CreatedAt, CompletedAt: *e.Header.CompletedAt,
		Completed: e.Header.Status == run.Completed, Took: *e.Header.Duration(),
		samples: make([]sample, len(h.steps), len(h.steps)+len(e.Steps))}
	ends := map[string]time.Time{}
	last := *e.Header.StartedAt
	for _, s := range e.Steps {
		if at := endOf(s); at != nil {
			ends[s.StepID] = *at
			if at.After(last) {
				last = *at
			}
		}
	}
	p.over = max(0, e.Header.CompletedAt.Sub(last))
	for _, s := range e.Steps {
		at, ok := h.index[s.StepID]
		if !ok {
			at = len(h.steps)
			h.index[s.StepID] = at
			h.steps = append(h.steps, stepName{id: s.StepID, name: s.Name, kind: s.Type})
		}
		for len(p.samples) <= at {
			p.samples = append(p.samples, sample{})
		}
		p.samples[at] = sampleOf(e.Header, s, ends)
	}
	h.runs = append(h.runs, p)
}

// sampleOf returns the durations of a step that succeeded by its own work. The span of a step counts only when no
// person held it up: the run was not paused, and the step was not retried by hand.
func sampleOf(h run.Header, s *run.Step, ends map[string]time.Time) sample {
	if len(s.Attempts) == 0 || s.Status != run.StepSuccess {
		return sample{}
	}
	a := s.Attempts[len(s.Attempts)-1]
	if a.StartedAt == nil || a.Reused != nil {
		return sample{}
	}
	out := sample{took: a.DurationMS + 1}
	if a.WaitingSince != nil || s.Type == manual {
		return out
	}
	out.span = out.took
	if a.CompletedAt == nil || h.PausedEpoch > 0 || len(s.Attempts) > 1 {
		return out
	}
	ready := *h.StartedAt
	for _, id := range s.DependsOn {
		if at, ok := ends[id]; ok && at.After(ready) {
			ready = at
		}
	}
	if span := a.CompletedAt.Sub(ready).Milliseconds() + 1; span > 0 {
		out.span = span
	}
	return out
}

// manual is the type of steps that wait for a person.
const manual = "MANUAL"

// endOf returns when a step succeeded or was skipped; nil for other steps.
func endOf(s *run.Step) *time.Time {
	if len(s.Attempts) == 0 || s.Status != run.StepSuccess && s.Status != run.StepSkipped {
		return nil
	}
	return s.Attempts[len(s.Attempts)-1].CompletedAt
}

// Took returns the durations of the completed runs, the oldest first.
func (h History) Took() []time.Duration {
	var out []time.Duration
	for _, p := range h.runs {
		if p.Completed {
			out = append(out, p.Took)
		}
	}
	return out
}

// TookSince returns the durations of the runs that completed at a time or later.
func (h History) TookSince(since time.Time) []time.Duration {
	var out []time.Duration
	for _, p := range h.runs {
		if p.Completed && !p.CompletedAt.Before(since) {
			out = append(out, p.Took)
		}
	}
	return out
}

// StepMedians returns by step id the median duration of the successful attempts in the newest runs, at most limit, with
// any end.
func (h History) StepMedians(limit int) map[string]time.Duration {
	out := map[string]time.Duration{}
	newest := h.runs[max(0, len(h.runs)-limit):]
	for i, s := range h.steps {
		var took []time.Duration
		for _, p := range newest {
			if i < len(p.samples) && p.samples[i].took > 0 {
				took = append(took, time.Duration(p.samples[i].took-1)*time.Millisecond)
			}
		}
		if len(took) > 0 {
			out[s.id] = Median(took)
		}
	}
	return out
}

// Median returns the middle duration, or the mean of the two in the middle; 0 for none. It sorts took.
func Median(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	middle := took[len(took)/2]
	if len(took)%2 == 0 {
		middle = (middle + took[len(took)/2-1]) / 2
	}
	return middle
}

// Percentile returns a percentile by the nearest rank, for a share above 0 and at most 1; 0 for no durations. It sorts
// took.
func Percentile(took []time.Duration, share float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took), max(1, int(math.Ceil(share*float64(len(took))))))-1]
}
