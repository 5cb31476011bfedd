package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ModeStore reads and writes the settings of the installation.
type ModeStore interface {
	PutSetting(ctx context.Context, s store.StoredSetting, audit store.AuditRow) (store.StoredSetting, error)
	SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
		limit int) ([]store.StoredSetting, error)
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
	ActiveRuns(ctx context.Context) (int64, error)
}

// ModeEditor reads and sets the mode of dvt and the freezes of tenants. It is safe for concurrent use.
type ModeEditor struct {
	rights *control.Rights
	store  ModeStore
	modes  *Modes
	loader *access.Loader
}

// NewModeEditor makes a ModeEditor.
func NewModeEditor(rights *control.Rights, store ModeStore, modes *Modes, loader *access.Loader) *ModeEditor {
	return &ModeEditor{rights: rights, store: store, modes: modes, loader: loader}
}

// SetEngineMode asks to set the mode of the whole installation.
type SetEngineMode struct {
	RequestID string
	Mode      EngineMode
	Reason    string
}

// ModeChange is the state of the service after a change, with the receipt of the change.
type ModeChange struct {
	ServiceState
	Change control.Change
}

// FreezeTenant asks to freeze a tenant or to lift its freeze. A TenantID of "" means the caller's tenant.
type FreezeTenant struct {
	RequestID string
	TenantID  string
	Frozen    bool
	Reason    string
}

const (
	settingTries   = 5   // tries when others change the setting at the same time
	settingHistory = 100 // newest changes that are searched for a repeated request
)

