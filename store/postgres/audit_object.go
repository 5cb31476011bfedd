package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// madeSQL reads the digest of the first row that names the object in %s. The chain says which one is first: the owner
// of the database can date a row back, and cannot put one before an existing link.
const madeSQL = `coalesce((SELECT a.digest FROM audit a LEFT JOIN audit_link l ON l.id = a.id WHERE a.object = %s AND a.outcome = 'ACCEPTED'
	ORDER BY l.no NULLS LAST, a.at, a.id LIMIT 1), '')`

// AuditObjects implements store.Audits.
func (s *Store) AuditObjects(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	switch f.Kind {
	case store.AuditToken:
		return s.auditTokens(ctx, f)
	case store.AuditPolicy:
		return s.auditPolicies(ctx, f)
	case store.AuditSetting:
		return s.auditSettings(ctx, f)
	case store.AuditDecision:
		return s.auditDecisions(ctx, f)
	case store.AuditRun:
		return s.auditRuns(ctx, f)
	case store.AuditSignal:
		return s.auditSignals(ctx, f)
	}
	return nil, fmt.Errorf("postgres: audit objects: no kind %q", f.Kind)
}

// after is the number in a cursor; "" is 0.
func after(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	return strconv.ParseInt(cursor, 10, 64)
}

func (s *Store) auditTokens(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	pos, err := after(f.After)
	if err != nil {
		return nil, err
	}
	var o store.AuditObject
	return collect(ctx, s, "audit tokens", func(row pgx.CollectableRow) (store.AuditObject, error) {
		o = store.AuditObject{}
		t, err := scanToken(withTargets{row, []any{&o.Cursor, &o.Made, &o.Revocation}})
		made := store.MadeToken(store.AuditRow{}, t)
		o.TenantID, o.Object, o.Digest, o.Revoked = t.TenantID, made.Object, made.Digest, t.RevokedAt != nil
		return o, err
	}, `SELECT `+tokenColumns+`, pos::text, `+fmt.Sprintf(madeSQL, `'token/' || t.id`)+`,
		EXISTS (SELECT FROM audit a WHERE a.object = 'revocation/' || t.id AND a.outcome = 'ACCEPTED')
		FROM api_token t WHERE tenant_id = $1 AND pos > $2 ORDER BY pos LIMIT $3`, f.TenantID, pos, pageSize(f.Limit))
}

func (s *Store) auditPolicies(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	version, err := after(f.After)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, "audit policies", func(row pgx.CollectableRow) (o store.AuditObject, err error) {
		p, err := scanPolicy(withTargets{row, []any{&o.Made}})
		made := store.MadePolicy(store.AuditRow{}, p)
		o.TenantID, o.Object, o.Digest, o.Cursor = p.TenantID, made.Object, made.Digest, strconv.FormatInt(p.Version, 10)
		return o, err
	}, `SELECT `+policyColumns+`, `+fmt.Sprintf(madeSQL, `'policy/' || p.version AND a.tenant_id = p.tenant_id`)+`
		FROM policy p WHERE tenant_id = $1 AND version > $2 ORDER BY version LIMIT $3`, f.TenantID, version,
		pageSize(f.Limit))
}

func (s *Store) auditSettings(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	kind, number, _ := strings.Cut(f.After, "/")
	version, err := after(number)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, "audit settings", func(row pgx.CollectableRow) (o store.AuditObject, err error) {
		v, err := scanSetting(withTargets{row, []any{&o.Made}})
		made := store.MadeSetting(store.AuditRow{}, v)
		o.TenantID, o.Object, o.Digest, o.Cursor = v.TenantID, made.Object, made.Digest,
			fmt.Sprintf("%s/%d", v.Kind, v.Version)
		return o, err
	}, `SELECT `+settingColumns+`, `+fmt.Sprintf(madeSQL,
		`'setting/' || s.kind || '/' || s.tenant_id || '/' || s.version`)+`
		FROM setting s WHERE tenant_id = $1 AND (kind, version) > ($2, $3) ORDER BY kind, version LIMIT $4`, f.TenantID, kind,
		version, pageSize(f.Limit))
}

