package server_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// smokeReport is the answer of dvt smoke -o json.
type smokeReport struct {
	RunID  string
	Passed int
	Failed int
	Checks []struct{ Name, State, Detail string }
}

// names returns the checks with a state, in order.
func (r smokeReport) names(state string) (out []string) {
	for _, c := range r.Checks {
		if c.State == state {
			out = append(out, c.Name)
		}
	}
	return out
}

func (r smokeReport) detail(name string) string {
	for _, c := range r.Checks {
		if c.Name == name {
			return c.Detail
		}
	}
	return ""
}

// smoke runs dvt smoke for the project and environment of the sample, and returns its report and exit status.
func (p *deployment) smoke(t *testing.T, token string, args ...string) (r smokeReport, status int) {
	t.Helper()
	args = append([]string{"smoke", "--server", p.urlA, "--project", "shop", "--environment", "dev", "-o", "json"},
		args...)
	cmd := exec.CommandContext(t.Context(), testserver.Binary(t), args...)
	cmd.Dir, cmd.Env = root(t), append(environmentWithoutDVT(), "DVT_TOKEN="+token)
	out, err := cmd.Output()
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("dvt smoke printed %q, which is no report: %v", out, err)
	}
	if err != nil {
		return r, cmd.ProcessState.ExitCode()
	}
	return r, 0
}

// dvt smoke passes on an installation that works, and on a broken one it names what does not work within its timeout
// and leaves no open run.
func TestSmoke_ProvesAnInstallation(t *testing.T) {
	t.Parallel()
	const opsToken = "an-operator-with-a-long-token"
	p := startDeployment(t, "  - {id: ops, tenant: acme, tokenSha256: "+tokenHash(opsToken)+
		", grants: [{role: ENGINEER, project: shop, environment: dev}, {role: SRE, project: '*', environment: '*'}]}",
		"operators-tenant: acme", "manual-keys: ['m1:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=']")
	r, status := p.smoke(t, adaToken, "--notify", p.receiver.URL, "--timeout", "2m")
	want := []string{"api", "health", "start", "begin", "pause", "resume", "retry", "manual", "end", "log", "events"}
	if status != 0 || !slices.Equal(r.names("OK"), want) || len(r.names("FAILED")) > 0 {
		t.Fatalf("the exit status is %d and the report %+v, want 0 with %q", status, r, want)
	}
	if got := p.receiver.receivedKeys(); len(got) != 1 {
		t.Errorf("the receiver of HTTP_NOTIFY steps got %d calls, want 1", len(got))
	}

	second := spawn(t, "second data worker", []string{"DVT_WORKER_TOKEN=" + workerToken}, "worker", "--queues",
		"tq-data-dev", "--temporal", p.temporal.Addr, "--temporal-namespace", p.temporal.Namespace, "--server", p.urlA,
		"--workspace", filepath.Join(p.dir, "second"))
	waitUntil(t, "a drain of one of two workers", 2*time.Minute, func() bool {
		r, status = p.smoke(t, opsToken, "--drain", "--no-manual", "--timeout", "2m")
		return slices.Contains(r.names("OK"), "drain") || r.Failed > 0 || hasExited(second)
	})
	if status != 0 || !strings.Contains(r.detail("drain"), "another one ran a step") {
		t.Errorf("with --drain the exit status is %d and the report %+v, want 0 and a drained worker", status, r)
	}

	t.Run("a bucket that accepts nothing", func(t *testing.T) {
		must(t, os.Rename(p.artifacts, p.artifacts+".away"))
		must(t, os.WriteFile(p.artifacts, nil, 0o600))
		defer func() {
			must(t, os.Remove(p.artifacts))
			must(t, os.Rename(p.artifacts+".away", p.artifacts))
		}()
		// a bucket that worked counts as working for 15 s
		r, status := p.smoke(t, adaToken, "--no-manual", "--timeout", "20s")
		if status != 1 || !strings.Contains(r.detail("health")+r.detail("retry"), "artifactStore is") {
			t.Errorf("the exit status is %d and the report %+v, want 1 and a check that names the bucket", status, r)
		}
		// its steps wait for two minutes to store their last lines
		if !strings.Contains(r.detail("clean up"), r.RunID+" was cancelled") || slices.Contains(r.names("OK"), "end") {
			t.Errorf("the report is %+v, want the cancelled run %s", r, r.RunID)
		}
	})
	t.Run("no data worker", func(t *testing.T) {
		p.data.kill()
		second.kill()
		r, status := p.smoke(t, adaToken, "--no-manual", "--timeout", "12s")
		if status != 1 || !strings.Contains(r.detail("retry"), "tq-data-dev") {
			t.Errorf("the exit status is %d and the report %+v, want 1 and the queue that no worker serves", status, r)
		}
		if !slices.Contains(r.names("OK"), "pause") || !strings.Contains(r.detail("clean up"), r.RunID) {
			t.Errorf("the report is %+v, want a pause that passed and the cancelled run %s", r, r.RunID)
		}
		p.checkNoOpenRun(t, r)
	})
	r, status = p.smoke(t, "no token of anybody", "--timeout", "5s")
	if status != 1 || !slices.Equal(r.names("FAILED"), []string{"api"}) || len(r.Checks) != 1 {
		t.Errorf("with a wrong token the exit status is %d and the report %+v, want 1 and the check api alone", status, r)
	}
}

func hasExited(p *process) bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// checkNoOpenRun fails unless the run of a report ends.
func (p *deployment) checkNoOpenRun(t *testing.T, r smokeReport) {
	t.Helper()
	waitUntil(t, "the run of dvt smoke ended", 30*time.Second, func() bool {
		h, err := p.store.Heads(t.Context(), []string{r.RunID})
		return err == nil && h.ByRun[r.RunID].Terminal
	})
}
