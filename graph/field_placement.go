package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// fieldPlacement rejects fields where they cannot be answered. Subscriptions have no fields that depend on the viewer
// or that need I/O for each frame. Lists have no fields that need I/O for each row. It answers BAD_USER_INPUT before
// the operation starts, because gqlgen loses the errors of fields inside a subscription, and an empty value would be
// wrong (contract T155).
type fieldPlacement struct{}

var _ graphql.OperationContextMutator = fieldPlacement{}

func (fieldPlacement) ExtensionName() string                   { return "Placement" }
func (fieldPlacement) Validate(graphql.ExecutableSchema) error { return nil }

var (
	// costly are the fields that need I/O for each run or step.
	costly = []string{"Run.events", "Run.signals", "Run.approval", "RunError.logLine", "Step.dbtNodes", "Step.nodes",
		"Step.medianMs", "Run.lastGreen", "Run.forecast", "Run.forecastGap",
		"Run.planDocument", "Run.planDiff", "Run.request", "Step.inputs",
		"Run.diagnosis", "Run.waits", "Run.archive", "Step.evidence", "Step.secrets", "Step.output", "Run.artifactList"}
	// A stream sends a frame when its run changes. The poll of a worker and a deadline that passes change no run, so
	// pollerSeenAt and late would be stale.
	notInStream = fieldSet(costly, "Run.actions", "Step.actions", "Bulk.rows", "Wait.pollerSeenAt", "Run.late")
	notInPage   = fieldSet(costly, "Run.step")
	notInRows   = fieldSet(costly, "Run.steps", "Run.step", "Run.late")
	notInBulks  = fieldSet(nil, "Bulk.rows", "Bulk.applications", "Bulk.runs")
	notInSteps  = fieldSet(nil, "Step.dbtNodes", "Step.nodes", "Step.inputs", "Step.evidence", "Step.secrets",
		"Step.output")
	// The list of approvals reads the approval of each run anyway, so it may select them.
	notInApprovals = fieldSet(slices.DeleteFunc(slices.Clone(costly), func(f string) bool { return f == "Run.approval" }))
	lists          = map[string]map[string]bool{
		"Query.runs": notInPage, "RunListUpdate.runs": notInRows, "Query.bulks": notInBulks, "Run.steps": notInSteps,
		"RunDiff.steps":   notInSteps,
		"Query.approvals": notInApprovals,
	}
	// selectedOn names the fields on which a client can select the rejected ones; the default is run(runId:).
	selectedOn = map[string]string{"Bulk": "bulk(id:)", "Step": "step(stepId:) of run(runId:)"}
)

// fieldSet returns the set of the names in both lists.
func fieldSet(costly []string, more ...string) map[string]bool {
	out := map[string]bool{}
	for _, f := range slices.Concat(costly, more) {
		out[f] = true
	}
	return out
}

func (fieldPlacement) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	return checkFields(op.Operation.SelectionSet, op.Operation.Operation == ast.Subscription, nil)
}

// checkFields visits every field; limit.Guard has already limited their number. rejected are the fields that the list
// around set rejects.
func checkFields(set ast.SelectionSet, stream bool, rejected map[string]bool) *gqlerror.Error {
	for _, s := range set {
		var err *gqlerror.Error
		switch s := s.(type) {
		case *ast.Field:
			err = checkField(s, stream, rejected)
		case *ast.InlineFragment:
			err = checkFields(s.SelectionSet, stream, rejected)
		case *ast.FragmentSpread:
			err = checkFields(s.Definition.SelectionSet, stream, rejected)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkField(f *ast.Field, stream bool, rejected map[string]bool) *gqlerror.Error {
	name := f.ObjectDefinition.Name + "." + f.Name
	var where string
	switch {
	case stream && notInStream[name]:
		where = "inside a subscription"
	case rejected[name]:
		where = "in a list"
	default:
		if inside := lists[name]; inside != nil {
			rejected = inside
		}
		return checkFields(f.SelectionSet, stream, rejected)
	}
	err := gqlerror.WrapPath(nil, &control.Error{
		Code: run.CodeBadInput, Message: fmt.Sprintf("%s is not available %s; select it on %s.", name, where,
			cmp.Or(selectedOn[f.ObjectDefinition.Name], "run(runId:)")),
	})
	err.Locations = []gqlerror.Location{{Line: f.Position.Line, Column: f.Position.Column}}
	return err
}
