package projector

import (
	"bytes"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Bounds of what wakes carry; beyond them the log is read.
const (
	maxNews     = 64       // events of one run
	maxNewsSize = 16 << 20 // bytes of the payloads of all runs
)

// news is what wakes said was appended to a run. The zero value says nothing.
type news struct {
	told []told
	ops  int64
	size int  // bytes of payloads
	read bool // something else was committed, or may have been: only the log says what
}

// told is an event as its append answered.
type told struct {
	draft run.Draft
	seq   run.Seq
	id    string
	at    time.Time
}

// newsOf is what an append tells about the log. What the store sets in a payload
// under its lock is not told, and an append that added no event tells nothing.
func newsOf(a store.Append, out store.Appended) news {
	n := news{ops: out.Head.OpsRev}
	if len(out.Outcomes) != len(a.Events) || len(a.Events) > maxNews {
		return news{read: true}
	}
	for i, d := range a.Events {
		o := out.Outcomes[i]
		if o.Refused != "" || o.Deduplicated {
			continue
		}
		if stamped(d, a) || d.Payload != nil && len(d.Payload) == 0 {
			return news{read: true}
		}
		d.Payload = bytes.Clone(d.Payload)
		n.told = append(n.told, told{draft: d, seq: o.Seq, id: o.EventID, at: o.PersistedAt})
		n.size += len(d.Payload)
	}
	n.read = len(n.told) == 0
	return n
}

// stamped reports whether the store may keep another payload than the draft's (T221).
func stamped(d run.Draft, a store.Append) bool {
	switch d.Type {
	case run.RunPaused:
		return true
	case run.StepFailedEvent, run.StepCompletedEvent, run.StepAwaitingManualCompletion, run.RunResumed:
		return !a.RetryDeadline.IsZero()
	}
	return false
}

// add takes over later news.
func (n *news) add(m news) {
	n.told = append(n.told, m.told...)
	n.ops, n.size, n.read = max(n.ops, m.ops), n.size+m.size, n.read || m.read
	if n.read || len(n.told) > maxNews {
		*n = news{read: true}
	}
}

// after is what n tells of the log behind s, event by event as a reader would get
// it, and false when it does not tell all of it.
func (n news) after(s run.State) (evs []run.Event, whole bool) {
	if n.read {
		return nil, false
	}
	slices.SortFunc(n.told, func(a, b told) int { return int(a.seq - b.seq) })
	at := s.Seq
	for _, t := range n.told {
		switch {
		case t.seq <= at:
		case t.seq == at+1:
			evs, at = append(evs, t.event(s.Identity)), t.seq
		default:
			return nil, false
		}
	}
	return evs, true
}

// event is what the log keeps.
func (t told) event(id run.Identity) run.Event {
	d := t.draft
	return run.Event{
		Identity: id, EventID: t.id, Type: d.Type, Seq: t.seq, Key: d.Key(id), StepID: d.StepID, SignalID: d.SignalID,
		LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt,
		EmittedAt: d.EmittedAt.Truncate(time.Microsecond).UTC(), PersistedAt: t.at, EmittedBy: d.EmittedBy,
		Payload: d.Payload,
	}
}
