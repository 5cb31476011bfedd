package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, runID string) (store.Run, error) {
	return readOne(ctx, s, "get run", scanRun, `SELECT `+runColumns+` FROM run WHERE run_id = ?`, runID)
}

// ByRequest implements store.Runs.
func (s *Store) ByRequest(ctx context.Context, key run.Key) (store.Run, error) {
	return readOne(ctx, s, "get run", scanRun, byRequestSQL, key)
}

const byRequestSQL = `SELECT ` + runColumns + ` FROM run WHERE request_key = ?`

const putPlan = `INSERT INTO plan_body (sha256, body) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING`

// PutPlan implements store.Runs.
func (s *Store) PutPlan(ctx context.Context, sha256 string, doc []byte) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "put plan", putPlan, sha256, doc)
		return err
	})
}

// Plan implements store.Runs.
func (s *Store) Plan(ctx context.Context, sha256 string) ([]byte, error) {
	return readOne(ctx, s, "get plan", value[[]byte], `SELECT body FROM plan_body WHERE sha256 = ?`, sha256)
}
