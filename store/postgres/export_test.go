package postgres

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
)

// Queued is how many callers wait for a connection.
func (s *Store) Queued() int64 { return s.waiting.Load() }

// MigrateTo runs the program's migrations up to version.
func MigrateTo(t *testing.T, dsn string, version int) {
	t.Helper()
	files := fstest.MapFS{}
	for n := 1; n <= version; n++ {
		names, err := fs.Glob(migrations, fmt.Sprintf("migrations/%04d_*.sql", n))
		if err != nil || len(names) != 1 {
			t.Fatalf("migration %d: %v, %v", n, names, err)
		}
		text, err := migrations.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		files[names[0][len("migrations/"):]] = &fstest.MapFile{Data: text}
	}
	migrateTo(t, dsn, files)
}
