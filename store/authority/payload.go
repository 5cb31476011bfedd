package authority

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// stamp sets one field of a payload. It returns a payload that is not an object unchanged; validation refuses those
// before.
func stamp(payload json.RawMessage, field string, value any) json.RawMessage {
	fields, ok := fieldsOf(payload)
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

// fieldsOf returns the fields of a payload; false when it is not an object. An empty payload has no fields.
func fieldsOf(payload json.RawMessage) (map[string]json.RawMessage, bool) {
	fields := map[string]json.RawMessage{}
	if len(payload) == 0 {
		return fields, true
	}
	if err := json.Unmarshal(payload, &fields); err != nil || fields == nil {
		return nil, false
	}
	return fields, true
}

// WithoutStamp returns the payload of a draft for a database that stamps it itself. If the store may stamp the event,
// that is a compact object without the field that the store sets; else it is the payload unchanged. window says whether
// the append has a RetryDeadline.
func WithoutStamp(d run.Draft, window bool) json.RawMessage {
	var field string
	switch {
	case d.Type == run.RunPaused:
		field = "runningStepsCount"
	case window && opensWindow(d.Type):
		field = "retryDeadline"
	default:
		return d.Payload
	}
	fields, ok := fieldsOf(d.Payload)
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

// SamePayload reports whether a payload that a producer sent equals the stored one as JSON, without regard to the
// fields that the store stamps. A difference is a payload mismatch (contract T15).
func SamePayload(t run.EventType, sent, stored json.RawMessage) bool {
	if bytes.Equal(sent, stored) {
		return true
	}
	a, okA := withoutStamps(t, sent)
	b, okB := withoutStamps(t, stored)
	return okA && okB && reflect.DeepEqual(a, b)
}

// withoutStamps returns the fields of a payload that the producer set; false when it is not an object.
func withoutStamps(t run.EventType, payload json.RawMessage) (map[string]any, bool) {
	fields := map[string]any{}
	if len(payload) > 0 {
		dec := json.NewDecoder(bytes.NewReader(payload))
		dec.UseNumber()
		if err := dec.Decode(&fields); err != nil {
			return nil, false
		}
	}
	if refs, ok := fields["artifactRefs"].([]any); ok {
		for _, ref := range refs {
			if ref, ok := ref.(map[string]any); ok {
				delete(ref, "expiresAt") // the Journal sets it by the time of the report, which a repetition has again
			}
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

// WindowOf returns the retry deadline that is stamped on a stored event, or nil. A caller whose first answer was lost
// gets it from the repeated append (contract T221).
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
