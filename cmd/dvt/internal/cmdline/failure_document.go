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
		Code         string             `json:"code,omitempty"`
		Message      string             `json:"message"`
		Hint         string             `json:"hint,omitempty"` // of a wrong command line: what to do
		RetryAfterMS int64              `json:"retryAfterMs,omitempty"`
		Violations   []client.Violation `json:"violations,omitempty"`
		WhoCould     []string           `json:"whoCould,omitempty"`
		RunSeq       int64              `json:"runSeq,omitempty"`
		RequestID    string             `json:"requestId,omitempty"`
		ExitStatus   int                `json:"exitStatus"`
	} `json:"error"`
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
		} else if first, rest, more := strings.Cut(e.Message, "\n"); more {
			e.Message, e.Hint = first, strings.Join(strings.Fields(rest), " ")
		}
	}
	if api, is := errors.AsType[*client.Error](err); is {
		e.Code, e.Message, e.Violations, e.RunSeq, e.RequestID = api.Code, api.Message, api.Violations, api.RunSeq,
			api.RequestID
		e.RetryAfterMS, e.WhoCould = api.RetryAfter.Milliseconds(), api.Denial.WhoCould
	}
	return out
}
