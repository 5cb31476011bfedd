package testserver

import (
	"strings"
	"testing"
	"time"
)

// Copy starts a server on a base backup of this one, ended when t ends: a standby that follows until Promote, or else
// what a restored backup is, the databases as they are now on the same timeline.
func (s *PostgresServer) Copy(t testing.TB, standby bool) *PostgresServer {
	t.Helper()
	c, err := s.copy(standby)
	if err != nil {
		t.Fatalf("testserver: copy PostgreSQL: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a test may have ended it
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
