package testserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Template is a database whose copies tests get: what many of them need in it is made once for each test process.
type Template struct {
	// Prepare fills the database, which is empty, and leaves no connection open. Roles that it makes are those of the
	// server: its copies share them.
	Prepare func(dsn string) error

	once    sync.Once
	options string // of CREATE DATABASE
	err     error
}

// Postgres returns the address of a copy for t, which is as one of Postgres in all else.
func (m *Template) Postgres(t testing.TB) (dsn string) {
	t.Helper()
	server, err := sharedPostgres()
	if err != nil {
		t.Fatalf("testserver: no PostgreSQL: %v", err)
	}
	m.once.Do(func() { m.options, m.err = m.make(server.DSN) })
	if m.err != nil {
		t.Fatalf("testserver: prepare a template: %v", m.err)
	}
	return database(t, m.options)
}

func (m *Template) make(admin string) (options string, err error) {
	name := fmt.Sprintf("template_%d", templates.Add(1))
	if err := execSQL(admin, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	if err := m.Prepare(strings.Replace(admin, "/postgres?", "/"+name+"?", 1)); err != nil {
		return "", err
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	// Since PostgreSQL 15 a copy goes through the log, page by page, unless it is told to copy the files.
	err = conn.QueryRow(
		ctx, `SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY FILE_COPY' ELSE '' END`).Scan(&options)
	return " TEMPLATE " + name + options, err
}
