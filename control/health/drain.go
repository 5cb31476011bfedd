package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The actions of the audit rows of drains.
const (
	ActionDrainWorker    = "DRAIN_WORKER"
	ActionEndWorkerDrain = "END_WORKER_DRAIN"
)

// DrainWorker asks that a worker begins no further steps, or, with End, that it begins some again.
type DrainWorker struct {
	Account, Worker   string
	End               bool
	RequestID, Reason string
}

// DrainedWorker is the worker after the change, one state for each of its queues, and the receipt. The receipt is zero
// when the worker was drained already, or was not.
type DrainedWorker struct {
	Workers []WorkerState
	Change  control.Change
}

// DrainWorker drains a worker: within one report, every 20 s, it stops to poll its queues. Its running steps go on. A
// new process is not drained. Repeating it is safe. Errors: FORBIDDEN for callers other than operators with
// SET_ENGINE_MODE, BAD_USER_INPUT, NOT_FOUND for a worker without a report in the last 24 hours, UNAVAILABLE. Accepted
// and denied calls are audited.
func (s *WorkerReader) DrainWorker(ctx context.Context, p authz.Principal, in DrainWorker) (DrainedWorker, error) {
	row := store.AuditRow{Action: ActionDrainWorker, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if in.End {
		row.Action = ActionEndWorkerDrain
	}
	if err := s.rights.CheckMaySetMode(ctx, p, row, "drain workers"); err != nil {
		return DrainedWorker{}, err
	}
	if vs := checkDrain(in); len(vs) > 0 {
		return DrainedWorker{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	detail, _ := json.Marshal(map[string]string{"account": in.Account, "worker": in.Worker}) // strings always marshal
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	out := DrainedWorker{Change: control.Change{Action: row.Action, RequestID: in.RequestID, Actor: p.ID,
		At: s.rights.Now()}}
	made, err := s.setDrain(ctx, p, in, row)
	if !made {
		out.Change = control.Change{}
	}
	if err != nil {
		return DrainedWorker{}, err
	}
	all, err := s.workers(ctx)
	for _, w := range all {
		if w.Account == in.Account && w.Worker == in.Worker {
			out.Workers = append(out.Workers, w)
		}
	}
	if err == nil && len(out.Workers) == 0 {
		return DrainedWorker{}, noSuchWorker()
	}
	return out, control.Translate(err)
}

// setDrain writes the change. made is false when there was nothing to change.
func (s *WorkerReader) setDrain(ctx context.Context, p authz.Principal, in DrainWorker,
	row store.AuditRow) (made bool, _ error) {
	if in.End {
		err := s.store.EndWorkerDrain(ctx, in.Account, in.Worker, row)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil // it is not drained, or unknown
		}
		return err == nil, control.Translate(err)
	}
	d, err := s.store.DrainWorker(ctx, store.WorkerDrain{Account: in.Account, Worker: in.Worker, RequestID: in.RequestID,
		Actor: p.ID, Reason: in.Reason}, row)
	if errors.Is(err, store.ErrNotFound) {
		return false, noSuchWorker()
	}
	return d.RequestID == in.RequestID && d.Actor == p.ID, control.Translate(err)
}

func noSuchWorker() error {
	return control.Refuse(run.CodeNotFound, "No such worker has reported in the last 24 hours.")
}

func checkDrain(in DrainWorker) (vs []plan.Violation) {
	vs = control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	for path, name := range map[string]string{"account": in.Account, "worker": in.Worker} {
		if name == "" || len(name) > maxName || !run.IsText(name) {
			vs = append(vs, plan.Violation{Path: path, Code: "INVALID",
				Message: fmt.Sprintf("must be text of 1 to %d bytes", maxName)})
		}
	}
	slices.SortFunc(vs, func(a, b plan.Violation) int { return strings.Compare(a.Path, b.Path) })
	return vs
}

// maxName bounds the names of an account and a worker, in bytes.
const maxName = 256
