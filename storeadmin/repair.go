package storeadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Recorder appends events as a worker does; engine.Journal implements it.
type Recorder interface {
	Append(ctx context.Context, a store.Append) (store.Appended, error)
}

// Repaired says what Repair did.
type Repaired struct {
	EpochBefore string        `json:"epochBefore"`
	Epoch       string        `json:"epoch"`
	Looked      int           `json:"looked"` // number of runs that were open in the store and so compared
	Refilled    []RefilledRun `json:"refilled,omitempty"`
	Lost        []LostRun     `json:"lost,omitempty"`
}

// RefilledRun is a run whose log lacked events or receipts that are in the engine's history.
type RefilledRun struct {
	RunID  string  `json:"runId"`
	From   run.Seq `json:"from"`   // last seq of the log before the repair
	To     run.Seq `json:"to"`     // last seq of the log after it
	Events int     `json:"events"` // number of events that were appended again
	// Receipts were written again. The sender and the reason of their signals are lost.
	Receipts []LostReceipt `json:"receipts,omitempty"`
	// Known is the last seq of the log before the restore, as the engine knows it, if the log is still shorter. Events of
	// rejected signals are not in the engine's history and cannot be recovered.
	Known run.Seq `json:"known,omitempty"`
	// Refused are events that the log had before the restore and refuses now, because somebody wrote to the run between
	// the restore and the repair.
	Refused []string `json:"refused,omitempty"`
}

// LostReceipt is a signal whose receipt was lost in the restore.
type LostReceipt struct {
	SignalID string         `json:"signalId"`
	Type     run.SignalType `json:"type"`
	StepID   string         `json:"stepId,omitempty"`
	// Renumbered says that another signal has its number now. The engine drops that other signal, because it has seen the
	// number before.
	Renumbered bool `json:"renumbered,omitempty"`
}

// LostRun is a run that the engine knows and the store does not, because it was created after the backup. It cannot be
// refilled, because its plan is lost too.
type LostRun struct {
	RunID      string `json:"runId"`
	TenantID   string `json:"tenantId"`
	ProjectID  string `json:"projectId"`
	WorkflowID string `json:"workflowId"`
	Open       bool   `json:"open"`
}

// Repair makes a restored store usable again (contract T30, T194). It sets a new epoch, so that viewers start again
// from the beginning. Then it refills the log of each named run, or of all runs, that is open in the store, through
// rec: it appends the missing events from the engine's history in the order that the log had. Keys are those of the
// lost events, so that events in the log do not change and Repair may be repeated; numbers and times are new. The
// workflows continue without further action.
//
// Nothing else may write meanwhile. Runs that are only in the engine are in Lost, unless runs are named.
// *UnknownRunsError, before anything is changed, when a named run is not in the store.
func Repair(ctx context.Context, s store.Store, h engine.Historian, rec Recorder, only []string, p Progress) (Repaired,
	error) {
	var out Repaired
	if _, err := findRuns(ctx, s, only); err != nil {
		return out, err
	}
	var err error
	if out.EpochBefore, out.Epoch, err = BumpEpoch(ctx, s); err != nil {
		return out, err
	}
	err = forEachRun(ctx, s, only, func(r store.Run) error {
		head, ok, err := headOf(ctx, s, r.RunID)
		if err != nil {
			return err
		}
		if !ok || head.Terminal {
			p.done(r.RunID)
			return nil // a log with its end is complete
		}
		out.Looked++
		refilled, err := refill(ctx, s, h, rec, r, head)
		if err != nil {
			return err
		}
		if refilled != nil {
			out.Refilled = append(out.Refilled, *refilled)
		}
		p.done(r.RunID)
		return nil
	})
	if err != nil || len(only) > 0 {
		return out, err
	}
	for d, err := range h.Runs(ctx) {
		if err != nil {
			return out, err
		}
		_, err := s.Get(ctx, d.Identity.RunID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			out.Lost = append(out.Lost, LostRun{
				RunID: d.Identity.RunID, TenantID: d.Identity.TenantID, ProjectID: d.Identity.ProjectID,
				WorkflowID: d.Ref.WorkflowID, Open: d.Open,
			})
		case err != nil:
			return out, err
		}
	}
	return out, nil
}

// BumpEpoch gives the store a new epoch, so that every viewer and cursor starts again from the beginning.
func BumpEpoch(ctx context.Context, s store.Ops) (before, after string, err error) {
	if before, err = s.Epoch(ctx); err != nil {
		return "", "", err
	}
	if err = s.BumpEpoch(ctx); err != nil {
		return before, "", err
	}
	after, err = s.Epoch(ctx)
	return before, after, err
}

