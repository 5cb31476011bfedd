package projector

import "github.com/dvt-engine/dvt/run"

// known is a state that a projector has folded, and what it has published. Those of the runs
// projected last are kept, each weighed by its steps, so that a wake reads only what is
// new. That is never the truth: a reader compares epoch and head with the store's.
type known struct {
	epoch string
	state run.State
	to    run.Seq // everything up to here went to the bus
	ops   int64   // and the operational state up to here; -1 for none
}
