package durations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/durations"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
	"github.com/dvt-engine/dvt/store"
)

// plans is a store of ended runs of one plan. It counts the steps that are read.
type plans struct {
	rows  []store.RunRow // newest first
	total int            // the steps that the header of each run counts
	limit int            // of the last list
	lists int
	steps int
}

var origin = time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func (p *plans) end(n int) {
	created := origin.Add(time.Duration(n) * time.Hour)
	started, ended := created.Add(time.Second), created.Add(time.Minute)
	p.rows = slices.Insert(p.rows, 0, store.RunRow{
		Header: run.Header{Identity: run.Identity{RunID: fmt.Sprintf("r%03d", n)}, CreatedAt: created, StartedAt: &started,
			CompletedAt: &ended, Status: run.Completed, Counts: run.StepCounts{Total: max(1, p.total)}},
		Steps: []*run.Step{{StepOutline: run.StepOutline{StepID: "s1"}, Status: run.StepSuccess,
			Attempts: []run.Attempt{{StartedAt: &started, CompletedAt: &ended, DurationMS: 59_000}}}},
	})
}

func (p *plans) List(_ context.Context, f store.RunFilter) ([]store.RunRow, error) {
	p.lists++
	p.limit = f.Limit
	out := []store.RunRow{}
	for _, row := range p.rows {
		if f.After != nil && !row.Header.CreatedAt.Before(f.After.CreatedAt) || len(out) == f.Limit {
			continue
		}
		if f.Steps {
			p.steps += len(row.Steps)
		} else {
			row.Steps = nil
		}
		out = append(out, row)
	}
	return out, nil
}

// A run that was created a moment after another one has ended knows it: its page asks once.
func TestReader_KnowsWhatEndedBeforeARunWasCreated(t *testing.T) {
	t.Parallel()
	p, now := &plans{}, origin.AddDate(1, 0, 0)
	r := durations.NewReader(p, func() time.Time { return now })
	for n := range 2 {
		h, err := r.Before(t.Context(), run.Header{CreatedAt: now, Identity: run.Identity{RunID: "now"}})
		if err != nil || len(h.Runs()) != n {
			t.Errorf("%d runs are known (%v), want %d", len(h.Runs()), err, n)
		}
		p.end(n)
		now = now.Add(time.Second)
	}
}

// A question reads nothing while the history is fresh, and then only the steps of the runs that ended since.
func TestReader_ReadsEachRunOnce(t *testing.T) {
	t.Parallel()
	p, now := &plans{}, origin.AddDate(1, 0, 0)
	for n := range 60 {
		p.end(n)
	}
	r := durations.NewReader(p, func() time.Time { return now })
	ask := func(lists, steps, runs int) {
		t.Helper()
		p.lists, p.steps = 0, 0
		h, err := r.Before(t.Context(), run.Header{CreatedAt: now, Identity: run.Identity{RunID: "now"}})
		if err != nil || p.lists != lists || p.steps != steps || len(h.Runs()) != runs {
			t.Errorf("%d runs after %d lists with %d steps, %v; want %d, %d and %d", len(h.Runs()), p.lists, p.steps, err, runs,
				lists, steps)
		}
	}
	ask(2, forecast.MaxRuns, forecast.MaxRuns)
	ask(0, 0, forecast.MaxRuns)
	now = now.Add(time.Minute)
	ask(1, 0, forecast.MaxRuns)
	p.end(60)
	p.end(61)
	now = now.Add(time.Minute)
	ask(2, 2, forecast.MaxRuns)
}

// An old run has the runs before it, although the history keeps only newer ones.
func TestReader_ReadsTheRunsBeforeAnOldOne(t *testing.T) {
	t.Parallel()
	p, now := &plans{}, origin.AddDate(1, 0, 0)
	for n := range 100 {
		p.end(n)
	}
	r := durations.NewReader(p, func() time.Time { return now })
	h, err := r.Before(t.Context(), run.Header{CreatedAt: origin.Add(30*time.Hour - time.Minute)})
	if err != nil || len(h.Runs()) != 10 || h.Runs()[9].RunID != "r029" {
		t.Errorf("%d runs, %v; want the ten before r030", len(h.Runs()), err)
	}
}

// The number of steps that a read asks for is bounded.
func TestReader_ReadsABoundedNumberOfSteps(t *testing.T) {
	t.Parallel()
	for total, limit := range map[int]int{3: 50, 2000: 10, 5000: 4, 30_000: 1} {
		p := &plans{total: total}
		for n := range 60 {
			p.end(n)
		}
		r := durations.NewReader(p, time.Now)
		if _, err := r.Before(t.Context(), run.Header{CreatedAt: origin.AddDate(1, 0, 0)}); err != nil || p.limit != limit {
			t.Errorf("%d runs of %d steps are read, %v; want %d", p.limit, total, err, limit)
		}
	}
}
