package store

import (
	"context"
	"encoding/json"
	"time"
)

// SettingKind is a kind of setting that people change while dvt runs.
type SettingKind string

// Kinds of settings.
const (
	SettingQuota  SettingKind = "QUOTA"  // of a tenant
	SettingFreeze SettingKind = "FREEZE" // of a tenant
	SettingMode   SettingKind = "MODE"   // of the installation: its tenant is ""
	SettingShare  SettingKind = "SHARE"  // of a tenant

	SettingRecovery  SettingKind = "RECOVERY"  // of a tenant
	SettingRetention SettingKind = "RETENTION" // of a tenant
)

// Settings stores settings as insert-only versions. Every change increases Authority.AuthorityVersion, and
// Authority.Authority includes the newest version of each setting.
type Settings interface {
	// PutSetting inserts version s.Version of a setting, and the audit row in the same transaction. The store sets s.At.
	// It is a compare-and-set like Policies.PutPolicy: ErrConflict unless the newest version is s.Version - 1.
	PutSetting(ctx context.Context, s StoredSetting, audit AuditRow) (StoredSetting, error)
	// SettingHistory lists versions of a setting that are below before (0: all), the newest first, at most limit (≤
	// MaxPage).
	SettingHistory(ctx context.Context, kind SettingKind, tenantID string, before int64, limit int) ([]StoredSetting,
		error)
}

// StoredSetting is one version of a setting.
type StoredSetting struct {
	Kind      SettingKind
	TenantID  string
	Version   int64 // from 1
	Doc       json.RawMessage
	Actor     string
	Reason    string
	RequestID string
	At        time.Time
}
