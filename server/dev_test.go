package server_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// A run completes in `dvt dev`. A second start on the same data still has the run. Both starts and shutdowns are in
// time. With TEST_LONG the run is the sample, including dbt; in make test the browser watches the sample to its end
// (web/e2e/sample.spec.ts).
func TestDev_SampleRunCompletes(t *testing.T) {
	t.Parallel()
	data, address := dataDir(t), testserver.FreeAddress(t)
	args := []string{"dev", "--listen", address, "--data", data}
	long := os.Getenv("TEST_LONG") != ""
	if !long {
		args = append(args, "--no-sample")
	}
	p := spawn(t, "dvt dev", nil, args...)
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	if !long {
		start(t, c, "small", killPlan(0))
	}
	size := 10
	runs, err := client.ListRuns(t.Context(), c, &size, nil, nil, nil)
	must(t, err)
	if len(runs.Runs.Edges) != 1 {
		t.Fatalf("dvt dev has %d runs, want only the sample or the small run", len(runs.Runs.Edges))
	}
	sample := runs.Runs.Edges[0].Node.RunId
	done := waitForEnd(t, c, sample, 3*time.Minute)
	if done.Status != client.RunStatusCompleted {
		t.Fatalf("the sample ended %s, want COMPLETED: %+v", done.StatusRaw, done.RootCause)
	}
	engine := temporalPID(t, data)
	if took := p.terminate(); took > testtime.Of(15*time.Second) {
		t.Errorf("the shutdown took %s, want 15 s or less", took)
	}
	if isAlive(engine) {
		t.Error("the Temporal server outlived dvt dev")
	}
	began := time.Now()
	if long {
		p.args = append(p.args, "--no-sample")
	}
	p.start()
	if took := time.Since(began); took > testtime.Of(10*time.Second) {
		t.Errorf("the second start took %s, want 10 s or less", took)
	}
	again, err := client.ShowRun(t.Context(), c, sample, nil)
	must(t, err)
	if again.Run == nil || again.Run.Status != client.RunStatusCompleted {
		t.Fatalf("after the second start the sample is %+v, want a COMPLETED run", again.Run)
	}
	p.terminate()
	s, err := sqlite.Open(t.Context(), filepath.Join(data, "dvt.db"), sqlite.Options{})
	must(t, err)
	defer s.Close()
	evs := checkLog(t, s, sample)
	for _, e := range evs {
		t.Logf("%3d %s %s %d", e.Seq, e.Type, e.StepID, e.LogicalAttempt)
	}
}

// killPlan returns a plan with parallel steps that take a moment and have enough attempts to survive kills.
func killPlan(n int) []byte {
	steps := []string{}
	add := func(id, typ, inputs, deps string) {
		steps = append(steps, fmt.Sprintf(`{"stepId":%q,"type":%q,"inputs":%s,"dependsOn":[%s],"timeout":"1m",
			"retry":{"maxAttempts":10,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`, id, typ, inputs, deps))
	}
	add("first", "NOOP", `{}`, "")
	add("nap-a", "SLEEP", `{"ms":700}`, `"first"`)
	add("nap-b", "COMMAND", `{"argv":["sleep","0.5"]}`, `"first"`)
	add("join", "NOOP", `{}`, `"nap-a","nap-b"`)
	add("last", "COMMAND", `{"argv":["sleep","0.3"]}`, `"join"`)
	return []byte(fmt.Sprintf(`{"schemaVersion":"v1.2","metadata":{"planId":"kill-%d","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z",
		"createdBy":"test","schemaVersion":"v1.2","failurePolicy":{"retryWindowSeconds":0}},
		"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"%s"},"steps":[%s]}`,
		n, strings.Repeat("0", 40), strings.Join(steps, ",")))
}

