package decorate

import (
	"context"

	"github.com/dvt-engine/dvt/store"
)

// NotifyRunEnd returns a store that calls notify after an Append or InRun through it has ended a run. A repeated append
// of the end notifies again. A call that fails does not notify, even if it has committed, so notify must be only a
// hint. notify must not block.
func NotifyRunEnd(s store.Store, notify func()) store.Store {
	return &runEnd{Store: s, notify: notify}
}

type runEnd struct {
	store.Store
	notify func()
}

func (s *runEnd) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.Store.Append(ctx, a)
	for i := range a.Events {
		if a.Events[i].Type.EndsRun() && err == nil && out.Head.Terminal {
			s.notify()
		}
	}
	return out, err
}

func (s *runEnd) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	ended := false
	err := s.Store.InRun(ctx, runID, func(tx store.RunTx) error {
		before := tx.Head().Terminal
		err := f(tx)
		ended = !before && tx.Head().Terminal
		return err
	})
	if err == nil && ended {
		s.notify()
	}
	return err
}
