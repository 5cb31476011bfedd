package plan

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTooLarge is returned, before parsing, for a document above MaxDocumentBytes (contract L04).
var ErrTooLarge = errors.New("plan: document too large")

// ErrUnsupportedSchema is returned for a schemaVersion that is not one of SupportedSchemas (contract T140, L02).
var ErrUnsupportedSchema = errors.New("plan: schema version not supported")

// MaxViolations is the maximum number of violations that an InvalidError lists. It permits one for each step of the
// largest plan. If there are more, an additional last violation TOO_MANY has their number.
const MaxViolations = MaxSteps

// The codes of a Violation.
const (
	CodeMissing   = "MISSING"   // a required field is absent
	CodeInvalid   = "INVALID"   // wrong type or form
	CodeUnknown   = "UNKNOWN"   // a field or value that dvt does not know
	CodeDuplicate = "DUPLICATE" // given twice: a stepId, a dependency, a key
	CodeRange     = "RANGE"     // outside its limits
	CodeDangling  = "DANGLING"  // a dependency on a step that does not exist
	CodeSelf      = "SELF"      // a step that depends on itself
	CodeCycle     = "CYCLE"     // steps that wait for one another
	CodeOrder     = "ORDER"     // orders with gaps, or on some steps only
	CodeReserved  = "RESERVED"  // a name that dvt uses itself
	CodeLiteral   = "LITERAL"   // the value of a secret in the plan (contract L07)
	CodeTooMany   = "TOO_MANY"  // more violations than are listed
)

// Violation is one violation of the rules of a document.
type Violation struct {
	Path    string `json:"path"`    // location in the document, such as steps[1].timeout; empty for the whole document
	Code    string `json:"code"`    // one of the Code constants
	Message string `json:"message"` // says what to do; never contains a secret
}

// InvalidError has all violations of a document, in the order of the fields of a plan. Violations of the steps as a
// whole (cycles, duplicate ids, orders) come before those of single steps (contract W-9).
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
