package authority

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Base is the state of a run before its first event: what its log cannot say.
func Base(r store.Run) run.State {
	return run.State{Header: run.Header{
		Identity: r.Identity, Rev: run.ReducerRev, Status: run.Pending,
		CreatedAt: r.CreatedAt, TriggeredBy: r.TriggeredBy,
	}}
}

// Fold fills in l.State and what follows from it: the checkpoint, or Base when
// there is none of this program's revision, brought to the head by the tail
// (T193, T32).
func Fold(l store.Loaded, checkpoint run.State, tail []run.Event) store.Loaded {
	l.CheckpointAt = checkpoint.Seq
	if len(tail) > 0 {
		l.OldestUnprojected = tail[0].PersistedAt
	}
	l.State, l.Changes, l.Anomalies = run.Fold(checkpoint, tail)
	return l
}

// Current reports whether a stored checkpoint may be folded on.
func Current(rev int) bool { return rev == run.ReducerRev }

// ChangedSteps are the steps of s to write over a stored checkpoint at seq: those
// that the caller's fold touched and those that another projector may have missed.
func ChangedSteps(s run.State, c run.Changes, seq run.Seq) []*run.Step {
	var out []*run.Step
	for _, step := range s.Steps {
		if _, touched := slices.BinarySearch(c.Steps, step.Ord); touched || step.ChangedSeq > seq {
			out = append(out, step)
		}
	}
	return out
}

// Encode is v as compact JSON without HTML escapes: a body that a store keeps.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
