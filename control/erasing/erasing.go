// Package erasing is the use cases by which people decide about erasures of their tenant, or of a person of it. One
// person asks and another one confirms. The erasure itself is carried out by the owner of the database (package
// erasure), because servers cannot delete.
package erasing

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Actions of audit rows about erasures. A request needs the right SET_POLICY on the whole tenant, a decision
// READ_AUDIT.
const (
	ActionRequest = "REQUEST_ERASURE"
	ActionConfirm = "CONFIRM_ERASURE"
	ActionCancel  = "CANCEL_ERASURE"
)

// RequestLife is how long a request waits for its confirmation.
const RequestLife = 7 * 24 * time.Hour

// maxSubject is the longest name of a person, in bytes.
const maxSubject = 256

// Store keeps the requests.
type Store interface {
	store.Erasures
	Get(ctx context.Context, runID string) (store.Run, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// ErasureDesk has the use cases. It is safe for concurrent use.
type ErasureDesk struct {
	rights    *control.Rights
	store     Store
	installed Installation
}

// New makes an ErasureDesk.
func New(rights *control.Rights, s Store, installed Installation) *ErasureDesk {
	return &ErasureDesk{rights, s, installed}
}

// Request asks to erase a person of the caller's tenant, or the whole tenant when Subject is empty. TenantID must then
// name the caller's tenant, so that nobody erases another one by mistake.
type Request struct{ RequestID, TenantID, Subject, Reason string }

// Decision confirms or cancels an erasure.
type Decision struct {
	RequestID, ID, Reason string
	Confirm               bool
}

// Decided is an erasure and the receipt of the request that changed it.
type Decided struct {
	Erasure Erasure
	Change  control.Change
}

// Page is a page of erasures, the newest first.
type Page struct {
	Erasures []Erasure
	HasNext  bool
}

// Cursor returns the cursor of an erasure.
func Cursor(e Erasure) string { return strconv.FormatInt(e.Pos, 10) }

func tenantOf(p authz.Principal) authz.Object {
	return authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
}

// RequestErasure stores a request, which another person must confirm within seven days. Nothing is erased before. It is
// safe to repeat. Errors: FORBIDDEN without SET_POLICY on the whole tenant and for a service, BAD_USER_INPUT,
// REQUEST_ID_CONFLICT, UNAVAILABLE; ERASURE_OPEN while another request for the same is open; ERASURE_UNPREPARED when
// the servers lack a setting that every erasure needs. Accepted and refused requests are audited.
func (s *ErasureDesk) RequestErasure(ctx context.Context, p authz.Principal, in Request) (Decided, error) {
	row := store.AuditRow{Action: ActionRequest, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.checkPerson(ctx, p, row); err != nil {
		return Decided{}, err
	}
	if err := s.rights.MayOperateAs(ctx, p, authz.SetPolicy, row, tenantOf(p)); err != nil {
		return Decided{}, err
	}
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	kind := kindOf(in.Subject)
	switch {
	case kind == store.EraseTenant && in.TenantID != p.TenantID:
		vs = append(vs, plan.Violation{Path: "tenantId", Code: "INVALID",
			Message: "must name your tenant, which is erased whole"})
	case len(in.Subject) > maxSubject || !run.IsText(in.Subject):
		vs = append(vs, plan.Violation{Path: "subject", Code: plan.CodeRange, Message: "must be text of 1 to 256 bytes"})
	case in.Subject != "" && in.TenantID != "" && in.TenantID != p.TenantID:
		vs = append(vs, plan.Violation{Path: "tenantId", Code: "INVALID", Message: "must be your tenant, or empty"})
	}
	if len(vs) > 0 {
		return Decided{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	if len(s.installed.Missing) > 0 {
		return Decided{}, s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeErasureUnprepared,
			"Nothing can be erased, because the servers lack %s. Ask an operator to set it.",
			strings.Join(s.installed.Missing, " and ")))
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte("dvt erasure|"+p.TenantID+"|"+p.ID+"|"+in.RequestID)).String()
	s.stamp(p, &row, id, kind)
	e, err := s.store.RequestErasure(ctx, store.Erasure{ID: id, Kind: kind, TenantID: p.TenantID, Subject: in.Subject,
		Reason: row.Reason, RequestedBy: p.ID}, RequestLife, row)
	switch {
	case errors.Is(err, store.ErrConflict):
		return Decided{}, s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeErasureOpen,
			"Somebody has asked for this erasure already, and it is open. Confirm that request, or cancel it first."))
	case err != nil:
		return Decided{}, control.Translate(err)
	case e.FinishedAt == nil && (e.Kind != kind || e.Subject != in.Subject):
		return Decided{}, control.Refuse(run.CodeRequestConflict, "This requestId was used for another erasure.")
	}
	change := s.receipt(p, row)
	change.At = e.RequestedAt
	shown, err := look(ctx, s.store, e, s.rights.Now())
	return Decided{shown, change}, err
}

// DecideErasure confirms or cancels a request of the caller's tenant. The person who asked cannot confirm it. It is
// safe to repeat. Errors: FORBIDDEN without READ_AUDIT on the whole tenant, or for a confirmation of one's own request
// or by a service; NOT_FOUND, BAD_USER_INPUT; INVALID_TRANSITION when it was decided before, has expired or has begun;
// UNAVAILABLE. Accepted and refused decisions are audited.
func (s *ErasureDesk) DecideErasure(ctx context.Context, p authz.Principal, in Decision) (Decided, error) {
	row := store.AuditRow{Action: ActionCancel, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if in.Confirm {
		row.Action = ActionConfirm
	}
	if in.Confirm {
		if err := s.checkPerson(ctx, p, row); err != nil {
			return Decided{}, err
		}
	}
	if err := s.rights.MayOperateAs(ctx, p, authz.ReadAudit, row, tenantOf(p)); err != nil {
		return Decided{}, err
	}
	if vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason); len(vs) > 0 {
		return Decided{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	known, err := s.find(ctx, p, in.ID)
	if err != nil {
		return Decided{}, err
	}
	if in.Confirm && known.RequestedBy == p.ID {
		return Decided{}, s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeForbidden,
			"You requested this erasure, so another person must confirm it."))
	}
	s.stamp(p, &row, known.ID, known.Kind)
	e, err := s.store.DecideErasure(ctx, p.TenantID, in.ID, p.ID, in.Confirm, row)
	if errors.Is(err, store.ErrConflict) {
		if e, err := s.find(ctx, p, in.ID); err == nil && (in.Confirm && e.ConfirmedBy == p.ID && e.CancelledAt == nil ||
			!in.Confirm && e.CancelledBy == p.ID) {
			shown, err := look(ctx, s.store, e, s.rights.Now())
			return Decided{Erasure: shown}, err // a repetition
		}
		return Decided{}, s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeInvalidTransition,
			"The erasure was confirmed or cancelled before, has expired, or has begun: read it again."))
	}
	if err != nil {
		return Decided{}, control.Translate(err)
	}
	shown, err := look(ctx, s.store, e, s.rights.Now())
	return Decided{shown, s.receipt(p, row)}, err
}

