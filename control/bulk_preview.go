package control

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BulkPreviewStore reads the states of runs.
type BulkPreviewStore interface {
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// BulkPreviewer says what a bulk would do. It is safe for concurrent use.
type BulkPreviewer struct {
	rights    *Rights
	store     BulkPreviewStore
	requester *BulkRequester
	previewer *Previewer
}

// NewBulkPreviewer makes a BulkPreviewer.
func NewBulkPreviewer(rights *Rights, store BulkPreviewStore, requester *BulkRequester,
	previewer *Previewer) *BulkPreviewer {
	return &BulkPreviewer{rights: rights, store: store, requester: requester, previewer: previewer}
}

// PreviewBulk asks what a bulk would be of.
type PreviewBulk struct {
	Runs   BulkRuns
	Signal SignalRun // without a run and an id
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

// PreviewBulk previews a bulk as PreviewAction does a signal to one run.
func (s *BulkPreviewer) PreviewBulk(ctx context.Context, p authz.Principal, in PreviewBulk) (ActionPreview, error) {
	out, err := s.previewBulk(ctx, p, in)
	return out, translate(err)
}

// previewBulk says of which runs a bulk would be, how many of them are known to refuse, and what would
// become of some. Errors as SignalRuns, but for those of the count.
func (s *BulkPreviewer) previewBulk(ctx context.Context, p authz.Principal, in PreviewBulk) (ActionPreview, error) {
	if err := s.requester.checkBulkAction(ctx, in.Signal); err != nil {
		return ActionPreview{}, err
	}
	chosen, err := s.requester.reader.bulkRuns(ctx, p, in.Runs)
	if err != nil {
		return ActionPreview{}, err
	}
	b := &BulkPreview{Count: len(chosen.runs)}
	if chosen.absent > 0 {
		b.Excluded = []BulkReason{{run.CodeNotFound, runNotFound().Message, chosen.absent}}
	}
	if b.Refusals, err = s.bulkRefusals(ctx, p, chosen.runs, authz.Action(in.Signal.Signal.Type)); err != nil {
		return ActionPreview{}, err
	}
	for _, id := range chosen.runs[:min(bulkSamples, len(chosen.runs))] {
		sample, err := s.bulkSample(ctx, p, in.Signal, id.RunID)
		if err != nil {
			return ActionPreview{}, err
		}
		b.Samples = append(b.Samples, sample)
	}
	out := ActionPreview{Outcome: "APPLY", Bulk: b}
	refusing := 0
	for _, r := range b.Refusals {
		refusing += r.Count
	}
	switch {
	case b.Count == 0:
		out.Outcome, out.Code, out.Reason = "REFUSED", run.CodeNotFound, "No run is meant."
	case refusing == b.Count:
		out.Outcome, out.Code, out.Reason = "REFUSED", b.Refusals[0].Code, b.Refusals[0].Reason
	}
	return out, nil
}

// bulkSample previews one run; what is wrong with the signal for that run is its refusal.
func (s *BulkPreviewer) bulkSample(ctx context.Context, p authz.Principal, signal SignalRun, runID string) (BulkSample,
	error) {
	out := BulkSample{RunID: runID}
	l, err := s.store.Load(ctx, runID)
	if err != nil {
		return out, translate(err)
	}
	out.Status = l.State.RunStatus()
	signal.RunID = runID
	out.Preview, err = s.previewer.previewSignal(ctx, p, signal)
	err = translate(err)
	var own *Error
	if errors.As(err, &own) && !waits(own.Code) && own.Code != run.CodeInternal {
		out.Preview, err = refused(l.State, own.Code, own.Message), nil
	}
	return out, err
}

// bulkRefusals counts the runs that have ended, and those to which p may not do it.
func (s *BulkPreviewer) bulkRefusals(ctx context.Context, p authz.Principal, runs []run.Identity,
	action authz.Action) ([]BulkReason, error) {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.RunID
	}
	heads, err := s.store.Heads(ctx, ids)
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
		d, err := s.rights.authz.Decide(p, action, objectOf(r))
		switch {
		case err != nil:
			return nil, translate(err)
		case !d.Allowed:
			count(run.CodeForbidden, s.rights.denialError(p, action, objectOf(r), d).Message)
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
