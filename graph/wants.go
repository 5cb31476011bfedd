package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/selection"
)

// wants says which costly parts of a run an operation selects; the others need not
// be mapped.
type wants struct{ artifacts, attempts, wait, blocked bool }

func everything() wants { return wants{true, true, true, true} }

func wantsOf(p *selection.Plan) wants {
	return wants{
		artifacts: p.Selects("Run.artifacts"), attempts: p.Selects("Step.attempts"),
		wait: p.Selects("Step.wait"), blocked: p.Selects("RunError.blockedSteps"),
	}
}

type wantsKey struct{}

// wanted is what the operation of ctx selects: everything, unless it was compiled.
func wanted(ctx context.Context) wants {
	if w, ok := ctx.Value(wantsKey{}).(wants); ok {
		return w
	}
	return everything()
}
