// Package rig contains the parts that the figures of dvt's benchmarks share: the measuring loop with its goals, the
// servers and databases to measure on, load generators, and measurements of processes and of the machine. Package main
// of bench defines the figures.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store/postgres"
)

// Rig holds the resources that the figures of one process share: a directory, and servers that start when a figure
// first needs them. Create it with NewRig and close it with Close. It is not safe for concurrent use.
type Rig struct {
	Dir       string // directory for files; Close removes it
	Child     bool   // this process measures one repetition for a parent process (see Apart and Slowed)
	redis     *testserver.RedisServer
	Servers   map[Disk]*testserver.PostgresServer // those that have been started
	databases int
	Beds      int // number of names that figures have used for directories and files, so that each is new
}

// Disk is the speed of the flushes of a PostgreSQL server.
type Disk string

// NativeFlush leaves the flushes of the disk unchanged. OneMS makes each take 1 ms longer, like a disk in a data
// centre.
const (
	NativeFlush Disk = "as it is"
	OneMS       Disk = "1 ms"
)

// postgresSettings are added to PostgreSQL's defaults, which are durable. The cache fits a small machine. Checkpoints
// are rare, because one that starts by the clock would disturb a random repetition.
var postgresSettings = []string{
	"shared_buffers=512MB", "maintenance_work_mem=512MB", "max_wal_size=16GB", "checkpoint_timeout=1h",
	"wal_sync_method=fdatasync",
}

// NewRig returns a Rig with a new temporary directory.
func NewRig() (*Rig, error) {
	dir, err := os.MkdirTemp("", "dvt-bench-")
	if err != nil {
		return nil, err
	}
	// Readable for all, because PostgreSQL runs as another user when this process is root.
	return &Rig{Dir: dir, Servers: map[Disk]*testserver.PostgresServer{}}, os.Chmod(dir, 0o755)
}

// Close stops the servers and removes the directory. It prints errors to standard error, because the figures have been
// measured by then.
func (r *Rig) Close() {
	errs := []error{os.RemoveAll(r.Dir)}
	for _, s := range r.Servers {
		errs = append(errs, s.Close())
	}
	if r.redis != nil {
		errs = append(errs, r.redis.Close())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "error: clean up: %v\n", err)
	}
}

// RedisURL returns the URL of the Redis server and starts the server on the first call.
func (r *Rig) RedisURL() (string, error) {
	if r.redis == nil {
		s, err := testserver.StartRedis()
		if err != nil {
			return "", err
		}
		r.redis = s
	}
	return "redis://" + r.redis.Addr + "/0", nil
}

// server returns the PostgreSQL server of a disk and starts it on the first call. It returns an error when the delay of
// OneMS is not in force.
func (r *Rig) server(ctx context.Context, d Disk) (*testserver.PostgresServer, error) {
	if s := r.Servers[d]; s != nil {
		return s, nil
	}
	o := testserver.PostgresOptions{Settings: postgresSettings}
	if d == OneMS {
		library, err := buildShim(ctx, r.Dir)
		if err != nil {
			return nil, err
		}
		o.Env = []string{"LD_PRELOAD=" + library}
	}
	s, err := testserver.StartPostgres(o)
	if err != nil {
		return nil, err
	}
	r.Servers[d] = s
	took, err := loneCommit(ctx, s.DSN)
	if err == nil && d == OneMS && took < delay {
		err = fmt.Errorf("a lone commit takes %s on the PostgreSQL whose flushes are to take %s longer: the delay is "+
			"not in force", Short(took), delay)
	}
	return s, err
}

// loneCommit returns the time to insert and commit one small row, the median of 100.
func loneCommit(ctx context.Context, dsn string) (took time.Duration, err error) {
	err = Connected(ctx, dsn, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS lone (n int)`); err != nil {
			return err
		}
		took, err = Median(100, func(i int) error {
			_, err := conn.Exec(ctx, `INSERT INTO lone VALUES ($1)`, i)
			return err
		})
		return err
	})
	return took, err
}

// database creates an empty, migrated database and returns its DSN.
func (r *Rig) database(ctx context.Context, d Disk) (dsn string, err error) {
	s, err := r.server(ctx, d)
	if err != nil {
		return "", err
	}
	r.databases++
	name := fmt.Sprintf("bench_%d", r.databases)
	if err := Connected(ctx, s.DSN, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CREATE DATABASE `+name)
		return err
	}); err != nil {
		return "", err
	}
	dsn = strings.Replace(s.DSN, "/postgres?", "/"+name+"?", 1)
	return dsn, postgres.Migrate(ctx, dsn)
}

// Store creates a database on the server of a disk and opens it with a pool of conns connections. The caller closes the
// store.
func (r *Rig) Store(ctx context.Context, d Disk, conns int) (s *postgres.Store, dsn string, err error) {
	if dsn, err = r.database(ctx, d); err != nil {
		return nil, "", err
	}
	s, err = postgres.Open(ctx, dsn, postgres.Options{MaxConns: conns})
	return s, dsn, err
}

// Connected opens a connection, calls f with it and closes it. It returns the errors of both.
func Connected(ctx context.Context, dsn string, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(ctx))
}

// Patience is the longest time that a figure waits for a reply or for a process to end.
const Patience = 5 * time.Second
