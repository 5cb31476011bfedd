package projector

import (
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// PendingAfter returns the events that a projector with state s folds after an append, or false if it reads the log.
func PendingAfter(s run.State, a store.Append, out store.Appended) ([]run.Event, bool) {
	return pendingFrom(a, out).after(s)
}
