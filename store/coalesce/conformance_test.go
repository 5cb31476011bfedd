package coalesce_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/storetest"
)

var migrated = testserver.Template{
	Prepare: func(dsn string) error { return postgres.Migrate(context.Background(), dsn) }}

// A coalescing store must keep the guarantees of the store that it decorates.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.DB { return database{migrated.Postgres(t)} })
}

type database struct{ dsn string }

func (d database) Open(t testing.TB) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), d.dsn, postgres.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return coalesce.New(s, coalesce.Config{})
}

func (d database) connect(t testing.TB) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	return c
}

func (d database) Exec(t testing.TB, statement string) error {
	t.Helper()
	_, err := d.connect(t).Exec(t.Context(), statement)
	return err
}

// ExecAsOwner executes one SQL statement with the rights of the owner of the tables, which this database always has.
func (d database) ExecAsOwner(t testing.TB, statement string) error {
	t.Helper()
	return d.Exec(t, statement)
}

func (d database) Count(t testing.TB, query string) (n int) {
	t.Helper()
	if err := d.connect(t).QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
