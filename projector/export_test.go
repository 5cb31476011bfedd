package projector

import (
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Told is what a projector that knows s folds for an append, false when it reads.
func Told(s run.State, a store.Append, out store.Appended) ([]run.Event, bool) {
	return newsOf(a, out).after(s)
}
