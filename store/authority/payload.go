package authority

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// stamp sets one field of a payload and keeps the others as they are. A payload
// that is not an object stays untouched; validation refused those before.
func stamp(payload json.RawMessage, field string, value any) json.RawMessage {
	fields, ok := object(payload)
	if !ok {
		return payload
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return payload
	}
	fields[field] = raw
	out, err := Encode(fields)
	if err != nil {
		return payload
	}
	return out
}

func object(payload json.RawMessage) (map[string]json.RawMessage, bool) {
	fields := map[string]json.RawMessage{}
	if len(payload) == 0 {
		return fields, true
	}
	if err := json.Unmarshal(payload, &fields); err != nil || fields == nil {
		return nil, false
	}
	return fields, true
}

// Unstamped is the payload of a draft as an append carries it to a store that
// stamps by itself: what may be stamped is a compact object without the fields that
// the store sets, anything else stays as it is.
func Unstamped(d run.Draft, window bool) json.RawMessage {
	var field string
	switch {
	case d.Type == run.RunPaused:
		field = "runningStepsCount"
	case window && opensWindow(d.Type):
		field = "retryDeadline"
	default:
		return d.Payload
	}
	fields, ok := object(d.Payload)
	if !ok {
		return d.Payload
	}
	delete(fields, field)
	out, err := Encode(fields)
	if err != nil {
		return d.Payload
	}
	return out
}

// SamePayload compares what a producer sent with what is stored, but for the
// fields that the store stamps (T15).
func SamePayload(t run.EventType, sent, kept json.RawMessage) bool {
	if bytes.Equal(sent, kept) {
		return true
	}
	a, okA := loose(t, sent)
	b, okB := loose(t, kept)
	return okA && okB && reflect.DeepEqual(a, b)
}

func loose(t run.EventType, payload json.RawMessage) (map[string]any, bool) {
	fields := map[string]any{}
	if len(payload) > 0 {
		dec := json.NewDecoder(bytes.NewReader(payload))
		dec.UseNumber()
		if err := dec.Decode(&fields); err != nil {
			return nil, false
		}
	}
	if t == run.RunPaused {
		delete(fields, "runningStepsCount")
	}
	if opensWindow(t) {
		delete(fields, "retryDeadline")
	}
	if t == run.StepStartedEvent {
		delete(fields, "paramsSeq")
	}
	return fields, true
}

// WindowOf is the retry deadline that a stored event opened, so that a caller
// whose first answer was lost learns it from the repetition (T221).
func WindowOf(e run.Event) *time.Time {
	if !opensWindow(e.Type) || len(e.Payload) == 0 {
		return nil
	}
	var p struct {
		RetryDeadline *time.Time `json:"retryDeadline"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return nil
	}
	return p.RetryDeadline
}
