package plan

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTooLarge is returned for a document past MaxDocumentBytes (L04), before it is parsed.
var ErrTooLarge = errors.New("plan: document too large")

// ErrUnsupportedSchema is returned for a schemaVersion outside SupportedSchemas (T140, L02).
var ErrUnsupportedSchema = errors.New("plan: schema version not supported")

// Violation is one thing wrong with a document.
type Violation struct {
	Path    string `json:"path"`    // as in the document: steps[1].timeout
	Code    string `json:"code"`    // MISSING, INVALID, DUPLICATE, CYCLE, UNKNOWN, RANGE, …
	Message string `json:"message"` // says what to do
}

// InvalidError carries every violation of a document at once, in document order.
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
