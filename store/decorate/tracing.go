package decorate

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BeginCall begins the span of a call of a store. runID is the run that a write changes, and "" for a read. end gets
// the kind of the failure, or "".
type BeginCall func(ctx context.Context, call, runID string) (_ context.Context, end func(failure string))

// Trace returns a store whose calls for use cases and the Journal have spans: the writes of a run, and the reads of
// runs and lists. The other calls are those of the duties, which have no request.
func Trace(s store.Store, begin BeginCall) store.Store { return &tracing{s, begin} }

type tracing struct {
	store.Store
	begin BeginCall
}

// failureOf returns the kind of a failure of the store, or "" for an answer, such as store.ErrNotFound.
func failureOf(err error) string {
	var overloaded *store.OverloadedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &overloaded):
		return "overloaded"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return ""
}

func traced[T any](ctx context.Context, s *tracing, call, runID string,
	f func(context.Context) (T, error)) (out T, err error) {
	ctx, end := s.begin(ctx, call, runID)
	defer func() { end(failureOf(err)) }()
	return f(ctx)
}

func (s *tracing) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	return traced(ctx, s, "append", a.RunID, func(ctx context.Context) (store.Appended, error) {
		return s.Store.Append(ctx, a)
	})
}

func (s *tracing) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	return traced(ctx, s, "start attempt", b.RunID, func(ctx context.Context) (store.AttemptStarted, error) {
		return s.Store.StartAttempt(ctx, b)
	})
}

func (s *tracing) CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error) {
	ctx, end := s.begin(ctx, "create run", n.Run.RunID)
	defer func() { end(failureOf(err)) }()
	return s.Store.CreateRun(ctx, n)
}

func (s *tracing) InRun(ctx context.Context, runID string, f func(store.RunTx) error) (err error) {
	ctx, end := s.begin(ctx, "change run", runID)
	defer func() { end(failureOf(err)) }()
	return s.Store.InRun(ctx, runID, f)
}

func (s *tracing) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	return traced(ctx, s, "events", "", func(ctx context.Context) ([]run.Event, error) {
		return s.Store.Events(ctx, runID, after, limit)
	})
}

func (s *tracing) Load(ctx context.Context, runID string) (store.Loaded, error) {
	return traced(ctx, s, "load", "", func(ctx context.Context) (store.Loaded, error) { return s.Store.Load(ctx, runID) })
}

func (s *tracing) Get(ctx context.Context, runID string) (store.Run, error) {
	return traced(ctx, s, "run", "", func(ctx context.Context) (store.Run, error) { return s.Store.Get(ctx, runID) })
}

func (s *tracing) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	return traced(ctx, s, "list", "", func(ctx context.Context) ([]store.RunRow, error) { return s.Store.List(ctx, f) })
}