// SetEngineMode puts a mode in force: in this process before it returns, everywhere within 2 s. Only principals of the
// operators' tenant with the action SET_ENGINE_MODE may call it. It is safe to repeat: a request that was carried out
// before changes nothing, even if the mode was set again since. Errors: FORBIDDEN, BAD_USER_INPUT, REQUEST_ID_CONFLICT,
// UNAVAILABLE. Accepted and refused changes are audited.
func (s *ModeEditor) SetEngineMode(ctx context.Context, p authz.Principal, in SetEngineMode) (ModeChange, error) {
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if !in.Mode.known() {
		vs = append(vs, plan.Violation{Path: "mode", Code: "UNKNOWN", Message: "there is no such mode"})
	}
	row := store.AuditRow{Action: string(authz.SetEngineMode), Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.rights.CheckMaySetMode(ctx, p, row, "change the mode"); err != nil {
		return ModeChange{}, err
	}
	if len(vs) > 0 {
		return ModeChange{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	row.Detail = json.RawMessage(fmt.Sprintf(`{"mode":%q}`, in.Mode))
	made, err := s.putSetting(ctx, p, store.StoredSetting{Kind: store.SettingMode, RequestID: in.RequestID,
		Reason: in.Reason}, modeDocument{in.Mode}, row)
	if err != nil {
		return ModeChange{}, err
	}
	return s.changed(ctx, p, row.Action, made)
}

// FreezeTenant freezes a tenant or lifts its freeze, with the guarantees of SetEngineMode. The caller's own tenant
// needs the action FREEZE_TENANT; another tenant needs SET_ENGINE_MODE of the operators. Errors: those of
// SetEngineMode, and NOT_FOUND for an unknown tenant. A change of another tenant is in the audit of both.
func (s *ModeEditor) FreezeTenant(ctx context.Context, p authz.Principal, in FreezeTenant) (ModeChange, error) {
	row := store.AuditRow{Action: string(authz.FreezeTenant), Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if in.TenantID == "" {
		in.TenantID = p.TenantID
	}
	another := in.TenantID != p.TenantID
	var err error
	if another {
		err = s.rights.CheckMaySetMode(ctx, p, row, "freeze another tenant")
	} else {
		err = s.rights.MayOperate(ctx, p, row)
	}
	if err != nil {
		return ModeChange{}, err
	}
	if vs := control.CheckReason(control.CheckID(control.CheckID(nil, "requestId", in.RequestID), "tenantId",
		in.TenantID),
		in.Reason); len(vs) > 0 {
		return ModeChange{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	if another {
		if err := s.checkTenantKnown(ctx, in.TenantID); err != nil {
			if own := (*control.Error)(nil); errors.As(err, &own) && own.Code == run.CodeNotFound {
				return ModeChange{}, s.rights.AuditRefused(ctx, p, row, own)
			}
			return ModeChange{}, err
		}
	}
	row.Detail = json.RawMessage(fmt.Sprintf(`{"tenantId":%q,"frozen":%t}`, in.TenantID, in.Frozen))
	made, err := s.putSetting(ctx, p, store.StoredSetting{
		Kind: store.SettingFreeze, TenantID: in.TenantID, RequestID: in.RequestID, Reason: in.Reason,
	}, freezeDocument{in.Frozen}, row)
	if made.Version > 0 && another {
		err = errors.Join(err, s.notifyFrozen(ctx, made, row))
	}
	if err != nil {
		return ModeChange{}, control.Translate(err)
	}
	return s.changed(ctx, p, row.Action, made)
}

// changed returns the state after a version of a setting was written.
func (s *ModeEditor) changed(ctx context.Context, p authz.Principal, action string,
	made store.StoredSetting) (ModeChange, error) {
	state, err := s.ServiceState(ctx, p)
	return ModeChange{ServiceState: state, Change: control.Change{Action: action, RequestID: made.RequestID,
		Actor: made.Actor, At: made.At, Version: made.Version}}, err
}

// checkTenantKnown returns NOT_FOUND for a tenant without accounts, policy, tokens and runs.
func (s *ModeEditor) checkTenantKnown(ctx context.Context, tenantID string) error {
	if s.rights.Authz.KnowsTenant(tenantID) {
		return nil
	}
	rows, err := s.store.List(ctx, store.RunFilter{TenantID: tenantID, Limit: 1})
	if err != nil {
		return control.Translate(err)
	}
	if len(rows) == 0 {
		return control.Refuse(run.CodeNotFound, "There is no such tenant.")
	}
	return nil
}

// notifyFrozen writes an audit row for the tenant that operators of another tenant froze or unfroze. A repetition
// writes the same row.
func (s *ModeEditor) notifyFrozen(ctx context.Context, made store.StoredSetting, row store.AuditRow) error {
	row.ID = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt freeze|%s|%d", made.TenantID, made.Version)).String()
	row.TenantID, row.Actor, row.Outcome = made.TenantID, control.EngineActor, "ACCEPTED"
	row.Credential, row.Address, row.Via = "", "", "" // the other tenant must not see who the operator is
	return s.rights.Store.Audit(ctx, row)
}

// putSetting writes the next version of a setting, unless the same request did so before, and puts it in force in this
// process. It returns the version that the request made, also together with an error of putting it in force.
func (s *ModeEditor) putSetting(ctx context.Context, p authz.Principal, st store.StoredSetting, doc any,
	row store.AuditRow) (store.StoredSetting, error) {
	var err error
	if st.Doc, err = json.Marshal(doc); err != nil {
		return store.StoredSetting{}, control.Translate(err)
	}
	st.Actor = p.ID
	s.rights.Stamp(p, &row, "ACCEPTED", string(row.Detail))
	for range settingTries {
		newest, err := s.store.SettingHistory(ctx, st.Kind, st.TenantID, 0, settingHistory)
		if err != nil {
			return store.StoredSetting{}, control.Translate(err)
		}
		st.Version = 1
		for i, old := range newest {
			if i == 0 {
				st.Version = old.Version + 1
			}
			if old.RequestID == st.RequestID && old.Actor == st.Actor {
				if string(old.Doc) != string(st.Doc) {
					return store.StoredSetting{}, control.Refuse(run.CodeRequestConflict,
						"This requestId was used for another change.")
				}
				return old, s.loader.InForce(ctx)
			}
		}
		made, err := s.store.PutSetting(ctx, st, row)
		if err == nil {
			return made, s.loader.InForce(ctx)
		}
		if !errors.Is(err, store.ErrConflict) {
			return store.StoredSetting{}, control.Translate(err)
		}
	}
	e := control.Refuse(run.CodeUnavailable, "Others changed the setting during every try. Try again.")
	e.RetryAfter = time.Second
	return store.StoredSetting{}, e
}
