package control

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// chosenRuns are the runs that a bulk would be of, and how many were named and are not.
type chosenRuns struct {
	runs   []run.Identity
	absent int // they do not exist, or p may not READ them
}

// bulkRuns finds the runs that are meant, each of them once and none that p may not READ: in the order in
// which they were named, else newest first.
func (s *Service) bulkRuns(ctx context.Context, p authz.Principal, in BulkRuns) (chosenRuns, error) {
	given := 0
	for _, is := range []bool{in.IDs != nil, in.Filter != nil, in.FailedOf != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return chosenRuns{}, badInput([]plan.Violation{{Path: "runs", Code: plan.CodeInvalid, Message: "give exactly one of ids, filter and failedOf"}})
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

func (s *Service) namedRuns(ctx context.Context, p authz.Principal, ids []string) (chosenRuns, error) {
	if len(ids) > MaxBulk {
		return chosenRuns{}, bulkTooLarge(fmt.Sprintf("%d runs are named", len(ids)))
	}
	found, err := s.cfg.Store.Identities(ctx, p.TenantID, ids)
	if err != nil {
		return chosenRuns{}, translate(err)
	}
	byID := make(map[string]run.Identity, len(found))
	for _, id := range found {
		d, err := s.cfg.Authz.Decide(p, authz.Read, objectOf(id))
		if err != nil {
			return chosenRuns{}, translate(err)
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

func (s *Service) matchingRuns(ctx context.Context, p authz.Principal, asked RunFilter) (chosenRuns, error) {
	f, ok := s.narrow(p, asked)
	if !ok {
		return chosenRuns{}, s.nothingToRead(p)
	}
	f.Limit, f.Steps, f.Ascending, f.After, f.Before = maxPageSize+1, false, false, nil, nil
	seen := map[string]run.Identity{}
	var out chosenRuns
	for {
		rows, err := s.cfg.Store.List(ctx, f)
		if err != nil {
			return chosenRuns{}, translate(err)
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
	e := refuse(run.CodeBulkTooLarge, "%s; a bulk has at most %d. Nothing was sent.", what, MaxBulk)
	e.Limit = MaxBulk
	return e
}

// BulkPreview is what a bulk would be of, and what would become of it now.
type BulkPreview struct {
	Count    int
	Excluded []BulkReason // runs that were named and would not be in it
	Refusals []BulkReason // runs that would be in it and, as things are, refused
	Samples  []BulkSample
}

// BulkReason says why, and of how many runs.
type BulkReason struct {
	Code   run.Code
	Reason string
	Count  int
}

// BulkSample is what would become of one run.
type BulkSample struct {
	RunID   string
	Status  run.Status // as it is
	Preview ActionPreview
}

const bulkSamples = 5

// PreviewBulk says of which runs a bulk would be, how many of them are known to refuse, and what would
// become of some. It leaves no trace. Errors as SignalRuns, but for those of the count.
func (s *Service) PreviewBulk(ctx context.Context, p authz.Principal, runs BulkRuns, signal SignalRun) (BulkPreview, error) {
	if err := s.checkBulkAction(ctx, signal); err != nil {
		return BulkPreview{}, err
	}
	chosen, err := s.bulkRuns(ctx, p, runs)
	if err != nil {
		return BulkPreview{}, err
	}
	out := BulkPreview{Count: len(chosen.runs)}
	if chosen.absent > 0 {
		out.Excluded = []BulkReason{{run.CodeNotFound, runNotFound().Message, chosen.absent}}
	}
	if out.Refusals, err = s.bulkRefusals(ctx, p, chosen.runs, authz.Action(signal.Signal.Type)); err != nil {
		return BulkPreview{}, err
	}
	for _, id := range chosen.runs[:min(bulkSamples, len(chosen.runs))] {
		sample := signal
		sample.RunID = id.RunID
		preview, err := s.previewSignal(ctx, p, sample)
		if err != nil {
			own, isOwn := err.(*Error) //nolint:errorlint // previewSignal gives it as it is
			if !isOwn {
				return BulkPreview{}, translate(err)
			}
			preview = ActionPreview{Outcome: "REFUSED", Code: own.Code, Reason: own.Message}
		}
		v, err := s.cfg.Store.Load(ctx, id.RunID)
		if err != nil {
			return BulkPreview{}, translate(err)
		}
		out.Samples = append(out.Samples, BulkSample{RunID: id.RunID, Status: v.State.RunStatus(), Preview: preview})
	}
	return out, nil
}

// bulkRefusals counts the runs that have ended, and those to which p may not do it.
func (s *Service) bulkRefusals(ctx context.Context, p authz.Principal, runs []run.Identity, action authz.Action) ([]BulkReason, error) {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.RunID
	}
	heads, err := s.cfg.Store.Heads(ctx, ids)
	if err != nil {
		return nil, translate(err)
	}
	found := map[run.Code]*BulkReason{}
	count := func(code run.Code, reason string) {
		if found[code] == nil {
			found[code] = &BulkReason{Code: code, Reason: reason}
		}
		found[code].Count++
	}
	for _, r := range runs {
		d, err := s.cfg.Authz.Decide(p, action, objectOf(r))
		switch {
		case err != nil:
			return nil, translate(err)
		case !d.Allowed:
			count(run.CodeForbidden, s.denied(p, action, objectOf(r), d).Message)
		case heads.ByRun[r.RunID].Terminal:
			count(run.CodeRunTerminal, "The run has ended.")
		}
	}
	var out []BulkReason
	for _, code := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[code])
	}
	return out, nil
}
