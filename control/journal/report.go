package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits on a report and on the audit rows that it may cause.
const (
	maxReportQueues  = 64
	maxReportName    = 256 // bytes of a worker's or a queue's name
	maxReportRuntime = 64  // bytes
	maxReportReason  = 300 // bytes
	maxKnownWorkers  = 2000
	maxReportTenants = 100 // tenants that get an audit row for one report
	maxNamedQueues   = 10  // queues that one refusal names
	// failedReportAgain is the time between two audit rows about a worker whose verification keeps failing.
	failedReportAgain = 10 * time.Minute
)

// actionIsolation is the action of the audit rows of WorkerIsolationEvent, contract R425.
const actionIsolation = "WORKER_ISOLATION"

// knownWorker is the state of a worker that the last audit row recorded.
type knownWorker struct {
	fingerprint string
	audited     time.Time
}

var _ engine.WorkerReporter = (*attempts)(nil)

// Report implements engine.WorkerReporter. A worker may report only about queues of its own account. The first report
// of a worker, and each change of its sandbox, writes an audit row for the tenants that it serves. A failing
// verification repeats the row every failedReportAgain. The order says whether the worker is drained.
func (a *attempts) Report(ctx context.Context, r engine.WorkerReport) (engine.WorkerOrder, error) {
	order, err := engine.WorkerOrder{}, a.report(ctx, r)
	if err == nil {
		order, err = a.order(ctx, r)
	}
	return order, a.journal.refusals.record(ctx, refusedCall{call: "report", actor: a.worker.ID, tenants: a.tenants()},
		err)
}

func (a *attempts) order(ctx context.Context, r engine.WorkerReport) (engine.WorkerOrder, error) {
	drains, err := a.journal.cfg.Store.Workers.WorkerDrains(ctx, a.worker.ID)
	if err != nil {
		return engine.WorkerOrder{}, err
	}
	ended, err := a.endedRuns(ctx, r.Workspaces)
	return engine.WorkerOrder{EndedRuns: ended, Drain: slices.ContainsFunc(drains, func(d store.WorkerDrain) bool {
		return d.Worker == r.Worker
	})}, err
}

// endedRuns returns those of a worker's runs that have ended. About runs of tenants that the worker does not serve it
// says nothing.
func (a *attempts) endedRuns(ctx context.Context, runIDs []string) (ended []string, err error) {
	runIDs = slices.DeleteFunc(slices.Clone(runIDs[:min(len(runIDs), engine.MaxWorkspaces)]),
		func(id string) bool { return !isName(id) })
	if len(runIDs) == 0 {
		return nil, nil
	}
	heads, err := a.journal.cfg.Store.Log.Heads(ctx, runIDs)
	if err != nil {
		return nil, err
	}
	for _, id := range runIDs {
		if !heads.ByRun[id].Terminal || slices.Contains(ended, id) {
			continue
		}
		r, err := a.journal.identity(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound): // deleted since
		case err != nil:
			return nil, err
		case a.worker.MayServe(r.TenantID):
			ended = append(ended, id)
		}
	}
	return ended, nil
}

func (a *attempts) report(ctx context.Context, r engine.WorkerReport) error {
	queues := r.Queues
	r, err := a.checkReport(r)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("control: report of a worker: %w", err)
	}
	rows := make([]store.WorkerReport, len(queues))
	for i, queue := range queues {
		rows[i] = store.WorkerReport{Account: a.worker.ID, Worker: r.Worker, Queue: queue, Doc: doc}
	}
	j := a.journal
	now, known := j.cfg.Now(), knownWorker{fingerprint: fingerprintOf(r)}
	before, seen, err := a.knownWorker(ctx, r.Worker, queues)
	if err != nil {
		return err
	}
	changed := !seen || before.fingerprint != known.fingerprint
	var audit []store.AuditRow
	known.audited = before.audited
	if changed || !r.OK && now.Sub(before.audited) >= failedReportAgain {
		known.audited = now
		audit = a.isolationRows(r, queues, changed)
		j.logReport(ctx, a.worker.ID, r, queues)
	}
	if err := j.cfg.Store.Workers.PutWorkerReports(ctx, rows, audit...); err != nil {
		return err
	}
	j.workers.Add(a.workerKey(r.Worker), known)
	return nil
}

