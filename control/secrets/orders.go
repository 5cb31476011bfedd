package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The actions of audit rows about secrets.
const (
	ActionCheck  = "CHECK_SECRETS"
	ActionRevoke = "REVOKE_SECRETS"
)

const (
	// answerPause is the time between two looks for answers of workers, which ask for orders every two seconds.
	answerPause = 300 * time.Millisecond
	checkWait   = 15 * time.Second
	revokeWait  = 10 * time.Second
)

// OrderStore is the part of the store that Orders need.
type OrderStore interface {
	PutSecretOrder(ctx context.Context, o store.SecretOrder, audit ...store.AuditRow) (store.SecretOrder, error)
	SecretAnswers(ctx context.Context, orderID string) ([]store.SecretAnswer, error)
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error)
}

// Orders asks workers to check secrets and to revoke them. It is safe for concurrent use.
type Orders struct {
	rights *control.Rights
	store  OrderStore
	queues plan.Queues
	// CheckWait and RevokeWait are how long a call waits for workers.
	CheckWait, RevokeWait time.Duration
}

// NewOrders makes Orders. queues are templates.
func NewOrders(rights *control.Rights, store OrderStore, queues plan.Queues) *Orders {
	return &Orders{rights: rights, store: store, queues: queues, CheckWait: checkWait, RevokeWait: revokeWait}
}

// CheckSecrets asks which secrets of a plan can be read.
type CheckSecrets struct {
	RequestID string
	Plan      json.RawMessage
}

// CheckedSecret is what a worker said about a secret of a plan.
type CheckedSecret struct {
	plan.SecretRef
	Steps []string // that name it, at most maxNamedSteps
	Queue string   // of these steps
	// Worker is account/name of the worker that was asked; "" when none answered in time.
	Worker string
	engine.CheckedSecret
}

// CanRead reports whether the worker could read the secret.
func (c CheckedSecret) CanRead() bool { return c.Worker != "" && c.Code == "" }

// maxNamedSteps bounds the steps of a CheckedSecret.
const maxNamedSteps = 20

// queueCheck are the secrets of the steps of one queue.
type queueCheck struct {
	queue string
	rows  []CheckedSecret
	refs  []engine.SecretRef
}

// CheckSecrets asks one worker of each queue of a plan which of the plan's secrets it can read, in the environment of
// the plan. It waits up to CheckWait. No answer has a value. The caller needs START in the scope of the plan, because a
// run would read the same. Errors: FORBIDDEN, BAD_USER_INPUT, PLAN_INVALID, TOO_MANY_ORDERS, REQUEST_ID_CONFLICT.
// Accepted and denied calls are audited.
func (s *Orders) CheckSecrets(ctx context.Context, p authz.Principal, in CheckSecrets) ([]CheckedSecret, error) {
	if vs := control.CheckID(nil, "requestId", in.RequestID); len(vs) > 0 {
		return nil, control.BadInput(vs)
	}
	if len(in.Plan) > plan.MaxDocumentBytes {
		return nil, control.Translate(plan.ErrTooLarge)
	}
	pl, err := plan.Parse(in.Plan, s.queues)
	if err != nil {
		return nil, control.Translate(err)
	}
	row := store.AuditRow{Action: ActionCheck, RequestID: in.RequestID}
	// The tenant is that of the caller, so that a plan of another tenant reads nothing of it.
	object := authz.Object{TenantID: p.TenantID, ProjectID: pl.Scope.ProjectID, EnvironmentID: pl.Scope.EnvironmentID}
	if err := s.rights.MayOperateAs(ctx, p, authz.Start, row, object); err != nil {
		return nil, err
	}
	if pl.Scope.TenantID != p.TenantID {
		return nil, &control.Error{Code: run.CodePlanInvalid, Message: "The plan was made for another tenant.",
			Violations: []plan.Violation{{Path: "scope.tenantId", Code: "INVALID",
				Message: fmt.Sprintf("must be %q", p.TenantID)}}}
	}
	checks := s.checksOf(pl)
	total := 0
	for _, c := range checks {
		total += len(c.refs)
	}
	if total > engine.MaxSecretOrderRefs {
		return nil, control.BadInput([]plan.Violation{{Path: "plan", Code: plan.CodeRange,
			Message: fmt.Sprintf("names %d secrets; at most %d are checked at once", total, engine.MaxSecretOrderRefs)}})
	}
	ids := make([]string, len(checks))
	for i, c := range checks {
		order := engine.SecretOrder{Check: &engine.SecretCheck{EnvironmentID: pl.Scope.EnvironmentID,
			Queues: []string{c.queue}, Refs: c.refs}}
		detail := map[string]any{"environmentId": pl.Scope.EnvironmentID, "queue": c.queue, "secrets": len(c.refs)}
		if ids[i], _, err = s.put(ctx, p, store.SecretCheck, p.TenantID, c.queue, row, order, detail); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.CheckWait)
	defer cancel()
	var out []CheckedSecret
	for i, c := range checks {
		list, err := s.answers(ctx, ids[i], 1)
		if err != nil {
			return nil, err
		}
		for n := range c.rows {
			if len(list) > 0 && n < len(list[0].Checked) {
				c.rows[n].Worker, c.rows[n].CheckedSecret = list[0].worker, list[0].Checked[n]
			}
		}
		out = append(out, c.rows...)
	}
	return out, nil
}

