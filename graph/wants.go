package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/graph/internal/selection"
)

func wantsOf(p *selection.Plan) mapping.Wants {
	return mapping.Wants{
		Artifacts: p.Selects("Run.artifacts"), Attempts: p.Selects("Step.attempts"),
		Wait: p.Selects("Step.wait"), Blocked: p.Selects("RunError.blockedSteps"),
	}
}

type wantsKey struct{}

// wanted is what the operation of ctx selects: everything, unless it was compiled.
func wanted(ctx context.Context) mapping.Wants {
	if w, ok := ctx.Value(wantsKey{}).(mapping.Wants); ok {
		return w
	}
	return mapping.Everything()
}
