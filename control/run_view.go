package control

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RunStateStore reads the states of runs.
type RunStateStore interface {
	Load(ctx context.Context, runID string) (store.Loaded, error)
	At(ctx context.Context, runID string, seq run.Seq) (store.Loaded, error)
	Approval(ctx context.Context, runID string) (store.Approval, error)
}

// Views shows runs at their heads and at past positions. It is safe for concurrent use.
type Views struct {
	rights   *Rights
	store    RunStateStore
	queue    *QueueViews
	receipts *ReceiptReader
}

// NewViews makes a Views.
func NewViews(rights *Rights, store RunStateStore, queue *QueueViews, receipts *ReceiptReader) *Views {
	return &Views{rights: rights, store: store, queue: queue, receipts: receipts}
}

// approvalOf is a run's way through approval, nil when it never needed one.
func (s *Views) approvalOf(ctx context.Context, runID string) (*store.Approval, error) {
	at, err := s.store.Approval(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // not every run needs one
	}
	return &at, err
}

// Run reads one run at the head of its log, or as it was at a past seq (the time
// machine). NOT_FOUND, and BAD_USER_INPUT for a seq above the head.
func (s *Views) Run(ctx context.Context, p authz.Principal, runID string, at *run.Seq) (RunView, error) {
	r, err := s.rights.visible(ctx, p, authz.Read, runID)
	if err != nil {
		return RunView{}, err
	}
	v, err := s.view(ctx, r)
	if err != nil || at == nil {
		return v, err
	}
	if *at > v.State.Seq || *at < 0 {
		e := refuse(run.CodeBadInput, "The run's log ends at seq %d; there is no state at %d.", v.State.Seq, *at)
		e.RunSeq = v.State.Seq
		return RunView{}, e
	}
	l, err := s.store.At(ctx, runID, *at)
	if err != nil {
		return RunView{}, translate(err)
	}
	v.State = l.State
	complete(&v)
	v.Past, v.PendingRetry, v.Queue, v.Approval = true, nil, nil, nil
	return v, nil
}

// view reads the run at its head with the operational fields beside it.
func (s *Views) view(ctx context.Context, r store.Run) (RunView, error) {
	v, l, err := s.loaded(ctx, r)
	if err != nil {
		return RunView{}, err
	}
	if l.State.Status == run.Pending || l.State.Status == run.Approved {
		v.Queue, err = s.queue.entryOf(ctx, r)
		if errors.Is(err, store.ErrNotFound) {
			v.Approval, err = s.approvalOf(ctx, r.RunID)
		}
		if err != nil {
			return RunView{}, translate(err)
		}
	}
	if l.Head.SignalNo > 0 && !l.Head.Terminal && l.State.Counts.Failed > 0 {
		if v.PendingRetry, err = s.pendingRetries(ctx, r.RunID); err != nil {
			return RunView{}, translate(err)
		}
	}
	return v, nil
}

// loaded is the view without what is read beside the state.
func (s *Views) loaded(ctx context.Context, r store.Run) (RunView, store.Loaded, error) {
	l, err := s.store.Load(ctx, r.RunID)
	if err != nil {
		return RunView{}, l, translate(err)
	}
	v := RunView{Run: r, State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now}
	complete(&v)
	return v, l, nil
}

// complete adds to the state what the run was created with and its log does not
// say before RunStarted.
func complete(v *RunView) {
	r := v.Run
	v.State.TriggeredBy = r.TriggeredBy
	if v.State.CreatedAt.IsZero() {
		v.State.CreatedAt = r.CreatedAt
	}
	if v.State.PlanRef == nil {
		v.State.PlanRef = &run.PlanRef{
			URI: r.PlanRef.URI, SHA256: r.PlanRef.SHA256, SchemaVersion: r.PlanRef.SchemaVersion, PlanID: r.PlanID,
			PlanVersion: r.PlanVersion,
		}
	}
}

// pendingRetries are the steps with an accepted retry that has not begun (T59).
func (s *Views) pendingRetries(ctx context.Context, runID string) (map[string]bool, error) {
	out := map[string]bool{}
	for r, err := range s.receipts.signalsOf(ctx, runID) {
		if err != nil {
			return nil, err
		}
		if r.Signal.Type == run.RetryStep && !r.Application.Final() {
			out[r.Signal.StepID] = true
		}
	}
	return out, nil
}