func (s *Store) auditDecisions(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	pos, err := after(f.After)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, "audit decisions", func(row pgx.CollectableRow) (o store.AuditObject, err error) {
		var runID string
		var d store.ApprovalDecision
		err = row.Scan(&o.Cursor, &o.TenantID, &runID, &d.Principal, &d.Approved, &d.Reason, &d.RequestID, &o.Made)
		made := store.MadeDecision(store.AuditRow{}, runID, d)
		o.Object, o.Digest = made.Object, made.Digest
		return o, err
	}, `SELECT d.pos::text, r.tenant_id, d.run_id, d.principal, d.approved, d.reason, d.request_id,
		`+fmt.Sprintf(madeSQL, `'decision/' || d.run_id || '/' || d.principal AND a.tenant_id = r.tenant_id`)+`
		FROM approval_decision d JOIN run r ON r.run_id = d.run_id WHERE r.tenant_id = $1 AND d.pos > $2 ORDER BY d.pos LIMIT $3`,
		f.TenantID, pos, pageSize(f.Limit))
}

// withTargets scans more columns behind those of a scan function.
type withTargets struct {
	pgx.CollectableRow
	more []any
}

func (w withTargets) Scan(targets ...any) error {
	return w.CollectableRow.Scan(append(targets, w.more...)...)
}

// LastLogSeal implements store.LogSeals.
func (s *Store) LastLogSeal(ctx context.Context, tenantID, runID string, below run.Seq) (store.LogSeal, error) {
	seals, err := collect(ctx, s, "last log seal", func(row pgx.CollectableRow) (store.LogSeal, error) {
		var object, digest string
		if err := row.Scan(&object, &digest); err != nil {
			return store.LogSeal{}, err
		}
		return store.ParseLogSeal(object, digest)
	}, `SELECT a.object, a.digest FROM audit a LEFT JOIN audit_link l ON l.id = a.id
		WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.object > $3 AND a.object < $4 AND a.object <> '' AND length(a.object) = length($3)
		AND right(a.object, 12) ~ '^[0-9]{12}$' AND a.digest ~ '^[0-9a-f]{64}$' AND a.action = $5 AND a.outcome = 'ACCEPTED'
		ORDER BY a.object DESC, l.no NULLS LAST, a.at, a.id LIMIT 1`,
		tenantID, runID, store.LogSealObject(runID, 0), store.LogSealObject(runID, below), store.ActionSealLog)
	if err != nil || len(seals) == 0 {
		return store.LogSeal{}, err
	}
	return seals[0], nil
}

// missingSQL selects rows of a tenant whose object is gone. A token may go when it has expired. Rows of earlier
// versions name no run and no signal as their object.
const missingSQL = `FROM audit a JOIN audit_link l ON l.id = a.id WHERE a.tenant_id = $1 AND l.no > $2 AND (a.outcome = 'ACCEPTED' AND (
	a.object LIKE 'policy/%' AND NOT EXISTS (SELECT 1 FROM policy p WHERE p.tenant_id = a.tenant_id AND 'policy/' || p.version = a.object)
	OR a.object LIKE 'setting/%' AND NOT EXISTS (SELECT 1 FROM setting s WHERE 'setting/' || s.kind || '/' || s.tenant_id || '/' || s.version = a.object)
	OR a.object LIKE 'decision/%' AND NOT EXISTS (
		SELECT 1 FROM approval_decision d WHERE d.run_id = a.run_id AND 'decision/' || d.run_id || '/' || d.principal = a.object)
	OR a.run_id <> '' AND (a.object LIKE 'run/%' OR a.object = '' AND a.action IN ('START', 'RERUN'))
		AND NOT EXISTS (SELECT 1 FROM run r WHERE r.run_id = a.run_id AND r.tenant_id = a.tenant_id)
	) OR a.signal_id <> '' AND (a.object LIKE 'signal/%' OR a.object = '' AND a.outcome = 'ACCEPTED')
		AND NOT EXISTS (SELECT 1 FROM signal s WHERE s.run_id = a.run_id AND s.signal_id = a.signal_id)
	) ORDER BY l.no LIMIT $3`

// missingObjectSQL names the object of a row.
const missingObjectSQL = `CASE WHEN a.object <> '' THEN a.object WHEN a.signal_id <> '' THEN 'signal/' || a.run_id || '/' || a.signal_id
	ELSE 'run/' || a.run_id END`

// AuditMissing implements store.AuditProofs.
func (s *Store) AuditMissing(ctx context.Context, tenantID string, after int64, limit int) ([]store.AuditLink, error) {
	return collect(ctx, s, "audit missing", func(row pgx.CollectableRow) (l store.AuditLink, err error) {
		l.Row = &store.AuditRow{}
		return l, row.Scan(&l.No, &l.ID, &l.Row.Object, &l.Row.Actor)
	}, `SELECT l.no, a.id::text, `+missingObjectSQL+`, a.actor `+missingSQL, tenantID, max(after, 0), pageSize(limit))
}
