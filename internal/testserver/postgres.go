package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// nobody is whom the server runs as when the tests run as root, whom PostgreSQL refuses.
const nobody = 65534

var (
	sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) {
		return StartPostgres(PostgresOptions{Settings: []string{
			"fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=64MB",
		}})
	})
	databases, templates atomic.Int64
)

// Postgres returns the address of a fresh, empty database of its own for t, in the UTF-8 encoding and the C collation,
// on a server shared by the test process. The database is dropped when t ends, its connections cut. The server runs
// without fsync: it is for tests that kill clients, not for tests that kill the server.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	return database(t, "")
}

func database(t testing.TB, options string) (dsn string) {
	t.Helper()
	server, err := sharedPostgres()
	if err != nil {
		t.Fatalf("testserver: no PostgreSQL: %v", err)
	}
	admin := server.DSN
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := execSQL(admin, "CREATE DATABASE "+name+options); err != nil {
		t.Fatalf("testserver: create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := execSQL(admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testserver: drop the database: %v", err)
		}
	})
	return strings.Replace(admin, "/postgres?", "/"+name+"?", 1)
}

// PostgresServer is a running server.
type PostgresServer struct {
	DSN string   // the address of the database postgres, as its superuser
	box *sandbox // must stay reachable because the watchdog's pipe closes with it
	pid int
}

// PID is the process id of the server. Its backends are children of that process.
func (s *PostgresServer) PID() int { return s.pid }

// PostgresOptions are what a server has of its own; without any it is as durable as PostgreSQL is by default.
type PostgresOptions struct {
	Settings []string          // name=value; {dir} in a value is the directory of Files
	Env      []string          // added to the server's environment
	Files    map[string][]byte // that the server alone may read, by name
}

// StartPostgres starts a server for a process that is no test. It ends with the process, or with Close.
func StartPostgres(o PostgresOptions) (*PostgresServer, error) {
	return startOn(o, "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// startOn starts a server on what a program of PostgreSQL writes into a directory.
func startOn(o PostgresOptions, program string, args ...string) (server *PostgresServer, err error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	// SIGQUIT is PostgreSQL's immediate stop: nothing is flushed, shared memory is given back.
	box, err := newSandbox("postgres", syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, box.close())
		}
	}()
	if os.Getuid() == 0 {
		if err := os.Chown(box.dir, nobody, nobody); err != nil {
			return nil, err
		}
		if err := errors.Join(reachable(box.dir), reachable(bin)); err != nil {
			return nil, err
		}
	}
	for name, content := range o.Files {
		if err := forPostgres(filepath.Join(box.dir, name), content); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(box.dir, "data")
	if out, err := postgresCommand(box.dir, filepath.Join(bin, program), append(args, "-D",
		data)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, out)
	}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		server = &PostgresServer{DSN: dsn, box: box}
		postgres := postgresCommand(box.dir, filepath.Join(bin, "postgres"),
			"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", "", "-c", "max_connections=300")
		for _, setting := range o.Settings {
			postgres.Args = append(postgres.Args, "-c", strings.ReplaceAll(setting, "{dir}", box.dir))
		}
		postgres.Env = append(postgres.Env, o.Env...)
		p, err := box.run(postgres, func(*process) bool { return execSQL(dsn, "SELECT 1") == nil })
		if err == nil {
			server.pid = p.cmd.Process.Pid
		}
		return err
	})
	return server, err
}

// Replace puts new files in place of those of PostgresOptions, and tells the server to read them.
func (s *PostgresServer) Replace(t testing.TB, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		if err := forPostgres(filepath.Join(s.box.dir, name), content); err != nil {
			t.Fatalf("testserver: replace a file of PostgreSQL: %v", err)
		}
	}
	if err := execSQL(s.DSN, "SELECT pg_reload_conf()"); err != nil {
		t.Fatalf("testserver: replace files of PostgreSQL: %v", err)
	}
}

// forPostgres writes a file that the server alone may read.
func forPostgres(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil || os.Getuid() != 0 {
		return err
	}
	return os.Chown(path, nobody, nobody)
}

// Close ends the server at once and removes its files.
func (s *PostgresServer) Close() error { return s.box.close() }

// PostgresProgram finds another of PostgreSQL's programs, such as pgbench, beside the server's.
func PostgresProgram(name string) (string, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return "", err
	}
	if path := filepath.Join(bin, name); executable(path) {
		return path, nil
	}
	return exec.LookPath(name)
}

func postgresCommand(dir, program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir, "LC_ALL=C", "TZ=UTC")
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return c
}

// postgresPrograms finds the directory that holds initdb and postgres; tools/prepare looks in the same places.
func postgresPrograms() (string, error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	candidates := []string{filepath.Join(root, ".tools", "postgres", "bin")}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(initdb); err == nil {
			candidates = append(candidates, filepath.Dir(target))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	packaged, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Reverse(packaged)
	for _, dir := range append(candidates, packaged...) {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errors.New("initdb and postgres are not on this machine: run `make tools/postgres`")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// reachable says in a sentence when the user that PostgreSQL runs as cannot enter a directory above path.
func reachable(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("PostgreSQL does not run as root, and another user cannot enter %s: "+
				"run the tests as an ordinary user, or set TMPDIR and clone where others may enter (chmod o+x)", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func execSQL(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
