package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// bareEvent creates a table with the columns, primary key and unique key of event, without its triggers and other
// indexes.
const bareEvent = `CREATE TABLE event_bare (LIKE event, PRIMARY KEY (run_id, run_seq), UNIQUE (run_id, key))`

// bareInsert is the script for pgbench: it inserts the row that an append inserts. Each client has a run of its own and
// counts its events. The key is as long and as random as a real one, because that determines the cost of the index.
const bareInsert = `\set n :n + 1
INSERT INTO event_bare (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
VALUES ('5f0c3b1e-6a7d-4c52-9b1e-' || lpad(:client_id::text, 12, '0'), :n, gen_random_uuid()::text, md5(:n::text) || md5((:n + 1)::text),
  'StepStarted', 's00001', '', 1, 1, now(), now(), 'engine', '{}');
`

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// NewPgbench returns a Measure of the time of one insert with the given number of clients: the inverse of pgbench's
// rate over d. Each call starts with higher event numbers, so that its keys are new. It returns an error when pgbench
// is not installed.
func NewPgbench(ctx context.Context, r *Rig, dsn string, clients int, d time.Duration) (Measure, error) {
	program, err := testserver.PostgresProgram("pgbench")
	if err != nil {
		return nil, errors.New(
			"pgbench is not on this machine: run `make tools/bench`, or install it beside PostgreSQL's server")
	}
	if err := Connected(ctx, dsn, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, bareEvent)
		return err
	}); err != nil {
		return nil, err
	}
	script := filepath.Join(r.Dir, "insert.sql")
	if err := os.WriteFile(script, []byte(bareInsert), 0o644); err != nil {
		return nil, err
	}
	times := 0
	return func(ctx context.Context, _ int) (time.Duration, error) {
		out, err := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "2",
			"-T", strconv.Itoa(int(d.Seconds())), "-D", fmt.Sprintf("n=%d", times*10_000_000), "-f", script,
			dsn).CombinedOutput()
		times++
		if err != nil {
			return 0, fmt.Errorf("pgbench: %w: %s", err, out)
		}
		found := tpsLine.FindSubmatch(out)
		if found == nil {
			return 0, fmt.Errorf("pgbench says no rate: %s", out)
		}
		tps, err := strconv.ParseFloat(string(found[1]), 64)
		return seconds(1 / tps), err
	}, nil
}
