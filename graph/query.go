package graph

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

func (q queries) Viewer(ctx context.Context) (*model.Viewer, error) {
	return mapping.Viewer(q.control.Viewer(principal(ctx)), mapping.MapSlice(q.devPrincipals(), devPrincipal)), nil
}

func (q queries) Node(ctx context.Context, id string) (model.Node, error) {
	switch kind, parts := mapping.ParseNodeID(id); {
	case kind == mapping.RunNode && len(parts) == 1:
		return asNode(q.Run(ctx, parts[0], nil))
	case kind == mapping.SignalNode && len(parts) == 2:
		return asNode(q.Signal(ctx, parts[0], parts[1]))
	case kind == mapping.DeadLetterNode && len(parts) == 1:
		return asNode(q.deadLetter(ctx, parts[0]))
	case kind == mapping.BulkNode && len(parts) == 1:
		return asNode(q.Bulk(ctx, id))
	}
	return nil, nil //nolint:nilnil // an id that dvt did not make has no node
}

func (q queries) Run(ctx context.Context, runID string, at *run.Seq) (*model.Run, error) {
	p := principal(ctx)
	v, err := q.control.Run(ctx, p, runID, at)
	if err != nil {
		return nullIfNotFound[model.Run](err)
	}
	g := mapping.GraphOf(v, availability(q.control, p, v), costlyPartsFromContext(ctx))
	g.UseEngineWaits(func() map[string]reads.StepWait { return q.control.StepWaits(ctx, v) })
	return g.Run(), nil
}

func (q queries) RunDiff(ctx context.Context, runID string, a, b run.Seq) (*model.RunDiff, error) {
	p := principal(ctx)
	d, err := q.control.DiffRun(ctx, p, runID, a, b)
	if err != nil {
		return nullIfNotFound[model.RunDiff](err)
	}
	from := mapping.GraphOf(d.From, availability(q.control, p, d.From), mapping.AllCostlyParts())
	to := mapping.GraphOf(d.To, availability(q.control, p, d.To), mapping.AllCostlyParts())
	out := &model.RunDiff{From: from.Run(), To: to.Run(), Decisions: mapping.MapSlice(d.Decisions, mapping.Event),
		Steps: make([]model.StepDiff, len(d.Steps))}
	for i, s := range d.Steps {
		out.Steps[i] = model.StepDiff{StepID: s.To.StepID, From: from.MapStep(s.From), To: to.MapStep(s.To)}
	}
	return out, nil
}

func (q queries) Runs(
	ctx context.Context, first *int, after *string, last *int, before *string, filter *model.RunFilter,
	orderBy *model.RunOrder,
) (*model.RunConnection, error) {
	p := principal(ctx)
	in, err := runsQuery(filter, first, last)
	if err != nil {
		return nil, err
	}
	in.After, in.Before = mapping.OrZero(after), mapping.OrZero(before)
	in.Filter.Steps = graphql.FieldRequested(ctx, "edges.node.steps")
	in.Filter.Sort, in.Filter.Ascending = runOrder(mapping.OrZero(orderBy))
	page, err := q.control.Runs(ctx, p, in)
	return mapping.RunsPage(page, availabilityTo(q.control, p), costlyPartsFromContext(ctx)), err
}

func (q queries) Signal(ctx context.Context, runID, signalID string) (*model.Signal, error) {
	r, err := q.control.Receipt(ctx, principal(ctx), runID, signalID)
	if err != nil {
		return nullIfNotFound[model.Signal](err)
	}
	return new(mapping.Receipt(r)), nil
}

func (q queries) Preview(ctx context.Context, in model.ActionInput) (*model.ActionPreview, error) {
	p, err := q.preview(ctx, in)
	if err != nil {
		return nil, err
	}
	return mapping.Preview(p), nil
}

func (q queries) preview(ctx context.Context, in model.ActionInput) (runs.ActionPreview, error) {
	if in.Bulk != nil {
		bulk, err := bulkPreviewOf(*in.Bulk)
		if err != nil {
			return runs.ActionPreview{}, err
		}
		return q.control.PreviewBulk(ctx, principal(ctx), bulk)
	}
	action, err := actionOf(in)
	if err != nil {
		return runs.ActionPreview{}, err
	}
	return q.control.PreviewAction(ctx, principal(ctx), action)
}

