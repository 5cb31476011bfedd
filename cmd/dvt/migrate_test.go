package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMigrate_SaysWhatIsPendingAndWhatItDid(t *testing.T) {
	isolateEnvironment(t)
	file := filepath.Join(t.TempDir(), "dvt.db")
	migrate := func(status int, words string, args ...string) {
		t.Helper()
		runAndExpect(t, status, words, append([]string{"migrate", "--store", "sqlite:" + file}, args...)...)
	}
	migrate(1, "migrations are pending: run dvt migrate", "--status")
	migrate(0, "Would apply 0020 baseline: The schema of the StateStore on SQLite.", "--dry-run")
	if _, err := os.Stat(file); err == nil {
		t.Error("--dry-run created the database")
	}
	migrate(0, "Applied 0020 baseline: The schema of the StateStore on SQLite.")
	migrate(0, "No migration was pending.")
	migrate(0, "No migration is pending.", "--dry-run")
	migrate(0, `"database": `, "--status", "-o", "json")
	migrate(2, "status", "--status", "--dry-run")
}
