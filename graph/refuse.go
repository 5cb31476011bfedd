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

// placement refuses fields where they cannot be answered: inside a subscription
// what is the viewer's own or needs I/O for each frame, and in a list what needs
// I/O for each row. An error before the operation begins is honest; an empty
// answer would not be, and errors of fields inside a subscription are lost (T155).
type placement struct{}

var _ graphql.OperationContextMutator = placement{}

func (placement) ExtensionName() string                   { return "Placement" }
func (placement) Validate(graphql.ExecutableSchema) error { return nil }

var (
	// costly is what needs I/O for each run or step.
	costly = []string{"Run.events", "Run.signals", "Run.approval", "RunError.logLine", "Step.dbtNodes", "Step.medianMs",
		"Run.lastGreen", "Run.forecast", "Run.planDocument", "Run.planDiff", "Step.inputs"}
	// A stream speaks when its run changes, and a worker that polls changes no run.
	notInStream = fields(costly, "Run.actions", "Step.actions", "Bulk.rows", "Wait.pollerSeenAt")
	notInPage   = fields(costly, "Run.step")
	notInRows   = fields(costly, "Run.steps", "Run.step")
	notInBulks  = fields(nil, "Bulk.rows", "Bulk.applications")
	notInSteps  = fields(nil, "Step.dbtNodes", "Step.inputs")
	// Whoever lists approvals wants to see them.
	notInApprovals = fields(slices.DeleteFunc(slices.Clone(costly), func(f string) bool { return f == "Run.approval" }))
	lists          = map[string]map[string]bool{
		"Query.runs": notInPage, "RunListUpdate.runs": notInRows, "Query.bulks": notInBulks, "Run.steps": notInSteps,
		"RunDiff.steps":   notInSteps,
		"Query.approvals": notInApprovals,
	}
	selectedOn = map[string]string{"Bulk": "bulk(id:)", "Step": "step(stepId:) of run(runId:)"} // else on run(runId:)
)

// fields is the set of those of both lists.
func fields(costly []string, more ...string) map[string]bool {
	out := map[string]bool{}
	for _, f := range slices.Concat(costly, more) {
		out[f] = true
	}
	return out
}

func (placement) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	return place(op.Operation.SelectionSet, op.Operation.Operation == ast.Subscription, nil)
}

// place walks every field; guard has bounded how many there are. notHere is what
// the list that set is in does not have.
func place(set ast.SelectionSet, stream bool, notHere map[string]bool) *gqlerror.Error {
	for _, s := range set {
		var err *gqlerror.Error
		switch s := s.(type) {
		case *ast.Field:
			err = placeField(s, stream, notHere)
		case *ast.InlineFragment:
			err = place(s.SelectionSet, stream, notHere)
		case *ast.FragmentSpread:
			err = place(s.Definition.SelectionSet, stream, notHere)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func placeField(f *ast.Field, stream bool, notHere map[string]bool) *gqlerror.Error {
	name := f.ObjectDefinition.Name + "." + f.Name
	var where string
	switch {
	case stream && notInStream[name]:
		where = "inside a subscription"
	case notHere[name]:
		where = "in a list"
	default:
		if inside := lists[name]; inside != nil {
			notHere = inside
		}
		return place(f.SelectionSet, stream, notHere)
	}
	err := gqlerror.WrapPath(nil, &control.Error{
		Code: run.CodeBadInput, Message: fmt.Sprintf("%s is not available %s; select it on %s.", name, where,
			cmp.Or(selectedOn[f.ObjectDefinition.Name], "run(runId:)")),
	})
	err.Locations = []gqlerror.Location{{Line: f.Position.Line, Column: f.Position.Column}}
	return err
}