// refill repairs one run. It returns nil when nothing was missing.
func refill(ctx context.Context, s store.Store, h engine.Historian, rec Recorder, r store.Run,
	head store.Head) (*RefilledRun, error) {
	if cp, err := s.Checkpoint(ctx, r.RunID); err == nil && cp.Seq > head.LastSeq {
		if err := s.DropCheckpoint(ctx, r.RunID); err != nil {
			return nil, err
		}
	}
	have := map[run.Key]bool{}
	for page, err := range pages(ctx, s, r.RunID, head.LastSeq) {
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			have[e.Key] = true
		}
	}
	past, err := pastOf(ctx, h, r.Identity)
	if errors.Is(err, engine.ErrNotStarted) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &RefilledRun{RunID: r.RunID, From: head.LastSeq}
	for _, f := range past.missing(have) {
		if f.signal != nil {
			lost, err := putSignal(ctx, s, r, *f.signal, f.at)
			if err != nil {
				return nil, err
			}
			if lost != nil {
				out.Receipts = append(out.Receipts, *lost)
			}
			continue
		}
		f.append.RunID = r.RunID
		done, err := rec.Append(ctx, f.append)
		if err != nil {
			return nil, err
		}
		for i, o := range done.Outcomes {
			switch {
			case o.Refused != "":
				d := f.append.Events[i]
				out.Refused = append(out.Refused, fmt.Sprintf("%s(%s,%d): %s", d.Type, d.StepID, d.LogicalAttempt, o.Refused))
			case !o.Deduplicated:
				out.Events++
			}
		}
	}
	now, _, err := headOf(ctx, s, r.RunID)
	if err != nil {
		return nil, err
	}
	out.To = now.LastSeq
	if past.known > out.To {
		out.Known = past.known
		if err := s.MarkRepaired(ctx, r.RunID, past.known); err != nil {
			return nil, err
		}
	}
	if out.Events == 0 && len(out.Receipts) == 0 && len(out.Refused) == 0 {
		return nil, nil
	}
	return out, nil
}

// Actor and reason of a receipt that was written again.
const (
	repairActor  = "dvt/repair"
	repairReason = "The receipt was lost in a restore; the engine's history shows that the signal had been accepted."
)

// putSignal writes the receipt and the SignalAccepted of a signal that reached the engine, unless the store has them.
// It returns the receipt if it was lost or has another number now. The signal should get its old number, because the
// engine drops a signal whose number it has seen (contract T196).
func putSignal(ctx context.Context, s store.Store, r store.Run, sig engine.Signal, at time.Time) (lost *LostReceipt,
	err error) {
	err = s.InRun(ctx, r.RunID, func(tx store.RunTx) error {
		lost = nil
		if old, err := tx.Receipt(ctx, sig.ID); !errors.Is(err, store.ErrNotFound) {
			if err == nil && old.No != sig.No {
				lost = &LostReceipt{SignalID: sig.ID, Type: sig.Type, StepID: sig.StepID, Renumbered: true}
			}
			return err
		}
		payload, err := json.Marshal(run.SignalPayload{SignalID: sig.ID, SignalType: sig.Type, StepID: sig.StepID,
			Actor: repairActor, Reason: repairReason})
		if err != nil {
			return err
		}
		a := store.Append{RunID: r.RunID, Events: []run.Draft{{
			Type: run.SignalAccepted, SignalID: sig.ID, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: at,
			EmittedBy: run.ByAuthz, Payload: payload,
		}}}
		if sig.Type == run.Cancel || sig.Type == run.EmergencyStop {
			a.SetGate = run.GateStopped // as when it was accepted (contract T192)
		}
		done, err := tx.Append(ctx, a)
		if err != nil {
			return err
		}
		stored, err := tx.PutReceipt(ctx, run.SignalReceipt{
			RunID: r.RunID, Actor: repairActor, Reason: repairReason, Application: run.SignalDelivered,
			AcceptedSeq: done.Outcomes[0].Seq,
			Signal: run.Signal{ID: sig.ID, Type: sig.Type, StepID: sig.StepID, ExpectedAttempt: sig.LogicalAttempt,
				Force: sig.Force},
		}, false)
		if err != nil {
			return err
		}
		lost = &LostReceipt{SignalID: sig.ID, Type: sig.Type, StepID: sig.StepID, Renumbered: stored.No != sig.No}
		return tx.Audit(ctx, store.AuditRowOfSignal(store.AuditRow{
			ID: uuid.NewString(), TenantID: r.TenantID, Actor: repairActor, Action: string(sig.Type), RunID: r.RunID,
			SignalID: sig.ID, Outcome: "ACCEPTED", Reason: repairReason,
		}, stored))
	})
	return lost, err
}
