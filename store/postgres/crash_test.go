package postgres_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// server is a PostgreSQL server that belongs to one test, which may kill it.
type server struct {
	bin, dir, dsn string
	port          string
	cmd           *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	out, err := exec.Command("pg_config", "--bindir").Output()
	if err != nil {
		t.Fatalf("no pg_config on PATH: install PostgreSQL 13 or later (apt install postgresql): %v", err)
	}
	//nolint:usetesting // another user runs the server, so the directory must be accessible to all
	dir, err := os.MkdirTemp("", "dvt-crash")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(testserver.FreeAddress(t))
	s := &server{bin: strings.TrimSpace(string(out)), dir: dir, port: port,
		dsn: "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	if out, err := s.command("initdb", "-D", dir+"/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.start(t)
	t.Cleanup(func() { s.stop(syscall.SIGQUIT) })
	return s
}

// nobody is the user id of the server when the tests run as root, because PostgreSQL refuses to run as root.
const nobody = 65534

func (s *server) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, program), args...)
	c.Dir, c.Env = s.dir, append(os.Environ(), "HOME="+s.dir, "LC_ALL=C")
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return c
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.cmd = s.command("postgres", "-D", s.dir+"/data", "-h", "127.0.0.1", "-p", s.port, "-k", "")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testtime.Of(30 * time.Second)); ; time.Sleep(50 * time.Millisecond) {
		c, err := pgx.Connect(context.Background(), s.dsn)
		if err == nil {
			c.Close(context.Background())
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("postgres did not start: %v", err)
		}
	}
}

func (s *server) stop(sig syscall.Signal) {
	s.cmd.Process.Signal(sig)
	s.cmd.Wait()
}

// Every acknowledged append survives an immediate stop of the server under load. The same Store works again after the
// restart.
// contract: T09
func TestAppend_ServerCrashLosesNothingAcknowledged(t *testing.T) {
	ctx := context.Background()
	srv := newServer(t)
	s := open(t, srv.dsn)
	const runs = 6
	for i := range runs {
		create(t, s, fmt.Sprint("r", i))
	}
	var acknowledged [runs]atomic.Int64
	var failures atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			for n := 1; ; {
				select {
				case <-stop:
					return
				default:
				}
				// A failed append is repeated unchanged. Its key ensures that the log has the event only once.
				a, err := appendTo(ctx, s, fmt.Sprint("r", i), stepStarted("s1", n))
				if err != nil {
					failures.Add(1)
					time.Sleep(20 * time.Millisecond)
					continue
				}
				if a.Outcomes[0].Seq != run.Seq(n) {
					t.Errorf("the event of attempt %d has seq %d, want %d", n, a.Outcomes[0].Seq, n)
					return
				}
				acknowledged[i].Store(int64(n))
				n++
			}
		})
	}
	// crash stops the server after every run has made progress since the last crash.
	crash := func() {
		var before [runs]int64
		for i := range runs {
			before[i] = acknowledged[i].Load()
		}
		for i := range runs {
			for deadline := time.Now().Add(time.Minute); acknowledged[i].Load() == before[i] &&
				!t.Failed(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("no append to r%d succeeded within a minute", i)
				}
			}
		}
		time.Sleep(300 * time.Millisecond)
		srv.stop(syscall.SIGQUIT)
	}
	for range 3 {
		crash()
		srv.start(t)
	}
	crash()
	close(stop)
	wg.Wait()
	srv.start(t)
	if failures.Load() == 0 {
		t.Error("no append failed, so the test did not crash the server under load")
	}
	for i := range runs {
		id, want := fmt.Sprint("r", i), run.Seq(acknowledged[i].Load())
		var last run.Seq
		for {
			evs := must[[]run.Event](t)(s.Events(ctx, id, last, store.MaxPage))
			if len(evs) == 0 {
				break
			}
			for _, e := range evs {
				if e.Seq != last+1 {
					t.Fatalf("%s: event %d follows %d, want no gap", id, e.Seq, last)
				}
				last = e.Seq
			}
		}
		head := must[store.Heads](t)(s.Heads(ctx, []string{id})).ByRun[id]
		if want == 0 || last < want || head.LastSeq != last {
			t.Errorf("%s: %d appends were acknowledged, the last event is %d and the head is %d; want no acknowledged "+
				"event lost", id, want, last, head.LastSeq)
		}
	}
}
