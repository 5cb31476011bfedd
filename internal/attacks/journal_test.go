package attacks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// beginCall is the call with which a worker begins an attempt. n is the number of its dispatch.
type beginCall struct {
	runID, stepID                    string
	logicalAttempt, n, engineAttempt int
	at                               time.Time
	ticket                           string
}

// attempt returns the call for the first execution of a step's first attempt, at the current time.
func attempt(runID, stepID, ticket string) beginCall {
	return beginCall{runID: runID, stepID: stepID, logicalAttempt: 1, n: 1, engineAttempt: 1, at: time.Now().UTC(),
		ticket: ticket}
}

// sendBegin sends a begin to the Journal, like a worker.
func (w *world) sendBegin(t *testing.T, token string, b beginCall) answer {
	t.Helper()
	path, body := "/engine/journal/begin", any(map[string]any{
		"runId": b.runID, "stepId": b.stepID, "logicalAttempt": b.logicalAttempt, "n": b.n, "engineAttempt": b.engineAttempt,
		"emittedAt": b.at,
		"ticket":    b.ticket,
	})
	if oldBinary {
		path, body = "/engine/journal", map[string]any{"begin": map[string]any{"runId": b.runID, "stepId": b.stepID,
			"la": b.logicalAttempt, "ea": b.engineAttempt, "emittedAt": b.at}}
	}
	return w.postJournal(t, path, token, body)
}

// sendEvidence sends a line of an attempt's output.
func (w *world) sendEvidence(t *testing.T, token string, b beginCall, g grant, text string) answer {
	t.Helper()
	body := map[string]any{
		"runId": b.runID, "stepId": b.stepID, "logicalAttempt": b.logicalAttempt, "engineAttempt": b.engineAttempt, "n": b.n,
		"startedSeq": g.seq, "key": g.key,
		"lines": []any{map[string]any{"no": 1, "at": b.at, "stream": "stdout", "text": text}},
	}
	if oldBinary {
		body["la"], body["ea"] = b.logicalAttempt, b.engineAttempt
		delete(body, "logicalAttempt")
		delete(body, "engineAttempt")
		delete(body, "key")
		delete(body, "n")
		delete(body, "startedSeq")
		return w.postJournal(t, "/engine/journal", token, map[string]any{"evidence": body})
	}
	return w.postJournal(t, "/engine/journal/evidence", token, body)
}

// sendEnd reports that an attempt completed with a result.
func (w *world) sendEnd(t *testing.T, token string, b beginCall, g grant, result string) answer {
	t.Helper()
	return w.postJournal(t, "/engine/journal/end", token, map[string]any{
		"runId": b.runID, "stepId": b.stepID, "logicalAttempt": b.logicalAttempt, "n": b.n, "engineAttempt": b.engineAttempt,
		"startedSeq": g.seq,
		"key":        g.key,
		"completed":  map[string]any{"result": map[string]any{"said": result}, "durationMs": 1},
	})
}

func (w *world) postJournal(t *testing.T, path, token string, body any) answer {
	t.Helper()
	a, err := w.post(t.Context(), path, token, body)
	must(t, err)
	return a
}

// grant is the result of a begin: the verdict, the key and the position of the StepStarted.
type grant struct {
	verdict string
	key     string
	seq     int64
}

func (a answer) decodeGrant(t *testing.T) grant {
	t.Helper()
	var out struct {
		Begun struct {
			Verdict    string
			Key        string
			StartedSeq int64
		}
	}
	must(t, json.Unmarshal([]byte(a.body), &out))
	return grant{verdict: out.Begun.Verdict, key: out.Begun.Key, seq: out.Begun.StartedSeq}
}

// isRefused reports whether the Journal refused the call.
func (a answer) isRefused() bool { return a.status == 403 || a.status == 404 || a.status == 401 }

// expectRefused fails the test when the Journal accepted the call. what describes the call.
func (w *world) expectRefused(t *testing.T, what string, a answer) {
	t.Helper()
	if !a.isRefused() {
		t.Errorf("%s: the Journal answered %d %.300s, want a refusal", what, a.status, strings.TrimSpace(a.body))
	}
}