// checkPerson refuses services: an Admin makes their tokens and their rights, so the Admin could ask as one of them and
// confirm as another one.
func (s *ErasureDesk) checkPerson(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	if !authz.IsService(p.ID) {
		return nil
	}
	return s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeForbidden,
		"Two people decide about an erasure, and a service is none: use the account or the sign-in of a person."))
}

// find reads an erasure of the caller's tenant. NOT_FOUND, also for one of another tenant.
func (s *ErasureDesk) find(ctx context.Context, p authz.Principal, id string) (store.Erasure, error) {
	found, err := s.store.Erasures(ctx, store.ErasureFilter{TenantID: p.TenantID, IDs: []string{id}, Limit: 1})
	switch {
	case err != nil:
		return store.Erasure{}, control.Translate(err)
	case len(found) == 0:
		return store.Erasure{}, control.Refuse(run.CodeNotFound, "There is no such erasure.")
	}
	return found[0], nil
}

// Erasures lists the erasures of the caller's tenant, the newest first. Errors: FORBIDDEN without READ_AUDIT on the
// whole tenant, BAD_USER_INPUT, CURSOR_INVALID, UNAVAILABLE.
func (s *ErasureDesk) Erasures(ctx context.Context, p authz.Principal, first int, after string) (Page, error) {
	n, err := control.PageSize(first, 20)
	if err != nil {
		return Page{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return Page{}, err
	}
	f := store.ErasureFilter{TenantID: p.TenantID, Limit: n + 1}
	if after != "" {
		if f.Before, err = strconv.ParseInt(after, 10, 64); err != nil || f.Before < 1 {
			return Page{}, control.CursorInvalid()
		}
	}
	found, err := s.store.Erasures(ctx, f)
	if err != nil {
		return Page{}, control.Translate(err)
	}
	out := Page{HasNext: len(found) > n}
	for _, e := range found[:min(n, len(found))] {
		shown, err := look(ctx, s.store, e, s.rights.Now())
		if err != nil {
			return Page{}, err
		}
		out.Erasures = append(out.Erasures, shown)
	}
	return out, nil
}

// stamp completes an audit row. It names the erasure, not the person who is to be erased.
func (s *ErasureDesk) stamp(p authz.Principal, row *store.AuditRow, id string, kind store.ErasureKind) {
	detail, _ := json.Marshal(map[string]string{"erasure": id, "kind": string(kind)}) // strings have a JSON form
	s.rights.Stamp(p, row, "ACCEPTED", string(detail))
}

func (s *ErasureDesk) receipt(p authz.Principal, row store.AuditRow) control.Change {
	return control.Change{Action: row.Action, RequestID: row.RequestID, Actor: p.ID, At: s.rights.Now()}
}
