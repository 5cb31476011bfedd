package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// journal answers StartAttempt and Compensation with one step, checks keys, stores evidence in a real artifact store,
// and records ends. Its functions may be nil and get the number of the call, from 1.
type journal struct {
	step     plan.Step
	begin    func(n int) (engine.AttemptStarted, error) // answers StartAttempt; nil: RUN
	hook     func(n int) error                          // may refuse Compensation
	end      func(n int, e engine.End) error            // may refuse End
	evidence func(engine.Evidence) error                // may refuse Evidence
	reads    func(n int) error                          // may refuse SecretReads
	kept     *artifact.Store
	params   json.RawMessage // of the run
	parent   string          // traceparent of the attempt
	only     *engine.NodeSelection
	state    *run.StateBase
	packed   []byte // the answer to ReadState; nil: the manifest is gone

	mu     sync.Mutex
	begins []engine.StartAttempt // calls of StartAttempt and Compensation
	tries  []engine.End          // all calls of End
	ends   []engine.End          // in the log
	lines  []engine.LogLine
	refs   []run.ArtifactRef
	tried  []engine.TryRecord
	nodes  []run.StepNodesPayload // the batches, each once
	class  string                 // of the last failure of an executor

	readCalls int // of SecretReads
	read      []engine.SecretReads
}

var identity = run.Identity{RunID: "0a1b2c3d-1111-4222-8333-444455556666", TenantID: "t1", ProjectID: "p1",
	EnvironmentID: "dev"}

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

func (j *journal) StartAttempt(_ context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begins = append(j.begins, b)
	if j.begin != nil {
		begun, err := j.begin(len(j.begins))
		if err != nil || begun.Verdict != store.StartGranted {
			return begun, err
		}
	}
	return engine.AttemptStarted{
		AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted}, Identity: identity, Step: j.step, Params: j.params,
		Key: keyOf(b.RunID, b.StepID, b.LogicalAttempt, b.N, b.EngineAttempt, false), Traceparent: j.parent,
		Nodes: j.only, State: j.state,
	}, nil
}

func (j *journal) ReadState(_ context.Context, r engine.StateRead) ([]byte, error) {
	if r.Key != keyOf(r.RunID, r.StepID, r.LogicalAttempt, r.N, r.EngineAttempt, false) {
		return nil, fmt.Errorf("%w: key %q", engine.ErrRefused, r.Key)
	}
	if j.packed == nil {
		return nil, store.ErrNotFound
	}
	return j.packed, nil
}

func (j *journal) Compensation(_ context.Context, b engine.StartAttempt) (engine.Hook, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begins = append(j.begins, b)
	if j.hook != nil {
		if err := j.hook(len(j.begins)); err != nil {
			return engine.Hook{}, err
		}
	}
	return engine.Hook{Identity: identity, Step: j.step, Key: keyOf(b.RunID, b.StepID, b.LogicalAttempt, b.N,
		b.EngineAttempt, true)}, nil
}

func keyOf(runID, stepID string, logicalAttempt, n, engineAttempt int, hook bool) string {
	return fmt.Sprint("key ", runID, stepID, logicalAttempt, n, engineAttempt, hook)
}

func (j *journal) End(ctx context.Context, e engine.End) (engine.Receipt, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tries = append(j.tries, e)
	if err := ctx.Err(); err != nil {
		return engine.Receipt{}, err
	}
	if e.Key != keyOf(e.RunID, e.StepID, e.LogicalAttempt, e.N, e.EngineAttempt, e.Hook) {
		return engine.Receipt{}, fmt.Errorf("%w: key %q", engine.ErrRefused, e.Key)
	}
	if (e.Completed == nil) == (e.Failed == nil) {
		return engine.Receipt{}, fmt.Errorf("%w: %+v", run.ErrSchema, e)
	}
	if j.end != nil {
		if err := j.end(len(j.tries), e); err != nil {
			return engine.Receipt{}, err
		}
	}
	j.ends = append(j.ends, e)
	return engine.Receipt{Seq: 1, Type: run.StepCompletedEvent}, nil
}

func (j *journal) SecretReads(_ context.Context, r engine.SecretReads) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.readCalls++
	if j.reads != nil {
		if err := j.reads(j.readCalls); err != nil {
			return err
		}
	}
	j.read = append(j.read, r)
	return nil
}

