package testserver

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// Copy starts a server on a base backup of this server and stops it when t ends. With standby it replicates this server
// until Promote. Without, it is like a restored backup: it has the current databases on the same timeline.
func (s *PostgresServer) Copy(t testing.TB, standby bool) *PostgresServer {
	t.Helper()
	c, err := s.copy(standby)
	if err != nil {
		t.Fatalf("testserver: copy PostgreSQL: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

func (s *PostgresServer) copy(standby bool) (*PostgresServer, error) {
	args := []string{"-d", s.DSN, "-X", "stream", "-c", "fast", "--no-sync"}
	if standby {
		args = append(args, "-R")
	}
	return startOn(PostgresOptions{Settings: []string{"fsync=off"}}, "pg_basebackup", args...)
}

// Promote makes a standby a primary, on a new timeline, once it has replayed what it received.
func (s *PostgresServer) Promote(t testing.TB) {
	t.Helper()
	if err := execSQL(s.DSN, "SELECT pg_promote(true, 30)"); err != nil {
		t.Fatalf("testserver: promote PostgreSQL: %v", err)
	}
}

// Kill ends the server with SIGKILL. Start starts it again on its data, as after a crash.
func (s *PostgresServer) Kill(t testing.TB) {
	t.Helper()
	if err := s.box.stop(s.proc, syscall.SIGKILL); err != nil {
		t.Fatalf("testserver: kill PostgreSQL: %v", err)
	}
}

// Database returns the URL of a database of this server, and creates a missing database.
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

// Await repeats a query, for example on a standby, until it returns true, and fails t after startTimeout.
func (s *PostgresServer) Await(t testing.TB, dsn, query string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for execSQL(dsn, "SELECT 1 / (("+query+")::int)") != nil {
		if time.Now().After(deadline) {
			t.Fatalf("testserver: %s was not true within %s", query, startTimeout)
		}
		time.Sleep(pollEvery)
	}
}
