package watch

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits of the search for late runs.
const (
	// maxRunning bounds the running runs that are considered: the oldest ones, which are the likeliest to be late.
	maxRunning = 200
	// lateEvery is the least time between two searches in one scope.
	lateEvery = 15 * time.Second
	// usualKept is how long the usual duration of a plan in one scope is remembered.
	usualKept = 5 * time.Minute
	// maxUsual bounds the durations that one search reads. The others follow with later searches.
	maxUsual = 20
	// searchTime bounds one search, which goes on when the viewer who caused it leaves.
	searchTime = 10 * time.Second
)

// usualReader reads how long runs usually take.
type usualReader interface {
	UsualDuration(ctx context.Context, h run.Header) (time.Duration, bool, error)
}

// lateReader finds runs that missed their deadline or take longer than earlier runs of their plan. It is safe for
// concurrent use.
type lateReader struct {
	store interface {
		List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
	}
	usual usualReader

	scopes *lru.Cache[string, *lateScope] // by class
	usuals *lru.Cache[string, usual]      // by scope and plan
}

// lateScope is a scope with its newest search. One search runs at a time, and searches of other scopes do not wait for
// it.
type lateScope struct {
	flight control.Flight
	found  atomic.Pointer[lateRuns] // nil before the first search
}

// lateRuns are the late runs of a scope by the store's clock. They are immutable.
type lateRuns struct {
	at   time.Time
	runs []lateRun
}

// fresh returns the newest search if it is at most lateEvery old, otherwise nil.
func (l *lateScope) fresh(now time.Time) *lateRuns {
	if found := l.found.Load(); found != nil && now.Sub(found.at) < lateEvery && !now.Before(found.at) {
		return found
	}
	return nil
}

// lateRun is a run that did not end by its deadline, or by the time by which nine of ten earlier ones had ended.
type lateRun struct {
	header     run.Header
	expectedBy time.Time
	missed     bool // the deadline of its plan
}

type usual struct {
	at    time.Time
	took  time.Duration
	known bool
}

func newLateReader(lists *reads.RunLists, s InboxStore) *lateReader {
	return &lateReader{store: s, usual: lists, scopes: control.NewLRU[*lateScope](maxInboxes),
		usuals: control.NewLRU[usual](maxInboxes)}
}

// read returns the late runs of a scope, at most lateEvery old. now is the store's clock. Concurrent callers of a scope
// share a search.
func (s *lateReader) read(ctx context.Context, scope control.RunFilter, now time.Time) ([]lateRun, error) {
	class, err := classOf(scope)
	if err != nil {
		return nil, err
	}
	of := &lateScope{}
	if known, ok, _ := s.scopes.PeekOrAdd(string(class), of); ok {
		of = known
	}
	s.scopes.Get(string(class)) // PeekOrAdd does not count as a use
	if found := of.fresh(now); found != nil {
		return found.runs, nil
	}
	err = of.flight.Do(ctx, func(ctx context.Context) error {
		if of.fresh(now) != nil {
			return nil // found while this caller waited
		}
		ctx, cancel := context.WithTimeout(ctx, searchTime)
		defer cancel()
		runs, err := s.search(ctx, scope, now)
		switch {
		case err == nil:
			of.found.Store(&lateRuns{at: now, runs: runs})
		case ctx.Err() != nil: // the deadline is not the caller's
			return store.ErrUnavailable
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return of.found.Load().runs, nil
}

// search reads the late runs of a scope.
func (s *lateReader) search(ctx context.Context, scope control.RunFilter, now time.Time) ([]lateRun, error) {
	f := scope
	f.Statuses, f.Ascending, f.Limit = []run.Status{run.Running}, true, maxRunning
	rows, err := s.store.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := []lateRun{}
	budget := maxUsual
	for _, row := range rows {
		h := row.Header
		// Runs with a failed step or a step that waits for a person are items of another kind.
		if h.StartedAt == nil || h.Counts.Failed > 0 || h.Counts.Manual > 0 {
			continue
		}
		// A missed deadline counts before the usual duration, because people wait for it.
		if due := h.DueAt(); due != nil && now.After(*due) {
			out = append(out, lateRun{header: h, expectedBy: *due, missed: true})
			continue
		}
		took, known, err := s.usualOf(ctx, h, now, &budget)
		if err != nil {
			return nil, err
		}
		if by := h.StartedAt.Add(took); known && now.After(by) {
			out = append(out, lateRun{header: h, expectedBy: by})
		}
	}
	return out, nil
}

// usualOf returns the duration that a run should not exceed, from memory or while budget lasts from the store.
func (s *lateReader) usualOf(ctx context.Context, h run.Header, now time.Time, budget *int) (time.Duration, bool,
	error) {
	key := strings.Join([]string{h.TenantID, h.ProjectID, h.EnvironmentID, h.PlanID}, "\x00")
	if u, known := s.usuals.Get(key); known && now.Sub(u.at) < usualKept {
		return u.took, u.known, nil
	}
	if *budget == 0 {
		return 0, false, nil
	}
	*budget--
	took, known, err := s.usual.UsualDuration(ctx, h)
	if err == nil {
		s.usuals.Add(key, usual{at: now, took: took, known: known})
	}
	return took, known, err
}

func (l lateRun) item() AttentionItem {
	item := itemOf(Late, l.header)
	item.ExpectedBy = &l.expectedBy
	if l.missed {
		item.Code = string(run.CodeRunLate)
	}
	return item
}
