package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Actions in audit rows about holds. They need the right READ_AUDIT: people who may read evidence may keep it.
const (
	ActionPlaceHold = "PLACE_HOLD"
	ActionLiftHold  = "LIFT_HOLD"
)

type (
	// Hold is a legal hold, for callers that do not know the store.
	Hold = store.Hold
	// HoldKind says what a hold covers.
	HoldKind = store.HoldKind
	// ArchivedRun says where the log of a run is kept.
	ArchivedRun = store.ArchivedRun
	// Estimate is what archiving would move.
	Estimate = store.RetentionEstimate
)

// HoldKeeper places, lifts and lists legal holds. It is safe for concurrent use.
type HoldKeeper struct {
	rights *control.Rights
	store  HoldStore
}

// HoldStore keeps holds, and knows the runs.
type HoldStore interface {
	store.Holds
	Get(ctx context.Context, runID string) (store.Run, error)
}

// NewHoldKeeper makes a HoldKeeper.
func NewHoldKeeper(rights *control.Rights, s HoldStore) *HoldKeeper {
	return &HoldKeeper{rights: rights, store: s}
}

// PlaceHold asks for a hold.
type PlaceHold struct {
	RequestID string
	Kind      store.HoldKind
	Subject   string
	Reason    string
}

// LiftHold asks to lift a hold.
type LiftHold struct {
	RequestID string
	ID        string
	Reason    string
}

// HoldPage is a page of holds, newest first.
type HoldPage struct {
	Holds   []store.Hold
	HasNext bool
}

// holdSpace is the name space of the ids of holds.
var holdSpace = uuid.NewSHA1(uuid.NameSpaceOID, []byte("dvt/hold")) //nolint:gochecknoglobals // a constant

func (s *HoldKeeper) mayHold(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	return s.rights.MayOperateAs(ctx, p, authz.ReadAudit, row,
		authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"})
}

// PlaceHold places a hold in the caller's tenant. It is safe to repeat. A plan or a person need not exist, because the
// hold also covers runs that come later. A run must exist: a hold on a misspelt id would keep nothing, and nobody would
// know. Errors: FORBIDDEN without READ_AUDIT on the whole tenant, BAD_USER_INPUT, NOT_FOUND, REQUEST_ID_CONFLICT.
func (s *HoldKeeper) PlaceHold(ctx context.Context, p authz.Principal, in PlaceHold) (store.Hold, error) {
	row := store.AuditRow{Action: ActionPlaceHold, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.mayHold(ctx, p, row); err != nil {
		return store.Hold{}, err
	}
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	vs = control.CheckText(vs, "subject", in.Subject)
	if in.Subject == "" || len(in.Subject) > 256 || strings.ContainsAny(in.Subject, "\r\n\t") {
		vs = append(vs, plan.Violation{Path: "subject", Code: "INVALID", Message: "must be one line of 1 to 256 bytes"})
	}
	if in.Kind != store.HoldRun && in.Kind != store.HoldPlan && in.Kind != store.HoldSubject {
		vs = append(vs, plan.Violation{Path: "kind", Code: "UNKNOWN", Message: "must be RUN, PLAN or SUBJECT"})
	}
	if len(vs) > 0 {
		return store.Hold{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	if in.Kind == store.HoldRun {
		switch r, err := s.store.Get(ctx, in.Subject); {
		case errors.Is(err, store.ErrNotFound) || err == nil && r.TenantID != p.TenantID:
			return store.Hold{}, s.rights.AuditRefused(ctx, p, row, control.Refuse(run.CodeNotFound,
				"There is no such run, or it is not yours. A hold on it would keep nothing: check the id."))
		case err != nil:
			return store.Hold{}, control.Translate(err)
		}
	}
	detail, err := json.Marshal(map[string]any{"kind": in.Kind, "subject": in.Subject})
	if err != nil {
		return store.Hold{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	out, placed, err := s.store.PlaceHold(ctx, store.Hold{
		ID:       uuid.NewSHA1(holdSpace, fmt.Appendf(nil, "%s\n%s\n%s", p.TenantID, p.ID, in.RequestID)).String(),
		TenantID: p.TenantID, Kind: in.Kind, Subject: in.Subject, Reason: in.Reason, PlacedBy: p.ID,
	}, row)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return store.Hold{}, control.Refuse(run.CodeTooManyHolds,
			"The tenant has %d open holds, the most it may have. Lift some of them first.", store.MaxOpenHolds)
	case err != nil:
		return store.Hold{}, control.Translate(err)
	case !placed && (out.Kind != in.Kind || out.Subject != in.Subject):
		return store.Hold{}, control.Refuse(run.CodeRequestConflict,
			"An earlier request with this id placed another hold. Use a new request id.")
	}
	return out, nil
}

// LiftHold lifts a hold. The next pass archives and deletes the runs that it covered, if they are old enough. It is
// safe to repeat. Errors: FORBIDDEN without READ_AUDIT on the whole tenant, NOT_FOUND, BAD_USER_INPUT.
func (s *HoldKeeper) LiftHold(ctx context.Context, p authz.Principal, in LiftHold) (store.Hold, error) {
	row := store.AuditRow{Action: ActionLiftHold, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.mayHold(ctx, p, row); err != nil {
		return store.Hold{}, err
	}
	vs := control.CheckID(control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason), "id", in.ID)
	if len(vs) > 0 {
		return store.Hold{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	detail, err := json.Marshal(map[string]any{"holdId": in.ID})
	if err != nil {
		return store.Hold{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	out, _, err := s.store.LiftHold(ctx, p.TenantID, in.ID, p.ID, in.Reason, row)
	if errors.Is(err, store.ErrNotFound) {
		return out, control.Refuse(run.CodeNotFound, "Your tenant has no such hold; dvt hold list --all lists them.")
	}
	return out, control.Translate(err)
}

// RunArchive returns where the log of a run is kept, or nil while it is in the store. The caller has checked that the
// principal may see the run.
func (s *ArchiveReader) RunArchive(ctx context.Context, runID string) (*store.ArchivedRun, error) {
	found, err := s.store.FindArchived(ctx, runID)
	if err != nil || len(found) == 0 {
		return nil, control.Translate(err)
	}
	return &found[0], nil
}

// ArchiveReader says which runs are archived. It is safe for concurrent use.
type ArchiveReader struct{ store ArchiveFinder }

// ArchiveFinder finds archived runs.
type ArchiveFinder interface {
	FindArchived(ctx context.Context, runIDs ...string) ([]store.ArchivedRun, error)
}

// NewArchiveReader makes an ArchiveReader.
func NewArchiveReader(s ArchiveFinder) *ArchiveReader { return &ArchiveReader{store: s} }

// Holds lists the holds of the caller's tenant, newest first. Errors: FORBIDDEN without READ_AUDIT on the whole tenant,
// BAD_USER_INPUT.
func (s *HoldKeeper) Holds(ctx context.Context, p authz.Principal, open bool, first int, before string) (HoldPage,
	error) {
	n, err := control.PageSize(first, 50)
	if err != nil {
		return HoldPage{}, err
	}
	if err := s.mayHold(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return HoldPage{}, err
	}
	rows, err := s.store.ListHolds(ctx, store.HoldFilter{TenantID: p.TenantID, Open: open, Before: before, Limit: n + 1})
	if err != nil {
		return HoldPage{}, control.Translate(err)
	}
	return HoldPage{Holds: rows[:min(n, len(rows))], HasNext: len(rows) > n}, nil
}
