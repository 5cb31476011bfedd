package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/graph/internal/selection"
)

func costlyPartsOf(p *selection.Plan) mapping.CostlyParts {
	return mapping.CostlyParts{
		Artifacts: p.Selects("Run.artifacts"), Attempts: p.Selects("Step.attempts"),
		Wait: p.Selects("Step.wait"), NotBefore: p.Selects("Step.notBefore"),
		Blocked: p.Selects("RunError.blockedSteps") || p.Selects("RunError.heldSteps"),
	}
}

type costlyPartsKey struct{}

// costlyPartsFromContext returns the costly parts that the operation of ctx selects. Only compiled operations know
// them; for others it returns everything.
func costlyPartsFromContext(ctx context.Context) mapping.CostlyParts {
	if w, ok := ctx.Value(costlyPartsKey{}).(mapping.CostlyParts); ok {
		return w
	}
	return mapping.AllCostlyParts()
}
