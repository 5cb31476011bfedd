package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// returning is an executor that succeeds with a result.
func returning(value json.RawMessage) scripted {
	return func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		return executor.Result{Value: value}, nil
	}
}

// keptBody returns the bytes of an artifact.
func keptBody(t *testing.T, j *journal, ref run.ArtifactRef) string {
	t.Helper()
	body, err := j.kept.Open(t.Context(), ref.URI)
	if err != nil {
		t.Fatalf("%s: %v", ref.URI, err)
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("%s: %v", ref.URI, err)
	}
	return string(raw)
}

// contract: R336, X04
func TestRunner_ALargeResultIsAnArtifactWithAPreview(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value json.RawMessage
		kind  string // its content type
	}{
		"10 MB of JSON":  {json.RawMessage(`{"rows":"` + strings.Repeat("<row>\\\"", 10<<20/7) + `"}`), "application/json"},
		"just too large": {json.RawMessage(`"` + strings.Repeat("x", 16<<10) + `"`), "application/json"},
		"no JSON":        {json.RawMessage("{rows"), "text/plain; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Noop, struct{}{})
			end := execute(t, t.Context(), scriptedWorker(t, j, returning(c.value)))
			if end.Completed == nil || len(end.Completed.ArtifactRefs) != 1 {
				t.Fatalf("the end is %+v, want a completion with one artifact", end)
			}
			ref := end.Completed.ArtifactRefs[0]
			if got := keptBody(t, j, ref); got != string(c.value) {
				t.Errorf("the artifact has %d bytes, want the %d of the result", len(got), len(c.value))
			}
			if ref.Kind != run.KindCustom || ref.ContentType != c.kind || ref.SizeBytes != int64(len(c.value)) {
				t.Errorf("the reference is %+v, want kind custom, type %s and size %d", ref, c.kind, len(c.value))
			}
			var event struct {
				Artifact, SHA256, Preview string
				SizeBytes                 int64
			}
			if err := json.Unmarshal(end.Completed.Result, &event); err != nil || event.Artifact != ref.URI ||
				event.SHA256 != ref.SHA256 || event.SizeBytes != ref.SizeBytes {
				t.Errorf("the event has the result %.200s (%v), want the reference", end.Completed.Result, err)
			}
			if len(end.Completed.Result) > 5<<10 || event.Preview == "" || !strings.HasPrefix(string(c.value), event.Preview) {
				t.Errorf("the result in the event has %d bytes, and the preview %d; want the beginning, at most 4 KiB",
					len(end.Completed.Result), len(event.Preview))
			}
		})
	}
}

// contract: R516
func TestKeep_ABucketThatAcceptsNothingFailsTheStepInItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		j.step.Timeout = 90 * time.Second
		j.evidence = func(e engine.Evidence) error {
			if e.Artifact != nil {
				return errors.New("no space left on device")
			}
			return nil
		}
		r := scriptedWorker(t, j, func(ctx context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
			ref, err := h.Keep(ctx, run.KindDBTManifest, "manifest.json", []byte(`{}`))
			return executor.Result{Artifacts: []run.ArtifactRef{ref}}, err
		})
		began := time.Now()
		end := execute(t, t.Context(), r)
		if end.Failed == nil || end.Failed.ErrorCode != string(run.CodeArtifactWrite) || !end.Failed.Retryable ||
			end.Failed.FailureCategory != run.CategorySystem {
			t.Errorf("the end is %+v, want the retryable failure ARTIFACT_WRITE_FAILED of the system", end.Failed)
		}
		if took := time.Since(began); took < 89*time.Second || took > 100*time.Second {
			t.Errorf("the step ended after %s, want its timeout of 90 s", took)
		}
	})
}

// A bucket that works again within the step's time loses nothing.
//
// contract: R516
func TestKeep_RepeatsUntilTheBucketWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		j.step.Timeout = 5 * time.Minute
		began := time.Now()
		j.evidence = func(engine.Evidence) error {
			if time.Since(began) < 70*time.Second {
				return errors.New("no space left on device")
			}
			return nil
		}
		r := scriptedWorker(t, j, func(ctx context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
			h.Print("stdout", "kept")
			ref, err := h.Keep(ctx, run.KindCustom, "large.bin", []byte(strings.Repeat("x", 3<<20)))
			return executor.Result{Artifacts: []run.ArtifactRef{ref}}, err
		})
		end := execute(t, t.Context(), r)
		if end.Completed == nil || end.LostLines != 0 || len(j.lines) != 1 {
			t.Fatalf("the end is %+v with %d stored lines, want a completion and the line", end, len(j.lines))
		}
		if got := keptBody(t, j, end.Completed.ArtifactRefs[0]); len(got) != 3<<20 {
			t.Errorf("the artifact has %d bytes, want all", len(got))
		}
	})
}

func TestRunner_CountsTheLinesThatNobodyStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		j.evidence = func(e engine.Evidence) error {
			if len(e.Lines) > 0 {
				return errors.New("no space left on device")
			}
			return nil
		}
		r := scriptedWorker(t, j, func(_ context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
			for i := range 7 {
				h.Print("stdout", fmt.Sprint(i))
			}
			return executor.Result{}, nil
		})
		log := captureLog(r)
		if end := execute(t, t.Context(), r); end.Completed == nil || end.LostLines != 7 {
			t.Errorf("the end is %+v, want a completion with 7 lost lines", end)
		}
		if !strings.Contains(log.String(), "lines of a step are lost") {
			t.Errorf("the worker's log is %q, want a line about the loss", log.String())
		}
	})
}

// A server that does not answer for a minute loses no line, whatever the step does meanwhile.
func TestRunner_AServerThatIsSilentForAMinuteLosesNoLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		began := time.Now()
		j.evidence = func(engine.Evidence) error {
			if time.Since(began) < time.Minute {
				return errors.New("the server does not answer")
			}
			return nil
		}
		r := scriptedWorker(t, j, func(_ context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
			for i := range 5 {
				h.Print("stdout", fmt.Sprint(i))
			}
			return executor.Result{}, nil
		})
		if end := execute(t, t.Context(), r); end.LostLines != 0 || len(j.lines) != 5 {
			t.Errorf("%d lines are lost and %d stored, want 0 and 5", end.LostLines, len(j.lines))
		}
	})
}

func TestKeepJSON_RedactsADocumentOfAnySize(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{ Env map[string]string }{map[string]string{"DB_PASSWORD": "hunter2secret"}})
	document := `{ "a": [1.50, -2e3, true, null, "x<y", "pw hunter2secret\n"], "b": {"hunter2secret": {}}, "big": "` +
		strings.Repeat("é\\u00e9", 4<<20) + `" }`
	var inner error
	r := scriptedWorker(t, j, func(ctx context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
		ref, err := h.KeepJSON(ctx, run.KindCustom, "large.json", strings.NewReader(document))
		for _, bad := range []string{`{"a":`, `{"a":1}}`, `{"a":1} 2`, ``, `nonsense`} {
			if _, err := h.KeepJSON(ctx, run.KindCustom, "bad.json", strings.NewReader(bad)); err == nil {
				inner = errors.Join(inner, fmt.Errorf("%q was kept, want an error", bad))
			}
		}
		return executor.Result{Artifacts: []run.ArtifactRef{ref}}, err
	})
	end := execute(t, t.Context(), r)
	if end.Completed == nil || inner != nil {
		t.Fatalf("the end is %+v, %v; want a completion", end.Failed, inner)
	}
	want := `{"a":[1.50,-2e3,true,null,"x<y","pw ***\n"],"b":{"***":{}},"big":"` + strings.Repeat("éé", 4<<20) + `"}`
	if got := keptBody(t, j, end.Completed.ArtifactRefs[0]); got != want {
		t.Errorf("the artifact begins %.120q and has %d bytes, want %.120q and %d", got, len(got), want, len(want))
	}
}
