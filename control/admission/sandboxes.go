package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SandboxStore reads plans and the sandbox reports of workers.
type SandboxStore interface {
	Plan(ctx context.Context, sha256 string) ([]byte, error)
	ByRequest(ctx context.Context, key run.Key) (store.Run, error)
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error)
}

// Sandboxes decides whether workers can isolate the programs of a plan. It is safe for concurrent use.
type Sandboxes struct {
	rights *control.Rights
	store  SandboxStore
	queues plan.Queues
}

// NewSandboxes makes a Sandboxes.
func NewSandboxes(rights *control.Rights, store SandboxStore, queues plan.Queues) *Sandboxes {
	return &Sandboxes{rights: rights, store: store, queues: queues}
}

// FreshReport is the maximum age of a report whose worker counts as alive. Workers report once a minute.
const FreshReport = 2 * time.Minute

// WorkerStore reads the reports of workers.
type WorkerStore interface {
	WorkerReports(ctx context.Context, queues []string, maxAge time.Duration) ([]store.WorkerReport, error)
}

// SandboxRule decides whether the programs of a plan may run. It uses the tenant's policy and the reports of
// workers.
type SandboxRule struct {
	Workers WorkerStore
	Queues  plan.Queues
	Ceiling plan.SandboxCeiling
}

// Check returns nil, or a refusal with the violations, at most plan.MaxViolations. SANDBOX_DENIED means that the plan
// exceeds the policy. SANDBOX_UNAVAILABLE means that no live worker of a queue can provide a part that a step requires.
// With awaited, a queue without any report is accepted, because the run waits for a worker. It makes at most one query.
func (a SandboxRule) Check(ctx context.Context, pl plan.Plan, awaited bool) (*control.Error, error) {
	programs := programsOf(pl, a.Queues)
	var above []plan.Violation
	for _, p := range programs {
		above = append(above, a.Ceiling.Exceeds(p.sandbox, p.path)...)
	}
	if len(above) > 0 {
		return &control.Error{
			Code:       run.CodeSandboxDenied,
			Message:    "The plan asks for larger sandboxes than the policy of the tenant permits; each is listed.",
			Violations: above[:min(len(above), plan.MaxViolations)],
		}, nil
	}
	missing, err := a.missing(ctx, programs, awaited)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	message := missing[0].Message
	if n := len(missing) - 1; n > 0 {
		message += fmt.Sprintf("; %d more are listed", n)
	}
	return &control.Error{Code: run.CodeNoSandbox, Message: message, Violations: missing[:min(len(missing),
			plan.MaxViolations)]},
		nil
}

// program is a step or a compensation hook that starts a program.
type program struct {
	name, path string // in messages and in violations
	queue      string
	sandbox    *plan.Sandbox
	require    []plan.SandboxPart
}

// programsOf lists the programs of a plan, in the order of its steps.
func programsOf(pl plan.Plan, q plan.Queues) (out []program) {
	sk := pl.Skeleton(q)
	for i, s := range pl.Steps {
		path := fmt.Sprintf("steps[%q]", s.StepID) // the index in the submitted document is not known here
		if s.Type.RunsProgram() {
			out = append(out, program{
				name: "step " + s.StepID, path: path + ".sandbox", queue: sk.Steps[i].TaskQueue, sandbox: s.Sandbox,
			})
		}
		if hook := s.Compensation; hook != nil && hook.Operation.RunsProgram() {
			out = append(out, program{
				name: "the hook of step " + s.StepID, path: path + ".compensation.sandbox",
				queue: sk.Steps[i].CompensationQueue, sandbox: hook.Sandbox,
			})
		}
	}
	return out
}

// missing returns a violation for each program that no live worker of its queue can isolate as required.
func (a SandboxRule) missing(ctx context.Context, programs []program, awaited bool) ([]plan.Violation, error) {
	var requiring []program
	queues := map[string]bool{}
	for _, p := range programs {
		if effective := a.Ceiling.Apply(p.sandbox); effective != nil && len(effective.Require) > 0 {
			p.require = effective.Require
			requiring, queues[p.queue] = append(requiring, p), true
		}
	}
	if len(requiring) == 0 {
		return nil, nil
	}
	live, err := a.live(ctx, queues)
	if err != nil {
		return nil, err
	}
	// One verdict for each queue and requirement: plans have thousands of steps, but few kinds of sandboxes.
	verdicts := map[string]string{}
	var out []plan.Violation
	for _, p := range requiring {
		key := fmt.Sprint(p.queue, p.require)
		lack, known := verdicts[key]
		if !known {
			lack = describeLack(p, live[p.queue], awaited)
			verdicts[key] = lack
		}
		if lack != "" {
			out = append(out, plan.Violation{
				Path: p.path + ".require", Code: plan.CodeInvalid, Message: fmt.Sprintf("%s requires %s; %s", p.name,
					joinParts(p.require), lack),
			})
		}
	}
	return out, nil
}

