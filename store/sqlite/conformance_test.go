package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.DB {
		return file(filepath.Join(t.TempDir(), "dvt.db"))
	})
}

// file is the path of one database of the suite.
type file string

func (f file) Open(t testing.TB) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), string(f), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (f file) Exec(t testing.TB, statement string) error {
	_, err := f.raw(t).Exec(statement)
	return err
}

func (f file) Count(t testing.TB, query string) (n int) {
	t.Helper()
	if err := f.raw(t).QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (f file) raw(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", string(f)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
