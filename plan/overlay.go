package plan

import "encoding/json"

// CheckInputs applies the rules of Parse to the inputs of a step of type t. It returns nil or an *InvalidError whose
// paths begin with "inputs".
func CheckInputs(t StepType, inputs json.RawMessage) error {
	r, p := &reader{}, (*at)(nil).field("inputs")
	if err := wellFormed(inputs); err != nil {
		r.report(p, CodeInvalid, "%s", err)
		return r.err()
	}
	r.inputs(trim(inputs), p, t)
	return r.err()
}

// MergePatch applies a JSON merge patch (RFC 7396) to target: it sets the members of an object and removes those that
// are null in patch; a patch that is not an object replaces target. Both arguments must be valid JSON or empty, and so
// is the result.
func MergePatch(target, patch json.RawMessage) json.RawMessage {
	changes, ok := membersOf(patch)
	if !ok {
		return patch
	}
	out, ok := membersOf(target)
	if !ok {
		out = map[string]json.RawMessage{}
	}
	for name, change := range changes {
		if string(change) == "null" {
			delete(out, name)
		} else {
			out[name] = MergePatch(out[name], change)
		}
	}
	merged, err := json.Marshal(out)
	if err != nil {
		return target // members of valid JSON are valid
	}
	return merged
}

// membersOf returns the members of an object; ok is false for any other value.
func membersOf(doc json.RawMessage) (members map[string]json.RawMessage, ok bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(doc, &m) != nil || m == nil {
		return nil, false
	}
	return m, true
}
