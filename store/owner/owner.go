// Package owner changes a store with the rights of its owner: it deletes rows of insert-only tables and destroys keys,
// for erasures of tenants and people. No server has these rights (contract T208): on PostgreSQL its role lacks them,
// and on SQLite only the commands that erase open the file this way.
//
// A batch and the progress of its erasure are one transaction, so that an erasure continues after a crash.
package owner

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Dialect is the kind of a database.
type Dialect int

// Dialects.
const (
	Postgres Dialect = iota
	SQLite
)

// Times of a transaction that waits for a lock.
const (
	lockTries = 20
	lockPause = 500 * time.Millisecond
)

// DB is a store that was opened by its owner. It is safe for concurrent use.
type DB struct {
	db      *sql.DB
	dialect Dialect
	mu      sync.Mutex
	seen    map[string]progress     // by erasure
	texted  map[string][]textColumn // by table
}

// progress is what an erasure had reached when this DB read or saved it last. Every save compares it with the store, so
// that of two processes that carry out one erasure only one goes on: two of them would sign two certificates, each with
// a part of the counts.
type progress struct{ phase, position, counts string }

// ErrOvertaken says that another process carries out the erasure. It is a store.ErrConflict.
var ErrOvertaken = fmt.Errorf("%w: another process carries out this erasure, so this one stops: wait until the other one "+
	"has ended, then run the command again for the certificate", store.ErrConflict)

// New returns a DB on a connection with the owner's rights, which DB.Close closes.
func New(db *sql.DB, d Dialect) *DB {
	return &DB{db: db, dialect: d, seen: map[string]progress{},
		texted: map[string][]textColumn{}}
}

func (d *DB) remember(id string, p progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[id] = p
}

func (d *DB) remembered(id string) progress {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[id]
}

// execer is a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
}

// advance saves the progress of an erasure unless it is not what this DB saw last: ErrOvertaken. The caller remembers
// the progress that advance returns, after the commit.
func (d *DB) advance(ctx context.Context, on execer, e store.Erasure) (progress, error) {
	counts, err := json.Marshal(e.Counts)
	if err != nil {
		return progress{}, err
	}
	was, now := d.remembered(e.ID), progress{e.Phase, e.Position, string(counts)}
	result, err := on.ExecContext(ctx, d.q(`UPDATE erasure SET phase = $2, position = $3, counts = $4, certificate = $5
		WHERE id = $1 AND finished_at IS NULL AND phase = $6 AND position = $7 AND counts = $8`), e.ID, now.phase,
		now.position, now.counts, string(e.Certificate), was.phase, was.position, was.counts)
	if err != nil {
		return progress{}, fmt.Errorf("owner: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return progress{}, errors.Join(ErrOvertaken, err)
	}
	return now, nil
}

// Close closes the connection.
func (d *DB) Close() error { return d.db.Close() }

// CheckRights returns an error when the connection cannot erase.
func (d *DB) CheckRights(ctx context.Context) error {
	if d.dialect == SQLite {
		return nil
	}
	var may bool
	if err := d.db.QueryRowContext(ctx, `SELECT has_table_privilege('event', 'DELETE') AND has_table_privilege('audit',
		'DELETE')`).Scan(&may); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if !may {
		return errors.New("the role of --store may not erase: connect as the owner of the database, as for dvt migrate")
	}
	return nil
}

// q returns a statement in the dialect: $1 and the words in braces are replaced.
func (d *DB) q(statement string) string {
	words := []string{"{now}", "clock_timestamp()", "{false}", "false", "{sha}", "plan_ref ->> 'sha256'",
		"{ofQueue}", "starts_with(queue, 'tq-isolation-' || $1 || '-')"}
	if d.dialect == SQLite {
		words = []string{"{now}", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)", "{false}", "0",
			"{sha}", "plan_ref ->> '$.sha256'", "{ofQueue}", "instr(queue, 'tq-isolation-' || ?1 || '-') = 1", "$", "?"}
	}
	return strings.NewReplacer(words...).Replace(statement)
}

// at scans a time of both dialects.
type at struct{ to **time.Time }

func (a at) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*a.to = nil
	case time.Time:
		u := v.UTC()
		*a.to = &u
	case int64:
		u := time.UnixMicro(v).UTC()
		*a.to = &u
	default:
		return fmt.Errorf("owner: %T is not a time", v)
	}
	return nil
}