// checksOf returns the secrets of a plan by queue, each once.
func (s *Orders) checksOf(pl plan.Plan) (out []queueCheck) {
	outline := run.Outline(pl, s.queues.For(pl.Scope.TenantID, pl.Scope.EnvironmentID))
	for i, step := range pl.Steps {
		if !step.Type.UsesSecrets() {
			continue
		}
		for _, ref := range step.SecretRefs {
			at := slices.IndexFunc(out, func(c queueCheck) bool { return c.queue == outline[i].TaskQueue })
			if at < 0 {
				at, out = len(out), append(out, queueCheck{queue: outline[i].TaskQueue})
			}
			c := &out[at]
			asked := engine.SecretRef{Provider: ref.Provider, Key: ref.Key, Version: ref.Version, Unmasked: ref.Unmasked}
			n := slices.Index(c.refs, asked)
			if n < 0 {
				n = len(c.refs)
				c.refs = append(c.refs, asked)
				c.rows = append(c.rows, CheckedSecret{SecretRef: ref, Queue: c.queue})
			}
			if named := &c.rows[n].Steps; len(*named) < maxNamedSteps && !slices.Contains(*named, step.StepID) {
				*named = append(*named, step.StepID)
			}
		}
	}
	return out
}

// RevokeSecrets asks workers to forget the secrets of a tenant and to end its leases. TenantID "" is the caller's own;
// with RunID only the leases of that run end.
type RevokeSecrets struct {
	RequestID, TenantID, RunID, Reason string
}

// Revocation is what became of a revocation so far.
type Revocation struct {
	TenantID, RunID string
	At              time.Time
	// Workers counts the live data workers that serve the tenant, and Done those of all workers that carried it out.
	Workers, Done int
	// Waiting names those that have not carried it out yet, at most maxNamedWorkers.
	Waiting                []string
	Dropped, Ended, Failed int // as engine.SecretAnswer
	Change                 control.Change
}

// maxNamedWorkers bounds the workers of a Revocation.
const maxNamedWorkers = 50

