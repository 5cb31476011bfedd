package runs

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RunStateStore reads the states of runs.
type RunStateStore interface {
	Load(ctx context.Context, runID string) (store.Loaded, error)
	At(ctx context.Context, runID string, seq run.Seq) (store.Loaded, error)
	Approval(ctx context.Context, runID string) (store.Approval, error)
}

// Views returns views of runs, at their heads and at past positions. It is safe for concurrent use.
type Views struct {
	rights   *control.Rights
	store    RunStateStore
	queue    *admission.QueueViews
	receipts *ReceiptReader
}

// NewViews makes Views.
func NewViews(rights *control.Rights, store RunStateStore, queue *admission.QueueViews,
	receipts *ReceiptReader) *Views {
	return &Views{rights: rights, store: store, queue: queue, receipts: receipts}
}

// approvalOf reads the approval of a run. It returns nil when the run never needed one.
func (s *Views) approvalOf(ctx context.Context, runID string) (*store.Approval, error) {
	at, err := s.store.Approval(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // not every run needs one
	}
	return &at, err
}

// Run reads one run at the head of its log, or its past state at a seq. Errors: NOT_FOUND, BAD_USER_INPUT for a seq
// above the head.
func (s *Views) Run(ctx context.Context, p authz.Principal, runID string, at *run.Seq) (control.RunView, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return control.RunView{}, err
	}
	v, err := s.View(ctx, r)
	if err != nil || at == nil {
		return v, err
	}
	if *at > v.State.Seq || *at < 0 {
		e := control.Refuse(run.CodeBadInput, "The run's log ends at seq %d; there is no state at %d.", v.State.Seq, *at)
		e.RunSeq = v.State.Seq
		return control.RunView{}, e
	}
	l, err := s.store.At(ctx, runID, *at)
	if err != nil {
		return control.RunView{}, control.Translate(err)
	}
	v.State = l.State
	control.Complete(&v)
	v.Past, v.PendingRetry, v.Queue, v.Approval = true, nil, nil, nil
	return v, nil
}

// View reads the run at its head with its operational fields.
func (s *Views) View(ctx context.Context, r store.Run) (control.RunView, error) {
	v, l, err := s.Load(ctx, r)
	if err != nil {
		return control.RunView{}, err
	}
	if l.State.Status == run.Pending || l.State.Status == run.Approved {
		v.Queue, err = s.queue.EntryOf(ctx, r)
		if errors.Is(err, store.ErrNotFound) {
			v.Approval, err = s.approvalOf(ctx, r.RunID)
		}
		if err != nil {
			return control.RunView{}, control.Translate(err)
		}
	}
	if l.Head.SignalNo > 0 && !l.Head.Terminal && l.State.Counts.Failed > 0 {
		if v.PendingRetry, err = s.pendingRetries(ctx, r.RunID); err != nil {
			return control.RunView{}, control.Translate(err)
		}
	}
	return v, nil
}

// Load reads the state of a run without its queue entry, approval and pending retries.
func (s *Views) Load(ctx context.Context, r store.Run) (control.RunView, store.Loaded, error) {
	l, err := s.store.Load(ctx, r.RunID)
	if err != nil {
		return control.RunView{}, l, control.Translate(err)
	}
	v := control.RunView{Run: r, State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now}
	control.Complete(&v)
	return v, l, nil
}

// pendingRetries returns the steps with an accepted retry that has not begun (contract T59).
func (s *Views) pendingRetries(ctx context.Context, runID string) (map[string]bool, error) {
	out := map[string]bool{}
	for r, err := range s.receipts.SignalsOf(ctx, runID) {
		if err != nil {
			return nil, err
		}
		if r.Signal.Type == run.RetryStep && !r.Application.Final() {
			out[r.Signal.StepID] = true
		}
	}
	return out, nil
}