// Erasure reads an erasure. ErrNotFound.
func (d *DB) Erasure(ctx context.Context, id string) (e store.Erasure, err error) {
	var counts, certificate string
	var requested, expires *time.Time
	err = d.db.QueryRowContext(ctx, d.q(`SELECT pos, id, kind, tenant_id, subject, reason, requested_by, requested_at,
		expires_at, confirmed_by, confirmed_at, cancelled_by, cancelled_at, started_at, phase, position, counts,
		finished_at, certificate FROM erasure WHERE id = $1`), id).Scan(&e.Pos, &e.ID, &e.Kind, &e.TenantID, &e.Subject,
		&e.Reason, &e.RequestedBy, at{&requested}, at{&expires}, &e.ConfirmedBy, at{&e.ConfirmedAt}, &e.CancelledBy,
		at{&e.CancelledAt}, at{&e.StartedAt}, &e.Phase, &e.Position, &counts, at{&e.FinishedAt}, &certificate)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return e, fmt.Errorf("%w: there is no erasure %s", store.ErrNotFound, id)
	case err != nil:
		return e, fmt.Errorf("owner: %w", err)
	}
	e.RequestedAt, e.ExpiresAt = *requested, *expires
	d.remember(id, progress{e.Phase, e.Position, counts})
	if certificate != "" {
		e.Certificate = json.RawMessage(certificate)
	}
	return e, json.Unmarshal([]byte(counts), &e.Counts)
}

// OpenHolds counts the open legal holds that forbid the erasure of s: all of the tenant, or those about the person.
func (d *DB) OpenHolds(ctx context.Context, s Scope) (n int64, err error) {
	if err := d.db.QueryRowContext(ctx, HoldsStatement(d.dialect, s), s.Args()...).Scan(&n); err != nil {
		return 0, fmt.Errorf("owner: count holds: %w", err)
	}
	return n, nil
}

// Open lists the ids of the erasures that are confirmed and not finished, the oldest first.
func (d *DB) Open(ctx context.Context) ([]string, error) {
	return d.texts(ctx, `SELECT id FROM erasure WHERE confirmed_at IS NOT NULL AND finished_at IS NULL AND
		cancelled_at IS NULL ORDER BY pos`)
}

func (d *DB) texts(ctx context.Context, statement string, args ...any) (out []string, err error) {
	rows, err := d.db.QueryContext(ctx, d.q(statement), args...)
	if err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, fmt.Errorf("owner: %w", err)
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// Start marks a confirmed erasure as started. ErrConflict when it is not confirmed, or was cancelled. Starting it again
// changes nothing.
func (d *DB) Start(ctx context.Context, id string) error {
	result, err := d.db.ExecContext(ctx, d.q(`UPDATE erasure SET started_at = coalesce(started_at, {now}) WHERE id = $1
		AND confirmed_at IS NOT NULL AND cancelled_at IS NULL AND confirmed_by <> requested_by`), id)
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(store.ErrConflict, err)
	}
	return nil
}

// Adopt inserts an erasure of the ledger that this store does not know, as started. It is idempotent.
func (d *DB) Adopt(ctx context.Context, e store.Erasure) error {
	_, err := d.db.ExecContext(ctx, d.q(`INSERT INTO erasure (id, kind, tenant_id, subject, requested_by, requested_at,
		expires_at, confirmed_by, confirmed_at, started_at) VALUES ($1, $2, $3, $4, $5, {now}, {now}, $6, {now}, {now})
		ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, subject = excluded.subject, requested_by = excluded.requested_by,
		confirmed_by = excluded.confirmed_by, confirmed_at = excluded.confirmed_at, started_at = excluded.started_at,
		cancelled_at = NULL, finished_at = NULL, phase = '', position = '', certificate = ''`),
		e.ID, e.Kind, e.TenantID, e.Subject, e.RequestedBy, e.ConfirmedBy)
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	_, err = d.Erasure(ctx, e.ID)
	return err
}

// Save saves the phase, the position, the counts and the draft of the certificate of an erasure. ErrOvertaken.
func (d *DB) Save(ctx context.Context, e store.Erasure) error {
	now, err := d.advance(ctx, d.db, e)
	if err == nil {
		d.remember(e.ID, now)
	}
	return err
}

// Finish makes a tombstone of an erasure: it keeps the certificate and the times, and removes every name. That of a
// person still belongs to the tenant, until the tenant is erased, too. ErrOvertaken.
func (d *DB) Finish(ctx context.Context, e store.Erasure) error {
	const names = `subject = '', reason = '', requested_by = '', confirmed_by = '', cancelled_by = '', position = ''`
	err := d.inTx(ctx, func(tx *sql.Tx) error {
		if e.Kind == store.EraseTenant { // the tombstones of its people
			if _, err := tx.ExecContext(ctx, d.q(`UPDATE erasure SET tenant_id = '', `+names+`,
				finished_at = coalesce(finished_at, {now}) WHERE tenant_id = $1 AND tenant_id <> '' AND id <> $2`), e.TenantID,
				e.ID); err != nil {
				return err
			}
			e.TenantID = ""
		}
		was := d.remembered(e.ID)
		result, err := tx.ExecContext(ctx, d.q(`UPDATE erasure SET tenant_id = $2, `+names+`, phase = $3, certificate = $4,
			finished_at = {now} WHERE id = $1 AND finished_at IS NULL AND phase = $5 AND position = $6 AND counts = $7`), e.ID,
			e.TenantID, e.Phase, string(e.Certificate), was.phase, was.position, was.counts)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ErrOvertaken, err)
		}
		return nil
	})
	if err == nil && d.dialect == SQLite { // the file forgets the names of the request
		_, err = d.db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	return err
}

