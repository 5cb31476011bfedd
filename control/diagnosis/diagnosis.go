// Package diagnosis collects what is known about a run and its surroundings, and lets run/doctor find the causes.
package diagnosis

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
	"github.com/dvt-engine/dvt/store"
)

// Limits of one diagnosis: the open signals, and the changes of the plan that it names.
const (
	maxSignals = 50
	maxChanges = 3
)

// Doctor finds out why runs failed or do not continue. It is safe for concurrent use.
type Doctor struct {
	rights       *control.Rights
	views        *runs.Views
	lists        *reads.RunLists
	waits        *reads.WaitReader
	decisions    Decisions
	surroundings *Surroundings
}

// Decisions are what people decided about runs, and who may decide.
type Decisions struct {
	Receipts *runs.ReceiptReader
	Approver *runs.Approver
	Tasks    *runs.TaskReader
}

// NewDoctor makes a Doctor.
func NewDoctor(rights *control.Rights, views *runs.Views, decisions Decisions, lists *reads.RunLists,
	waits *reads.WaitReader, surroundings *Surroundings) *Doctor {
	return &Doctor{rights, views, lists, waits, decisions, surroundings}
}

// Diagnose returns the causes why a run failed or does not continue, the first one first; none for a run that
// completed or continues. It asks the engine at most three times, and the pollers of at most maxQueues queues, all at
// once, so that an engine that does not answer delays the diagnosis by about engineWait. An answer that does not come
// is left out. It changes nothing. Errors: NOT_FOUND, STORE_UNAVAILABLE.
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
		Now: v.AsOf, State: v.State, Retried: v.PendingRetry, Queue: queueOf(v), Approval: s.approvalOf(v),
		ControlQueue: s.surroundings.queues.For(r.TenantID, r.EnvironmentID).Control,
	}
	isOpen := !v.State.Status.Terminal()
	if isOpen {
		if f.Signals, err = s.openSignals(ctx, runID); err != nil {
			return nil, err
		}
		if f.Tasks, err = s.tasksOf(ctx, p, v); err != nil {
			return nil, err
		}
		if f.Drains, err = s.surroundings.drained(ctx, f, s.rights.CanSeeInstallation(p)); err != nil {
			return nil, err
		}
	}
	if f.LastGreen, err = s.lastGreen(ctx, p, v.State); err != nil {
		return nil, err
	}
	if err := s.ask(ctx, v, isOpen, &f); err != nil {
		return nil, control.Translate(err)
	}
	if e := f.Engine; e != nil && (e.Closed || !e.Known) && f.State.StartedAt != nil {
		// The run may have ended since its state was read. Its end is in the log before its execution closes. Of a run
		// that has not ended, the older state is the one about which the engine was asked.
		if v, err = s.views.View(ctx, r); err != nil {
			return nil, err
		}
		if v.State.Status.Terminal() {
			f.State = v.State
		}
	}
	return doctor.Diagnose(f), nil
}

// ask fills in what the parts of the installation say; of a run that has ended, only which parts do not work.
func (s *Doctor) ask(ctx context.Context, v control.RunView, isOpen bool, f *doctor.Facts) error {
	var workers map[string]doctor.Workers
	var lookErr error
	questions := []func(){func() { f.Parts = s.surroundings.brokenParts(ctx) }}
	if isOpen {
		known := *f
		questions = append(questions,
			func() { workers, lookErr = s.surroundings.workers(ctx, known) },
			func() { f.Engine = s.surroundings.askEngine(ctx, v.Run.Identity) })
	}
	if isOpen && v.Queue == nil {
		questions = append(questions, func() { f.Held = heldOf(s.waits.WaitsOf(ctx, v)) })
	}
	err := together(questions...)
	f.Workers = workers
	return cmp.Or(err, lookErr)
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

// heldOf keeps the waits that the record of the run does not tell, and that the doctor does not find by itself.
func heldOf(waits []reads.RunWait) (out []doctor.Held) {
	codes := map[reads.WaitKind]doctor.Code{reads.WaitEngine: doctor.CodePartDown, reads.WaitStore: doctor.CodePartDown,
		reads.WaitJournal: doctor.CodeJournal, reads.WaitQuota: doctor.CodeWaitsForQuota,
		reads.WaitPlan: doctor.CodePlanLoads}
	for _, w := range waits {
		if code := codes[w.Kind]; code != "" {
			out = append(out, doctor.Held{Code: code, Engine: w.Kind == reads.WaitEngine, Since: w.Since, Until: w.Until,
				Message: w.Message, Help: w.Help, Steps: w.Steps, StepCount: w.StepCount})
		}
	}
	return out
}

func (s *Doctor) approvalOf(v control.RunView) *doctor.Approval {
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
	o := control.ObjectOf(v.Run.Identity)
	out.WhoCould = s.decisions.Approver.OthersWhoCould(o, v.State.TriggeredBy, *a)
	out.More = len(s.rights.Authz.WhoCould(authz.Approve, o)) == authz.MaxWhoCould
	return out
}

// tasksOf names who may complete the steps of the run that wait for a person. A step whose task is not projected yet is
// absent.
func (s *Doctor) tasksOf(ctx context.Context, p authz.Principal, v control.RunView) (map[string][]string, error) {
	if v.State.Counts.Manual == 0 {
		return nil, nil //nolint:nilnil // no step waits
	}
	page, err := s.decisions.Tasks.ManualTasks(ctx, p, runs.ManualTasksQuery{RunID: v.Run.RunID})
	out := make(map[string][]string, len(page.Tasks))
	for _, task := range page.Tasks {
		out[task.StepID] = task.Action.WhoCould
	}
	return out, err
}

func (s *Doctor) openSignals(ctx context.Context, runID string) (out []doctor.Signal, err error) {
	for r, err := range s.decisions.Receipts.SignalsOf(ctx, runID) {
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

// lastGreen returns nil when no earlier run of the plan completed. Durations are read only while steps run.
func (s *Doctor) lastGreen(ctx context.Context, p authz.Principal, st run.State) (*doctor.LastGreen, error) {
	green, err := s.lists.LastGreen(ctx, p, st.Header)
	if err != nil || green == nil {
		return nil, err
	}
	out := &doctor.LastGreen{RunID: green.RunID, PlanVersion: green.PlanVersion}
	// Other bytes can be the same plan: another order of members, or a member that has its default.
	if ref := st.PlanRef; ref != nil && green.PlanSHA256 != "" && green.PlanSHA256 != ref.SHA256 {
		diff, err := s.lists.PlanDiffFrom(ctx, p, *green, st.Header)
		if err != nil {
			return nil, err
		}
		if diff != nil {
			out.Changed, out.Changes = diff.Changes(maxChanges)
		}
	}
	if st.Counts.Running > st.Counts.Manual {
		out.Usual, err = s.lists.StepMedians(ctx, p, st.Header)
	}
	return out, err
}
