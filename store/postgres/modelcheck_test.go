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
	modelFor  = flag.Duration("model.for", 15*time.Second, "how long the model check works the store")
	modelSeed = flag.Uint64("model.seed", 0, "seed of the model check; 0 draws one")
)

var modelTarget = modelcheck.Target{
	Fresh: func(t testing.TB) string { return migrated.Postgres(t) },
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
			panic(fmt.Sprintf("the test server's address: %v", err))
		}
		upstream, u.Host = u.Host, hostPort
		return u.String(), upstream
	},
	Idle: othersGone,
}

// othersGone waits until the server has ended the sessions of killed processes,
// and with them what they had under way.
func othersGone(ctx context.Context, dsn string) error {
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

// Two processes that are killed, behind connections that are lost before a commit
// and after it (T09, T27, T186).
// contract: A05, A06, A07, T09, T186, T190
func TestModelCheck(t *testing.T) {
	modelcheck.Run(t, modelTarget, *modelFor, *modelSeed)
}

// TestModelCheckChild is one of the processes that the model check works with.
func TestModelCheckChild(t *testing.T) { modelcheck.Live(t, modelTarget) }
