package graph

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// DBTReads reads the results of dbt.
type DBTReads interface {
	// DBTNodes returns false when the attempt has no results of dbt.
	DBTNodes(ctx context.Context, p authz.Principal, in reads.DBTNodesQuery) (reads.DBTNodesPage, bool, error)
}

func (s stepFields) DbtNodes(ctx context.Context, of *model.Step, status []string, attempt, first *int,
	after *string) (*model.DbtNodeConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	from, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(of.Type, "DBT_") {
		return nil, nil //nolint:nilnil // only steps of dbt have nodes
	}
	in := reads.DBTNodesQuery{RunID: headerOf(of.Of).RunID, StepID: of.StepID, Attempt: of.LogicalAttemptID,
		Statuses: status, First: mapping.OrZero(first), After: from}
	if attempt != nil {
		in.Attempt = *attempt
	}
	ok := false
	page, err := readLarge(ctx, func() (page reads.DBTNodesPage, size int, err error) {
		page, ok, err = s.control.DBTNodes(ctx, principal(ctx), in)
		for _, n := range page.Nodes {
			size += sizeInJSON(n.CompiledSQL) + sizeInJSON(n.Message)
		}
		return page, size, err
	})
	if err != nil || !ok {
		return nil, err
	}
	return mapDBTNodes(page, from), nil
}

func mapDBTNodes(page reads.DBTNodesPage, after string) *model.DbtNodeConnection {
	edges := make([]model.DbtNodeEdge, len(page.Nodes))
	for i, n := range page.Nodes {
		edges[i] = model.DbtNodeEdge{Cursor: mapping.EncodeCursor(page.Cursors[i]), Node: &model.DbtNode{
			UniqueID: n.UniqueID, Name: n.Name(), ResourceType: n.ResourceType(), Status: n.Status,
			ExecutionTimeMs: n.ExecutionTime,
			Message:         mapping.Text(n.Message), Failures: number(n.Failures), RowsAffected: number(n.RowsAffected),
			CompiledSQL: mapping.Text(n.CompiledSQL), CompiledSQLCut: n.SQLCut,
		}}
	}
	byStatus := slices.SortedFunc(maps.Keys(page.ByStatus), func(a, b string) int {
		return cmp.Or(page.ByStatus[b]-page.ByStatus[a], strings.Compare(a, b))
	})
	return &model.DbtNodeConnection{
		Edges: edges, PageInfo: mapping.PageInfo(edges, func(e model.DbtNodeEdge) string { return e.Cursor }, page.HasNext,
			after != ""),
		Attempt: page.Attempt, Total: page.Total,
		ByStatus: mapping.MapSlice(byStatus, func(s string) model.DbtStatusCount {
			return model.DbtStatusCount{Status: s,
				Count: page.ByStatus[s]}
		}),
	}
}

func number(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// NodeReads reads the nodes that attempts report while they run.
type NodeReads interface {
	// StepNodes returns false when the attempt reported no nodes.
	StepNodes(ctx context.Context, p authz.Principal, in reads.StepNodesQuery) (reads.StepNodesPage, bool, error)
}

func (s stepFields) Nodes(ctx context.Context, of *model.Step, status []model.NodeStatus, attempt *int,
	changedAfter *run.Seq, first *int, after *string) (*model.StepNodeConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	from, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	in := reads.StepNodesQuery{RunID: headerOf(of.Of).RunID, StepID: of.StepID, Attempt: of.LogicalAttemptID,
		ChangedAfter: mapping.OrZero(changedAfter), First: mapping.OrZero(first), After: from}
	if g, ok := of.Of.(*mapping.Graph); ok && g.View.Past {
		in.UpTo = g.View.State.Seq
	}
	if attempt != nil {
		in.Attempt = *attempt
	}
	for _, s := range status {
		in.Statuses = append(in.Statuses, run.NodeStatus(s))
	}
	ok := false
	page, err := readLarge(ctx, func() (page reads.StepNodesPage, size int, err error) {
		page, ok, err = s.control.StepNodes(ctx, principal(ctx), in)
		for _, n := range page.Nodes {
			size += sizeInJSON(n.Error)
		}
		return page, size, err
	})
	if err != nil || !ok {
		return nil, err
	}
	return mapStepNodes(page, from), nil
}

func mapStepNodes(page reads.StepNodesPage, after string) *model.StepNodeConnection {
	edges := make([]model.StepNodeEdge, len(page.Nodes))
	for i, n := range page.Nodes {
		named := reads.DBTNode{UniqueID: n.ID}
		node := &model.StepNode{
			UniqueID: n.ID, Name: named.Name(), ResourceType: n.Type, Status: model.NodeStatus(n.Status),
			StartedAt: n.StartedAt, EndedAt: n.EndedAt, RowsAffected: number(n.Rows), BytesProcessed: number(n.Bytes),
			Failures: number(n.Failures), Error: mapping.Text(n.Error), SkippedBy: mapping.Text(n.SkippedBy),
			Relation: mapping.Text(n.Relation), CompiledIn: mapping.Text(n.CompiledIn), ChangedSeq: n.ChangedSeq,
			Attempt: n.Attempt,
		}
		if node.ResourceType == "" {
			node.ResourceType = named.ResourceType()
		}
		if n.DurationMS != nil {
			node.DurationMs = new(time.Duration(*n.DurationMS) * time.Millisecond)
		}
		edges[i] = model.StepNodeEdge{Cursor: mapping.EncodeCursor(page.Cursors[i]), Node: node}
	}
	return &model.StepNodeConnection{
		Edges: edges, Attempt: page.Attempt, Total: page.Total, Seq: page.Seq, Omitted: page.Omitted,
		PageInfo: mapping.PageInfo(edges, func(e model.StepNodeEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}