func (a *attempts) workerKey(worker string) string { return a.worker.ID + "/" + worker }

// knownWorker returns the recorded state of a worker. It reads the store only when this process has not cached the
// worker. false means that there is no recent report of the worker.
func (a *attempts) knownWorker(ctx context.Context, worker string, queues []string) (knownWorker, bool, error) {
	if k, ok := a.journal.workers.Get(a.workerKey(worker)); ok {
		return k, true, nil
	}
	rows, err := a.journal.cfg.Store.Workers.WorkerReports(ctx, queues, store.WorkerReportLife)
	if err != nil {
		return knownWorker{}, false, err
	}
	for _, row := range rows {
		var r engine.WorkerReport
		if row.Account == a.worker.ID && row.Worker == worker && json.Unmarshal(row.Doc, &r) == nil {
			return knownWorker{fingerprint: fingerprintOf(r), audited: row.At}, true, nil
		}
	}
	return knownWorker{}, false, nil
}

// fingerprintOf combines the facts whose change deserves an audit row.
func fingerprintOf(r engine.WorkerReport) string {
	return fmt.Sprint(r.OK, r.Runtime, r.Digest, r.UID, r.Parts)
}

// accountError refuses a report because of the worker's account. Besides engine.ErrRefused it matches
// engine.ErrDenied, which ends the worker. Only a change of the settings helps; until then the worker would take steps
// away from workers that could execute them.
type accountError struct{ *refusal }

// Unwrap makes errors.Is true for engine.ErrDenied and engine.ErrRefused.
func (r accountError) Unwrap() []error { return []error{engine.ErrDenied, r.refusal} }

// checkQueues returns an accountError when the worker's account does not cover each of the queues.
func (a *attempts) checkQueues(queues []string) error {
	var outside []string
	for _, queue := range queues {
		if !a.worker.MayServeQueue(queue) {
			outside = append(outside, queue)
		}
	}
	if len(outside) == 0 {
		return nil
	}
	named := strings.Join(outside[:min(len(outside), maxNamedQueues)], ", ")
	if more := len(outside) - maxNamedQueues; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return accountError{
		newRefusal("report", "the account %s of this worker does not cover the queues that it serves: %s; "+
			"add them to the setting queues of the account, in the settings of the servers, and restart the servers, "+
			"or remove them from --queues of this worker", a.worker.ID, named)}
}

// checkReport refuses a report that is malformed or names a queue outside the worker's account, and returns the part to
// store. Only the second refusal matches engine.ErrDenied. It drops sandbox parts that this server does not know: they
// belong to a later version, and no plan here can require them.
func (a *attempts) checkReport(r engine.WorkerReport) (engine.WorkerReport, error) {
	bad := func(format string, args ...any) (engine.WorkerReport, error) {
		return engine.WorkerReport{}, newRefusal("report", format, args...)
	}
	switch {
	case !isName(r.Worker):
		return bad("the worker must have a name of 1 to %d printable characters", maxReportName)
	case len(r.Queues) == 0 || len(r.Queues) > maxReportQueues:
		return bad("a report must name 1 to %d queues", maxReportQueues)
	case r.UID < 0 || r.Slots < 0 || r.InUse < 0 || r.Limits.Memory < 0 || r.Limits.CPU < 0 || r.Limits.PIDs < 0 ||
		r.Limits.Disk < 0:
		return bad("the numbers of a report must not be negative")
	}
	for i, queue := range r.Queues {
		switch {
		case !isName(queue):
			return bad("the name of a queue must have 1 to %d printable characters", maxReportName)
		case slices.Contains(r.Queues[:i], queue):
			return bad("the report names the queue %s twice", queue)
		}
	}
	if err := a.checkQueues(r.Queues); err != nil {
		return engine.WorkerReport{}, err
	}
	out := engine.WorkerReport{
		Worker: r.Worker, Runtime: run.Text(r.Runtime, maxReportRuntime), Digest: run.Text(r.Digest, maxReportRuntime),
		Limits: r.Limits, UID: r.UID, OK: r.OK, Problem: run.Text(r.Problem, maxReportReason), At: r.At,
		Parts: []plan.SandboxPart{}, Version: run.Text(r.Version, maxReportRuntime), StartedAt: r.StartedAt, Slots: r.Slots,
		InUse: r.InUse, Drained: r.Drained, Steps: a.stepsOf(r), Secrets: secretsOf(r),
	}
	for _, part := range plan.SandboxParts() {
		if slices.Contains(r.Parts, part) {
			out.Parts = append(out.Parts, part)
			continue
		}
		if out.Missing == nil {
			out.Missing = map[plan.SandboxPart]string{}
		}
		out.Missing[part] = run.Text(r.Missing[part], maxReportReason)
	}
	return out, nil
}

