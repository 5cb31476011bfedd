package vault_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/store"
)

// oneStep is a Journal with one attempt.
type oneStep struct {
	engine.AttemptJournal
	step plan.Step

	mu    sync.Mutex
	lines []string
	ended []engine.End
}

func (j *oneStep) StartAttempt(context.Context, engine.StartAttempt) (engine.AttemptStarted, error) {
	return engine.AttemptStarted{AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted},
		Identity: run.Identity{RunID: "r1", TenantID: "t1", ProjectID: "p1", EnvironmentID: "dev"}, Step: j.step}, nil
}

func (j *oneStep) Evidence(_ context.Context, e engine.Evidence) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range e.Lines {
		j.lines = append(j.lines, l.Text)
	}
	return nil
}

func (j *oneStep) SecretReads(context.Context, engine.SecretReads) error { return nil }

func (j *oneStep) End(_ context.Context, e engine.End) (engine.Receipt, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = append(j.ended, e)
	return engine.Receipt{Seq: 1, Type: run.StepCompletedEvent}, nil
}

func (j *oneStep) log() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// A step works for three lives of its lease. Its role works to the end of the attempt, and not after it.
func TestLease_OfAStepThatOutlivesIt(t *testing.T) {
	t.Parallel()
	l := newLent(t)
	l.write(t, "database/t1/dev/roles/reader", map[string]any{"default_ttl": "3s"})
	inputs, err := json.Marshal(map[string]any{"argv": []string{"sh", "-c", `echo "as $ROLE"; sleep 9`}})
	l.must(t, err)
	j := &oneStep{step: plan.Step{StepID: "s1", Type: plan.Command, Inputs: inputs, Timeout: time.Minute,
		SecretRefs: []plan.SecretRef{{Provider: "db", Key: "reader#username", As: plan.SecretAs{Env: "ROLE"}},
			{Provider: "db", Key: "reader#password", As: plan.SecretAs{Env: "PASSWORD"}}}}}
	spy := &spy{Resolver: l.Resolver, got: make(chan *secret.Set, 1)}
	r := &executor.Runner{Journal: j, Executors: executor.New(executor.Config{}), WorkspaceRoot: t.TempDir(),
		ProjectRoot: t.TempDir(), Secrets: spy}
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := r.Run(t.Context(), executor.Dispatch{RunID: "r1", StepID: "s1", LogicalAttempt: 1, N: 1, EngineAttempt: 1,
			MaxEngineAttempts: 1}, func(executor.Heartbeat) {})
		done <- err
	}()
	set := <-spy.got
	name, password := set.Values[0].Reveal(), set.Values[1].Reveal()
	for time.Since(began) < 7*time.Second {
		if !l.logsIn(t, name, password) {
			t.Fatalf("the role cannot log in %s after the start of the step, whose log is %q", time.Since(began), j.log())
		}
		time.Sleep(100 * time.Millisecond)
	}
	select {
	case err := <-done:
		l.must(t, err)
	case <-time.After(testtime.Of(time.Minute)):
		t.Fatal("the step did not end")
	}
	l.wantGone(t, name, password, 2*time.Second)
	if len(j.ended) != 1 || j.ended[0].Completed == nil {
		t.Errorf("the attempt ended with %+v; its log is %q", j.ended, j.log())
	}
	if log := strings.Join(j.log(), "\n"); strings.Contains(log, name) || strings.Contains(log, password) ||
		strings.Contains(log, "could not be renewed") {
		t.Errorf("the log shows a credential, or a lease that was lost:\n%s", log)
	}
	if n := l.notes(t); len(n) > 0 {
		t.Errorf("notes of leases that ended stayed: %v", n)
	}
}

// spy shows the test what an attempt got.
type spy struct {
	*secret.Resolver
	got chan *secret.Set
}

func (s *spy) Resolve(ctx context.Context, scope secret.Scope, refs []secret.Ref) (*secret.Set, error) {
	set, err := s.Resolver.Resolve(ctx, scope, refs)
	if err == nil {
		s.got <- set
	}
	return set, err
}
