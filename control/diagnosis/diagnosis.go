// Package diagnosis collects what is known about a run and its surroundings, and lets run/doctor find the causes.
package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
	"github.com/dvt-engine/dvt/store"
)

// Limits on what one diagnosis asks.
const (
	engineWait = 2 * time.Second
	maxQueues  = 16
	maxSignals = 50
)

// Doctor finds out why runs failed or do not continue. It is safe for concurrent use.
type Doctor struct {
	rights   *control.Rights
	views    *runs.Views
	receipts *runs.ReceiptReader
	lists    *reads.RunLists
	pollers  *health.Pollers
	reports  *health.Reports
	engine   engine.Engine
	queues   plan.Queues // templates
}

// NewDoctor makes a Doctor. queues are the templates of the queues of runs.
func NewDoctor(rights *control.Rights, views *runs.Views, receipts *runs.ReceiptReader, lists *reads.RunLists,
	pollers *health.Pollers, reports *health.Reports, e engine.Engine, queues plan.Queues) *Doctor {
	return &Doctor{rights, views, receipts, lists, pollers, reports, e, queues}
}

// Diagnose returns the causes why a run failed or does not continue, the first one first; none for a run that completed
// or goes on. It asks the engine and the pollers of at most maxQueues queues, and reads at most three more rows of the
// store; what does not answer within a few seconds is left out. It changes nothing. Errors: NOT_FOUND, STORE_UNAVAILABLE.
func (s *Doctor) Diagnose(ctx context.Context, p authz.Principal, runID string) ([]doctor.Cause, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	v, err := s.views.View(ctx, r)
	if err != nil {
		return nil, err
	}
	if v.State.Status == run.Completed {
		return nil, nil
	}
	f := doctor.Facts{
		Now: v.AsOf, State: v.State, Retried: v.PendingRetry, Queue: queueOf(v), Approval: approvalOf(v),
		ControlQueue: s.queues.For(r.TenantID, r.EnvironmentID).Control,
	}
	if f.Parts, err = s.brokenParts(ctx); err != nil {
		return nil, err
	}
	if !v.State.Status.Terminal() {
		if f.Signals, err = s.openSignals(ctx, runID); err != nil {
			return nil, err
		}
		f.Workers = s.workers(ctx, f)
		f.Engine = s.askEngine(ctx, r.Identity)
	}
	if f.LastGreen, err = s.lastGreen(ctx, p, v.State); err != nil {
		return nil, err
	}
	return doctor.Diagnose(f), nil
}

func queueOf(v control.RunView) *doctor.Queue {
	q := v.Queue
	if q == nil {
		return nil
	}
	out := &doctor.Queue{Since: q.CreatedAt, Expires: q.ExpiresAt, Position: q.Position, Reason: "The start is due."}
	if q.NotBefore.After(out.Since) {
		out.Since = q.NotBefore
	}
	switch q.Why {
	case store.WaitHold:
		out.Held, out.Reason = true, "All starts of the tenant are held."
	case store.WaitQuota:
		out.Limited, out.Reason = true, "The quota of starts per minute is used up."
	case store.WaitTurn:
		out.Limited, out.Reason = true, "Other runs go first."
	case store.WaitSlot:
		out.Limited, out.Reason = true, "All slots are in use."
		if q.Slots != nil && q.Slots.Max > 0 {
			out.Reason = fmt.Sprintf("%d runs are active; the limit is %d.", q.Slots.Active, q.Slots.Max)
		}
	}
	if q.LastError != "" && !out.Held && !out.Limited {
		out.Reason = "The last start failed: " + q.LastError
	}
	return out
}

func approvalOf(v control.RunView) *doctor.Approval {
	a := v.Approval
	if a == nil || !a.Open {
		return nil
	}
	out := &doctor.Approval{Required: a.Required, Since: a.CreatedAt, Expires: a.ExpiresAt}
	for _, d := range a.Decisions {
		if d.Approved {
			out.Given++
		}
	}
	return out
}

// brokenParts returns the parts that the newest health names as not working.
func (s *Doctor) brokenParts(ctx context.Context) ([]doctor.Part, error) {
	names := map[string]string{health.CheckTemporal: "Temporal", health.CheckStore: "The state store",
		health.CheckBus: "The event bus"}
	var out []doctor.Part
	for _, c := range s.reports.SampledHealth(ctx).Checks {
		if c.Status == "HEALTHY" || names[c.Name] == "" {
			continue
		}
		out = append(out, doctor.Part{Name: names[c.Name], Message: c.Message, Engine: c.Name == health.CheckTemporal,
			Store: c.Name == health.CheckStore})
	}
	return out, ctx.Err()
}

func (s *Doctor) openSignals(ctx context.Context, runID string) (out []doctor.Signal, err error) {
	for r, err := range s.receipts.SignalsOf(ctx, runID) {
		if err != nil {
			return nil, control.Translate(err)
		}
		if !r.Application.Final() && len(out) < maxSignals {
			out = append(out, doctor.Signal{Type: r.Signal.Type, StepID: r.Signal.StepID, AcceptedAt: r.ReceivedAt,
				Seq: r.AcceptedSeq, Delivered: r.DeliveredAt})
		}
	}
	return out, nil
}

// workers looks at the control queue, and at the queues of the steps that have not ended.
func (s *Doctor) workers(ctx context.Context, f doctor.Facts) map[string]doctor.Workers {
	out := map[string]doctor.Workers{}
	look := func(queue string) {
		if _, known := out[queue]; known || queue == "" || len(out) == maxQueues {
			return
		}
		if q, ok := s.pollers.Look(ctx, queue); ok {
			out[queue] = doctor.Workers{Count: q.Count, LastPoll: q.LastSeen, Watched: q.Since, Waiting: q.Waiting}
		}
	}
	look(f.ControlQueue)
	for _, step := range f.State.Steps {
		if step.Status == run.StepPending || step.Status == run.StepRunning {
			look(step.TaskQueue)
		}
	}
	return out
}

// askEngine returns nil when the engine does not answer, or gives no such information.
func (s *Doctor) askEngine(ctx context.Context, id run.Identity) *doctor.Engine {
	debugger, ok := s.engine.(engine.Debugger)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	d, err := debugger.Debug(ctx, id)
	switch {
	case errors.Is(err, engine.ErrNotStarted):
		return &doctor.Engine{}
	case err != nil:
		return nil
	}
	out := &doctor.Engine{Known: true}
	if n := len(d.Executions); n > 0 {
		out.Closed, out.Status = d.Executions[n-1].ClosedAt != nil, d.Executions[n-1].Status
	}
	for _, p := range d.Pending {
		stepID, _, isStep := strings.Cut(p.ID, "/")
		if isStep {
			out.Pending = append(out.Pending, doctor.Activity{StepID: stepID, Attempt: p.Attempt,
				Started: strings.HasSuffix(strings.ToUpper(p.State), "STARTED"), LastHeartbeat: p.LastHeartbeat})
		}
	}
	return out
}

// lastGreen returns nil when no earlier run of the plan completed. Durations are read only while steps run.
func (s *Doctor) lastGreen(ctx context.Context, p authz.Principal, st run.State) (*doctor.LastGreen, error) {
	green, err := s.lists.LastGreen(ctx, p, st.Header)
	if err != nil || green == nil {
		return nil, err
	}
	out := &doctor.LastGreen{RunID: green.RunID, PlanVersion: green.PlanVersion, PlanSHA256: green.PlanSHA256}
	if st.Counts.Running > st.Counts.Manual {
		out.Usual, err = s.lists.StepMedians(ctx, p, st.Header)
	}
	return out, err
}
