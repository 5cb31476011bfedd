package owner

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/store"
)

// People lists the people of a tenant whom rows name.
func (d *DB) People(ctx context.Context, tenantID string) ([]string, error) {
	const inRun = ` IN (SELECT run_id FROM run WHERE tenant_id = $1)`
	return d.texts(ctx, `SELECT owner FROM saved_view WHERE tenant_id = $1 UNION SELECT principal FROM api_token
		WHERE tenant_id = $1 UNION SELECT created_by FROM api_token WHERE tenant_id = $1 UNION SELECT actor FROM bulk
		WHERE tenant_id = $1 UNION SELECT triggered_by FROM run WHERE tenant_id = $1 UNION SELECT actor FROM policy
		WHERE tenant_id = $1 UNION SELECT actor FROM setting WHERE tenant_id = $1 UNION SELECT actor FROM alert
		WHERE tenant_id = $1 UNION SELECT placed_by FROM legal_hold WHERE tenant_id = $1 UNION SELECT actor FROM signal
		WHERE run_id`+inRun+` UNION SELECT principal FROM approval_decision WHERE run_id`+inRun+` UNION SELECT author
		FROM run_note WHERE run_id`+inRun+` ORDER BY 1`, tenantID)
}

// DestroyKeys destroys the keys with the lookups, and returns how many it destroyed.
func (d *DB) DestroyKeys(ctx context.Context, lookups []string) (n int64, err error) {
	for _, lookup := range lookups {
		result, err := d.db.ExecContext(ctx, d.q(`UPDATE subject_key SET wrapped = '', name = '', lookup = '',
			erased_at = {now} WHERE lookup = $1`), lookup)
		if err != nil {
			return n, fmt.Errorf("owner: %w", err)
		}
		changed, err := result.RowsAffected()
		if err != nil {
			return n, err
		}
		n += changed
	}
	return n, nil
}

// Keys lists the keys with the lookups.
func (d *DB) Keys(ctx context.Context, lookups []string) (out []store.SubjectKey, err error) {
	for _, lookup := range lookups {
		if out, err = d.appendKeys(ctx, out, lookup); err != nil {
			return nil, fmt.Errorf("owner: %w", err)
		}
	}
	return out, nil
}

func (d *DB) appendKeys(ctx context.Context, to []store.SubjectKey, lookup string) ([]store.SubjectKey, error) {
	rows, err := d.db.QueryContext(ctx, d.q(`SELECT id, tenant_id, name, wrapped FROM subject_key WHERE lookup = $1`),
		lookup)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		k := store.SubjectKey{Lookup: lookup}
		if err := rows.Scan(&k.ID, &k.TenantID, &k.Name, &k.Wrapped); err != nil {
			return nil, err
		}
		to = append(to, k)
	}
	return to, rows.Err()
}
