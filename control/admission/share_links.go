package admission

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// ActionSetShareLinks is the action in audit rows about the setting of share links. It needs the right SET_POLICY,
// because it decides what people without an account see.
const ActionSetShareLinks = "SET_SHARE_LINKS"

// MaxShareHours is the longest life of a share link, in hours.
const MaxShareHours = 7 * 24

// ShareRule is the setting of a tenant for share links. The zero value forbids them.
type ShareRule struct {
	Hours   int   // the life of a new link; 0 forbids all links
	Version int64 // of the setting; links of an earlier version show nothing
}

// shareDocument is the JSON document of the setting of share links.
type shareDocument struct {
	Hours int `json:"hours"`
}

// SetShareLinks asks to permit links that show the status of a run without sign-in, for Hours after they were made.
// Hours 0 forbids them.
type SetShareLinks struct {
	RequestID string
	Hours     int
	Reason    string
}

// SetShareLinks changes the setting of the caller's tenant, with the guarantees of SetEngineMode. Every change revokes
// all links that were made before. Errors: FORBIDDEN without SET_POLICY on the whole tenant, BAD_USER_INPUT,
// REQUEST_ID_CONFLICT, UNAVAILABLE.
func (s *ModeEditor) SetShareLinks(ctx context.Context, p authz.Principal, in SetShareLinks) (ModeChange, error) {
	row := store.AuditRow{Action: string(authz.SetPolicy), Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.rights.MayOperate(ctx, p, row); err != nil {
		return ModeChange{}, err
	}
	row.Action = ActionSetShareLinks
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.Hours < 0 || in.Hours > MaxShareHours {
		vs = append(vs, plan.Violation{Path: "hours", Code: plan.CodeRange,
			Message: fmt.Sprintf("must be 0 to %d", MaxShareHours)})
	}
	if len(vs) > 0 {
		return ModeChange{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	// With the same hours as before the change only revokes the links, which the audit must be able to say.
	row.Detail = json.RawMessage(fmt.Sprintf(`{"hours":%d,"hoursBefore":%d}`, in.Hours,
		s.modes.ShareRule(p.TenantID).Hours))
	made, err := s.putSetting(ctx, p, store.StoredSetting{
		Kind: store.SettingShare, TenantID: p.TenantID, RequestID: in.RequestID, Reason: in.Reason,
	}, shareDocument{in.Hours}, row)
	if err != nil {
		return ModeChange{}, err
	}
	return s.changed(ctx, p, row.Action, made)
}

// ShareRule returns the setting of a tenant. It does no I/O.
func (s *Modes) ShareRule(tenantID string) ShareRule { return s.State.Current().share[tenantID] }

// shareRuleOf decodes a setting. Links are off while it cannot be read.
func shareRuleOf(st store.StoredSetting) (ShareRule, error) {
	var doc shareDocument
	err := json.Unmarshal(st.Doc, &doc)
	if err != nil || doc.Hours < 0 || doc.Hours > MaxShareHours {
		doc.Hours = 0
	}
	return ShareRule{Hours: doc.Hours, Version: st.Version}, err
}
