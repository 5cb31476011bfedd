package projector

import "github.com/dvt-engine/dvt/run"

// cachedState is a folded state with the positions that were published. The cache keeps the states of the runs that
// were projected last, limited by their number of steps, so that a wake reads only new events. The store is the
// truth: users compare epoch and head with the store.
type cachedState struct {
	epoch string
	state run.State
	to    run.Seq // every event up to this position was published
	ops   int64   // the operational revision that was published; -1 for none
}
