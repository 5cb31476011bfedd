package bulk

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BulkPreviewStore reads the states of runs.
type BulkPreviewStore interface {
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// Estimator previews bulks. It is safe for concurrent use.
type Estimator struct {
	rights    *control.Rights
	store     BulkPreviewStore
	requester *Requester
	previewer *runs.Previewer
}

// NewEstimator makes an Estimator.
func NewEstimator(rights *control.Rights, store BulkPreviewStore, requester *Requester,
	previewer *runs.Previewer) *Estimator {
	return &Estimator{rights: rights, store: store, requester: requester, previewer: previewer}
}

// PreviewBulk asks what a bulk would do now.
type PreviewBulk struct {
	Runs   BulkRuns
	Signal runs.SignalRun // without a run and an id; ignored when Rerun is set
	Rerun  *runs.Rerun    // without a run and a request id
}

func (in PreviewBulk) action() authz.Action {
	if in.Rerun != nil {
		return authz.Rerun
	}
	return authz.Action(in.Signal.Signal.Type)
}

const bulkSamples = 5

// PreviewBulk returns the number of runs that the bulk would target, the number of runs that are known to refuse the
// signal, and previews for the first bulkSamples runs. It writes nothing, like PreviewAction. It returns the errors of
// SignalRuns, except those about the count.
func (s *Estimator) PreviewBulk(ctx context.Context, p authz.Principal, in PreviewBulk) (runs.ActionPreview, error) {
	out, err := s.previewBulk(ctx, p, in)
	return out, control.Translate(err)
}

// previewBulk is PreviewBulk with untranslated errors.
func (s *Estimator) previewBulk(ctx context.Context, p authz.Principal, in PreviewBulk) (runs.ActionPreview, error) {
	if err := s.requester.checkBulkAction(ctx, in.Signal, in.Rerun); err != nil {
		return runs.ActionPreview{}, err
	}
	chosen, err := s.requester.reader.targets(ctx, p, in.Runs, in.Rerun)
	if err != nil {
		return runs.ActionPreview{}, err
	}
	b := &runs.BulkPreview{Count: len(chosen.runs)}
	if chosen.absent > 0 {
		b.Excluded = []runs.BulkReason{{Code: run.CodeNotFound, Reason: control.RunNotFound().Message,
			Count: chosen.absent}}
	}
	if chosen.rerun > 0 {
		b.Excluded = append(b.Excluded, runs.BulkReason{Code: run.CodeAlreadyRerun, Reason: runs.AlreadyRerun,
			Count: chosen.rerun})
	}
	if b.Refusals, err = s.bulkRefusals(ctx, p, chosen.runs, in); err != nil {
		return runs.ActionPreview{}, err
	}
	for _, id := range chosen.runs[:min(bulkSamples, len(chosen.runs))] {
		sample, err := s.bulkSample(ctx, p, in, id.RunID)
		if err != nil {
			return runs.ActionPreview{}, err
		}
		b.Samples = append(b.Samples, sample)
	}
	out := runs.ActionPreview{Outcome: "APPLY", Bulk: b}
	refusing := 0
	for _, r := range b.Refusals {
		refusing += r.Count
	}
	switch {
	case b.Count == 0 && chosen.rerun > 0:
		out.Outcome, out.Code, out.Reason = "REFUSED", run.CodeAlreadyRerun, "Every selected run was already rerun."
	case b.Count == 0:
		out.Outcome, out.Code, out.Reason = "REFUSED", run.CodeNotFound, "No run is selected."
	case refusing == b.Count:
		out.Outcome, out.Code, out.Reason = "REFUSED", b.Refusals[0].Code, b.Refusals[0].Reason
	}
	return out, nil
}

// bulkSample previews the action on one run. An error about that run becomes a refused preview.
func (s *Estimator) bulkSample(ctx context.Context, p authz.Principal, in PreviewBulk, runID string) (runs.BulkSample,
	error) {
	out := runs.BulkSample{RunID: runID}
	l, err := s.store.Load(ctx, runID)
	if err != nil {
		return out, control.Translate(err)
	}
	out.Status = l.State.RunStatus()
	if in.Rerun != nil {
		again := *in.Rerun
		again.RunID, again.RequestID = runID, "preview"
		out.Preview, err = s.previewer.PreviewRerun(ctx, p, again)
	} else {
		signal := in.Signal
		signal.RunID = runID
		out.Preview, err = s.previewer.PreviewSignal(ctx, p, signal)
	}
	err = control.Translate(err)
	var own *control.Error
	if errors.As(err, &own) && !mustWait(own.Code) && own.Code != run.CodeInternal {
		out.Preview, err = runs.RefusedPreview(l.State, own.Code, own.Message), nil
	}
	return out, err
}

// bulkRefusals counts by code the runs on which p may not do the action, and those that refuse it because they have
// ended, or have not ended yet for a rerun.
func (s *Estimator) bulkRefusals(ctx context.Context, p authz.Principal, of []run.Identity,
	in PreviewBulk) ([]runs.BulkReason, error) {
	action := in.action()
	ids := make([]string, len(of))
	for i, r := range of {
		ids[i] = r.RunID
	}
	heads, err := s.store.Heads(ctx, ids)
	if err != nil {
		return nil, control.Translate(err)
	}
	found := map[run.Code]*runs.BulkReason{}
	count := func(code run.Code, reason string) {
		if found[code] == nil {
			found[code] = &runs.BulkReason{Code: code, Reason: reason}
		}
		found[code].Count++
	}
	for _, r := range of {
		d, err := s.rights.Authz.Decide(p, action, control.ObjectOf(r))
		switch {
		case err != nil:
			return nil, control.Translate(err)
		case !d.Allowed:
			count(run.CodeForbidden, s.rights.DenialError(p, action, control.ObjectOf(r), d).Message)
		case in.Rerun != nil && !heads.ByRun[r.RunID].Terminal:
			count(run.CodeInvalidRunState, runs.StillActive)
		case in.Rerun != nil:
			if refusal := s.requester.starter.CheckAdmits(r.TenantID); refusal != nil {
				count(refusal.Code, refusal.Message)
			}
		case heads.ByRun[r.RunID].Terminal:
			count(run.CodeRunTerminal, "The run has ended.")
		}
	}
	var out []runs.BulkReason
	for _, code := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[code])
	}
	return out, nil
}
