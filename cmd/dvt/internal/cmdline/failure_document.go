package cmdline

import (
	"errors"
	"strings"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/run"
)

// FailureDocument is the error of a command for programs. Code is one of the API's table, USAGE for a wrong command
// line, or empty when none applies.
// RetryAfterMS and the fields behind it are empty when the error does not come from the API.
type FailureDocument struct {
	Error struct {
		Code         string      `json:"code,omitempty"`
		Message      string      `json:"message"`
		Hint         string      `json:"hint,omitempty"` // of a wrong command line: what to do
		RetryAfterMS int64       `json:"retryAfterMs,omitempty"`
		Violations   []Violation `json:"violations,omitempty"`
		WhoCould     []string    `json:"whoCould,omitempty"`
		RunSeq       int64       `json:"runSeq,omitempty"`
		RequestID    string      `json:"requestId,omitempty"`
		ExitStatus   int         `json:"exitStatus"`
	} `json:"error"`
}

// Violation is a problem of the input. Of a document that was read from a file it has the location, as far as it is
// known.
type Violation struct {
	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// documentError is the error of an invalid document.
type documentError interface {
	error
	Violations() []Violation
}

const (
	usageStatus = 2
	planInvalid = string(run.CodePlanInvalid)
)

// DescribeFailure returns the document of an error, which must not be nil.
func DescribeFailure(err error) FailureDocument {
	var out FailureDocument
	e := &out.Error
	e.Message, e.ExitStatus = err.Error(), ExitStatus(err)
	for own, is := errors.AsType[*Error](err); is; own, is = errors.AsType[*Error](own.Err) {
		if own.Code != "" {
			e.Code, e.Message = own.Code, strings.TrimPrefix(err.Error(), own.Code+": ")
		}
	}
	if e.Code == "" && e.ExitStatus == usageStatus {
		e.Code = "USAGE"
		if rest, is := strings.CutPrefix(e.Message, planInvalid+": "); is {
			e.Code, e.Message = planInvalid, rest
			if invalid, has := errors.AsType[documentError](err); has {
				e.Violations = invalid.Violations()
				first, _, _ := strings.Cut(rest, "\n")
				e.Message = strings.TrimSuffix(first, ":") + "."
			}
		} else if first, rest, more := strings.Cut(e.Message, "\n"); more {
			e.Message, e.Hint = first, strings.Join(strings.Fields(rest), " ")
		}
	}
	if api, is := errors.AsType[*client.Error](err); is {
		e.Code, e.Message, e.RunSeq, e.RequestID = api.Code, api.Message, api.RunSeq, api.RequestID
		for _, v := range api.Violations {
			e.Violations = append(e.Violations, Violation{Path: v.Path, Code: v.Code, Message: v.Message})
		}
		e.RetryAfterMS, e.WhoCould = api.RetryAfter.Milliseconds(), api.Denial.WhoCould
	}
	return out
}
