package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Copy starts a server on a base backup of this one, ended when t ends: a standby that follows until Promote, or else what a restored
// backup is, the databases as they are now on the same timeline.
func (s *PostgresServer) Copy(t testing.TB, standby bool) *PostgresServer {
	t.Helper()
	c, err := s.copy(standby)
	if err != nil {
		t.Fatalf("testserver: copy PostgreSQL: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a test may have ended it
	return c
}

func (s *PostgresServer) copy(standby bool) (c *PostgresServer, err error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	box, err := newSandbox("postgres", syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, box.close())
		}
	}()
	if os.Getuid() == 0 {
		if err := os.Chown(box.dir, nobody, nobody); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(box.dir, "data")
	args := []string{"-D", data, "-d", s.DSN, "-X", "stream", "-c", "fast", "--no-sync"}
	if standby {
		args = append(args, "-R")
	}
	if out, err := postgresCommand(box.dir, filepath.Join(bin, "pg_basebackup"), args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		c = &PostgresServer{DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), box: box}
		_, err = box.run(postgresCommand(box.dir, filepath.Join(bin, "postgres"),
			"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", "", "-c", "max_connections=300", "-c", "fsync=off"),
			func(*process) bool { return execSQL(c.DSN, "SELECT 1") == nil })
		return err
	})
	return c, err
}

// Promote makes a standby a primary, on a new timeline, once it has replayed what it received.
func (s *PostgresServer) Promote(t testing.TB) {
	t.Helper()
	if err := execSQL(s.DSN, "SELECT pg_promote(true, 30)"); err != nil {
		t.Fatalf("testserver: promote PostgreSQL: %v", err)
	}
}

// Database is the address of a database of this server, made when it is not there.
func (s *PostgresServer) Database(t testing.TB, name string) (dsn string) {
	t.Helper()
	dsn = strings.Replace(s.DSN, "/postgres?", "/"+name+"?", 1)
	if execSQL(dsn, "SELECT 1") == nil {
		return dsn
	}
	if err := execSQL(s.DSN, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("testserver: create a database: %v", err)
	}
	return dsn
}

// Await waits until a query, such as one on a standby, answers true.
func (s *PostgresServer) Await(t testing.TB, dsn, query string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for execSQL(dsn, "SELECT 1 / (("+query+")::int)") != nil {
		if time.Now().After(deadline) {
			t.Fatalf("testserver: waited in vain for %s", query)
		}
		time.Sleep(pollEvery)
	}
}
