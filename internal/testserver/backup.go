package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Backup is a place outside of a server, with its archived log and a base backup.
type Backup struct{ dir string }

// NewBackup makes an empty place that the end of t removes.
func NewBackup(t testing.TB) *Backup {
	t.Helper()
	dir, err := os.MkdirTemp("", "dvt-backup-") //nolint:usetesting // the server cannot enter t.TempDir as another user
	if err != nil {
		t.Fatalf("testserver: make a place for a backup: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &Backup{dir: dir}
	for _, path := range []string{dir, b.log()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatalf("testserver: make a place for a backup: %v", err)
		}
		if os.Getuid() != 0 {
			continue
		}
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatalf("testserver: give the place of a backup to the server: %v", err)
		}
	}
	return b
}

func (b *Backup) log() string { return filepath.Join(b.dir, "wal") }

func (b *Backup) base() string { return filepath.Join(b.dir, "base") }

// Archiving are the settings of a server that archives its log there.
func (b *Backup) Archiving() []string {
	return []string{"archive_mode=on", fmt.Sprintf("archive_command=cp %%p %s/%%f", b.log())}
}

// Take makes a base backup of a running server.
func (b *Backup) Take(t testing.TB, s *PostgresServer) {
	t.Helper()
	bin, err := postgresPrograms()
	if err != nil {
		t.Fatal(err)
	}
	c := postgresCommand(b.dir, filepath.Join(bin, "pg_basebackup"), "-d", s.DSN, "-X", "none", "-c", "fast", "--no-sync",
		"-D", b.base())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("testserver: pg_basebackup: %v: %s", err, out)
	}
}

// Restore starts a new server with what was committed until a moment, or with all that was archived when the moment is
// zero. It returns when the server accepts writes. t.Fatal when the archive does not reach the moment.
func (b *Backup) Restore(t testing.TB, moment time.Time) *PostgresServer {
	t.Helper()
	settings := []string{"fsync=off", fmt.Sprintf("restore_command=cp %s/%%f %%p", b.log()),
		"recovery_target_action=promote"}
	if !moment.IsZero() {
		settings = append(settings, "recovery_target_time="+moment.UTC().Format("2006-01-02 15:04:05.000000+00"))
	}
	s, err := startFilled(PostgresOptions{Settings: settings}, func(_, dir, data string) *exec.Cmd {
		return postgresCommand(dir, "/bin/sh", "-c", `cp -a "$1" "$2" && touch "$2/recovery.signal"`, "sh", b.base(), data)
	})
	if err != nil {
		t.Fatalf("testserver: restore PostgreSQL to %s: %v", moment.UTC().Format(time.RFC3339Nano), err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	s.Await(t, s.DSN, "SELECT NOT pg_is_in_recovery()")
	return s
}
