package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// engineHealth returns the overall status, and the status and message of the engine's check.
func engineHealth(t *testing.T, c *client.Client) (status client.HealthStatus, message string) {
	t.Helper()
	out, err := client.ShowHealth(t.Context(), c)
	must(t, err)
	for _, check := range out.Health.Checks {
		if check.Name == "temporal" && check.Message != nil {
			message = *check.Message
		}
	}
	return out.Health.Status, message
}

// waitForHealth waits until health has a status and the engine's check contains words.
func waitForHealth(t *testing.T, c *client.Client, want client.HealthStatus, words string, patience time.Duration) {
	t.Helper()
	var status client.HealthStatus
	var message string
	for deadline := time.Now().Add(testtime.Of(patience)); time.Now().Before(deadline); time.Sleep(
		100 * time.Millisecond) {
		if status, message = engineHealth(t, c); status == want && strings.Contains(message, words) {
			return
		}
	}
	t.Fatalf("health was not %s with %q within %s: last %s, %q", want, words, patience, status, message)
}

// readServerRecord reads the file in which dvt dev records its Temporal server.
func readServerRecord(t *testing.T, data string) (id struct{ PID, Port int }) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "temporal", "server.pid"))
	must(t, err)
	must(t, json.Unmarshal(b, &id))
	return id
}

// killTemporalAtCleanup kills the Temporal server of a `dvt dev` on data when t ends, because a failing test leaves it
// running.
func killTemporalAtCleanup(t *testing.T, data string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(data, "temporal", "server.pid")); err != nil {
			return
		}
		if pid := readServerRecord(t, data).PID; isRunning(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// commandLine returns the command line of a process, with spaces between its arguments.
func commandLine(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	must(t, err)
	return strings.ReplaceAll(string(b), "\x00", " ")
}

// A stopped process keeps its port and its connections but answers nothing, so only probes detect it.
func TestDev_StoppedTemporalServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	data, address := dataDir(t), testserver.FreeAddress(t)
	killTemporalAtCleanup(t, data)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "2s")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	waitForEnd(t, c, start(t, c, "before", killPlan(0)), time.Minute) // the worker executes steps
	var open []string
	for i := range 3 {
		open = append(open, start(t, c, fmt.Sprintf("open-%d", i), killPlan(i)))
	}
	time.Sleep(300 * time.Millisecond) // steps are running
	hung := temporalPID(t, data)
	must(t, syscall.Kill(hung, syscall.SIGSTOP))
	stopped := time.Now()
	waitForHealth(t, c, client.HealthStatusDegraded, "The embedded Temporal server has not answered for", 20*time.Second)
	for _, id := range open {
		if out, err := client.ShowRun(t.Context(), c, id, nil); err != nil || out.Run == nil {
			t.Errorf("run %s cannot be read while the Temporal server hangs: %v", id, err)
		} else if out.Run.CompletedAt != nil {
			t.Errorf("run %s ended before the Temporal server was stopped, so the test proves nothing about it", id)
		}
	}
	waitForHealth(t, c, client.HealthStatusHealthy, "", time.Until(stopped.Add(60*time.Second)))
	t.Logf("HEALTHY %s after SIGSTOP", time.Since(stopped).Round(100*time.Millisecond))
	if isAlive(hung) {
		t.Errorf("the stopped process %d was left behind", hung)
	}
	open = append(open, start(t, c, "afterwards", killPlan(9)))
	for _, id := range open {
		if r := waitForEnd(t, c, id, time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("run %s ended %s, want COMPLETED: %+v", id, r.StatusRaw, r.RootCause)
		}
	}
	if logged := p.output(); strings.Count(logged, "the embedded Temporal server is started again") != 1 ||
		!strings.Contains(logged, "it has not answered for 1") {
		t.Errorf("want exactly one log line that the server is started again because it has not answered")
	}
	p.terminate()
}

// A server may answer but lack its namespace. A restart creates the namespace again. The test deletes it through
// temporal-port, which opens the API to the machine.
func TestDev_LostNamespaceComesBack(t *testing.T) {
	t.Parallel()
	data, address := dataDir(t), testserver.FreeAddress(t)
	killTemporalAtCleanup(t, data)
	temporal := testserver.FreeAddress(t)
	_, port, _ := strings.Cut(temporal, ":")
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--temporal-port", port)
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	remove := exec.Command(filepath.Join(root(t), ".tools", "bin", "temporal"), "operator", "namespace", "delete",
		"--address", temporal, "--namespace", "dvt", "--yes")
	remove.Env = append(environmentWithoutDVT(), "HOME="+t.TempDir())
	if out, err := remove.CombinedOutput(); err != nil {
		t.Fatalf("delete the namespace: %v: %s", err, out)
	}
	removed := time.Now()
	waitForHealth(t, c, client.HealthStatusDegraded, "its namespace dvt is not found", 20*time.Second)
	waitForHealth(t, c, client.HealthStatusHealthy, "", time.Until(removed.Add(60*time.Second)))
	id := start(t, c, "afterwards", killPlan(1))
	if r := waitForEnd(t, c, id, time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("run %s ended %s, want COMPLETED: %+v", id, r.StatusRaw, r.RootCause)
	}
	p.terminate()
}

// Without temporal-ui-port there is no Temporal UI, because it would be a page without authentication on an unknown
// port.
func TestDev_TemporalHasAUIOnlyOnRequest(t *testing.T) {
	t.Parallel()
	_, port, _ := strings.Cut(testserver.FreeAddress(t), ":")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"by default", nil, "--headless"},
		{"with temporal-ui-port", []string{"--temporal-ui-port", port}, "--ui-ip 127.0.0.1 --ui-port " + port},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := dataDir(t)
			killTemporalAtCleanup(t, data)
			p := spawn(t, "dvt dev", nil, append([]string{"dev", "--listen", testserver.FreeAddress(t), "--data", data,
				"--no-sample"}, tc.args...)...)
			if got := commandLine(t, temporalPID(t, data)); strings.Count(got, tc.want) != 1 ||
				strings.Contains(got, "--ui-port") != (tc.args != nil) {
				t.Errorf("the Temporal server runs as %q, want it with %q", got, tc.want)
			}
			if _, err := http.Get("http://127.0.0.1:" + port); (err == nil) != (tc.args != nil) {
				t.Errorf("the UI on port %s answers: %t, want %t", port, err == nil, tc.args != nil)
			}
			p.terminate()
		})
	}
}