// RevokeSecrets has all workers of a tenant forget the values that they remember and end the leases that they hold. It
// waits up to RevokeWait for them and says how many have done it; the same request again says how many have by then.
// Programs that run keep the values that they have. The caller's own tenant needs FREEZE_TENANT; another one needs
// SET_ENGINE_MODE of the operators. Errors: FORBIDDEN, BAD_USER_INPUT, NOT_FOUND, TOO_MANY_ORDERS,
// REQUEST_ID_CONFLICT. Accepted and refused calls are audited, and a change of another tenant in the audit of both.
func (s *Orders) RevokeSecrets(ctx context.Context, p authz.Principal, in RevokeSecrets) (Revocation, error) {
	row := store.AuditRow{Action: ActionRevoke, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	tenant := in.TenantID
	if tenant == "" {
		tenant = p.TenantID
	}
	another := tenant != p.TenantID
	var err error
	if another {
		err = s.rights.CheckMaySetMode(ctx, p, row, "revoke the secrets of another tenant")
	} else {
		err = s.rights.MayOperateAs(ctx, p, authz.FreezeTenant, row,
			authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"})
	}
	if err != nil {
		return Revocation{}, err
	}
	vs := control.CheckID(control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason), "tenantId",
		tenant)
	if in.RunID != "" {
		vs = control.CheckID(vs, "runId", in.RunID)
	}
	if len(vs) > 0 {
		return Revocation{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	if in.RunID != "" && !another {
		if _, err := s.rights.GetVisible(ctx, p, authz.FreezeTenant, in.RunID); err != nil {
			return Revocation{}, err
		}
		row.RunID = in.RunID
	}
	if another && !s.rights.Authz.KnowsTenant(tenant) {
		return Revocation{}, s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeNotFound,
			"There is no such tenant."))
	}
	order := engine.SecretOrder{Revoke: &engine.SecretRevoke{RunID: in.RunID}}
	id, made, err := s.put(ctx, p, store.SecretRevocation, tenant, "", row, order,
		map[string]any{"tenantId": tenant, "runId": in.RunID})
	if err != nil {
		return Revocation{}, err
	}
	out := Revocation{TenantID: tenant, RunID: in.RunID, At: made.At,
		Change: control.Change{Action: row.Action, RequestID: row.RequestID, Actor: p.ID, At: made.At}}
	err = s.follow(ctx, id, &out)
	return out, err
}

// follow waits until all live workers of the tenant have carried out a revocation, at most RevokeWait.
func (s *Orders) follow(ctx context.Context, id string, out *Revocation) error {
	live, err := s.liveWorkers(ctx, out.TenantID)
	if err != nil {
		return control.Translate(err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.RevokeWait)
	defer cancel()
	list, err := s.answers(ctx, id, len(live))
	if err != nil {
		return err
	}
	out.Workers, out.Done = len(live), len(list)
	for _, a := range list {
		out.Dropped, out.Ended, out.Failed = out.Dropped+a.Dropped, out.Ended+a.Ended, out.Failed+a.Failed
	}
	for _, name := range live {
		if len(out.Waiting) < maxNamedWorkers &&
			!slices.ContainsFunc(list, func(a answer) bool { return a.worker == name }) {
			out.Waiting = append(out.Waiting, name)
		}
	}
	return nil
}

// liveWorkers lists the workers with a fresh report whose account serves the tenant.
func (s *Orders) liveWorkers(ctx context.Context, tenantID string) (names []string, _ error) {
	rows, err := s.store.WorkerReports(ctx, nil, admission.FreshReport)
	for _, r := range rows {
		if s.rights.Authz.WorkerServes(r.Account, tenantID) {
			names = append(names, r.Account+"/"+r.Worker)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// put stores an order. A repetition returns the first one. part distinguishes the orders of one request.
func (s *Orders) put(ctx context.Context, p authz.Principal, kind store.SecretOrderKind, tenantID, part string,
	row store.AuditRow, order engine.SecretOrder, detail map[string]any) (string, store.SecretOrder, error) {
	doc, err := json.Marshal(order)
	if err != nil {
		return "", store.SecretOrder{}, control.Translate(err)
	}
	said, err := json.Marshal(detail)
	if err != nil {
		return "", store.SecretOrder{}, control.Translate(err)
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt secret order|%s|%s|%s|%s|%s", kind, p.TenantID, p.ID,
		row.RequestID, part)).String()
	s.rights.Stamp(p, &row, "ACCEPTED", string(said))
	rows := []store.AuditRow{row}
	if tenantID != p.TenantID {
		theirs := row
		theirs.ID, theirs.TenantID, theirs.Actor = uuid.NewString(), tenantID, control.EngineActor
		theirs.Credential, theirs.Address, theirs.Via = "", "", "" // the other tenant must not see who the operator is
		rows = append(rows, theirs)
	}
	made, err := s.store.PutSecretOrder(ctx, store.SecretOrder{ID: id, Kind: kind, TenantID: tenantID, Actor: p.ID,
		RequestID: row.RequestID, Reason: row.Reason, Doc: doc}, rows...)
	switch {
	case errors.Is(err, store.ErrTooMany):
		life, most := kind.Bounds()
		return "", made, control.Refuse(run.CodeTooManyOrders,
			"The tenant has made %d such requests about its secrets within %s, which is the limit. Try again later.", most,
			plan.DurationWords(life))
	case err != nil:
		return "", made, control.Translate(err)
	case made.TenantID != tenantID || !bytes.Equal(made.Doc, doc):
		return "", made, control.Refuse(run.CodeRequestConflict, "This requestId was used for another request.")
	}
	return id, made, nil
}

// answer is what a worker did about an order.
type answer struct {
	worker string // account/name
	engine.SecretAnswer
}

// answers returns the answers to an order: at once when there are n, and otherwise those that came before ctx ended.
func (s *Orders) answers(ctx context.Context, id string, n int) ([]answer, error) {
	for {
		rows, err := s.store.SecretAnswers(context.WithoutCancel(ctx), id)
		if err != nil {
			return nil, control.Translate(err)
		}
		if len(rows) >= n || ctx.Err() != nil {
			out := make([]answer, len(rows))
			for i, r := range rows {
				out[i].worker = r.Account + "/" + r.Worker
				if err := json.Unmarshal(r.Doc, &out[i].SecretAnswer); err != nil {
					return nil, control.Translate(err)
				}
			}
			return out, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(answerPause):
		}
	}
}
