// Package reads has the use cases that read lists and histories: pages of runs, logs, step logs, dbt nodes,
// comparisons, and dead letters.
package reads

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/durations"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ListStore lists runs.
type ListStore interface {
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
	Epoch(ctx context.Context) (string, error)
	Count(ctx context.Context, f store.RunFilter, parts int) ([]store.RunCount, error)
	CountUpTo(ctx context.Context, f store.RunFilter, limit int) (int, error)
}

// RunLists lists, counts and compares runs. It is safe for concurrent use.
type RunLists struct {
	rights *control.Rights
	store  ListStore
	plans  *runs.PlanReader

	durations *durations.Reader
}

// NewRunLists makes RunLists.
func NewRunLists(rights *control.Rights, store ListStore, plans *runs.PlanReader, d *durations.Reader) *RunLists {
	return &RunLists{rights: rights, store: store, plans: plans, durations: d}
}

// Runs reads a page of the tenant's runs that p may see, with their steps when Filter.Steps asks for them. Errors:
// BAD_USER_INPUT; CURSOR_INVALID for a cursor of another list; QUERY_TOO_COMPLEX for a page with more than
// store.MaxListSteps steps.
func (s *RunLists) Runs(ctx context.Context, p authz.Principal, q control.RunsQuery) (control.RunsPage, error) {
	n, backward, err := control.PageEnd(q.First, q.Last, 50)
	if err != nil {
		return control.RunsPage{}, err
	}
	if backward && q.After != "" || !backward && q.Before != "" {
		return control.RunsPage{}, control.BadInput(
			[]plan.Violation{
				{Path: "before", Code: "INVALID",
					Message: "page forward with first and after, or backward with last and before"}})
	}
	if err := checkOrder(q.Filter); err != nil {
		return control.RunsPage{}, err
	}
	f, ok := s.rights.Narrow(p, q.Filter)
	if !ok {
		return control.RunsPage{}, nil
	}
	if f.After, err = control.DecodeSortedCursor(f.Sort, q.After); err != nil {
		return control.RunsPage{}, err
	}
	if f.Before, err = control.DecodeSortedCursor(f.Sort, q.Before); err != nil {
		return control.RunsPage{}, err
	}
	f.Limit = n + 1
	if backward && f.Before == nil {
		f.Before = &store.RunPos{} // the end of the list, newest first
		if f.Ascending {
			f.Before.CreatedAt, f.Before.Took = endOfTime, math.MaxInt64
		}
	}
	rows, err := s.store.List(ctx, f)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return control.RunsPage{}, &control.Error{
			Code: run.CodeQueryTooComplex, Limit: store.MaxListSteps,
			Message: fmt.Sprintf("The runs of this page have more than %d steps. Ask for a smaller page, or without steps.",
				store.MaxListSteps),
		}
	case err != nil:
		return control.RunsPage{}, control.Translate(err)
	}
	epoch, err := s.store.Epoch(ctx)
	if err != nil {
		return control.RunsPage{}, control.Translate(err)
	}
	more := len(rows) > n
	if more && backward {
		rows = rows[len(rows)-n:]
	} else if more {
		rows = rows[:n]
	}
	out := control.RunsPage{HasNext: more, HasPrev: q.After != ""}
	if backward {
		out.HasNext, out.HasPrev = q.Before != "", more
	}
	for _, row := range rows {
		out.Runs = append(out.Runs, control.RowView(row, epoch))
		at := row.Pos
		if f.Sort == "" {
			at = store.RunPos{CreatedAt: row.Header.CreatedAt, RunID: row.Header.RunID}
		}
		out.Cursors = append(out.Cursors, control.EncodeSortedCursor(f.Sort, at))
	}
	return out, nil
}

// checkOrder refuses an order that no index serves for the filter. Error: BAD_USER_INPUT.
func checkOrder(f control.RunFilter) error {
	var vs []plan.Violation
	for _, name := range f.SortObstacles() {
		v := plan.Violation{Path: "filter." + name, Code: "INVALID",
			Message: "a list in this order cannot be filtered by it, because no index serves both"}
		if name == "planId" {
			v.Message = "a list by duration needs one plan, because durations of different plans do not compare"
		}
		vs = append(vs, v)
	}
	if vs == nil {
		return nil
	}
	return control.BadInput(vs)
}

// endOfTime is later than the creation of every run.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant
