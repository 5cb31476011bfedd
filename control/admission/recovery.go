package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// ActionSetRecovery is the action in audit rows about the recovery of a tenant. It needs the right SET_POLICY, because
// it decides what dvt does with runs by itself.
const ActionSetRecovery = "SET_RECOVERY"

// RecoveryMode says what dvt does about runs that hang.
type RecoveryMode string

// Recovery modes. Each does more than the one before.
const (
	RecoveryOff     RecoveryMode = "OFF"     // looks for nothing
	RecoveryObserve RecoveryMode = "OBSERVE" // raises alerts that say what ACT would do
	// RecoveryAct retries an attempt that hung once, and ends the run when it hangs again.
	RecoveryAct RecoveryMode = "ACT"
)

// RecoveryModes returns all modes, the one that does least first.
func RecoveryModes() []RecoveryMode { return []RecoveryMode{RecoveryOff, RecoveryObserve, RecoveryAct} }

// rank is the position of a mode in RecoveryModes; that of an unknown one is -1.
func (m RecoveryMode) rank() int { return slices.Index(RecoveryModes(), m) }

// recoveryDocument is the JSON document of the setting. An empty mode is that of the installation.
type recoveryDocument struct {
	Mode RecoveryMode `json:"mode"`
}

// SetRecovery asks to lower the recovery of the caller's tenant. With an empty Mode the tenant has that of the
// installation again.
type SetRecovery struct {
	RequestID string
	Mode      RecoveryMode
	Reason    string
}

// SetRecovery changes the setting of the caller's tenant, with the guarantees of SetEngineMode. A tenant can only
// lower what the installation permits: a higher mode is stored and has no effect until the installation permits it.
// Errors: FORBIDDEN without SET_POLICY on the whole tenant, BAD_USER_INPUT, REQUEST_ID_CONFLICT, UNAVAILABLE.
func (s *ModeEditor) SetRecovery(ctx context.Context, p authz.Principal, in SetRecovery) (ModeChange, error) {
	row := store.AuditRow{Action: string(authz.SetPolicy), Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.rights.MayOperate(ctx, p, row); err != nil {
		return ModeChange{}, err
	}
	row.Action = ActionSetRecovery
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.Mode != "" && in.Mode.rank() < 0 {
		vs = append(vs, plan.Violation{Path: "mode", Code: "UNKNOWN", Message: "there is no such mode"})
	}
	if len(vs) > 0 {
		return ModeChange{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	row.Detail = json.RawMessage(fmt.Sprintf(`{"mode":%q}`, in.Mode))
	made, err := s.putSetting(ctx, p, store.StoredSetting{
		Kind: store.SettingRecovery, TenantID: p.TenantID, RequestID: in.RequestID, Reason: in.Reason,
	}, recoveryDocument{in.Mode}, row)
	if err != nil {
		return ModeChange{}, err
	}
	return s.changed(ctx, p, row.Action, made)
}

// Recovery returns the mode of a tenant: the lower one of the installation's and its own. It does no I/O.
func (s *Modes) Recovery(tenantID string) RecoveryMode {
	all := s.Installed
	if all == "" {
		all = RecoveryOff
	}
	if own := s.State.Current().recovery[tenantID]; own != "" && own.rank() < all.rank() {
		return own
	}
	return all
}

// recoveryOf decodes a setting. Recovery is off while it cannot be read.
func recoveryOf(st store.StoredSetting) (RecoveryMode, error) {
	var doc recoveryDocument
	err := json.Unmarshal(st.Doc, &doc)
	if err == nil && doc.Mode != "" && doc.Mode.rank() < 0 {
		err = fmt.Errorf("control: unknown recovery mode %q", doc.Mode)
	}
	if err != nil {
		return RecoveryOff, err
	}
	return doc.Mode, nil
}
