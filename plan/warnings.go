package plan

import "fmt"

// Warning says that a valid plan may not do what its author expects.
type Warning struct {
	Path    string `json:"path"`    // location in the document, as in Violation
	Message string `json:"message"` // says what happens and what to write instead
}

// Warnings returns a warning of a deprecated schemaVersion (contract R281), and then at most one for each step, in the
// order of the steps; without any it is empty, not nil. Every step needs a timeout, but that of a MANUAL step does not
// end its wait for a person (contract T83).
func (p Plan) Warnings() []Warning {
	out := []Warning{}
	if end := SchemaEnd(p.SchemaVersion); end != "" {
		versions := SupportedSchemas()
		out = append(out, Warning{Path: "schemaVersion", Message: fmt.Sprintf("schemaVersion %s is deprecated: dvt reads it "+
			"until %s. Write %s.", p.SchemaVersion, end, versions[len(versions)-1])})
	}
	for i, s := range p.Steps {
		if !s.WaitsForever() {
			continue
		}
		out = append(out, Warning{
			Path: fmt.Sprintf("steps[%d].timeout", i),
			Message: fmt.Sprintf("step %s waits for a person without a limit: its timeout of %s does not end the wait. "+
				"To limit the wait, write manual: {timeout: %s}", s.StepID, DurationWords(s.Timeout), DurationText(s.Timeout)),
		})
	}
	return out
}

// WaitsForever reports whether s waits for a person without a deadline.
func (s Step) WaitsForever() bool { return s.Type == Manual && (s.Wait == nil || s.Wait.Timeout == 0) }
