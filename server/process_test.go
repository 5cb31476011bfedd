package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/server"
)

// process is one dvt process under test.
type process struct {
	t      *testing.T
	name   string
	args   []string
	env    []string
	binary string // path of the program
	cmd    *exec.Cmd
	mu     sync.Mutex
	stderr strings.Builder
	exited chan struct{}
	link   string // of `dvt dev`, signs a browser in
}

// spawn starts dvt with these arguments and further environment variables. The process is killed when the test ends.
func spawn(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	return spawnProgram(t, testserver.Binary(t), name, env, args...)
}

// spawnProgram is spawn for another build of dvt.
func spawnProgram(t *testing.T, binary, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, args: args, env: env, binary: binary}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.name, p.output())
		}
	})
	return p
}

// ticketKey is shared by the servers and control workers of a test. `dvt dev` makes its own.
const ticketKey = "test:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="

// environmentFor returns the environment of a command. Servers and control workers get the ticket keys that they need.
func environmentFor(args []string) []string {
	env := environmentWithoutDVT()
	if args[0] == "server" || args[0] == "worker" && slices.Contains(args, "--config") {
		env = append(env, "DVT_TICKET_KEYS="+ticketKey)
	}
	return env
}

// start starts the process, also again after its end. For `dvt dev` it waits for the ready line.
func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Env = append(append(environmentFor(p.args), "DVT_LOG_LEVEL=warn"), p.env...)
	p.cmd.Dir = root(p.t)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	must(p.t, err)
	errs, err := p.cmd.StderrPipe()
	must(p.t, err)
	must(p.t, p.cmd.Start())
	ready := make(chan string, 1)
	var pipes sync.WaitGroup
	pipes.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			select {
			case ready <- lines.Text():
			default:
			}
		}
	})
	pipes.Go(func() {
		lines := bufio.NewScanner(errs)
		for lines.Scan() {
			p.mu.Lock()
			if p.stderr.Len() < 1<<20 {
				p.stderr.WriteString(lines.Text() + "\n")
			}
			p.mu.Unlock()
		}
	})
	exited := make(chan struct{})
	p.exited = exited
	go func() { pipes.Wait(); _ = p.cmd.Wait(); close(exited) }()
	if p.args[0] != "dev" {
		return
	}
	select {
	case line := <-ready:
		var ok bool
		if p.link, ok = strings.CutPrefix(line, "dvt is ready: "); !ok || !strings.HasPrefix(p.link, "http://127.0.0.1:") {
			p.t.Fatalf("%s printed %q", p.name, line)
		}
	case <-exited:
		p.t.Fatalf("%s ended before it was ready:\n%s", p.name, p.output())
	case <-time.After(testtime.Of(time.Minute)):
		p.t.Fatalf("%s was not ready within a minute:\n%s", p.name, p.output())
	}
}

// environmentWithoutDVT returns the environment of the tests without DVT_ variables, because they configure the tests.
func environmentWithoutDVT() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DVT_") })
}

// output returns the first MiB of standard error.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// kill kills this process with SIGKILL, without its children, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate sends SIGTERM, waits for the end of the process and returns the time that it took.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	must(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.exited:
	case <-time.After(testtime.Of(30 * time.Second)):
		p.t.Fatalf("%s has not ended 30 s after SIGTERM:\n%s", p.name, p.output())
	}
	return time.Since(began)
}

// argsWith returns the arguments of the process with further flags, which win over the same flags before them.
func (p *process) argsWith(flags ...string) []string { return append(slices.Clone(p.args), flags...) }

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	must(t, err)
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dataDir returns a directory for --data that does not exist yet and is removed with the test.
func dataDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}

// temporalPID returns the process id of the Temporal server of a `dvt dev`. After a kill it waits for the next one.
func temporalPID(t *testing.T, data string) int {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(10 * time.Second)); time.Now().Before(deadline); time.Sleep(
		20 * time.Millisecond) {
		var id struct{ PID int }
		b, err := os.ReadFile(filepath.Join(data, "temporal", "server.pid"))
		must(t, err)
		must(t, json.Unmarshal(b, &id))
		if isRunning(id.PID) {
			return id.PID
		}
	}
	t.Fatal("dvt dev has no running Temporal server within 10 s")
	return 0
}

// devToken returns the token of a principal of a `dvt dev` that has started.
func devToken(t *testing.T, data, name string) string {
	t.Helper()
	access, err := server.ReadDevAccess(data)
	must(t, err)
	if access.Tokens[name] == "" {
		t.Fatalf("the principal %s has no token in the data directory", name)
	}
	return access.Tokens[name]
}

func isAlive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// start starts a run of the plan doc and returns its id. It retries for 10 s, because the server may be restarting.
func start(t *testing.T, c *client.Client, requestID string, doc []byte) string {
	t.Helper()
	raw := json.RawMessage(doc)
	var err error
	for deadline := time.Now().Add(testtime.Of(10 * time.Second)); time.Now().Before(deadline); time.Sleep(
		100 * time.Millisecond) {
		var out *client.StartRunResponse
		out, err = client.StartRun(t.Context(), c, client.StartRunInput{
			Plan: client.PlanInput{Inline: &raw}, RunRequestId: requestID, ProjectId: "shop", EnvironmentId: "dev",
		})
		if err == nil {
			return out.StartRun.Run.RunId
		}
	}
	t.Fatalf("startRun failed for 10 s: %v", client.AsAPIError(err))
	return ""
}

// waitForEnd waits until the run is over and returns it. It ignores errors, because the server may be restarting.
func waitForEnd(t *testing.T, c *client.Client, runID string, patience time.Duration) client.ShowRunRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(patience))
	defer cancel()
	last := "no answer"
	for began := time.Now(); ctx.Err() == nil; testtime.Pause(began, 100*time.Millisecond) {
		out, err := client.ShowRun(ctx, c, runID, nil)
		if err == nil && out.Run != nil {
			last = fmt.Sprintf("%s at %d", out.Run.StatusRaw, out.Run.RunSeq)
			switch out.Run.Status {
			case client.RunStatusCompleted, client.RunStatusFailed, client.RunStatusCancelled:
				return *out.Run
			}
		}
	}
	t.Fatalf("run %s did not end within %s: last seen %s", runID, patience, last)
	return client.ShowRunRun{}
}
