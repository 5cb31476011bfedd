package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SettingStore reads and writes the versions of settings.
type SettingStore interface {
	PutSetting(ctx context.Context, s store.StoredSetting, audit store.AuditRow) (store.StoredSetting, error)
	SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
		limit int) ([]store.StoredSetting, error)
	Usage(ctx context.Context, tenantID string) (store.Usage, error)
}

// QuotaEditor reads and changes the quota settings of tenants. It is safe for concurrent use.
type QuotaEditor struct {
	rights     *control.Rights
	store      SettingStore
	allowances *Allowances
	loader     *access.Loader
}

// NewQuotaEditor makes a QuotaEditor.
func NewQuotaEditor(rights *control.Rights, store SettingStore, allowances *Allowances,
	loader *access.Loader) *QuotaEditor {
	return &QuotaEditor{rights: rights, store: store, allowances: allowances, loader: loader}
}

// QuotaSettings is one version of the quota settings of the caller's tenant.
type QuotaSettings struct {
	Version   int64  // 0: the tenant set nothing, its tier applies
	Tier      string // the current tier
	Document  QuotaDocument
	Actor     string
	Reason    string
	RequestID string
	At        time.Time // zero for version 0
	// Most are the limits of the tier; nil in an installation without quotas.
	Most *QuotaLimits
	// Changed lists what this version changed, in words; QuotaHistory and SetQuota fill it in.
	Changed []string
	// Warnings name limits below what is in use; only SetQuota fills it in.
	Warnings []string
}

// SetQuota asks to replace the whole settings.
type SetQuota struct {
	RequestID       string
	ExpectedVersion int64 // the version that Document was made from
	Document        QuotaDocument
	Reason          string
}

// QuotaHistoryPage is a page of versions, newest first.
type QuotaHistoryPage struct {
	Settings []QuotaSettings
	HasNext  bool
}

// QuotaSettings reads the newest version. Error: FORBIDDEN without READ_POLICY on the whole tenant.
func (s *QuotaEditor) QuotaSettings(ctx context.Context, p authz.Principal) (QuotaSettings, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return QuotaSettings{}, err
	}
	return s.newestQuota(ctx, p.TenantID)
}

func (s *QuotaEditor) newestQuota(ctx context.Context, tenantID string) (QuotaSettings, error) {
	rows, err := s.store.SettingHistory(ctx, store.SettingQuota, tenantID, 0, 1)
	if err != nil {
		return QuotaSettings{}, control.Translate(err)
	}
	if len(rows) == 0 {
		return QuotaSettings{Tier: s.allowances.tierOf(tenantID), Most: s.allowances.most(tenantID)}, nil
	}
	return s.quotaVersion(rows[0])
}

func (s *QuotaEditor) quotaVersion(v store.StoredSetting) (QuotaSettings, error) {
	out := QuotaSettings{Version: v.Version, Tier: s.allowances.tierOf(v.TenantID), Actor: v.Actor, Reason: v.Reason,
		RequestID: v.RequestID, At: v.At, Most: s.allowances.most(v.TenantID)}
	if err := json.Unmarshal(v.Doc, &out.Document); err != nil {
		return out, control.Translate(fmt.Errorf("control: quotas %d of %s: %w", v.Version, v.TenantID, err))
	}
	return out, nil
}

// QuotaHistory reads the versions below before, or from the newest when before is 0, newest first. Errors: FORBIDDEN,
// BAD_USER_INPUT.
func (s *QuotaEditor) QuotaHistory(ctx context.Context, p authz.Principal, first int, before int64) (QuotaHistoryPage,
	error) {
	n, err := control.PageSize(first, 20)
	if err != nil {
		return QuotaHistoryPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return QuotaHistoryPage{}, err
	}
	rows, err := s.store.SettingHistory(ctx, store.SettingQuota, p.TenantID, before, n+1)
	if err != nil {
		return QuotaHistoryPage{}, control.Translate(err)
	}
	all, _, err := control.PageOf(rows, len(rows), s.quotaVersion)
	if err != nil {
		return QuotaHistoryPage{}, err
	}
	page, last := all[:min(n, len(all))], (*QuotaSettings)(nil)
	if len(all) > n {
		last = &all[n]
	}
	s.allowances.describeChanges(p.TenantID, page, last)
	return QuotaHistoryPage{Settings: page, HasNext: len(all) > n}, nil
}

