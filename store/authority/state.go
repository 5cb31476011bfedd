package authority

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Base returns the state of a run before its first event, from the facts that its log does not have.
func Base(r store.Run) run.State {
	return run.State{Header: run.Header{
		Identity: r.Identity, Rev: run.ReducerRev, Status: run.Pending,
		CreatedAt: r.CreatedAt, TriggeredBy: r.TriggeredBy,
	}}
}

// Fold returns l with State, Changes, Anomalies, CheckpointAt and OldestUnprojected. checkpoint is the stored
// checkpoint, or Base when there is none of this program's revision; tail is the events after it (contract T193, T32).
func Fold(l store.Loaded, checkpoint run.State, tail []run.Event) store.Loaded {
	l.CheckpointAt = checkpoint.Seq
	if len(tail) > 0 {
		l.OldestUnprojected = tail[0].PersistedAt
	}
	l.State, l.Changes, l.Anomalies = run.Fold(checkpoint, tail)
	return l
}

// IsCurrentRevision reports whether this program may fold on a stored checkpoint of the reducer revision rev.
func IsCurrentRevision(rev int) bool { return rev == run.ReducerRev }

// ChangedSteps returns the steps of s that must be written over a stored checkpoint at seq: the steps that c names, and
// those that changed after seq, because the stored checkpoint may be older than the one from which c was computed.
func ChangedSteps(s run.State, c run.Changes, seq run.Seq) []*run.Step {
	var out []*run.Step
	for _, step := range s.Steps {
		if _, touched := slices.BinarySearch(c.Steps, step.Ord); touched || step.ChangedSeq > seq {
			out = append(out, step)
		}
	}
	return out
}

// Encode returns v as compact JSON without HTML escapes, the form of the documents in a store.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
