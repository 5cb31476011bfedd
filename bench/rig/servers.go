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

// rig is what the figures of one run share: a directory, and servers that are started when the first figure asks.
type Rig struct {
	Dir       string
	Child     bool // this process measures one repetition for another
	redis     *testserver.RedisServer
	Servers   map[disk]*testserver.PostgresServer
	databases int
	Beds      int
}

// disk says how long a PostgreSQL's flush takes.
type disk string

const (
	AsItIs disk = "as it is"
	OneMS  disk = "1 ms"
)

// postgresSettings are those of the measured servers besides the defaults, which are durable: a cache that a small
// machine has, and no checkpoint that the clock, not the figure, puts into a repetition.
var postgresSettings = []string{
	"shared_buffers=512MB", "maintenance_work_mem=512MB", "max_wal_size=16GB", "checkpoint_timeout=1h",
	"wal_sync_method=fdatasync",
}

func NewRig() (*Rig, error) {
	dir, err := os.MkdirTemp("", "dvt-bench-")
	if err != nil {
		return nil, err
	}
	// PostgreSQL runs as another user when this runs as root.
	return &Rig{Dir: dir, Servers: map[disk]*testserver.PostgresServer{}}, os.Chmod(dir, 0o755)
}

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

// redisURL starts Redis when it is not yet running.
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

// server starts the PostgreSQL of a disk when it is not yet running.
func (r *Rig) server(ctx context.Context, d disk) (*testserver.PostgresServer, error) {
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

// loneCommit is what inserting one small row takes (the median of many).
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

// database makes an empty, migrated database.
func (r *Rig) database(ctx context.Context, d disk) (dsn string, err error) {
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

// store opens a new database with a pool of conns connections.
func (r *Rig) Store(ctx context.Context, d disk, conns int) (s *postgres.Store, dsn string, err error) {
	if dsn, err = r.database(ctx, d); err != nil {
		return nil, "", err
	}
	s, err = postgres.Open(ctx, dsn, postgres.Options{MaxConns: conns})
	return s, dsn, err
}

// connected lends f a connection of its own.
func Connected(ctx context.Context, dsn string, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(ctx))
}

// patience is how long the last answers of a measurement may take.
const Patience = 5 * time.Second
