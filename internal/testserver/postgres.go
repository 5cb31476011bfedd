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

	"github.com/dvt-engine/dvt/internal/checkout"
)

// nobody is the user id of the server when the tests run as root, because PostgreSQL refuses to run as root.
const nobody = 65534

var (
	sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) {
		return StartPostgres(PostgresOptions{Settings: []string{
			"fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=64MB",
		}})
	})
	databases, templates atomic.Int64
)

// Postgres returns the URL of a new, empty database for t, with the encoding UTF-8 and the collation C, on a server
// that the tests of this process share. The end of t drops the database and closes its connections. The server runs
// without fsync, so tests may kill clients but not the server.
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
	DSN     string   // URL of the database postgres, as the superuser
	box     *sandbox // keeps the watchdog's pipe open
	data    string   // data directory
	command func() *exec.Cmd
	proc    *process
}

// PID returns the process id of the server. Its backends are children of that process.
func (s *PostgresServer) PID() int { return s.proc.cmd.Process.Pid }

// Stop shuts the server down: it breaks all connections and writes its data.
func (s *PostgresServer) Stop(t testing.TB) {
	t.Helper()
	if err := s.box.stop(s.proc, syscall.SIGINT); err != nil {
		t.Fatalf("testserver: stop PostgreSQL: %v", err)
	}
}

// Start starts a stopped server on the same data and address, and returns when it answers.
func (s *PostgresServer) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("testserver: start PostgreSQL again: %v", err)
	}
}

func (s *PostgresServer) start() (err error) {
	s.proc, err = s.box.run(s.command(), func(*process) bool { return execSQL(s.DSN, "SELECT 1") == nil })
	return err
}

// CopyData copies the data of a stopped server. putBack puts the copy in place of the data that a stopped server has
// then, like a restore of a backup. Call it at most once.
func (s *PostgresServer) CopyData(t testing.TB) (putBack func()) {
	t.Helper()
	older := s.data + ".older"
	if out, err := exec.Command("cp", "-a", s.data, older).CombinedOutput(); err != nil {
		t.Fatalf("testserver: copy the data of PostgreSQL: %v: %s", err, out)
	}
	return func() {
		t.Helper()
		if err := errors.Join(os.Rename(s.data, s.data+".newer"), os.Rename(older, s.data)); err != nil {
			t.Fatalf("testserver: put the older data of PostgreSQL in place: %v", err)
		}
	}
}

// PostgresOptions configures a server. The zero value gives a server with the default durability of PostgreSQL.
type PostgresOptions struct {
	Settings []string          // NAME=VALUE; {dir} in a value stands for the directory of Files
	Env      []string          // added to the server's environment
	Files    map[string][]byte // files that only the server may read, by name
}

// StartPostgres starts a server for a process that is not a test. It ends with the process, or with Close.
func StartPostgres(o PostgresOptions) (*PostgresServer, error) {
	return startOn(o, "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// startOn runs a program of PostgreSQL that creates a data directory, and starts a server on it.
func startOn(o PostgresOptions, program string, args ...string) (server *PostgresServer, err error) {
	return startFilled(o, func(bin, dir, data string) *exec.Cmd {
		return postgresCommand(dir, filepath.Join(bin, program), append(args, "-D", data)...)
	})
}

// startFilled starts a server on the data directory that a command creates. bin is the directory of the programs of
// PostgreSQL.
func startFilled(o PostgresOptions, fill func(bin, dir, data string) *exec.Cmd) (server *PostgresServer, err error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	// SIGQUIT is the immediate shutdown of PostgreSQL: it releases shared memory but flushes nothing.
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
		if err := errors.Join(checkReachable(box.dir), checkReachable(bin)); err != nil {
			return nil, err
		}
	}
	for name, content := range o.Files {
		if err := writeForPostgres(filepath.Join(box.dir, name), content); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(box.dir, "data")
	create := fill(bin, box.dir, data)
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(create.Path), err, out)
	}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		server = &PostgresServer{DSN: dsn, box: box, data: data, command: func() *exec.Cmd {
			postgres := postgresCommand(box.dir, filepath.Join(bin, "postgres"),
				"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", "", "-c", "max_connections=300")
			for _, setting := range o.Settings {
				postgres.Args = append(postgres.Args, "-c", strings.ReplaceAll(setting, "{dir}", box.dir))
			}
			postgres.Env = append(postgres.Env, o.Env...)
			return postgres
		}}
		return server.start()
	})
	return server, err
}

// Replace replaces files of PostgresOptions and makes the server reload them.
func (s *PostgresServer) Replace(t testing.TB, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		if err := writeForPostgres(filepath.Join(s.box.dir, name), content); err != nil {
			t.Fatalf("testserver: replace a file of PostgreSQL: %v", err)
		}
	}
	if err := execSQL(s.DSN, "SELECT pg_reload_conf()"); err != nil {
		t.Fatalf("testserver: replace files of PostgreSQL: %v", err)
	}
}

// writeForPostgres writes a file that only the server may read.
func writeForPostgres(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil || os.Getuid() != 0 {
		return err
	}
	return os.Chown(path, nobody, nobody)
}

// Close stops the server immediately and removes its files.
func (s *PostgresServer) Close() error { return s.box.close() }

// PostgresProgram returns the path of a program of PostgreSQL, such as pgbench. It prefers the directory of the server.
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

// postgresPrograms returns the directory that contains initdb and postgres. tools/prepare searches the same
// directories.
func postgresPrograms() (string, error) {
	root, err := checkout.Root()
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

// checkReachable returns an error when the user that PostgreSQL runs as cannot enter a directory above path.
func checkReachable(path string) error {
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