func (j *journal) Evidence(ctx context.Context, e engine.Evidence) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ends) > 0 {
		return fmt.Errorf("%w: the attempt has an end", engine.ErrRefused)
	}
	if e.Key != keyOf(e.RunID, e.StepID, e.LogicalAttempt, e.N, e.EngineAttempt, e.Hook) {
		return fmt.Errorf("%w: key %q", engine.ErrRefused, e.Key)
	}
	if j.evidence != nil {
		if err := j.evidence(e); err != nil {
			return err
		}
	}
	stored := e.EngineAttempt
	if e.Hook {
		stored += 10
	}
	id := artifact.AttemptID{TenantID: identity.TenantID, RunID: e.RunID, StepID: e.StepID,
		LogicalAttempt: e.LogicalAttempt}
	if e.Artifact != nil {
		name := artifact.Name(id, stored, filepath.Base(e.Artifact.Ref.URI))
		var body io.Reader = strings.NewReader(string(e.Artifact.Body))
		if e.Artifact.Open != nil {
			stream, err := e.Artifact.Open()
			if err != nil {
				return err
			}
			defer stream.Close()
			body = stream
		}
		uri, sum, size, err := j.kept.Put(ctx, name, body)
		if err != nil || uri != e.Artifact.Ref.URI || sum != e.Artifact.Ref.SHA256 || size != e.Artifact.Ref.SizeBytes {
			return fmt.Errorf("put %s: %s %s %d, %w", e.Artifact.Ref.URI, uri, sum, size, err)
		}
		j.refs = append(j.refs, e.Artifact.Ref)
	}
	if e.Nodes != nil {
		if n := e.Nodes.Batch; n == len(j.nodes)+1 {
			j.nodes = append(j.nodes, *e.Nodes)
		} else if n > len(j.nodes) {
			return fmt.Errorf("%w: batch %d after %d", engine.ErrRefused, n, len(j.nodes))
		}
	}
	if e.Try != nil {
		j.tried = append(j.tried, *e.Try)
	}
	if len(e.Lines) == 0 {
		return nil
	}
	var ls []artifact.Line
	for _, l := range e.Lines {
		ls = append(ls, artifact.Line{At: l.At, Stream: l.Stream, Text: l.Text})
	}
	j.lines = append(j.lines, e.Lines...)
	return j.kept.Append(ctx, id, stored, e.Lines[0].No, ls)
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

// worker returns a Runner on j whose workspaces are in a directory of the test. j.class gets the class of failures.
func worker(t *testing.T, j *journal, cfg executor.Config) *executor.Runner {
	t.Helper()
	all := executor.New(cfg)
	for typ, x := range all {
		all[typ] = scripted(func(ctx context.Context, task executor.Task, h executor.Host) (executor.Result, error) {
			res, err := x.Execute(ctx, task, h)
			if f, ok := errors.AsType[*executor.Failure](err); ok {
				j.class = f.Class
			}
			return res, err
		})
	}
	return &executor.Runner{
		Journal: j, Executors: all, Env: cfg.Env,
		WorkspaceRoot: t.TempDir(), ProjectRoot: t.TempDir(),
	}
}

// dispatch is the last engine attempt, so that each of its failures is an end.
var dispatch = executor.Dispatch{
	RunID: identity.RunID, StepID: "s1", LogicalAttempt: 1, N: 7, EngineAttempt: 2, MaxEngineAttempts: 2,
	Ticket: "the ticket",
}

// quiet ignores heartbeats.
func quiet(executor.Heartbeat) {}

// execute runs the dispatch and returns the end that the log has of it.
func execute(t *testing.T, ctx context.Context, r *executor.Runner) engine.End {
	t.Helper()
	j := r.Journal.(*journal)
	j.ends = nil
	back, err := r.Run(ctx, dispatch, quiet)
	wantReturn(t, back, err, engine.ReturnEnded)
	return j.onlyEnd(t)
}

// onlyEnd returns the end in the log. The test fails unless there is exactly one.
func (j *journal) onlyEnd(t *testing.T) engine.End {
	t.Helper()
	if len(j.ends) != 1 {
		t.Fatalf("the log has %d ends, want 1", len(j.ends))
	}
	return j.ends[0]
}

func wantReturn(t *testing.T, got engine.Return, err error, kind engine.ReturnKind) {
	t.Helper()
	if err != nil {
		t.Fatalf("the execution returned the error %v, want %s", err, kind)
	}
	if kind != engine.ReturnEnded && got.Receipt != nil {
		t.Errorf("the execution returned %s with the receipt %+v", kind, got.Receipt)
	}
	got.RetryAfter, got.Receipt = 0, nil
	if diff := cmp.Diff(engine.Return{StepID: "s1", LogicalAttempt: 1, N: 7, EngineAttempt: 2, Kind: kind},
		got); diff != "" {
		t.Errorf("return (-want +got):\n%s", diff)
	}
}

func wantFailed(t *testing.T, end engine.End, code string, retryable bool) {
	t.Helper()
	if end.Failed == nil || end.Failed.ErrorCode != code || end.Failed.Retryable != retryable {
		t.Errorf("end %+v %+v, want failed with %s, retryable %t", end.Completed, end.Failed, code, retryable)
	}
}

// alive reports whether a process runs. A zombie, whose parent has not waited for it, does not.
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
