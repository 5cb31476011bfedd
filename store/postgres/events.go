package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Events implements store.Log.
func (s *Store) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	return s.page(ctx, `SELECT `+eventColumns+` FROM event e WHERE run_id = $1 AND run_seq > $2
		ORDER BY run_seq LIMIT $3`, runID, after, limit)
}

// EventsBefore implements store.Log.
func (s *Store) EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error) {
	return s.page(ctx, `SELECT `+eventColumns+` FROM event e WHERE run_id = $1 AND run_seq < $2
		ORDER BY run_seq DESC LIMIT $3`, runID, before, limit)
}

const identitySQL = `SELECT tenant_id, project_id, environment_id, plan_id, plan_version FROM run WHERE run_id = $1`

func identityTargets(id *run.Identity) []any {
	return []any{&id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion}
}

// page reads events. If the identity of the run, which never changes, is not cached, page reads it in the same round
// trip.
func (s *Store) page(ctx context.Context, sql, runID string, at run.Seq, limit int) ([]run.Event, error) {
	var evs []run.Event
	id, known := s.identities.Get(runID)
	id.RunID = runID
	err := s.do(ctx, "events", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		if !known {
			b.Queue(identitySQL, runID).QueryRow(func(row pgx.Row) error { return row.Scan(identityTargets(&id)...) })
		}
		b.Queue(sql, runID, at, pageSize(limit)).Query(func(rows pgx.Rows) (err error) {
			evs, err = scanEvents(rows, id)
			return err
		})
		return c.SendBatch(ctx, &b).Close()
	})
	if err == nil && !known {
		s.identities.Add(runID, id)
	}
	return evs, err
}

func pageSize(limit int) int { return clamp(limit, store.MaxPage) }

// clamp returns limit, or maximum if limit is not between 1 and maximum.
func clamp(limit, maximum int) int {
	if limit <= 0 || limit > maximum {
		return maximum
	}
	return limit
}

const headsSQL = `SELECT ` + epochSQL + `, clock_timestamp(), h.run_id, h.last_seq, h.last_at, h.terminal, h.gate,
  h.running, h.ops_rev, h.signal_no
FROM (SELECT) one LEFT JOIN run_head h ON h.run_id = ANY($1)`

// Heads implements store.Log.
func (s *Store) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	if len(runIDs) > store.MaxHeads {
		return store.Heads{}, fmt.Errorf("postgres: heads of %d runs, at most %d", len(runIDs), store.MaxHeads)
	}
	var out store.Heads
	err := s.do(ctx, "heads", func(ctx context.Context, c *pgx.Conn) error {
		out = store.Heads{ByRun: make(map[string]store.Head, len(runIDs))}
		rows, err := c.Query(ctx, headsSQL, runIDs)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h nullHead
			if err := rows.Scan(append([]any{&out.Epoch, utc{&out.Now}}, h.targets()...)...); err != nil {
				return err
			}
			if h.runID != nil {
				out.ByRun[*h.runID] = h.head()
			}
		}
		return rows.Err()
	})
	return out, err
}

// nullHead is a head from an outer join.
type nullHead struct {
	runID         *string
	seq, ops, no  *int64
	terminal      *bool
	gate, running *int
	at            store.Head
}

func (h *nullHead) targets() []any {
	return []any{&h.runID, &h.seq, utc{&h.at.LastAt}, &h.terminal, &h.gate, &h.running, &h.ops, &h.no}
}

func (h *nullHead) head() store.Head {
	return store.Head{RunID: *h.runID, LastSeq: run.Seq(*h.seq), LastAt: h.at.LastAt, Terminal: *h.terminal,
		Gate: run.Gate(*h.gate), Running: *h.running, OpsRev: *h.ops, SignalNo: *h.no}
}