// stepsOf returns the steps of a report that could be the worker's: well-formed ones of tenants that it serves.
func (a *attempts) stepsOf(r engine.WorkerReport) (out []engine.WorkerStep) {
	for _, step := range r.Steps[:min(len(r.Steps), engine.MaxWorkerSteps)] {
		if isName(step.TenantID) && isName(step.RunID) && isName(step.StepID) && a.worker.MayServe(step.TenantID) {
			out = append(out, step)
		}
	}
	return out
}

// secretsOf returns the providers of a report that have a name of their own, with bounded texts.
func secretsOf(r engine.WorkerReport) (out []engine.SecretsProvider) {
	for _, p := range r.Secrets[:min(len(r.Secrets), engine.MaxSecretsProviders)] {
		named := func(other engine.SecretsProvider) bool { return other.Name == p.Name }
		if !isName(p.Name) || len(p.Name) > maxReportRuntime || p.LatencyMS < 0 || slices.ContainsFunc(out, named) {
			continue
		}
		p.Problem = run.Text(p.Problem, maxReportReason)
		out = append(out, p)
	}
	return out
}

// isName reports whether s is a valid name of a worker or a queue.
func isName(s string) bool {
	return s != "" && len(s) <= maxReportName && run.IsText(s) && !strings.ContainsAny(s, "\n\t\r")
}

// tenants returns the tenants whose audit records the worker's reports: those that it serves by name, at most
// maxReportTenants, or the operators' tenant for a worker of all tenants. Without such a tenant only the server's log
// records a report.
func (a *attempts) tenants() []string {
	tenants := slices.Clone(a.worker.Serves)
	if slices.Contains(tenants, "*") {
		tenants = []string{a.journal.cfg.OperatorsTenant}
	}
	tenants = tenants[:min(len(tenants), maxReportTenants)]
	return slices.DeleteFunc(tenants, func(tenant string) bool { return tenant == "" })
}

// isolationRows returns the audit rows of WorkerIsolationEvent, one for each of the worker's tenants.
func (a *attempts) isolationRows(r engine.WorkerReport, queues []string, changed bool) (rows []store.AuditRow) {
	outcome, reason := "ACCEPTED", "the sandbox of a worker was verified"
	if !r.OK {
		outcome, reason = "REJECTED", "the verification of a worker's sandbox failed: "+r.Problem
	}
	detail, _ := json.Marshal(map[string]any{ // strings and numbers always marshal
		"event": "WorkerIsolationEvent", "worker": r.Worker, "queues": queues[:min(len(queues), 10)],
		"runtime": r.Runtime, "digest": r.Digest, "parts": r.Parts, "uid": r.UID, "ok": r.OK, "changed": changed,
	})
	for _, tenant := range a.tenants() {
		rows = append(rows, store.AuditRow{
			ID: uuid.NewString(), TenantID: tenant, Actor: a.worker.ID, Action: actionIsolation, Outcome: outcome,
			Reason: run.Text(reason, control.MaxAuditedReason), Detail: detail,
		})
	}
	return rows
}

// logReport logs a report that is new, changed or failing.
func (j *Journal) logReport(ctx context.Context, account string, r engine.WorkerReport, queues []string) {
	about := []slog.Attr{
		slog.String("account", account), slog.String("worker", r.Worker), slog.Any("queues", queues),
		slog.String("runtime", r.Runtime),
		slog.String("digest", r.Digest), slog.Any("parts", r.Parts), slog.String("problem", r.Problem),
	}
	if !r.OK {
		j.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the verification of a worker's sandbox failed", about...)
		return
	}
	j.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "a worker reports its sandbox", about...)
}
