package control

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Runs reads a page of the tenant's runs that p may see, with their steps when
// Filter.Steps asks for them. CURSOR_INVALID for a cursor that this list did not give,
// QUERY_TOO_COMPLEX for a page with more than store.MaxListSteps steps.
func (s *Service) Runs(ctx context.Context, p authz.Principal, q RunsQuery) (RunsPage, error) {
	n, backward, err := pageEnd(q.First, q.Last, 50)
	if err != nil {
		return RunsPage{}, err
	}
	if backward && q.After != "" || !backward && q.Before != "" {
		return RunsPage{}, badInput(
			[]plan.Violation{
				{Path: "before", Code: "INVALID", Message: "page forward with first and after, or backward with last and before"}})
	}
	f, ok := s.narrow(p, q.Filter)
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
	rows, err := s.cfg.Store.List(ctx, f)
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
	epoch, err := s.cfg.Store.Epoch(ctx)
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

// Me is the caller, as RunFilter.TriggeredBy.
const Me = "me"

// narrow limits a filter to what p may read now; false when that is nothing. It asks for as little as it can: a page of
// one environment, or of some projects, has an index of its own; Scopes are for rights in several of both.
func (s *Service) narrow(p authz.Principal, f RunFilter) (RunFilter, bool) {
	f.TenantID, f.Scopes = p.TenantID, nil
	if f.TriggeredBy == Me {
		f.TriggeredBy = p.ID
	}
	asked := f.ProjectIDs
	f.ProjectIDs = nil
	if len(asked) > 0 {
		f.ProjectIDs = slices.Compact(slices.Sorted(slices.Values(asked)))
	}
	if s.mayRead(p, "*", cmp.Or(f.EnvironmentID, "*")) {
		return f, true
	}
	scopes := s.readable(p, f)
	if len(scopes) == 0 {
		return f, false
	}
	environments, projects := map[string]bool{}, map[string]bool{}
	for _, one := range scopes {
		environments[one.EnvironmentID], projects[one.ProjectID] = true, true
	}
	if !projects[""] {
		f.ProjectIDs = slices.Sorted(maps.Keys(projects))
	}
	switch {
	case len(environments) > 1, projects[""] && len(projects) > 1:
		f.Scopes = scopes
	default:
		f.EnvironmentID = cmp.Or(f.EnvironmentID, scopes[0].EnvironmentID)
	}
	return f, true
}

// readable returns the scopes of p's grants that p may read and that the filter asks for, each once and in one order.
func (s *Service) readable(p authz.Principal, f RunFilter) (out store.Scopes) {
	for _, g := range s.cfg.Authz.Grants(p) {
		project, environment := strings.TrimSuffix(g.ProjectID, "*"), strings.TrimSuffix(g.EnvironmentID, "*")
		wanted := (f.EnvironmentID == "" || environment == "" || environment == f.EnvironmentID) &&
			(f.ProjectIDs == nil || project == "" || slices.Contains(f.ProjectIDs, project))
		if f.EnvironmentID != "" {
			environment = f.EnvironmentID
		}
		if !wanted || !s.mayRead(p, g.ProjectID, cmp.Or(environment, "*")) {
			continue
		}
		out = append(out, store.Scope{ProjectID: project, EnvironmentID: environment})
	}
	all := slices.Clone(out)
	out = slices.DeleteFunc(out, func(one store.Scope) bool {
		return slices.ContainsFunc(all, func(wider store.Scope) bool {
			return wider != one && wider.Covers(one.ProjectID, one.EnvironmentID)
		})
	})
	slices.SortFunc(out, func(a, b store.Scope) int {
		return cmp.Or(strings.Compare(a.ProjectID, b.ProjectID), strings.Compare(a.EnvironmentID, b.EnvironmentID))
	})
	return slices.Compact(out)
}

// mayRead asks for a place of p's tenant; "*" is a whole.
func (s *Service) mayRead(p authz.Principal, project, environment string) bool {
	d, err := s.cfg.Authz.Decide(p, authz.Read, authz.Object{TenantID: p.TenantID, ProjectID: project,
		EnvironmentID: environment})
	return err == nil && d.Allowed
}

func encodeCursor(p store.RunPos) string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.CreatedAt.UTC().Format(time.RFC3339Nano) + " " + p.RunID))
}

func decodeCursor(c string) (*store.RunPos, error) {
	if c == "" {
		return nil, nil //nolint:nilnil // no cursor is a place too: the beginning
	}
	raw, err := base64.RawURLEncoding.DecodeString(c)
	at, id, ok := strings.Cut(string(raw), " ")
	t, terr := time.Parse(time.RFC3339Nano, at)
	if err != nil || !ok || terr != nil || id == "" {
		return nil, cursorInvalid()
	}
	return &store.RunPos{CreatedAt: t, RunID: id}, nil
}