// SetQuota puts new settings in force: in this process before it returns, everywhere within 2 s. It is safe to repeat.
// Errors: FORBIDDEN; QUOTA_MOVED when the settings are not at ExpectedVersion; REQUEST_ID_CONFLICT when the request id
// made another change; BAD_USER_INPUT with all violations, for example of limits above the tenant's tier; UNAVAILABLE
// when the settings are stored but not in force here yet. Accepted and refused changes are audited.
func (s *QuotaEditor) SetQuota(ctx context.Context, p authz.Principal, in SetQuota) (QuotaSettings, error) {
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.ExpectedVersion < 0 {
		vs = append(vs, plan.Violation{Path: "expectedVersion", Code: "RANGE", Message: "must not be below 0"})
	}
	row := store.AuditRow{Action: string(authz.SetQuota), Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.rights.MayOperate(ctx, p, row); err != nil {
		return QuotaSettings{}, err
	}
	if vs = append(vs, s.allowances.checkDocument(p.TenantID, in.Document)...); len(vs) > 0 {
		return QuotaSettings{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	effect, err := s.effectSince(ctx, p.TenantID, in)
	if err != nil {
		return QuotaSettings{}, control.Translate(err)
	}
	out, err := s.putQuota(ctx, p, in, row, effect.Changed)
	out.Changed, out.Warnings = effect.Changed, effect.Warnings
	if own, ok := control.IsStale(err, run.CodeQuotaMoved); ok {
		return QuotaSettings{}, s.rights.AuditRefused(ctx, p, row, own)
	}
	return out, err
}

// effectSince compares the document of in with the version that it was made from. It returns nothing for a version that
// does not exist, which the store refuses.
func (s *QuotaEditor) effectSince(ctx context.Context, tenantID string, in SetQuota) (QuotaEffect, error) {
	var before QuotaSettings
	if in.ExpectedVersion > 0 {
		rows, err := s.store.SettingHistory(ctx, store.SettingQuota, tenantID, in.ExpectedVersion+1, 1)
		if err != nil || len(rows) == 0 || rows[0].Version != in.ExpectedVersion {
			return QuotaEffect{}, err
		}
		if before, err = s.quotaVersion(rows[0]); err != nil {
			return QuotaEffect{}, err
		}
	}
	return s.effectOf(ctx, tenantID, before.Document, in.Document)
}

// putQuota writes the next version and puts it in force in this process.
func (s *QuotaEditor) putQuota(ctx context.Context, p authz.Principal, in SetQuota, row store.AuditRow,
	changed []string) (QuotaSettings, error) {
	doc, err := json.Marshal(in.Document)
	if err != nil {
		return QuotaSettings{}, control.Translate(err)
	}
	version := in.ExpectedVersion + 1
	detail, err := json.Marshal(quotaDetail{s.rights.Authz.PolicyVersion(p.TenantID), version, control.ClipLines(changed)})
	if err != nil {
		return QuotaSettings{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	out, repeated, err := s.repeatedQuota(ctx, p, in, 0, control.ReuseHistory)
	if err != nil {
		return QuotaSettings{}, err
	}
	if repeated {
		return out, s.loader.InForce(ctx)
	}
	stored, err := s.store.PutSetting(ctx, store.StoredSetting{
		Kind: store.SettingQuota, TenantID: p.TenantID, Version: version, Doc: doc, Actor: p.ID, Reason: in.Reason,
		RequestID: in.RequestID,
	}, row)
	switch {
	case errors.Is(err, store.ErrConflict):
		if out, repeated, err = s.repeatedQuota(ctx, p, in, version+1, 1); err == nil && !repeated {
			err = s.quotaMoved(ctx, p.TenantID, in.ExpectedVersion)
		}
	case err == nil:
		out, err = s.quotaVersion(stored)
	}
	if err != nil {
		return QuotaSettings{}, control.Translate(err)
	}
	return out, s.loader.InForce(ctx)
}

// quotaDetail is the detail of an accepted change in the audit.
type quotaDetail struct {
	PolicyVersion int64    `json:"policyVersion"`
	QuotaVersion  int64    `json:"quotaVersion"`
	Changed       []string `json:"changed,omitempty"`
}

// repeatedQuota returns the version that an earlier identical request wrote, and false without one among the newest
// limit versions below before. Error: REQUEST_ID_CONFLICT, as control.CheckReuse.
func (s *QuotaEditor) repeatedQuota(ctx context.Context, p authz.Principal, in SetQuota, before int64,
	limit int) (QuotaSettings, bool, error) {
	rows, err := s.store.SettingHistory(ctx, store.SettingQuota, p.TenantID, before, limit)
	if err != nil {
		return QuotaSettings{}, false, control.Translate(err)
	}
	for _, row := range rows {
		if row.RequestID != in.RequestID || row.Actor != p.ID {
			continue
		}
		out, err := s.quotaVersion(row)
		if err != nil {
			return QuotaSettings{}, false, err
		}
		return out, true, control.CheckReuse(control.DocumentVersion{Version: out.Version, Document: out.Document},
			control.DocumentVersion{Version: in.ExpectedVersion + 1, Document: in.Document})
	}
	return QuotaSettings{}, false, nil
}

// quotaMoved returns QUOTA_MOVED with the newest version.
func (s *QuotaEditor) quotaMoved(ctx context.Context, tenantID string, expected int64) error {
	newest, err := s.newestQuota(ctx, tenantID)
	if err != nil {
		return err
	}
	e := control.Refuse(run.CodeQuotaMoved, "The settings are at version %d, not %d. Look at them and decide again.",
		newest.Version, expected)
	e.QuotaVersion = newest.Version
	return e
}
