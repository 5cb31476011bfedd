package control

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// WatchRuns shows a page of runs, then its rows as they enter, change and leave.
// The bus only says that something changed; the store says what (T186). When it
// is silent the store is asked every second, or every five while the bus is up.
func (s *Service) WatchRuns(ctx context.Context, p authz.Principal, q RunsQuery) (Stream[RunsFrame], error) {
	n, _, err := pageSize(q.First, 0, 50)
	if err != nil {
		return nil, err
	}
	f := q.Filter
	if !s.narrow(p, &f) {
		return nil, refuse(run.CodeForbidden, "You may not read runs in this tenant.")
	}
	f.Limit = n
	project := "*"
	if len(f.ProjectIDs) == 1 {
		project = f.ProjectIDs[0]
	}
	return &runsStream{
		guard:  guard{s: s, p: p, object: authz.Object{TenantID: p.TenantID, ProjectID: project, EnvironmentID: "*"}},
		filter: f, sub: s.cfg.Bus.SubscribeList(p.TenantID, project), page: map[string]run.Seq{}, reset: true,
	}, nil
}

type runsStream struct {
	guard  guard
	filter store.RunFilter
	sub    live.Subscription
	cursor string
	page   map[string]run.Seq // rows shown and their seq
	reset  bool
	down   bool // the store did not answer
}

func (r *runsStream) Next(ctx context.Context) (f RunsFrame, err error) {
	err = r.guard.wait(ctx, func(ctx context.Context) (err error) {
		f, err = r.next(ctx)
		return err
	})
	return f, err
}

func (r *runsStream) next(ctx context.Context) (RunsFrame, error) {
	deadline := time.NewTimer(r.guard.s.cfg.Quiet)
	defer deadline.Stop()
	for quiet := false; ; {
		f, changed, err := r.look(ctx)
		switch {
		case errors.Is(err, store.ErrUnavailable) && !r.down:
			r.down = true
			return RunsFrame{Sync: live.Stale, Reason: live.StoreDown, AsOf: r.guard.s.cfg.Now()}, nil
		case err != nil && !errors.Is(err, store.ErrUnavailable):
			return RunsFrame{}, err
		case err == nil && (changed || quiet || r.down):
			r.down = false
			return f, nil
		}
		poll := 5 * time.Second
		if r.down || !r.guard.s.cfg.Bus.Up() {
			poll = time.Second
		}
		select {
		case <-ctx.Done():
			return RunsFrame{}, ctx.Err()
		case <-r.sub.C():
		case <-time.After(poll):
		case <-deadline.C:
			quiet = true
		}
	}
}

// look reads what changed, and the page anew when any of that may belong to it.
func (r *runsStream) look(ctx context.Context) (RunsFrame, bool, error) {
	s := r.guard.s
	f := RunsFrame{Sync: live.Live, AsOf: s.cfg.Now()}
	if !s.cfg.Bus.Up() {
		f.Reason = live.BusDegraded
	}
	changed, next, err := s.cfg.Store.Changed(ctx, r.filter, r.cursor)
	if errors.Is(err, store.ErrConflict) { // another epoch: another history
		r.cursor, r.reset = "", true
		return r.look(ctx)
	}
	if err != nil {
		return f, false, err
	}
	moved := r.reset
	for _, row := range changed {
		if seq, shown := r.page[row.Header.RunID]; !shown || row.Header.Seq > seq {
			moved = true
		}
	}
	r.cursor = next
	if !moved {
		return f, false, nil
	}
	rows, err := s.cfg.Store.List(ctx, r.filter)
	if err != nil {
		return f, false, err
	}
	epoch, err := s.cfg.Store.Epoch(ctx)
	if err != nil {
		return f, false, err
	}
	f.Reset = r.reset
	page := make(map[string]run.Seq, len(rows))
	for _, row := range rows {
		id := row.Header.RunID
		page[id] = row.Header.Seq
		if seq, shown := r.page[id]; r.reset || !shown || row.Header.Seq != seq {
			f.Runs = append(f.Runs, rowView(row, epoch))
		}
	}
	if !r.reset {
		for id := range r.page {
			if _, still := page[id]; !still {
				f.Removed = append(f.Removed, id)
			}
		}
	}
	first := r.reset
	r.page, r.reset = page, false
	return f, first || len(f.Runs)+len(f.Removed) > 0, nil
}

func (r *runsStream) Close() { r.sub.Close() }
