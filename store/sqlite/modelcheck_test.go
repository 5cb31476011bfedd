package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"path/filepath"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/storetest/modelcheck"
)

var (
	modelFor  = flag.Duration("model.for", 7*time.Second, "duration of the model check")
	modelSeed = flag.Uint64("model.seed", 0, "seed of the model check; 0 means a random one")
)

var modelTarget = modelcheck.Target{
	Fresh: func(t testing.TB) string { return filepath.Join(t.TempDir(), "dvt.db") },
	Open: func(ctx context.Context, path string) (store.Store, error) {
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		return s, nil
	},
	// Disturb holds the write lock for a moment, as another program would. SQLite gives the lock in no order, so it may
	// not get it: then it disturbs nobody, and no promise is broken.
	Disturb: func(ctx context.Context, path string) error {
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
		if err != nil {
			return err
		}
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if busy := (*driver.Error)(nil); errors.As(err, &busy) && busy.Code()&0xff == lib.SQLITE_BUSY {
			return nil
		}
		if err != nil {
			return err
		}
		time.Sleep(30 * time.Millisecond)
		return tx.Rollback()
	},
}

// Two processes work on one file. They are killed and started again, and a third program holds the write lock from time
// to time (contract T227).
// contract: A05, A06, A07, T186, T190, T227
func TestModelCheck(t *testing.T) {
	modelcheck.Run(t, modelTarget, *modelFor, *modelSeed)
}

// TestModelCheckChild is the main function of the processes that the model check starts.
func TestModelCheckChild(t *testing.T) { modelcheck.Live(t, modelTarget) }
