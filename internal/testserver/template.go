package testserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Template is a database that is prepared once per test process and copied for each test, because a copy is faster than
// a preparation. It is safe for concurrent use.
type Template struct {
	// Prepare fills the empty database and leaves no connection open. Roles that it creates belong to the server, so all
	// databases share them.
	Prepare func(dsn string) error

	once    sync.Once
	options string // of CREATE DATABASE
	err     error
}

// Postgres returns the URL of a copy for t. The copy has the properties of a database of the function Postgres.
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
	// Since PostgreSQL 15 a copy writes every page to the log, unless it is told to copy the files.
	err = conn.QueryRow(
		ctx, `SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY FILE_COPY' ELSE '' END`).Scan(&options)
	return " TEMPLATE " + name + options, err
}
