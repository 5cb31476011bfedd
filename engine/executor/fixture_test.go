package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// journal answers Begin with one step and keeps evidence in a real artifact store.
type journal struct {
	engine.Journal // what a runner must not call panics

	step   plan.Step
	begin  func(n int) (engine.Begun, error) // nil: RUN
	fail   func(engine.Evidence) error       // nil: evidence is taken
	kept   *artifact.Store
	params json.RawMessage // of the run

	mu     sync.Mutex
	begins []store.Begin
	lines  []engine.LogLine
	refs   []run.ArtifactRef
}

var identity = run.Identity{RunID: "0a1b2c3d-1111-4222-8333-444455556666", TenantID: "t1", ProjectID: "p1", EnvironmentID: "dev"}

func newJournal(t *testing.T, typ plan.StepType, inputs any) *journal {
	t.Helper()
	raw, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := artifact.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	return &journal{kept: kept, step: plan.Step{StepID: "s1", Type: typ, Inputs: raw, Timeout: time.Minute}}
}

func (j *journal) Begin(_ context.Context, b store.Begin) (engine.Begun, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begins = append(j.begins, b)
	if j.begin != nil {
		begun, err := j.begin(len(j.begins))
		if err != nil || begun.Verdict != store.BeginRun {
			return begun, err
		}
	}
	return engine.Begun{Begun: store.Begun{Verdict: store.BeginRun}, Identity: identity, Step: j.step, Params: j.params}, nil
}

func (j *journal) Evidence(ctx context.Context, e engine.Evidence) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		if err := j.fail(e); err != nil {
			return err
		}
	}
	id := artifact.AttemptID{TenantID: identity.TenantID, RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt}
	if e.Artifact != nil {
		name := artifact.Name(id, e.EngineAttempt, filepath.Base(e.Artifact.Ref.URI))
		uri, sum, size, err := j.kept.Put(ctx, name, strings.NewReader(string(e.Artifact.Body)))
		if err != nil || uri != e.Artifact.Ref.URI || sum != e.Artifact.Ref.SHA256 || size != e.Artifact.Ref.SizeBytes {
			return fmt.Errorf("put %s: %s %s %d, %w", e.Artifact.Ref.URI, uri, sum, size, err)
		}
		j.refs = append(j.refs, e.Artifact.Ref)
	}
	if len(e.Lines) == 0 {
		return nil
	}
	var ls []artifact.Line
	for _, l := range e.Lines {
		ls = append(ls, artifact.Line{At: l.At, Stream: l.Stream, Text: l.Text})
	}
	j.lines = append(j.lines, e.Lines...)
	return j.kept.Append(ctx, id, e.EngineAttempt, e.Lines[0].No, ls)
}

func (j *journal) log() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out strings.Builder
	for _, l := range j.lines {
		fmt.Fprintf(&out, "%s: %s\n", l.Stream, l.Text)
	}
	return out.String()
}

// worker is a Runner over j whose workspaces lie in a directory of the test.
func worker(t *testing.T, j *journal, cfg executor.Config) *executor.Runner {
	t.Helper()
	return &executor.Runner{
		Journal: j, Executors: executor.New(cfg), Env: cfg.Env,
		WorkspaceRoot: t.TempDir(), ProjectRoot: t.TempDir(),
	}
}

var dispatch = executor.Dispatch{RunID: identity.RunID, StepID: "s1", LogicalAttempt: 1, N: 7, EngineAttempt: 2}

func quiet(engine.StepEnd) {}

func execute(t *testing.T, ctx context.Context, r *executor.Runner) engine.StepEnd {
	t.Helper()
	end, err := r.Run(ctx, dispatch, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if end.StepID != "s1" || end.LogicalAttempt != 1 || end.N != 7 || end.EngineAttempt != 2 {
		t.Errorf("the end does not echo its subject (T184): %+v", end)
	}
	return end
}

func wantFailed(t *testing.T, end engine.StepEnd, code string, retryable bool) {
	t.Helper()
	if end.Kind != engine.EndFailed || end.Failed.ErrorCode != code || end.Failed.Retryable != retryable {
		t.Errorf("end %s %+v, want FAILED %s retryable %t", end.Kind, end.Failed, code, retryable)
	}
}

// alive reports whether a process runs; one that nobody has asked after does not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return !slices.Contains([]string{"Z", "X"}, fields[0])
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
