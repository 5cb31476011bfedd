package live

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// ListStream is one viewer of a page of runs. It keeps the page that the viewer was last shown and no backlog: a slow
// viewer gets the difference to the newest page. Only one goroutine may call Next; Close is safe for concurrent use.
type ListStream struct {
	hub   *Lists
	entry *listEntry
	page  *listPage
	close sync.Once
	done  chan struct{}

	// Used only by the reader.
	shown *listView
	last  time.Time // when the last frame was returned
}

// Next waits for the next frame, at most KeepAlive after the last one. A quiet frame says how fresh the page is
// (contract O9). When the stream has ended it returns ErrShutdown, ErrClosed, ctx's error, or the store's error for a
// filter that it refuses.
func (s *ListStream) Next(ctx context.Context) (ListFrame, error) {
	quiet := s.hub.cfg.KeepAlive
	if !s.last.IsZero() {
		quiet -= time.Since(s.last)
	}
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for due := false; ; {
		select {
		case <-s.done:
			return ListFrame{}, ErrClosed
		default:
		}
		v, asOf, changed, err := s.page.current()
		if v != nil && v != s.shown {
			if f, moved := s.advance(v); moved {
				f.AsOf, s.last = asOf, time.Now()
				return f, nil
			}
		}
		switch {
		case err != nil:
			return ListFrame{}, err
		case due && v != nil:
			s.last = time.Now()
			return ListFrame{Sync: v.sync, Reason: v.reason, Epoch: v.epoch, AsOf: asOf}, nil
		}
		select {
		case <-ctx.Done():
			return ListFrame{}, ctx.Err()
		case <-s.done:
		case <-changed:
		case <-timer.C:
			due = true
		}
	}
}

// advance returns the difference between the page shown last and v.
func (s *ListStream) advance(v *listView) (f ListFrame, moved bool) {
	was := s.shown
	if was == nil {
		was = &listView{}
	}
	s.shown = v
	f = ListFrame{Sync: v.sync, Reason: v.reason, Epoch: v.epoch, Reset: v.history != was.history}
	if f.Reset {
		for _, row := range v.rows {
			f.Rows = append(f.Rows, *row)
		}
		return f, true
	}
	order := displayOrder(&s.page.filter)
	old, now := was.rows, v.rows
	for len(old) > 0 || len(now) > 0 {
		switch side := compareHeads(order, old, now); {
		case side < 0:
			f.Removed = append(f.Removed, old[0].Header.RunID)
			old = old[1:]
		case side > 0:
			f.Rows = append(f.Rows, *now[0])
			now = now[1:]
		default:
			if old[0] != now[0] {
				f.Rows = append(f.Rows, *now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
	return f, len(f.Rows)+len(f.Removed) > 0 || v.sync != was.sync || v.reason != was.reason
}

// compareHeads reports which of two ordered lists has the next row, like cmp.Compare. At most one of them may be
// empty.
func compareHeads(order func(a, b *store.RunRow) int, a, b []*store.RunRow) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return order(a[0], b[0])
}

// Close frees the stream; Next then returns ErrClosed. Calls after the first do nothing.
func (s *ListStream) Close() {
	s.close.Do(func() {
		close(s.done)
		s.hub.leave(s.entry, s.page)
	})
}
