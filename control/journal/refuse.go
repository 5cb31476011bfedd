package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// refusal is the error of a refused call to the Journal; it matches engine.ErrRefused.
type refusal struct {
	reason string // one of a few constants, a label of metrics
	text   string
	// recorded is true when the store has already written an audit row.
	recorded bool
}

func newRefusal(reason, format string, args ...any) *refusal {
	return &refusal{reason: reason, text: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (r *refusal) Error() string { return engine.ErrRefused.Error() + ": " + r.text }

// Unwrap makes errors.Is(err, engine.ErrRefused) true.
func (r *refusal) Unwrap() error { return engine.ErrRefused }

// refusals counts, logs and audits the calls that a Journal refuses. It is safe for concurrent use.
type refusals struct {
	cfg   Config
	seen  *control.PerMinuteLimiter
	calls *prometheus.CounterVec
}

func newRefusals(cfg Config) *refusals {
	return &refusals{cfg: cfg, seen: control.NewPerMinuteLimiter(cfg.Now),
		calls: promauto.With(cfg.Metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "engine_refused_calls_total", Help: "Calls of workers and workflows to the log that were refused, by call " +
				"and reason.",
		}, []string{"call", "reason"})}
}

// refusedCall describes a refused call in logs and audit rows.
type refusedCall struct {
	call, actor, runID, stepID string
	attemptID                  string   // "2.1": logical and engine attempt, as log lines name it
	tenants                    []string // that get the audit row of a call about no run
}

// record counts and logs err and writes its audit row when err is a refusal. It always returns err unchanged.
func (r *refusals) record(ctx context.Context, c refusedCall, err error) error {
	var why *refusal
	if !errors.As(err, &why) {
		return err
	}
	r.calls.WithLabelValues(c.call, why.reason).Inc()
	if why.recorded {
		return err
	}
	r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a call to the log was refused", slog.String("call", c.call),
		slog.String("actor", c.actor),
		slog.String("runId", c.runID), slog.String("stepId", c.stepID), slog.String("attemptId", c.attemptID),
		slog.String("reason", why.text))
	r.audit(ctx, actionRefuseWorker, c, why)
	return err
}

// hide counts a call about a run or queue that its worker does not serve, and returns err unchanged. It writes no audit
// row, because such a call is no attack: workers of several tenants may poll one queue.
func (r *refusals) hide(reason string, err error) error {
	r.calls.WithLabelValues("any", reason).Inc()
	return err
}

// ReportForgery implements engine.ForgeryReporter.
func (j *Journal) ReportForgery(ctx context.Context, runID, what string) {
	r := j.refusals
	r.calls.WithLabelValues("engine", "forgery").Inc()
	r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the engine claimed something that the log does not hold",
		slog.String("runId", runID), slog.String("claim", what))
	r.audit(ctx, "ENGINE_FORGERY", refusedCall{call: "engine", actor: string(run.ByEngine), runID: runID},
		newRefusal("forgery", "%s", what))
}

// actionRefuseWorker is the action of audit rows about refused calls of workers.
const actionRefuseWorker = "REFUSE_WORKER"

// audit writes a row into the audit of the run's tenant. Within a minute it writes one row for each action, call
// and reason of an actor on a run, and at most control.AuditRowsPerMinute for a run. The next row contains the number
// of suppressed repetitions. A run that does not exist has no tenant, so it gets no row. A call about no run has a row
// in each of its tenants.
func (r *refusals) audit(ctx context.Context, action string, c refusedCall, why *refusal) {
	w, known := r.seen.Add(c.runID + "/" + action + "/" + c.actor + "/" + c.call + "/" + why.reason)
	if known && w.N > 1 {
		return
	}
	if ofRun, known := r.seen.Add(cmp.Or(c.runID, c.actor)); !known || ofRun.N > control.AuditRowsPerMinute {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), control.RefusalAuditTime)
	defer cancel()
	tenants, code := c.tenants, run.CodeForbidden
	var err error
	if c.runID != "" {
		code = run.CodeTicketRefused
		var owner store.Run
		owner, err = r.cfg.Store.Runs.Get(ctx, c.runID)
		tenants = []string{owner.TenantID}
	}
	if errors.Is(err, store.ErrNotFound) || len(tenants) == 0 {
		return
	}
	if err == nil {
		detail, _ := json.Marshal(struct { // strings and a number always marshal
			Call     string `json:"call"`
			StepID   string `json:"stepId,omitempty"`
			Repeated int    `json:"repeatedBefore,omitempty"`
		}{c.call, c.stepID, max(w.Before-1, 0)})
		row := store.AuditRow{
			Actor: c.actor, Action: action, RunID: c.runID, Outcome: "REJECTED",
			Code: code, Reason: run.Text(why.text, control.MaxAuditedReason), Detail: detail,
		}
		if action == actionRefuseWorker {
			row.Credential, row.Via = authz.Principal{Via: authz.ViaWorker}.Credential(), authz.ViaWorker
		}
		rows := make([]store.AuditRow, len(tenants))
		for i, tenant := range tenants {
			rows[i] = row
			rows[i].ID, rows[i].TenantID = uuid.NewString(), tenant
		}
		err = r.cfg.Store.Workers.Audit(ctx, rows...)
	}
	if err != nil {
		r.cfg.Logger.WarnContext(ctx, "an audit row was not written; the audit may lack it", slog.Any("error", err))
	}
}
