package journal_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// execute starts an attempt like a worker and returns the end that reports success.
func (w *world) execute(runID, stepID string, logicalAttempt int) engine.End {
	w.T.Helper()
	b := w.BeginOf(runID, stepID, logicalAttempt, 1)
	begun := controltest.Must[engine.AttemptStarted](w.T)(w.Journal.StartAttempt(w.T.Context(), b))
	if begun.Verdict != store.StartGranted || begun.Key == "" {
		w.T.Fatalf("%s of %s is %s with key %q, want RUN with a key", stepID, runID, begun.Verdict, begun.Key)
	}
	return engine.End{
		RunID: runID, StepID: stepID, LogicalAttempt: logicalAttempt, N: b.N, EngineAttempt: 1, StartedSeq: begun.StartedSeq,
		Key:       begun.Key,
		Completed: &run.StepCompletedPayload{Result: json.RawMessage(`{"rows":7}`), DurationMS: 5},
	}
}

// failing turns an end into a failed one.
func failing(e engine.End) engine.End {
	e.Completed = nil
	e.Failed = &run.FailurePayload{ErrorCode: "EXIT_STATUS", Retryable: true, FailureCategory: run.CategoryUser,
		DurationMS: 5}
	return e
}

// end reports the end of an execution, which the log must accept.
func (w *world) end(e engine.End) engine.Receipt {
	w.T.Helper()
	return controltest.Must[engine.Receipt](w.T)(w.Journal.End(w.T.Context(), e))
}

// evidenceOf returns one log line of an execution as evidence.
func evidenceOf(e engine.End, text string) engine.Evidence {
	return engine.Evidence{
		RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, EngineAttempt: e.EngineAttempt,
		Hook: e.Hook, StartedSeq: e.StartedSeq, Key: e.Key,
		Lines: []engine.LogLine{{No: 1, At: time.Now(), Stream: "stdout", Text: text}},
	}
}

// compensable returns a plan in which s1 has a hook and s2 depends on s1.
func compensable(t *testing.T) []byte {
	t.Helper()
	var doc controltest.M
	if err := json.Unmarshal(controltest.Document(nil, "s1", "s2<s1"), &doc); err != nil {
		t.Fatal(err)
	}
	doc["steps"].([]any)[0].(controltest.M)["compensation"] = controltest.M{"operation": "NOOP", "input": controltest.M{},
		"timeout": "1m"}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// textLogger returns a logger that writes to out.
func textLogger(out io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }
