package executor_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// next replaces the inputs and the secrets of the journal's step.
func (j *journal) next(t *testing.T, inputs any, refs ...plan.SecretRef) {
	t.Helper()
	raw, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.step.Inputs, j.step.SecretRefs = raw, refs
}

// neverEnded is a journal of several attempts: none of their ends keeps the others from sending output.
type neverEnded struct{ *journal }

func (neverEnded) End(context.Context, engine.End) (engine.Receipt, error) {
	return engine.Receipt{Seq: 1, Type: run.StepCompletedEvent}, nil
}

// Steps of a run share a workspace. What one step wrote there of its secret, another one that names no secret prints:
// the worker hides it in every step of the run, and in no other run.
// contract: X01
func TestSecrets_AreHiddenInOtherStepsOfTheRun(t *testing.T) {
	t.Parallel()
	const value = "plan-wide-5c1d07"
	j := newJournal(t, plan.Command, sh(`printf %s "$PASSWORD" > "$DVT_WORKSPACE/left"`))
	j.step.SecretRefs = []plan.SecretRef{ref("db/password", plan.SecretAs{Env: "PASSWORD"})}
	r := worker(t, j, executor.Config{})
	r.Secrets = localSecrets(t, map[string]string{"db/password": value})
	execute(t, t.Context(), r)
	j.next(t, sh(`echo "I found $(cat "$DVT_WORKSPACE/left")!"; printf %s "$(cat "$DVT_WORKSPACE/left")" | base64`))
	end := execute(t, t.Context(), r)
	if log := j.log(); !strings.Contains(log, "I found ***!") || strings.Contains(log, value) {
		t.Errorf("another step of the run printed:\n%s\nwant the secret hidden", log)
	}
	if doc, _ := json.Marshal(end); strings.Contains(string(doc), value) {
		t.Errorf("the end of another step has the secret: %s", doc)
	}
	j.next(t, sh(`echo "I guessed `+value+`!"`))
	j.ends = nil
	other := dispatch
	other.RunID = "another-run"
	if _, err := r.Run(t.Context(), other, quiet); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(j.log(), "I guessed "+value+"!") {
		t.Errorf("the secret of one run is hidden in another one:\n%s", j.log())
	}
}

// A step that works when another one of its run gets a secret hides it from then on.
// contract: X01
func TestSecrets_AreHiddenInStepsThatWorkAlready(t *testing.T) {
	t.Parallel()
	const value = "plan-wide-9ab311"
	j := newJournal(t, plan.Command, sh(`
touch "$DVT_WORKSPACE/began"
while [ ! -s "$DVT_WORKSPACE/left" ]; do sleep 0.05; done
echo "I found $(cat "$DVT_WORKSPACE/left")!"`))
	r := worker(t, j, executor.Config{})
	r.Secrets = localSecrets(t, map[string]string{"db/password": value})
	r.Journal = neverEnded{j}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), dispatch, quiet)
		done <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(r.WorkspaceRoot, dispatch.RunID, "began")); err == nil {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the first step ended with %v:\n%s", err, j.log())
		case <-time.After(10 * time.Millisecond):
		}
	}
	j.next(t, sh(`printf %s "$PASSWORD" > "$DVT_WORKSPACE/new" && mv "$DVT_WORKSPACE/new" "$DVT_WORKSPACE/left"`),
		ref("db/password", plan.SecretAs{Env: "PASSWORD"}))
	second := dispatch
	second.N++
	if _, err := r.Run(context.WithoutCancel(t.Context()), second, quiet); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if log := j.log(); !strings.Contains(log, "I found ***!") || strings.Contains(log, value) {
		t.Errorf("a step that worked before printed:\n%s\nwant the secret hidden", log)
	}
}
