package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/store"
)

// PutSetting implements store.Settings.
func (s *Store) PutSetting(context.Context, store.StoredSetting, store.AuditRow) (store.StoredSetting, error) {
	return store.StoredSetting{}, errNotYet
}

// SettingHistory implements store.Settings.
func (s *Store) SettingHistory(context.Context, store.SettingKind, string, int64, int) ([]store.StoredSetting, error) {
	return nil, nil
}
