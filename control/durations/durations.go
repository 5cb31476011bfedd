// Package durations keeps how long the runs and steps of plans take. Medians, forecasts, late runs and the rule for
// overdue runs rest on the same numbers.
package durations

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
	"github.com/dvt-engine/dvt/store"
)

// Limits of a Reader.
const (
	maxPlans = 1000
	// freshFor is how long a history is used before the Reader looks for runs that have ended since.
	freshFor = 15 * time.Second
	// readWithin bounds a read, which goes on when its caller leaves.
	readWithin = 10 * time.Second
	// enough is the number of earlier runs from which the history of an old run needs no read of its own.
	enough = 10
)

// Store lists runs.
type Store interface {
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
}

// Reader keeps the histories of plans, each of at most forecast.MaxRuns ended runs. The store has the durations in the
// rows of runs and steps; a Reader reads each of them once. It is safe for concurrent use.
type Reader struct {
	store Store
	now   func() time.Time
	plans *lru.Cache[string, *planHistory]
}

// planHistory is the history of a plan in one project and environment. One read runs at a time.
type planHistory struct {
	flight control.Flight
	known  atomic.Pointer[snapshot] // nil before the first read
}

type snapshot struct {
	at      time.Time
	history forecast.History
}

// NewReader makes a Reader.
func NewReader(s Store, now func() time.Time) *Reader {
	return &Reader{store: s, now: now, plans: control.NewLRU[*planHistory](maxPlans)}
}

// Before returns the history of the plan, project and environment of h, with the runs that were created before h. It is
// at most freshFor old, and has the runs that ended before h was created: a page reads it once. It decides no right:
// callers check that the viewer may read that scope.
func (r *Reader) Before(ctx context.Context, h run.Header) (forecast.History, error) {
	key := fmt.Sprintf("%q %q %q %q", h.TenantID, h.ProjectID, h.EnvironmentID, h.PlanID)
	of := &planHistory{}
	if known, ok, _ := r.plans.PeekOrAdd(key, of); ok {
		of = known
	}
	r.plans.Get(key) // PeekOrAdd does not count as a use
	s := of.known.Load()
	if s == nil || s.at.Before(h.CreatedAt) || r.now().Sub(s.at) > freshFor || r.now().Before(s.at) {
		err := of.flight.Do(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, readWithin)
			defer cancel()
			return r.refresh(ctx, of, h)
		})
		if err != nil {
			return forecast.History{}, err
		}
	}
	all := of.known.Load().history
	earlier := all.Before(h.CreatedAt, h.RunID)
	if len(earlier.Runs()) >= enough || len(all.Runs()) < forecast.MaxRuns {
		return earlier, nil
	}
	f := filterOf(h) // h is older than the runs that are kept
	f.After = &store.RunPos{CreatedAt: h.CreatedAt, RunID: h.RunID}
	ended, err := r.read(ctx, f, enough, h.Counts.Total)
	return forecast.NewHistory(ended), err
}

// refresh adds the runs that have ended since the last read.
func (r *Reader) refresh(ctx context.Context, of *planHistory, h run.Header) error {
	at, before := r.now(), forecast.History{}
	if s := of.known.Load(); s != nil {
		before = s.history
	}
	f := filterOf(h)
	f.Limit = forecast.MaxRuns
	rows, err := r.store.List(ctx, f)
	if err != nil {
		return err
	}
	unknown, steps := 0, 0
	for i, row := range rows {
		steps = max(steps, row.Header.Counts.Total)
		if !before.Knows(row.Header.RunID) && row.Header.Duration() != nil {
			unknown = i + 1
		}
	}
	if unknown > 0 {
		ended, err := r.read(ctx, filterOf(h), unknown, steps)
		if err != nil {
			return err
		}
		before = before.With(ended)
	}
	of.known.Store(&snapshot{at: at, history: before})
	return nil
}

// filterOf selects the ended runs of the plan, project and environment of h.
func filterOf(h run.Header) store.RunFilter {
	return store.RunFilter{TenantID: h.TenantID, ProjectIDs: []string{h.ProjectID}, EnvironmentID: h.EnvironmentID,
		PlanID: h.PlanID, Statuses: []run.Status{run.Completed, run.Failed, run.Cancelled}}
}

// read reads the newest runs with their steps: as many as have at most store.MaxListSteps steps together.
func (r *Reader) read(ctx context.Context, f store.RunFilter, limit, steps int) ([]forecast.Ended, error) {
	f.Steps, f.Limit = true, limit
	if steps > 0 {
		f.Limit = max(1, min(limit, store.MaxListSteps/steps))
	}
	rows, err := r.store.List(ctx, f)
	for errors.Is(err, store.ErrTooMany) && f.Limit > 1 { // the plan had more steps before
		f.Limit /= 2
		rows, err = r.store.List(ctx, f)
	}
	if errors.Is(err, store.ErrTooMany) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]forecast.Ended, len(rows))
	for i, row := range rows {
		out[i] = forecast.Ended{Header: row.Header, Steps: row.Steps}
	}
	return out, nil
}
