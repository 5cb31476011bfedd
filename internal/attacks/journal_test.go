package attacks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// beginCall is the call by which a worker begins an attempt.
type beginCall struct {
	runID, stepID string
	la, n, ea     int
	at            time.Time
	ticket        string
}

// attempt returns the call for the first execution of a step's first attempt, at the current time.
func attempt(runID, stepID, ticket string) beginCall {
	return beginCall{runID: runID, stepID: stepID, la: 1, n: 1, ea: 1, at: time.Now().UTC(), ticket: ticket}
}

// begin sends a begin to the Journal, like a worker.
func (w *world) begin(t *testing.T, token string, b beginCall) answer {
	t.Helper()
	path, body := "/engine/journal/begin", any(map[string]any{
		"runId": b.runID, "stepId": b.stepID, "logicalAttempt": b.la, "n": b.n, "engineAttempt": b.ea, "emittedAt": b.at,
		"ticket": b.ticket,
	})
	if old {
		path, body = "/engine/journal", map[string]any{"begin": map[string]any{"runId": b.runID, "stepId": b.stepID,
			"la": b.la, "ea": b.ea, "emittedAt": b.at}}
	}
	return w.journal(t, path, token, body)
}

// evidence sends a line of an attempt's output.
func (w *world) evidence(t *testing.T, token string, b beginCall, g granted, text string) answer {
	t.Helper()
	body := map[string]any{
		"runId": b.runID, "stepId": b.stepID, "logicalAttempt": b.la, "engineAttempt": b.ea, "n": b.n,
		"startedSeq": g.seq, "key": g.key,
		"lines": []any{map[string]any{"no": 1, "at": b.at, "stream": "stdout", "text": text}},
	}
	if old {
		body["la"], body["ea"] = b.la, b.ea
		delete(body, "logicalAttempt")
		delete(body, "engineAttempt")
		delete(body, "key")
		delete(body, "n")
		delete(body, "startedSeq")
		return w.journal(t, "/engine/journal", token, map[string]any{"evidence": body})
	}
	return w.journal(t, "/engine/journal/evidence", token, body)
}

// end reports that an attempt completed with a result.
func (w *world) end(t *testing.T, token string, b beginCall, g granted, result string) answer {
	t.Helper()
	return w.journal(t, "/engine/journal/end", token, map[string]any{
		"runId": b.runID, "stepId": b.stepID, "logicalAttempt": b.la, "n": b.n, "engineAttempt": b.ea, "startedSeq": g.seq,
		"key":       g.key,
		"completed": map[string]any{"result": map[string]any{"said": result}, "durationMs": 1},
	})
}

func (w *world) journal(t *testing.T, path, token string, body any) answer {
	t.Helper()
	a, err := w.post(t.Context(), path, token, body)
	must(t, err)
	return a
}

// granted is the result of a begin: the verdict, the key and the position of the StepStarted.
type granted struct {
	verdict string
	key     string
	seq     int64
}

func (a answer) granted(t *testing.T) granted {
	t.Helper()
	var out struct {
		Begun struct {
			Verdict    string
			Key        string
			StartedSeq int64
		}
	}
	must(t, json.Unmarshal([]byte(a.body), &out))
	return granted{verdict: out.Begun.Verdict, key: out.Begun.Key, seq: out.Begun.StartedSeq}
}

// refused reports whether the Journal refused the call.
func (a answer) refused() bool { return a.status == 403 || a.status == 404 || a.status == 401 }

func (w *world) expectRefused(t *testing.T, what string, a answer) {
	t.Helper()
	if !a.refused() {
		t.Errorf("%s: the Journal answered %d %.300s", what, a.status, strings.TrimSpace(a.body))
	}
}
