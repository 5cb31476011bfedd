package plan

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTooLarge is returned for a document past MaxDocumentBytes (contract L04), before it is parsed.
var ErrTooLarge = errors.New("plan: document too large")

// ErrUnsupportedSchema is returned for a schemaVersion outside SupportedSchemas (contract T140, L02).
var ErrUnsupportedSchema = errors.New("plan: schema version not supported")

// MaxViolations bounds the list of an InvalidError: one for each step of the
// largest plan. What goes past it is counted in a last violation, TOO_MANY.
const MaxViolations = MaxSteps

// The codes of a Violation.
const (
	CodeMissing   = "MISSING"   // a required field is absent
	CodeInvalid   = "INVALID"   // wrong type or form
	CodeUnknown   = "UNKNOWN"   // a field or value that dvt does not know
	CodeDuplicate = "DUPLICATE" // said twice: a stepId, a dependency, a key
	CodeRange     = "RANGE"     // outside its limits
	CodeDangling  = "DANGLING"  // a dependency on a step that is not there
	CodeSelf      = "SELF"      // a step that depends on itself
	CodeCycle     = "CYCLE"     // steps that wait for one another
	CodeOrder     = "ORDER"     // orders with gaps, or on some steps only
	CodeReserved  = "RESERVED"  // a name that dvt keeps for itself
	CodeLiteral   = "LITERAL"   // a secret written into the plan (L07)
	CodeTooMany   = "TOO_MANY"  // more violations than are listed
)

// Violation is one thing wrong with a document.
type Violation struct {
	Path    string `json:"path"`    // as in the document: steps[1].timeout; empty for the whole
	Code    string `json:"code"`    // one of the Code constants
	Message string `json:"message"` // says what to do; never repeats a secret
}

// InvalidError carries every violation of a document at once, in the order of
// the document's fields. Cycles and duplicate step ids concern the steps as a
// whole and stand before those of single steps (contract W-9).
type InvalidError struct{ Violations []Violation }

func (e *InvalidError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan: invalid: %d violations", len(e.Violations))
	for i, v := range e.Violations {
		if i == 3 {
			b.WriteString("; …")
			break
		}
		fmt.Fprintf(&b, "; %s %s: %s", v.Code, v.Path, v.Message)
	}
	return b.String()
}
