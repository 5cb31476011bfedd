package bulk

import (
	"context"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// chosenRuns has the runs that a bulk would target.
type chosenRuns struct {
	runs   []run.Identity
	absent int // number of named runs that do not exist or that p may not READ
	rerun  int // number of runs that a rerun leaves out, because they have a newer rerun
}

// targets returns the runs that a bulk would target. A rerun leaves out the runs that have a newer rerun, so that no
// load runs twice, unless the request includes them. rerun is nil for a signal.
func (s *Reader) targets(ctx context.Context, p authz.Principal, in BulkRuns, rerun *runs.Rerun) (chosenRuns, error) {
	out, err := s.bulkRuns(ctx, p, in)
	if err != nil || rerun == nil || rerun.AlreadyRerun || len(out.runs) == 0 {
		return out, err
	}
	ids, chosen := make([]string, len(out.runs)), make(map[string]bool, len(out.runs))
	for i, r := range out.runs {
		ids[i], chosen[r.RunID] = r.RunID, true
	}
	chains, whole, err := runs.ReadChains(ctx, s.runs, p.TenantID, ids)
	if err != nil {
		return chosenRuns{}, control.Translate(err)
	}
	if !whole {
		return chosenRuns{}, bulkTooLarge(fmt.Sprintf("the runs and their reruns are more than %d", runs.MaxChainRuns))
	}
	superseded := chains.Superseded(chosen)
	all := len(out.runs)
	out.runs = slices.DeleteFunc(out.runs, func(r run.Identity) bool {
		_, is := superseded[r.RunID]
		return is
	})
	out.rerun = all - len(out.runs)
	return out, nil
}

// bulkRuns returns the selected runs that p may READ, each of them once: named runs in the order of their names, others
// newest first.
func (s *Reader) bulkRuns(ctx context.Context, p authz.Principal, in BulkRuns) (chosenRuns, error) {
	given := 0
	for _, is := range []bool{in.IDs != nil, in.Filter != nil, in.FailedOf != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return chosenRuns{}, control.BadInput(
			[]plan.Violation{{Path: "runs", Code: plan.CodeInvalid, Message: "give exactly one of ids, filter and failedOf"}})
	case in.IDs != nil:
		return s.namedRuns(ctx, p, in.IDs)
	case in.Filter != nil:
		return s.matchingRuns(ctx, p, *in.Filter)
	}
	rows, err := s.failedRows(ctx, p, in.FailedOf)
	if err != nil {
		return chosenRuns{}, err
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.RunID
	}
	return s.namedRuns(ctx, p, ids)
}

func (s *Reader) namedRuns(ctx context.Context, p authz.Principal, ids []string) (chosenRuns, error) {
	if len(ids) > MaxBulk {
		return chosenRuns{}, bulkTooLarge(fmt.Sprintf("%d runs are named", len(ids)))
	}
	found, err := s.runs.Identities(ctx, p.TenantID, ids)
	if err != nil {
		return chosenRuns{}, control.Translate(err)
	}
	byID := make(map[string]run.Identity, len(found))
	for _, id := range found {
		d, err := s.rights.Authz.Decide(p, authz.Read, control.ObjectOf(id))
		if err != nil {
			return chosenRuns{}, control.Translate(err)
		}
		if d.Allowed {
			byID[id.RunID] = id
		}
	}
	var out chosenRuns
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		if r, ok := byID[id]; ok {
			out.runs = append(out.runs, r)
		} else {
			out.absent++
		}
	}
	return out, nil
}

func (s *Reader) matchingRuns(ctx context.Context, p authz.Principal, asked control.RunFilter) (chosenRuns, error) {
	f, ok := s.rights.Narrow(p, asked)
	if !ok {
		return chosenRuns{}, s.rights.NothingToReadError(p)
	}
	f.Limit, f.Steps, f.Ascending, f.After, f.Before = control.MaxPageSize+1, false, false, nil, nil
	seen := map[string]run.Identity{}
	var out chosenRuns
	for {
		rows, err := s.runs.List(ctx, f)
		if err != nil {
			return chosenRuns{}, control.Translate(err)
		}
		for _, r := range rows {
			id := r.Header.Identity
			if _, known := seen[id.RunID]; !known {
				seen[id.RunID] = id
				out.runs = append(out.runs, id)
			}
		}
		switch n := len(rows); {
		case len(out.runs) > MaxBulk:
			return chosenRuns{}, bulkTooLarge(fmt.Sprintf("more than %d runs match", MaxBulk))
		case n < f.Limit:
			return out, nil
		default:
			h := rows[n-1].Header
			f.After = &store.RunPos{CreatedAt: h.CreatedAt, RunID: h.RunID}
		}
	}
}

func bulkTooLarge(what string) error {
	e := control.Refuse(run.CodeBulkTooLarge, "%s; a bulk has at most %d. Nothing was sent.", what, MaxBulk)
	e.Limit = MaxBulk
	return e
}
