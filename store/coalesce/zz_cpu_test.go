package coalesce_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
	"github.com/dvt-engine/dvt/store/postgres"
)

func pgCPU(t *testing.T, postmaster int) (total float64) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		s := string(b)
		fs := strings.Fields(s[strings.LastIndexByte(s, ')')+2:])
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		ppid, _ := strconv.Atoi(fs[1])
		n := func(i int) float64 { v, _ := strconv.ParseFloat(fs[i], 64); return v }
		if pid == postmaster {
			total += n(11) + n(12) + n(13) + n(14)
		} else if ppid == postmaster {
			total += n(11) + n(12)
		}
	}
	return total * 10000 // us
}

func goCPU() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1000
}

func TestZZ(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	os.Chmod(filepath.Dir(dir), 0o755)
	lib := filepath.Join(dir, "fsync.so")
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", lib, "../../bench/shim/fsync.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	os.Chmod(lib, 0o755)
	srv, err := testserver.StartPostgres(testserver.PostgresOptions{Settings: []string{
		"shared_buffers=512MB", "maintenance_work_mem=512MB", "max_wal_size=16GB", "checkpoint_timeout=1h", "wal_sync_method=fdatasync",
	}, Env: []string{"LD_PRELOAD=" + lib}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	var pm int
	c, err := pgx.Connect(t.Context(), srv.DSN)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pm)
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pm))
	pm, _ = strconv.Atoi(strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+2:])[1])
	defer c.Close(context.Background())
	if err := postgres.Migrate(t.Context(), srv.DSN); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), srv.DSN, postgres.Options{MaxConns: 32})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 32
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("5f0c3b1e-6a7d-4c52-9b1e-%012d", i)
		of := runtest.ID
		of.RunID = ids[i]
		names := make([]string, 100)
		for j := range names {
			names[j] = fmt.Sprintf("s%05d", j)
		}
		if _, _, err := s.CreateRun(t.Context(), store.NewRun{
			Run: store.Run{Identity: of, RequestID: ids[i], RequestKey: run.RequestKey(of.TenantID, of.ProjectID, of.EnvironmentID, of.PlanID, of.PlanVersion, ids[i]),
				PlanRef: plan.Ref{SHA256: fmt.Sprintf("%064d", 1), SchemaVersion: "v1.2", PlanID: of.PlanID, PlanVersion: of.PlanVersion}},
			Events: []run.Draft{runtest.Start(names...)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	counts := make([]int, n)
	work := func(log store.Log, d time.Duration) int64 {
		var calls atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for w := range n {
			wg.Go(func() {
				for time.Since(began) < d {
					k := counts[w]
					counts[w]++
					dr := run.Draft{Type: run.StepStartedEvent, StepID: fmt.Sprintf("s%05d", k/2%100), LogicalAttempt: 1 + k/200, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
					if k%2 == 1 {
						dr.Type = run.StepCompletedEvent
					}
					out, err := log.Append(context.Background(), store.Append{RunID: ids[w], Events: []run.Draft{dr}})
					if err != nil || out.Outcomes[0].Seq == 0 || out.Outcomes[0].Deduplicated {
						t.Errorf("%v %+v", err, out)
						return
					}
					calls.Add(1)
				}
			})
		}
		wg.Wait()
		return calls.Load()
	}
	if _, err := c.Exec(t.Context(), `CREATE TABLE event_bare (LIKE event, PRIMARY KEY (run_id, run_seq), UNIQUE (run_id, key))`); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "i.sql")
	os.WriteFile(script, []byte(`\set n :n + 1
INSERT INTO event_bare (run_id, run_seq, event_id, key, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload)
VALUES ('5f0c3b1e-6a7d-4c52-9b1e-' || lpad(:client_id::text, 12, '0'), :n, gen_random_uuid()::text, md5(:n::text) || md5((:n + 1)::text),
  'StepStarted', 's00001', '', 1, 1, now(), now(), 'engine', '{}');
`), 0o644)
	bin, _ := testserver.PostgresProgram("pgbench")
	co := coalesce.New(s, coalesce.Config{})
	if f := os.Getenv("ZZPROF"); f != "" {
		w, _ := os.Create(f)
		_ = pprof.StartCPUProfile(w)
		defer pprof.StopCPUProfile()
	}
	d := 2 * time.Second
	work(s, d/4)
	for rep := range 3 {
		if os.Getenv("ZZFLOOR") != "" {
			p0 := pgCPU(t, pm)
			var r0, r1 syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r0)
			out, err := exec.Command(bin, "-n", "-M", "prepared", "-c", "32", "-j", "2", "-T", "2", "-D", fmt.Sprintf("n=%d", rep*10000000), "-f", script, srv.DSN).CombinedOutput()
			if err != nil {
				t.Fatalf("%s", out)
			}
			syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r1)
			var tps float64
			for l := range strings.Lines(string(out)) {
				if strings.HasPrefix(l, "tps") {
					fmt.Sscanf(l, "tps = %f", &tps)
				}
			}
			tot := tps * 2
			cl := float64(r1.Utime.Nano()+r1.Stime.Nano()-r0.Utime.Nano()-r0.Stime.Nano()) / 1000
			t.Logf("%-10s %7.0f/s  pg %5.1f us  client %5.1f us", "pgbench", tps, (pgCPU(t, pm)-p0)/tot, cl/tot)
		}
		for _, m := range []struct {
			name string
			log  store.Log
		}{{"g1", coalesce.New(s, coalesce.Config{MaxGroups: 1})}, {"g2", co}, {"g3", coalesce.New(s, coalesce.Config{MaxGroups: 3})}, {"g4", coalesce.New(s, coalesce.Config{MaxGroups: 4})}, {"g6", coalesce.New(s, coalesce.Config{MaxGroups: 6})}} {
			p0, g0, b0 := pgCPU(t, pm), goCPU(), time.Now()
			k := float64(work(m.log, d))
			sec := time.Since(b0).Seconds()
			t.Logf("%-10s %7.0f/s  pg %5.1f us  go %5.1f us", m.name, k/sec, (pgCPU(t, pm)-p0)/k, (goCPU()-g0)/k)
		}
	}
}
