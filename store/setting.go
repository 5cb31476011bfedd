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
)

// Settings keeps documents as insert-only versions. A change moves the number that
// Authority.AuthorityVersion reads, and the newest version of each is part of
// what Authority.Authority reads.
type Settings interface {
	// PutSetting adds the version s.Version, with the audit row in the same
	// transaction; s.At is set by the store. It is compare-and-set as Policies.PutPolicy.
	PutSetting(ctx context.Context, s StoredSetting, audit AuditRow) (StoredSetting, error)
	// SettingHistory lists versions below before (0: from the newest), newest first, at most limit.
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
