package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/storetest/modelcheck"
)

var (
	modelFor  = flag.Duration("model.for", 7*time.Second, "duration of the model check")
	modelSeed = flag.Uint64("model.seed", 0, "seed of the model check; 0 means a random one")
)

var modelTarget = modelcheck.Target{
	Fresh: func(t testing.TB) string { return migratedTemplate.Postgres(t) },
	Open: func(ctx context.Context, dsn string) (store.Store, error) {
		s, err := postgres.Open(ctx, dsn, postgres.Options{MaxConns: 8})
		if err != nil {
			return nil, err
		}
		return s, nil
	},
	Via: func(dsn, hostPort string) (via, upstream string) {
		u, err := url.Parse(dsn)
		if err != nil {
			panic(fmt.Sprintf("parse the address of the test server: %v", err))
		}
		upstream, u.Host = u.Host, hostPort
		return u.String(), upstream
	},
	Idle: waitForSessionEnd,
}

// waitForSessionEnd waits until the server has ended the sessions of killed processes, so that their transactions have
// ended, too.
func waitForSessionEnd(ctx context.Context, dsn string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for others := 1; others > 0; {
		if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(
			&others); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// Two processes work on the store. They are killed, and their connections are cut before or after a commit (contracts
// T09, T27, T186).
// contract: A05, A06, A07, T09, T186, T190
func TestModelCheck(t *testing.T) {
	modelcheck.Run(t, modelTarget, *modelFor, *modelSeed)
}

// TestModelCheckChild is the main function of the processes that the model check starts.
func TestModelCheckChild(t *testing.T) { modelcheck.Live(t, modelTarget) }
