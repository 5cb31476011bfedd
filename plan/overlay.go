package plan

import "encoding/json"

// CheckInputs reports what Parse would say about the inputs of a step of that
// type, as an *InvalidError, or nil. A violation's path begins with "inputs".
func CheckInputs(t StepType, inputs json.RawMessage) error {
	r, p := &reader{}, (*at)(nil).field("inputs")
	if err := wellFormed(inputs); err != nil {
		r.report(p, CodeInvalid, "%s", err)
		return r.err()
	}
	r.inputs(trim(inputs), p, t)
	return r.err()
}

// MergePatch is target changed by a merge patch (RFC 7396): members of an object
// are set, or removed with null, and anything else replaces what was there. Both
// are valid JSON, or empty for nothing; so is the answer.
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

// membersOf are the members of an object, or false.
func membersOf(doc json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(doc, &m) != nil || m == nil {
		return nil, false
	}
	return m, true
}
