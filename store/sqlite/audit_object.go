package sqlite

import (
	"context"
	"fmt"
	"strconv"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// linkJoin joins the link of an audit row. A link of another tenant's chain, or with a number that no chain has, is a
// forgery and must not decide which row is the first. 4611686018427387904 is store.MaxAuditNo.
const linkJoin = `LEFT JOIN audit_link l ON l.id = a.id AND l.tenant_id = a.tenant_id
	AND l.no > 0 AND l.no < 4611686018427387904`

// madeSQL reads the number and the digest of the first row that names the object in the first %s, as NUMBER/DIGEST. The
// second %s says which tenants may vouch for the object: a thief could add a row to the chain of a tenant whose audit
// nobody reads. The chain decides which row is first, because the owner of the file can backdate a row but cannot put
// one before an existing link.
const madeSQL = `coalesce((SELECT coalesce(l.no, 0) || '/' || a.digest FROM audit a ` + linkJoin + `
	WHERE a.object = %s AND a.tenant_id %s AND a.outcome = 'ACCEPTED' ORDER BY l.no IS NULL, l.no, a.at, a.id LIMIT 1), '')`

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
	return nil, fmt.Errorf("sqlite: audit objects: unknown kind %q", f.Kind)
}

func (s *Store) auditTokens(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	pos, err := store.ParseNumberCursor(f.After)
	if err != nil {
		return nil, err
	}
	var o store.AuditObject
	return readAll(ctx, s, "audit tokens", func(row scanner) (store.AuditObject, error) {
		o = store.AuditObject{}
		var by string
		t, err := scanToken(withTargets{row, []any{&o.Cursor, &by, &o.Revocation}})
		made := store.AuditRowOfToken(store.AuditRow{}, t)
		o.SetMade(by)
		o.TenantID, o.Object, o.Digest, o.Revoked = t.TenantID, made.Object, made.Digest, t.RevokedAt != nil
		return o, err
	}, `SELECT `+tokenColumns+`, CAST(pos AS TEXT), `+fmt.Sprintf(madeSQL, `'token/' || t.id`, `= t.tenant_id`)+`,
		EXISTS (SELECT 1 FROM audit a WHERE a.object = 'revocation/' || t.id AND a.tenant_id = t.tenant_id AND a.outcome = 'ACCEPTED')
		FROM api_token t WHERE tenant_id = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3`, f.TenantID, pos,
		clamp(f.Limit, store.MaxPage))
}

func (s *Store) auditPolicies(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	version, err := store.ParseNumberCursor(f.After)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "audit policies", func(row scanner) (o store.AuditObject, err error) {
		var by string
		p, err := scanPolicy(withTargets{row, []any{&by}})
		made := store.AuditRowOfPolicy(store.AuditRow{}, p)
		o.SetMade(by)
		o.TenantID, o.Object, o.Digest, o.Cursor = p.TenantID, made.Object, made.Digest, strconv.FormatInt(p.Version, 10)
		return o, err
	}, `SELECT `+policyColumns+`, `+fmt.Sprintf(madeSQL, `'policy/' || p.version`, `= p.tenant_id`)+`
		FROM policy p WHERE tenant_id = ?1 AND version > ?2 ORDER BY version LIMIT ?3`, f.TenantID, version,
		clamp(f.Limit, store.MaxPage))
}

func (s *Store) auditSettings(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	kind, version, err := store.ParseSettingCursor(f.After)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "audit settings", func(row scanner) (o store.AuditObject, err error) {
		var by string
		v, err := scanSetting(withTargets{row, []any{&by}})
		made := store.AuditRowOfSetting(store.AuditRow{}, v)
		o.SetMade(by)
		o.TenantID, o.Object, o.Digest, o.Cursor = v.TenantID, made.Object, made.Digest,
			store.SettingCursor(v.Kind, v.Version)
		return o, err
	}, `SELECT `+settingColumns+`, `+fmt.Sprintf(madeSQL,
		`'setting/' || s.kind || '/' || s.tenant_id || '/' || s.version`, `IN (s.tenant_id, ?5) AND a.tenant_id <> ''`)+`
		FROM setting s WHERE tenant_id = ?1 AND (kind, version) > (?2, ?3) ORDER BY kind, version LIMIT ?4`, f.TenantID, kind,
		version, clamp(f.Limit, store.MaxPage), f.OperatorsTenant)
}

