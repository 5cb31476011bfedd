package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
)

// subject has the fields of an event from which its key is computed and on which the rules depend.
type subject struct {
	kind           run.EventType
	stepID, signal string
	logical        int
	batch          string // of nodes: the engine attempt and the number
}

func ofDraft(d run.Draft) subject {
	return subject{d.Type, d.StepID, d.SignalID, d.LogicalAttempt, batchOf(d.Type, d.EngineAttempt, d.Payload)}
}

func ofEvent(e run.Event) subject {
	return subject{e.Type, e.StepID, e.SignalID, e.LogicalAttempt, batchOf(e.Type, e.EngineAttempt, e.Payload)}
}

func batchOf(t run.EventType, engineAttempt int, payload json.RawMessage) string {
	var p struct{ Batch int }
	if t != run.StepNodesReported || json.Unmarshal(payload, &p) != nil {
		return ""
	}
	return fmt.Sprintf(":%d:%d", engineAttempt, p.Batch)
}

// key computes the idempotency key (contract T05). It does not call run.Draft.Key, so that the checker finds an error
// in that function.
func (s subject) key(id run.Identity) run.Key {
	normalized := s.stepID + s.batch
	switch s.kind {
	case run.SignalAccepted, run.SignalRejected:
		normalized = "SIGNAL:" + s.signal
	default:
		if normalized == "" {
			normalized = "RUN"
		}
	}
	return run.Key(hash(fmt.Sprintf("%s|%s|%d|%s|%s|%s", id.RunID, normalized, s.logical, s.kind, id.PlanID,
		id.PlanVersion)))
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// attempt is a logical attempt of a step.
type attempt struct {
	stepID  string
	logical int
}

func (s subject) attempt() attempt { return attempt{s.stepID, s.logical} }

func (s subject) endsAttempt() bool {
	return s.kind == "StepCompleted" || s.kind == "StepFailed" || s.kind == "StepSkipped"
}

func (s subject) endsHook() bool {
	return s.kind == "StepCompensated" || s.kind == "StepCompensationFailed"
}

func (s subject) endsRun() bool {
	return s.kind == "RunCompleted" || s.kind == "RunFailed" || s.kind == "RunCancelled"
}

func (s subject) decides() bool { return s.kind == "SignalAccepted" || s.kind == "SignalRejected" }

func (s subject) String() string {
	switch {
	case s.stepID != "":
		return fmt.Sprintf("%s(%s,%d)", s.kind, s.stepID, s.logical)
	case s.signal != "":
		return fmt.Sprintf("%s(%s)", s.kind, s.signal)
	}
	return fmt.Sprintf("%s(%d)", s.kind, s.logical)
}
