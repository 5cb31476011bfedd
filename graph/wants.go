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

// wantsFromContext returns the costly parts that the operation of ctx selects. Only compiled operations know them; for
// others it returns everything.
func wantsFromContext(ctx context.Context) mapping.Wants {
	if w, ok := ctx.Value(wantsKey{}).(mapping.Wants); ok {
		return w
	}
	return mapping.AllWants()
}
