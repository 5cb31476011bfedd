package run

import (
	"bytes"
	"time"
)

// instantOf returns t in UTC without a monotonic reading, so that equal instants compare equal with ==.
func instantOf(t time.Time) time.Time { return t.Round(0).UTC() }

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// occurredAt returns the time of the fact: payload.sourceOccurredAt if it is set, else emittedAt (contract T19).
func occurredAt(e *Event) time.Time {
	if bytes.Contains(e.Payload, []byte(`"sourceOccurredAt"`)) {
		p, _ := PayloadOf[struct {
			SourceOccurredAt *time.Time `json:"sourceOccurredAt"`
		}](e.Payload)
		if p.SourceOccurredAt != nil {
			return instantOf(*p.SourceOccurredAt)
		}
	}
	return instantOf(e.EmittedAt)
}