func (q queries) ManualTasks(ctx context.Context, runID *string, first *int, after *string) (
	*model.ManualTaskConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.ManualTasks(ctx, principal(ctx), runs.ManualTasksQuery{RunID: mapping.OrZero(runID),
		First: mapping.OrZero(first), After: cursor})
	if err != nil {
		return nil, err
	}
	return mapping.ManualTasks(page, cursor), nil
}

func (q queries) StepLog(ctx context.Context, runID, stepID string, attempt, fromLine, first *int,
	find *string) (*model.StepLog, error) {
	l, err := readLarge(ctx, func() (reads.StepLog, int, error) {
		l, err := q.control.StepLog(ctx, principal(ctx), reads.StepLogQuery{
			RunID: runID, StepID: stepID, Attempt: mapping.OrZero(attempt), FromLine: int64(mapping.OrZero(fromLine)),
			First:     mapping.OrZero(first),
			Find:      mapping.OrZero(find),
			ErrorLine: graphql.FieldRequested(ctx, "errorLine"),
		})
		size := 0
		for _, line := range l.Lines {
			size += sizeInJSON(line.Text)
		}
		return l, size, err
	})
	if err != nil {
		return nullIfNotFound[model.StepLog](err)
	}
	return mapping.StepLog(l), nil
}

func (q queries) LogSearch(ctx context.Context, in model.LogSearchInput, find string, first *int,
	after *string) (*model.LogSearchConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	query := reads.LogSearchQuery{RunID: mapping.OrZero(in.RunID), Find: find, First: mapping.OrZero(first),
		After: mapping.OrZero(after)}
	if in.Plan != nil {
		query.Plan = &reads.SearchedPlan{PlanID: in.Plan.PlanID, ProjectID: in.Plan.ProjectID,
			EnvironmentID: in.Plan.EnvironmentID}
		query.Newest = mapping.OrZero(in.Plan.Newest)
	}
	page, err := readHeavy(ctx, func() (reads.LogSearchPage, int, error) {
		page, err := q.control.SearchLogs(ctx, principal(ctx), query)
		size := 0
		for _, log := range page.Logs {
			for _, line := range log.Lines {
				size += sizeInJSON(line.Text)
			}
		}
		return page, size, err
	})
	if err != nil {
		return nullIfNotFound[model.LogSearchConnection](err)
	}
	return mapping.LogSearch(page, query.After), nil
}

func (q queries) DeadLetters(ctx context.Context, runID *string, open *bool, first *int,
	after *string) (*model.DeadLetterConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	id, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.DeadLetters(ctx, principal(ctx), reads.DeadLettersQuery{
		RunID: mapping.OrZero(runID), Open: mapping.OrZero(open), First: mapping.OrZero(first), After: id,
	})
	return mapping.DeadLetters(page, id), err
}

func (q queries) deadLetter(ctx context.Context, id string) (*model.DeadLetter, error) {
	d, err := q.control.DeadLetter(ctx, principal(ctx), id)
	if err != nil {
		return nullIfNotFound[model.DeadLetter](err)
	}
	return mapping.DeadLetter(d), nil
}

func (q queries) Capabilities(ctx context.Context) ([]model.EngineCapability, error) {
	return mapping.MapSlice(q.control.Capabilities(principal(ctx)), mapping.Capability), nil
}

func (q queries) Health(ctx context.Context) (*model.Health, error) {
	return mapping.Health(q.control.SampledHealth(ctx)), nil
}

func (q queries) HealthHistory(ctx context.Context, last *int) (*model.HealthHistory, error) {
	if last == nil {
		last = new(health.MaxHealthSamples)
	}
	h, err := q.control.HealthHistory(ctx, principal(ctx), *last)
	if err != nil {
		return nil, err
	}
	return mapping.HealthHistory(h), nil
}

// nullIfNotFound maps NOT_FOUND to null without an error. A caller cannot distinguish a thing that does not exist from
// one of another tenant (contract T101, T222).
func nullIfNotFound[T any](err error) (*T, error) {
	if e, ok := errors.AsType[*control.Error](err); ok && e.Code == run.CodeNotFound {
		return nil, nil //nolint:nilnil // null is the answer
	}
	return nil, err
}

// asNode returns a nil Node for a nil pointer. Otherwise the interface would hold a typed nil, which is not nil.
func asNode[T model.Node](v *T, err error) (model.Node, error) {
	if v == nil {
		return nil, err
	}
	return *v, err
}