func (s *Store) auditDecisions(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	pos, err := store.ParseNumberCursor(f.After)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "audit decisions", func(row scanner) (o store.AuditObject, err error) {
		var runID, by string
		var d store.ApprovalDecision
		err = row.Scan(&o.Cursor, &o.TenantID, &runID, &d.Principal, &d.Approved, &d.Reason, &d.RequestID, &by)
		made := store.AuditRowOfDecision(store.AuditRow{}, runID, d)
		o.SetMade(by)
		o.Object, o.Digest = made.Object, made.Digest
		return o, err
	}, `SELECT CAST(d.pos AS TEXT), r.tenant_id, d.run_id, d.principal, d.approved, d.reason, d.request_id,
		`+fmt.Sprintf(madeSQL, `'decision/' || d.run_id || '/' || d.principal`, `= r.tenant_id`)+`
		FROM approval_decision d JOIN run r ON r.run_id = d.run_id WHERE r.tenant_id = ?1 AND d.pos > ?2 ORDER BY d.pos LIMIT ?3`,
		f.TenantID, pos, clamp(f.Limit, store.MaxPage))
}

// withTargets appends scan targets for the columns behind those of a scan function.
type withTargets struct {
	scanner
	more []any
}

func (w withTargets) Scan(targets ...any) error { return w.scanner.Scan(append(targets, w.more...)...) }

// LastLogSeal implements store.LogSeals.
func (s *Store) LastLogSeal(ctx context.Context, tenantID, runID string, below run.Seq) (store.LogSeal, error) {
	seals, err := readAll(ctx, s, "last log seal", func(row scanner) (store.LogSeal, error) {
		var object, digest string
		if err := row.Scan(&object, &digest); err != nil {
			return store.LogSeal{}, err
		}
		return store.ParseLogSeal(object, digest)
	}, `SELECT a.object, a.digest FROM audit a `+linkJoin+`
		WHERE a.tenant_id = ?1 AND a.run_id = ?2 AND a.object > ?3 AND a.object < ?4 AND a.object <> '' AND length(a.object) = length(?3)
		AND substr(a.object, -12) NOT GLOB '*[^0-9]*' AND length(a.digest) = 64 AND a.digest NOT GLOB '*[^0-9a-f]*'
		AND a.action = ?5 AND a.outcome = 'ACCEPTED' ORDER BY a.object DESC, l.no IS NULL, l.no, a.at, a.id LIMIT 1`,
		tenantID, runID, store.LogSealObject(runID, 0), store.LogSealObject(runID, below), store.ActionSealLog)
	if err != nil || len(seals) == 0 {
		return store.LogSeal{}, err
	}
	return seals[0], nil
}

// missingSQL selects the audit rows of a tenant whose object no longer exists. It ignores tokens, because these may be
// deleted after they expire.
const missingSQL = `FROM audit a JOIN audit_link l ON l.id = a.id AND l.tenant_id = a.tenant_id
	WHERE a.tenant_id = ?1 AND l.no > ?2 AND l.no < 4611686018427387904 AND (a.outcome = 'ACCEPTED' AND (
	a.object LIKE 'policy/%' AND NOT EXISTS (SELECT 1 FROM policy p WHERE p.tenant_id = a.tenant_id AND 'policy/' ||
		p.version = a.object)
	OR a.object LIKE 'setting/%' AND NOT EXISTS (SELECT 1 FROM setting s WHERE 'setting/' || s.kind || '/' ||
		s.tenant_id || '/' || s.version = a.object)
	OR a.object LIKE 'decision/%' AND NOT EXISTS (
		SELECT 1 FROM approval_decision d WHERE d.run_id = a.run_id AND 'decision/' || d.run_id || '/' ||
			d.principal = a.object)
	OR a.run_id <> '' AND a.object LIKE 'run/%'
		AND NOT EXISTS (SELECT 1 FROM run r WHERE r.run_id = a.run_id AND r.tenant_id = a.tenant_id)
	) OR a.signal_id <> '' AND a.object LIKE 'signal/%'
		AND NOT EXISTS (SELECT 1 FROM signal s WHERE s.run_id = a.run_id AND s.signal_id = a.signal_id)
	) ORDER BY l.no LIMIT ?3`

// AuditMissing implements store.AuditProofs.
func (s *Store) AuditMissing(ctx context.Context, tenantID string, after int64, limit int) ([]store.AuditLink, error) {
	return readAll(ctx, s, "audit missing", func(row scanner) (l store.AuditLink, err error) {
		l.Row = &store.AuditRow{}
		return l, row.Scan(&l.No, &l.ID, &l.Row.Object, &l.Row.Actor)
	}, `SELECT l.no, a.id, a.object, a.actor `+missingSQL, tenantID, max(after, 0),
		clamp(limit, store.MaxPage))
}
