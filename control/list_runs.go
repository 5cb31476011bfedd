package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ListStore lists runs.
type ListStore interface {
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
	Epoch(ctx context.Context) (string, error)
	Count(ctx context.Context, f store.RunFilter, parts int) ([]store.RunCount, error)
}

// RunLists lists, counts and compares runs. It is safe for concurrent use.
type RunLists struct {
	rights *Rights
	store  ListStore
	plans  *PlanReader
}

// NewRunLists makes a RunLists.
func NewRunLists(rights *Rights, store ListStore, plans *PlanReader) *RunLists {
	return &RunLists{rights: rights, store: store, plans: plans}
}

// Runs reads a page of the tenant's runs that p may see, with their steps when
// Filter.Steps asks for them. CURSOR_INVALID for a cursor that this list did not give,
// QUERY_TOO_COMPLEX for a page with more than store.MaxListSteps steps.
func (s *RunLists) Runs(ctx context.Context, p authz.Principal, q RunsQuery) (RunsPage, error) {
	n, backward, err := pageEnd(q.First, q.Last, 50)
	if err != nil {
		return RunsPage{}, err
	}
	if backward && q.After != "" || !backward && q.Before != "" {
		return RunsPage{}, badInput(
			[]plan.Violation{
				{Path: "before", Code: "INVALID",
					Message: "page forward with first and after, or backward with last and before"}})
	}
	f, ok := s.rights.narrow(p, q.Filter)
	if !ok {
		return RunsPage{}, nil
	}
	if f.After, err = decodeCursor(q.After); err != nil {
		return RunsPage{}, err
	}
	if f.Before, err = decodeCursor(q.Before); err != nil {
		return RunsPage{}, err
	}
	f.Limit = n + 1
	if backward && f.Before == nil {
		f.Before = &store.RunPos{} // the end of the list, newest first
		if f.Ascending {
			f.Before.CreatedAt = endOfTime
		}
	}
	rows, err := s.store.List(ctx, f)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return RunsPage{}, &Error{
			Code: run.CodeQueryTooComplex, Limit: store.MaxListSteps,
			Message: fmt.Sprintf("The runs of this page have more than %d steps. Ask for a smaller page, or without steps.",
				store.MaxListSteps),
		}
	case err != nil:
		return RunsPage{}, translate(err)
	}
	epoch, err := s.store.Epoch(ctx)
	if err != nil {
		return RunsPage{}, translate(err)
	}
	more := len(rows) > n
	if more && backward {
		rows = rows[len(rows)-n:]
	} else if more {
		rows = rows[:n]
	}
	out := RunsPage{HasNext: more, HasPrev: q.After != ""}
	if backward {
		out.HasNext, out.HasPrev = q.Before != "", more
	}
	for _, row := range rows {
		out.Runs = append(out.Runs, rowView(row, epoch))
		out.Cursors = append(
			out.Cursors, encodeCursor(store.RunPos{CreatedAt: row.Header.CreatedAt, RunID: row.Header.RunID}))
	}
	return out, nil
}

// endOfTime is after every run.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// rowView is a row of a list, with its steps if they were asked for.
func rowView(row store.RunRow, epoch string) RunView {
	return RunView{State: run.State{Header: row.Header, Steps: row.Steps}, Epoch: epoch, OpsRev: row.OpsRev}
}
