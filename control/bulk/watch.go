package bulk

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

// BulkFrame is the state of a bulk and the rows that changed since the frame before.
type BulkFrame struct {
	Sync   live.Sync
	Reason live.Reason
	AsOf   time.Time
	Reset  bool // the client must read the rows again, because this frame does not list all changes
	Bulk   Bulk
	Rows   []BulkRow
}

// Intervals at which a watched bulk is read: longer while nothing changes. Once all rows are final, it is read every
// bulkRunsEvery until all runs have ended, and then only for the quiet frames.
const (
	bulkLookEvery = 200 * time.Millisecond
	bulkLookMost  = 2 * time.Second
	bulkRunsEvery = 5 * time.Second
)

// WatchBulk returns a stream of the state of one of p's own bulks: first the current state, then each change of the
// bulk or of a receipt, and a quiet frame when nothing changes. Errors: NOT_FOUND as for Bulk.
func (s *Reader) WatchBulk(ctx context.Context, p authz.Principal, id string) (control.Stream[BulkFrame], error) {
	b, err := s.Bulk(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w := &bulkStream{s: s, guard: s.rights.GuardTenant(p), shown: BulkFrame{Bulk: b}, every: bulkLookEvery}
	if err := w.guard.Check(); err != nil {
		return nil, w.guard.EndError(ctx, err)
	}
	return w, nil
}

type bulkStream struct {
	s     *Reader
	guard control.Guard
	shown BulkFrame        // the frame before; its Bulk is set from the start
	marks []store.BulkMark // the marks of the frame before; nil before the first frame
	every time.Duration
}

func (w *bulkStream) Next(ctx context.Context) (f BulkFrame, err error) {
	err = w.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = w.next(ctx)
		return err
	})
	return f, err
}

func (w *bulkStream) next(ctx context.Context) (BulkFrame, error) {
	quiet := time.NewTimer(w.s.quiet)
	defer quiet.Stop()
	for over := false; ; {
		f, moved, err := w.look(ctx)
		if err != nil {
			return BulkFrame{}, err
		}
		if moved || over {
			w.shown = f
			return f, nil
		}
		wait := time.NewTimer(w.every)
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-wait.C:
			w.every = min(w.every*3/2, bulkLookMost)
		case <-quiet.C:
			over = true
		}
		wait.Stop()
		if err != nil {
			return BulkFrame{}, err
		}
	}
}

// look reads the next frame and reports whether it has a change. When the store does not answer, the frame is STALE
// with the last known state.
func (w *bulkStream) look(ctx context.Context) (BulkFrame, bool, error) {
	f, moved, err := w.read(ctx)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) {
		f = BulkFrame{Sync: live.Stale, Reason: live.StoreDown, AsOf: w.shown.AsOf, Bulk: w.shown.Bulk}
		return f, w.shown.Sync != live.Stale, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return f, false, bulkNotFound() // only the newest 50 bulks are kept
	}
	return f, moved, err
}

func (w *bulkStream) read(ctx context.Context) (BulkFrame, bool, error) {
	s, id := w.s, w.shown.Bulk.ID
	f := BulkFrame{Sync: live.Live, AsOf: s.rights.Now(), Bulk: w.shown.Bulk}
	b, err := s.store.Bulk(ctx, id)
	if err != nil {
		return f, false, err
	}
	back := w.shown.Sync == live.Stale
	settled := w.marks != nil && b.Rev == w.shown.Bulk.Rev && isSettled(w.marks)
	if settled && haveEnded(w.marks) {
		w.every = s.quiet
		return f, back, nil
	}
	marks, err := s.store.BulkMarks(ctx, id)
	if err != nil {
		return f, false, err
	}
	progress := progressOf(marks)
	if f.Bulk, err = bulkView(b); err != nil {
		return f, false, err
	}
	f.Bulk.Progress = &progress
	// This is the first frame, or the store was restored.
	if w.marks == nil || b.Rev < w.shown.Bulk.Rev || len(marks) != len(w.marks) {
		w.marks, w.every, f.Reset = marks, bulkLookEvery, true
		return f, true, nil
	}
	var nos []int
	for i, m := range marks {
		if m != w.marks[i] && len(nos) < control.MaxPageSize {
			nos = append(nos, m.No)
		}
	}
	if len(nos) == 0 {
		if settled {
			w.every = bulkRunsEvery
		}
		return f, back || b.Rev != w.shown.Bulk.Rev, nil
	}
	if f.Rows, err = s.bulkRows(ctx, w.guard.P, store.BulkRowFilter{BulkID: id, Nos: nos}); err != nil {
		return f, false, err
	}
	for _, no := range nos {
		w.marks[no-1] = marks[no-1]
	}
	// The rows were read after the marks. A status that is newer than the counts comes with the next frame.
	for i, r := range f.Rows {
		f.Rows[i].RunStatus = marks[r.No-1].RunStatus
	}
	w.every = bulkLookEvery
	return f, true, nil
}

// haveEnded reports whether the runs of all accepted rows have ended.
func haveEnded(marks []store.BulkMark) bool {
	return !slices.ContainsFunc(marks, func(m store.BulkMark) bool {
		return m.Outcome == store.BulkAccepted && !m.RunStatus.Terminal()
	})
}

// isSettled reports whether no row will change again, except for the status of its run.
func isSettled(marks []store.BulkMark) bool {
	return !slices.ContainsFunc(marks, func(m store.BulkMark) bool {
		sent := m.Outcome == store.BulkAccepted && m.Application != "" && !m.Application.Final()
		return m.Outcome == store.BulkWaiting || sent || m.Moving
	})
}

// Close implements control.Stream.
func (w *bulkStream) Close() {}
