package main

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

// rig is what the figures of one run share: a directory, and servers that are started when the first figure asks.
type rig struct {
	dir       string
	child     bool // this process measures one repetition for another
	redis     *testserver.RedisServer
	servers   map[disk]*testserver.PostgresServer
	databases int
	beds      int
}

// disk says how long a PostgreSQL's flush takes.
type disk string

const (
	asItIs disk = "as it is"
	oneMS  disk = "1 ms"
)

// postgresSettings are those of the measured servers besides the defaults, which are durable: a cache that a small
// machine has, and no checkpoint that the clock, not the figure, puts into a repetition.
var postgresSettings = []string{
	"shared_buffers=512MB", "maintenance_work_mem=512MB", "max_wal_size=16GB", "checkpoint_timeout=1h",
	"wal_sync_method=fdatasync",
}

func newRig() (*rig, error) {
	dir, err := os.MkdirTemp("", "dvt-bench-")
	if err != nil {
		return nil, err
	}
	// PostgreSQL runs as another user when this runs as root.
	return &rig{dir: dir, servers: map[disk]*testserver.PostgresServer{}}, os.Chmod(dir, 0o755)
}

func (r *rig) close() {
	errs := []error{os.RemoveAll(r.dir)}
	for _, s := range r.servers {
		errs = append(errs, s.Close())
	}
	if r.redis != nil {
		errs = append(errs, r.redis.Close())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "error: clean up: %v\n", err)
	}
}

// redisURL starts Redis when it is not yet running.
func (r *rig) redisURL() (string, error) {
	if r.redis == nil {
		s, err := testserver.StartRedis()
		if err != nil {
			return "", err
		}
		r.redis = s
	}
	return "redis://" + r.redis.Addr + "/0", nil
}

// server starts the PostgreSQL of a disk when it is not yet running.
func (r *rig) server(ctx context.Context, d disk) (*testserver.PostgresServer, error) {
	if s := r.servers[d]; s != nil {
		return s, nil
	}
	o := testserver.PostgresOptions{Settings: postgresSettings}
	if d == oneMS {
		library, err := buildShim(ctx, r.dir)
		if err != nil {
			return nil, err
		}
		o.Env = []string{"LD_PRELOAD=" + library}
	}
	s, err := testserver.StartPostgres(o)
	if err != nil {
		return nil, err
	}
	r.servers[d] = s
	took, err := loneCommit(ctx, s.DSN)
	if err == nil && d == oneMS && took < delay {
		err = fmt.Errorf("a lone commit takes %s on the PostgreSQL whose flushes are to take %s longer: the delay is "+
			"not in force", short(took), delay)
	}
	return s, err
}

// loneCommit is what inserting one small row takes (the median of many).
func loneCommit(ctx context.Context, dsn string) (took time.Duration, err error) {
	err = connected(ctx, dsn, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS lone (n int)`); err != nil {
			return err
		}
		took, err = median(100, func(i int) error {
			_, err := conn.Exec(ctx, `INSERT INTO lone VALUES ($1)`, i)
			return err
		})
		return err
	})
	return took, err
}

// database makes an empty, migrated database.
func (r *rig) database(ctx context.Context, d disk) (dsn string, err error) {
	s, err := r.server(ctx, d)
	if err != nil {
		return "", err
	}
	r.databases++
	name := fmt.Sprintf("bench_%d", r.databases)
	if err := connected(ctx, s.DSN, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CREATE DATABASE `+name)
		return err
	}); err != nil {
		return "", err
	}
	dsn = strings.Replace(s.DSN, "/postgres?", "/"+name+"?", 1)
	return dsn, postgres.Migrate(ctx, dsn)
}

// store opens a new database with a pool of conns connections.
func (r *rig) store(ctx context.Context, d disk, conns int) (s *postgres.Store, dsn string, err error) {
	if dsn, err = r.database(ctx, d); err != nil {
		return nil, "", err
	}
	s, err = postgres.Open(ctx, dsn, postgres.Options{MaxConns: conns})
	return s, dsn, err
}

// connected lends f a connection of its own.
func connected(ctx context.Context, dsn string, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(ctx))
}
