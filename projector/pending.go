package projector

import (
	"bytes"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Bounds of the events that wakes carry. Beyond them the log is read.
const (
	maxPendingEvents = 64       // events of one run
	maxPendingBytes  = 16 << 20 // bytes of the payloads of all runs
)

// pendingEvents are the events that wakes reported for a run. The zero value has none.
type pendingEvents struct {
	events   []committedEvent
	ops      int64
	size     int  // bytes of payloads
	mustRead bool // something else was or may have been committed, so the log must be read
}

// committedEvent is a draft with the values that its append returned.
type committedEvent struct {
	draft run.Draft
	seq   run.Seq
	id    string
	at    time.Time
}

// pendingFrom returns the events that an append reports. It requires a read if the append added no event, or if the
// store sets part of a payload under its lock.
func pendingFrom(a store.Append, out store.Appended) pendingEvents {
	n := pendingEvents{ops: out.Head.OpsRev}
	if len(out.Outcomes) != len(a.Events) || len(a.Events) > maxPendingEvents {
		return pendingEvents{mustRead: true}
	}
	for i, d := range a.Events {
		o := out.Outcomes[i]
		if o.Refused != "" || o.Deduplicated {
			continue
		}
		if isCompletedByStore(d, a) || d.Payload != nil && len(d.Payload) == 0 {
			return pendingEvents{mustRead: true}
		}
		d.Payload = bytes.Clone(d.Payload)
		n.events = append(n.events, committedEvent{draft: d, seq: o.Seq, id: o.EventID, at: o.PersistedAt})
		n.size += len(d.Payload)
	}
	n.mustRead = len(n.events) == 0
	return n
}

// isCompletedByStore reports whether the store may change the payload of the draft (contract T221).
func isCompletedByStore(d run.Draft, a store.Append) bool {
	switch d.Type {
	case run.RunPaused:
		return true
	case run.StepFailedEvent, run.StepCompletedEvent, run.StepAwaitingManualCompletion, run.RunResumed:
		return !a.RetryDeadline.IsZero()
	}
	return false
}

// add appends later events. Beyond maxPendingEvents the log must be read.
func (n *pendingEvents) add(m pendingEvents) {
	n.events = append(n.events, m.events...)
	n.ops, n.size, n.mustRead = max(n.ops, m.ops), n.size+m.size, n.mustRead || m.mustRead
	if n.mustRead || len(n.events) > maxPendingEvents {
		*n = pendingEvents{mustRead: true}
	}
}

// after returns the events that follow s, as a read of the log would return them. It returns false if some are
// missing.
func (n pendingEvents) after(s run.State) (evs []run.Event, whole bool) {
	if n.mustRead {
		return nil, false
	}
	slices.SortFunc(n.events, func(a, b committedEvent) int { return int(a.seq - b.seq) })
	at := s.Seq
	for _, t := range n.events {
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

// event returns the event as the log keeps it.
func (t committedEvent) event(id run.Identity) run.Event {
	d := t.draft
	return run.Event{
		Identity: id, EventID: t.id, Type: d.Type, Seq: t.seq, Key: d.Key(id), StepID: d.StepID, SignalID: d.SignalID,
		LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt,
		EmittedAt: d.EmittedAt.Truncate(time.Microsecond).UTC(), PersistedAt: t.at, EmittedBy: d.EmittedBy,
		Payload: d.Payload,
	}
}