// The test kills dvt dev, and each third time its Temporal server, at random moments while runs are in flight. All runs
// complete with valid logs. With TEST_LONG there are 20 kills and 10 runs in flight, without it 6 and 5.
func TestDev_KillsLoseNothing(t *testing.T) {
	t.Parallel()
	kills, inFlight := 6, 5
	if os.Getenv("TEST_LONG") != "" {
		kills, inFlight = 20, 10
	}
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "2s")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var all, open []string
	for k := range kills {
		for len(open) < inFlight {
			id := start(t, c, fmt.Sprintf("kill-%d", len(all)), killPlan(len(all)))
			all, open = append(all, id), append(open, id)
		}
		time.Sleep(time.Duration(100+random.IntN(1500)) * time.Millisecond)
		victim := "dvt"
		if k%3 == 1 {
			victim = "temporal"
			must(t, syscall.Kill(temporalPID(t, data), syscall.SIGKILL))
		} else {
			p.kill()
			p.start()
		}
		var still []string
		for _, id := range open {
			if out, err := client.ShowRun(t.Context(), c, id, nil); err != nil || out.Run == nil || out.Run.CompletedAt == nil {
				still = append(still, id)
			}
		}
		t.Logf("kill %2d: %s, %d runs so far, %d open", k+1, victim, len(all), len(still))
		open = still
	}
	for _, id := range all {
		if r := waitForEnd(t, c, id, 3*time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("run %s ended %s, want COMPLETED: %+v", id, r.StatusRaw, r.RootCause)
		}
	}
	p.terminate()
	s, err := sqlite.Open(t.Context(), filepath.Join(data, "dvt.db"), sqlite.Options{})
	must(t, err)
	defer s.Close()
	events := 0
	for _, id := range all {
		events += len(checkLog(t, s, id))
	}
	t.Logf("%d kills, %d runs, %d events, every log valid", kills, len(all), events)
}

// The test kills dvt dev while the program of a step has a child. The next start ends the child before it repeats the
// step. The test runs without a sandbox, because with one the kernel ends the child at once.
// contract: T226
func TestDev_EndsOrphanedProcesses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Fatal("the test reads /proc: run it on Linux")
	}
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", []string{"DVT_SANDBOX_RUNTIME=none"}, "dev", "--listen", address, "--data", data,
		"--no-sample", "--heartbeat", "2s")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	pids := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf("sleep 600 & echo $! >> %s; wait", pids)
	doc := fmt.Appendf(
		nil, `{"schemaVersion":"v1.2","metadata":{"planId":"orphans","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z",
		"createdBy":"test","schemaVersion":"v1.2"},"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"%s"},
		"steps":[{"stepId":"long","type":"COMMAND","inputs":{"argv":["sh","-c",%q]},"timeout":"11m","dependsOn":[]}]}`,
		strings.Repeat("0", 40), script)
	start(t, c, "orphans", doc)
	first := childPIDs(t, pids, 1)[0]
	p.kill()
	if !isRunning(first) {
		t.Fatal("the child ended with its parent, so the test proves nothing")
	}
	p.start()
	if isRunning(first) {
		t.Errorf("process %d of the killed dvt dev runs after the next start", first)
	}
	again := childPIDs(t, pids, 2)[1]
	p.terminate()
	if isRunning(again) {
		t.Errorf("process %d outlived dvt dev", again)
	}
}

// isRunning reports whether the process runs. A zombie does not run.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

// childPIDs waits until the step has written n pids.
func childPIDs(t *testing.T, file string, n int) (pids []int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		b, _ := os.ReadFile(file)
		pids = nil
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			must(t, err)
			pids = append(pids, pid)
		}
		if len(pids) >= n {
			return pids
		}
	}
	t.Fatalf("the program of the step started %d times within a minute, want %d", len(pids), n)
	return nil
}

// Each start that cannot succeed prints one sentence with the reason.
func TestDev_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample")
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"a taken port", "is taken", []string{"dev", "--listen", address, "--data", dataDir(t)}},
		{"taken data", "another dvt already runs", []string{"dev", "--listen", testserver.FreeAddress(t), "--data", data}},
		{"an address of all interfaces", "loopback only", []string{"dev", "--listen", "0.0.0.0:1"}},
		{"a file in place of the data directory", "cannot be written", []string{"dev", "--listen", testserver.FreeAddress(t),
			"--data",
			newFile(t)}},
	} {
		out := expectFailure(t, c.args...)
		if !strings.Contains(out, c.want) || strings.Count(strings.TrimSpace(out), "\n") > 0 {
			t.Errorf("%s: dvt dev prints %q, want one sentence with %q", c.name, out, c.want)
		}
	}
	p.terminate()
}

// expectFailure runs dvt, which must fail at once, and returns its output.
func expectFailure(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(testserver.Binary(t), args...)
	cmd.Dir, cmd.Env = root(t), environmentFor(args)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("dvt %s succeeded, want a failure", strings.Join(args, " "))
	}
	return string(out)
}

func newFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, nil, 0o600))
	return name
}
