package control

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// WatchRuns shows a page of runs, then its rows as they enter, change and leave.
// The bus only says that something changed; the store says what (T186). When it
// is silent the store is asked every second, or every five while the bus is up.
// A viewer whose rights change is shown the page anew, with Reset.
func (s *Service) WatchRuns(ctx context.Context, p authz.Principal, q RunsQuery) (Stream[RunsFrame], error) {
	n, _, err := pageSize(q.First, 0, 50)
	if err != nil {
		return nil, err
	}
	asked := q.Filter
	asked.Limit, asked.After, asked.Before = n, nil, nil
	r := &runsStream{page: map[string]run.Seq{}, reset: true}
	r.guard = guard{s: s, p: p, may: func() error {
		f, ok := s.narrow(p, asked)
		if !ok {
			return s.nothingToRead(p)
		}
		if reflect.DeepEqual(f, r.filter) {
			return nil
		}
		r.filter, r.reset, r.cursor = f, true, ""
		return errLook
	}}
	if err := r.guard.may(); !errors.Is(err, errLook) {
		return nil, r.guard.ended(ctx, err)
	}
	r.sub = s.subscribeRuns(asked, p.TenantID)
	return r, nil
}

func (s *Service) subscribeRuns(f store.RunFilter, tenantID string) live.Subscription {
	project := "*"
	if len(f.ProjectIDs) == 1 {
		project = f.ProjectIDs[0]
	}
	return s.cfg.Bus.SubscribeList(tenantID, project)
}

// OpenRuns is the stream of all who hold tickets of the class of t: nobody's
// rights are looked at while it runs.
func (s *Service) OpenRuns(_ context.Context, t *Ticket) (Stream[RunsFrame], error) {
	r := &runsStream{guard: guard{s: s}, filter: t.filter, page: map[string]run.Seq{}, reset: true}
	r.sub = s.subscribeRuns(t.filter, t.filter.TenantID)
	return openRuns{r}, nil
}

type openRuns struct{ *runsStream }

func (o openRuns) Next(ctx context.Context) (RunsFrame, error) {
	f, err := o.next(ctx)
	return f, translate(err)
}

type runsStream struct {
	guard  guard
	filter store.RunFilter // what the viewer asked for and may see
	sub    live.Subscription
	epoch  string
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
	s := r.guard.s
	deadline := time.NewTimer(s.cfg.Quiet)
	defer deadline.Stop()
	for quiet := false; ; {
		f, changed, err := r.look(ctx)
		switch down := errors.Is(err, store.ErrUnavailable); {
		case err != nil && !down:
			return RunsFrame{}, err
		case down && (quiet || !r.down):
			r.down = true
			return RunsFrame{Sync: live.Stale, Reason: live.StoreDown, AsOf: s.cfg.Now()}, nil
		case !down && (changed || quiet || r.down):
			r.down = false
			return f, nil
		}
		poll := 5 * time.Second
		if r.down || !s.cfg.Bus.Up() {
			poll = storeRetry
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
// Only a look that read everything moves the cursor and the page.
func (r *runsStream) look(ctx context.Context) (RunsFrame, bool, error) {
	s := r.guard.s
	now, err := s.cfg.Store.Heads(ctx, nil) // the epoch and the store's clock
	if err != nil {
		return RunsFrame{}, false, err
	}
	f := RunsFrame{Sync: live.Live, AsOf: now.Now}
	if !s.cfg.Bus.Up() {
		f.Reason = live.BusDegraded
	}
	if now.Epoch != r.epoch { // another history
		r.epoch, r.cursor, r.reset = now.Epoch, "", true
	}
	all := r.filter
	all.Limit = store.MaxPage
	changed, next, err := s.cfg.Store.Changed(ctx, all, r.cursor)
	if err != nil {
		return f, false, err
	}
	if !r.reset && !r.concerns(changed) {
		r.cursor = next
		return f, false, nil
	}
	rows, err := s.cfg.Store.List(ctx, r.filter)
	if err != nil {
		return f, false, err
	}
	page := make(map[string]run.Seq, len(rows))
	for _, row := range rows {
		id := row.Header.RunID
		page[id] = row.Header.Seq
		if seq, shown := r.page[id]; r.reset || !shown || row.Header.Seq != seq {
			f.Runs = append(f.Runs, rowView(row, now.Epoch))
		}
	}
	for id := range r.page {
		if _, still := page[id]; !still && !r.reset {
			f.Removed = append(f.Removed, id)
		}
	}
	f.Reset = r.reset
	r.cursor, r.page, r.reset = next, page, false
	return f, f.Reset || len(f.Runs)+len(f.Removed) > 0, nil
}

// concerns reports whether any of the rows may enter, change or leave the page.
func (r *runsStream) concerns(rows []store.RunRow) bool {
	for _, row := range rows {
		if seq, shown := r.page[row.Header.RunID]; !shown || row.Header.Seq != seq {
			return true
		}
	}
	return false
}

func (r *runsStream) Close() { r.sub.Close() }