// Tenants lists the tenants that have anything in the store.
func (d *DB) Tenants(ctx context.Context) ([]string, error) {
	var parts []string
	for _, t := range d.tables(tenantTables()) {
		if t.hasTenant() {
			parts = append(parts, `SELECT tenant_id FROM `+t.name)
		}
	}
	return d.texts(ctx, `SELECT tenant_id FROM (`+strings.Join(parts, ` UNION `)+`) t WHERE tenant_id <> '' ORDER BY 1`)
}

// OpenRuns lists the runs of a tenant that have not ended, by id.
func (d *DB) OpenRuns(ctx context.Context, tenantID, after string, limit int) (out []run.Identity, err error) {
	ids, err := d.texts(ctx, `SELECT r.run_id FROM run r JOIN run_head h ON h.run_id = r.run_id
		WHERE r.tenant_id = $1 AND NOT h.terminal AND r.run_id > $2 ORDER BY r.run_id LIMIT $3`, tenantID, after, limit)
	for _, id := range ids {
		out = append(out, run.Identity{RunID: id, TenantID: tenantID})
	}
	return out, err
}

// Freeze makes servers refuse new runs of a tenant, within two seconds.
func (d *DB) Freeze(ctx context.Context, tenantID, reason string) error {
	return d.inTx(ctx, func(tx *sql.Tx) error {
		doc := `{"frozen":true}`
		var newest string
		var version int64
		err := tx.QueryRowContext(ctx, d.q(`SELECT version, doc FROM setting WHERE kind = $1 AND tenant_id = $2
			ORDER BY version DESC LIMIT 1`), store.SettingFreeze, tenantID).Scan(&version, &newest)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if strings.Contains(newest, `"frozen":true`) {
			return nil
		}
		if _, err := tx.ExecContext(ctx, d.q(`INSERT INTO setting (kind, tenant_id, version, doc, actor, reason, request_id, at)
			VALUES ($1, $2, $3, $4, 'dvt', $5, 'erasure', {now})`), store.SettingFreeze, tenantID, version+1, doc,
			reason); err != nil {
			return err
		}
		return d.authorityChanged(ctx, tx)
	})
}

// authorityChanged makes servers read policies, tokens and settings again.
func (d *DB) authorityChanged(ctx context.Context, tx *sql.Tx) error {
	statement := `UPDATE meta SET value = value + 1 WHERE name = 'authority'`
	if d.dialect == SQLite {
		statement = `UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'authority'`
	}
	_, err := tx.ExecContext(ctx, statement)
	return err
}

// Undelivered counts the runs of a tenant whose last messages to viewers and lists were not sent.
func (d *DB) Undelivered(ctx context.Context, tenantID string) (n int64, err error) {
	err = d.db.QueryRowContext(ctx, d.q(`SELECT count(*) FROM run_dirty WHERE run_id IN (
		SELECT run_id FROM run WHERE tenant_id = $1)`), tenantID).Scan(&n)
	return n, err
}

// AuditHead returns the number and the hash, in hex, of the newest link of a tenant's audit; 0 and "" without one.
func (d *DB) AuditHead(ctx context.Context, tenantID string) (no int64, hash string, err error) {
	var raw []byte
	err = d.db.QueryRowContext(ctx, d.q(`SELECT no, hash FROM audit_link WHERE tenant_id = $1 AND no > 0
		AND no < 4611686018427387904 ORDER BY no DESC LIMIT 1`), tenantID).Scan(&no, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return no, fmt.Sprintf("%x", raw), err
}

// inTx runs f in a transaction, again while another transaction holds a lock that it needs.
func (d *DB) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	var err error
	for range lockTries {
		if err = d.tryTx(ctx, f); err == nil || !isBusy(err) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause):
		}
	}
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	return nil
}

func (d *DB) tryTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	if d.dialect == Postgres {
		if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = '3s'`); err != nil {
			return err
		}
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// isBusy reports whether a transaction failed because of a lock or a deadlock, and had no effect.
func isBusy(err error) bool {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState() == "55P03" || state.SQLState() == "40P01" || state.SQLState() == "40001"
	}
	return strings.Contains(err.Error(), "SQLITE_BUSY") || strings.Contains(err.Error(), "SQLITE_LOCKED")
}
