package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/storetest"
)

var migratedTemplate = testserver.Template{
	Prepare: func(dsn string) error { return postgres.Migrate(context.Background(), dsn) }}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.DB { return database{migratedTemplate.Postgres(t)} })
}

type database struct{ dsn string }

func (d database) Open(t testing.TB) store.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), d.dsn, postgres.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (d database) Exec(t testing.TB, statement string) error {
	t.Helper()
	_, err := connect(t, d.dsn).Exec(context.Background(), statement)
	return err
}

// ExecAsOwner executes one SQL statement with the rights of the owner of the tables.
func (d database) ExecAsOwner(t testing.TB, statement string) error {
	t.Helper()
	_, err := connect(t, strings.Replace(d.dsn, "//Server@", "//owner@", 1)).Exec(context.Background(), statement)
	return err
}

func (d database) Count(t testing.TB, query string) (n int) {
	t.Helper()
	if err := connect(t, d.dsn).QueryRow(context.Background(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