// live returns the fresh reports of workers, by queue.
func (a SandboxRule) live(ctx context.Context, queues map[string]bool) (map[string][]engine.WorkerReport, error) {
	names := make([]string, 0, len(queues))
	for name := range queues {
		names = append(names, name)
	}
	slices.Sort(names)
	rows, err := a.Workers.WorkerReports(ctx, names, FreshReport)
	if err != nil {
		return nil, err
	}
	out := map[string][]engine.WorkerReport{}
	for _, row := range rows {
		var r engine.WorkerReport
		if json.Unmarshal(row.Doc, &r) == nil { // an unreadable report does not count
			out[row.Queue] = append(out[row.Queue], r)
		}
	}
	return out, nil
}

// describeLack says why no worker can isolate a program as required, for the worker that lacks the fewest parts; ""
// when one worker can.
func describeLack(p program, reports []engine.WorkerReport, awaited bool) string {
	if len(reports) == 0 {
		if awaited {
			return ""
		}
		return fmt.Sprintf("no worker of queue %s has reported in the last %d minutes", p.queue, int(FreshReport.Minutes()))
	}
	best := ""
	fewest := len(plan.SandboxParts()) + 1
	for _, r := range reports {
		var lacks []string
		for _, part := range p.require {
			if !slices.Contains(r.Parts, part) {
				lacks = append(lacks, describeMissingPart(r, part))
			}
		}
		if len(lacks) == 0 && r.OK {
			return ""
		}
		if len(lacks) == 0 {
			lacks = []string{"a sandbox that passes its verification (" + r.Problem + ")"}
		}
		if len(lacks) < fewest {
			fewest, best = len(lacks), strings.Join(lacks, ", ")
		}
	}
	return fmt.Sprintf("workers of queue %s lack: %s", p.queue, best)
}

// describeMissingPart names a part that a worker lacks, with the reason that the worker reported.
func describeMissingPart(r engine.WorkerReport, part plan.SandboxPart) string {
	if reason := r.Missing[part]; reason != "" {
		return fmt.Sprintf("%s (%s)", part, reason)
	}
	return string(part)
}

func joinParts(parts []plan.SandboxPart) string {
	words := make([]string, len(parts))
	for i, part := range parts {
		words[i] = string(part)
	}
	return strings.Join(words, ", ")
}

// SandboxRefusal returns the refusal of a new run whose programs must not or cannot run; nil when they can. A plan by
// reference that no worker has fetched yet is checked when the run starts.
func (s *Sandboxes) SandboxRefusal(ctx context.Context, id run.Identity, ref plan.Ref, pl *plan.Plan) (*control.Error,
	error) {
	if pl == nil {
		doc, err := s.store.Plan(ctx, ref.SHA256)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil //nolint:nilnil // the plan is not fetched yet; the run checks it when it starts
		}
		if err != nil {
			return nil, err
		}
		stored, err := control.OpenPlan(doc, ref, s.queues)
		if err != nil {
			return nil, nil //nolint:nilnil,nilerr // the run fails for this when it starts
		}
		if !control.IsInScope(stored.Scope, id) {
			return nil, nil //nolint:nilnil // a refusal would disclose steps of another scope to the caller
		}
		pl = &stored
	}
	ceiling, err := s.rights.Authz.Sandbox(id.TenantID, id.ProjectID, id.EnvironmentID)
	if err != nil {
		return nil, err
	}
	return SandboxRule{Workers: s.store, Queues: s.queues, Ceiling: ceiling}.Check(ctx, *pl, false)
}

// AdmitSandboxes refuses a new run whose programs must not or cannot run in the requested sandboxes, and records the
// denial. A repeated request whose run exists is not refused, because it returns that run.
func (s *Sandboxes) AdmitSandboxes(ctx context.Context, p authz.Principal, r store.Run, pl *plan.Plan,
	row store.AuditRow) error {
	refusal, err := s.SandboxRefusal(ctx, r.Identity, r.PlanRef, pl)
	if err != nil || refusal == nil {
		return control.Translate(err)
	}
	if _, err := s.store.ByRequest(ctx, r.RequestKey); err == nil || !errors.Is(err, store.ErrNotFound) {
		return control.Translate(err)
	}
	row.Code, row.RequestID, row.Detail = refusal.Code, r.RequestID, nil
	s.rights.AuditDenied(ctx, p, row)
	return refusal
}
