package watch

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// RunsFrame has a page of runs, or the rows that changed since.
type RunsFrame struct {
	Sync    live.Sync
	Reason  live.Reason
	Runs    []control.RunView
	Removed []string
	AsOf    time.Time
	Reset   bool
}

// WatchRuns returns a stream of a page of runs without their steps: first the page, then its rows as they enter, change
// and leave; see live.ListFrame for what a frame promises. When the rights of the viewer change, the stream sends the
// new page with Reset. Errors: FORBIDDEN, BAD_USER_INPUT.
func (s *Watcher) WatchRuns(ctx context.Context, p authz.Principal, q control.RunsQuery) (control.Stream[RunsFrame],
	error) {
	asked, err := askedPage(q)
	if err != nil {
		return nil, err
	}
	r := &runsStream{lists: s.lists}
	var filter store.RunFilter // what the viewer asked for and may see
	r.guard = s.rights.GuardBy(p, func() error {
		f, ok := s.rights.Narrow(p, asked)
		if !ok {
			return s.rights.NothingToReadError(p)
		}
		if reflect.DeepEqual(f, filter) {
			return nil
		}
		filter = f
		if err := r.show(f); err != nil {
			return control.Translate(err)
		}
		return control.ErrLook
	})
	if err := r.guard.May(); !errors.Is(err, control.ErrLook) {
		return nil, r.guard.EndError(ctx, err)
	}
	return r, nil
}

// askedPage returns the filter of a watched page: its first rows, without steps.
func askedPage(q control.RunsQuery) (store.RunFilter, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return store.RunFilter{}, err
	}
	var vs []plan.Violation
	for path, at := range map[string]time.Time{"filter.createdFrom": q.Filter.CreatedFrom,
		"filter.createdTo": q.Filter.CreatedTo} {
		if year := at.UTC().Year(); year < 1 || year > 9999 {
			vs = append(vs, plan.Violation{Path: path, Code: plan.CodeRange, Message: "must be in the years 1 to 9999"})
		}
	}
	if len(vs) > 0 {
		return store.RunFilter{}, control.BadInput(vs)
	}
	f := q.Filter
	f.Limit, f.After, f.Before, f.Steps = n, nil, nil, false
	return f, nil
}

// runsStream is a guarded stream. It switches to another page when the rights of its viewer change.
type runsStream struct {
	guard control.Guard
	lists *live.Lists

	mu     sync.Mutex
	page   *live.ListStream
	closed bool
}

// show replaces the current page by the page of f.
func (r *runsStream) show(f store.RunFilter) error {
	page, err := r.lists.Watch(f)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page != nil {
		r.page.Close()
	}
	r.page = page
	if r.closed {
		page.Close()
	}
	return nil
}

func (r *runsStream) Next(ctx context.Context) (f RunsFrame, err error) {
	err = r.guard.Wait(ctx, func(ctx context.Context) (err error) {
		r.mu.Lock()
		page := r.page
		r.mu.Unlock()
		f, err = nextRuns(ctx, page)
		return err
	})
	return f, err
}

func (r *runsStream) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.page.Close()
}

// OpenRuns returns the stream for all holders of tickets of the class of t. It does not check rights while it runs; the
// tickets do. It reads nothing itself: the first frame is the whole page, or says that the store does not answer.
func (s *Watcher) OpenRuns(_ context.Context, t *Ticket) (control.Stream[RunsFrame], error) {
	page, err := s.lists.Watch(t.filter)
	if err != nil {
		return nil, control.Translate(err)
	}
	return openRuns{page}, nil
}

type openRuns struct{ page *live.ListStream }

func (o openRuns) Next(ctx context.Context) (RunsFrame, error) {
	f, err := nextRuns(ctx, o.page)
	return f, control.Translate(err)
}

func (o openRuns) Close() { o.page.Close() }

func nextRuns(ctx context.Context, page *live.ListStream) (RunsFrame, error) {
	f, err := page.Next(ctx)
	out := RunsFrame{Sync: f.Sync, Reason: f.Reason, Removed: f.Removed, AsOf: f.AsOf, Reset: f.Reset}
	for _, row := range f.Rows {
		out.Runs = append(out.Runs, control.RowView(row, f.Epoch))
	}
	return out, err
}
