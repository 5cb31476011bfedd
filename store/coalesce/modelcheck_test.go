package coalesce_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/storetest/modelcheck"
)

var (
	modelFor  = flag.Duration("model.for", 7*time.Second, "how long the model check runs")
	modelSeed = flag.Uint64("model.seed", 0, "seed of the model check; 0 draws a random one")
)

// slowGroups delays each group, so that calls of the few writers of the check meet in the next one.
type slowGroups struct{ *postgres.Store }

func (s slowGroups) Group(ctx context.Context, prepared []store.Plain) ([]*store.EntryResult, error) {
	time.Sleep(time.Duration(rand.IntN(16)) * time.Millisecond)
	return s.Store.Group(ctx, prepared)
}

// calls counts the groups of all rounds, grouped the transactions with events of several runs.
var calls, grouped atomic.Int64

var modelTarget = modelcheck.Target{
	Fresh: func(t testing.TB) string {
		dsn := migrated.Postgres(t)
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), `ALTER DATABASE `+c.Config().Database+` SET track_functions = 'pl'`); err != nil {
			t.Fatal(err)
		}
		return dsn
	},
	Open: func(ctx context.Context, dsn string) (store.Store, error) {
		s, err := postgres.Open(ctx, dsn, postgres.Options{MaxConns: 8})
		if err != nil {
			return nil, err
		}
		return coalesce.New(slowGroups{s}, coalesce.Config{MaxGroups: 1}), nil
	},
	Via: func(dsn, hostPort string) (via, upstream string) {
		u, err := url.Parse(dsn)
		if err != nil {
			panic(fmt.Sprintf("the test server's address: %v", err))
		}
		upstream, u.Host = u.Host, hostPort
		return u.String(), upstream
	},
	Idle:    idle,
	Writers: 24,
}

// idle waits until the server has ended the sessions of killed processes, and counts their groups.
func idle(ctx context.Context, dsn string) error {
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
	var n, several int64
	if err := c.QueryRow(ctx, `SELECT (SELECT calls FROM pg_stat_user_functions WHERE funcname = 'dvt_append_many'),
		(SELECT count(*) FROM (SELECT FROM event GROUP BY xmin::text HAVING count(DISTINCT run_id) > 1) x)`).Scan(&n,
		&several); err != nil {
		return err
	}
	calls.Add(n)
	grouped.Add(several)
	return nil
}

// A coalescing store keeps the guarantees of the PostgreSQL store, although connections are cut and processes are
// killed in the middle of groups.
// contract: A05, A06, A07, T09, T190
func TestModelCheck(t *testing.T) {
	for range 3 { // whether calls meet in a group depends on the machine
		if modelcheck.Run(t, modelTarget, *modelFor, *modelSeed); grouped.Load() > 0 || testing.Short() {
			break
		}
	}
	if t.Logf("%d groups; %d of them wrote to several runs", calls.Load(), grouped.Load()); grouped.Load() == 0 &&
		!testing.Short() {
		t.Error("no group wrote to several runs, want some, because the check proves little without them")
	}
}

// TestModelCheckChild is the main function of the processes that the model check starts.
func TestModelCheckChild(t *testing.T) { modelcheck.Live(t, modelTarget) }
