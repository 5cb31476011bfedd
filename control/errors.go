package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Error is what a caller may know: a code of the one table and a message that
// says what to do. The cause stays inside and is logged once, at the edge.
type Error struct {
	Code       run.Code
	Message    string
	RetryAfter time.Duration    // 0: waiting does not help
	Violations []plan.Violation // BAD_USER_INPUT, PLAN_INVALID, SCHEMA_VALIDATION_FAILED
	RunSeq     run.Seq          // RUN_MOVED: where the run is now
	// PolicyVersion is POLICY_MOVED's: where the policy is now.
	PolicyVersion int64
	QuotaVersion  int64    // QUOTA_MOVED: where the settings are now
	Count         int      // BULK_MOVED: how many runs are meant now
	Denial        *Denial  // FORBIDDEN
	Supported     []string // PLAN_SCHEMA_UNSUPPORTED
	Limit         int64    // what a limit was
	Cause         error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause, for logs.
func (e *Error) Unwrap() error { return e.Cause }

// Denial explains a FORBIDDEN within what the caller may know.
type Denial struct {
	Action   authz.Action
	Rule     string
	WhoCould []string
	// PolicyVersion is that of the tenant's policy, 0 when it has none of its own.
	PolicyVersion int64
}

// Refuse returns an error with a code and a message for the caller.
func Refuse(code run.Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// RunNotFound is the one answer for a run that does not exist and for one that
// is another tenant's (T101): it does not even repeat the id.
func RunNotFound() *Error {
	return Refuse(run.CodeNotFound, "There is no such run, or it is not yours.")
}

// CursorInvalid returns CURSOR_INVALID, for a cursor that this server did not make.
func CursorInvalid() *Error {
	return Refuse(run.CodeCursorInvalid, "This cursor cannot be read. Start from the first page.")
}

// Translate turns what a port returned into what a caller may know. A *Error
// and a context's end pass as they are.
func Translate(err error) error {
	if err == nil { // once for every frame
		return nil
	}
	var own *Error
	var invalid *plan.InvalidError
	var schema *run.SchemaError
	var overloaded *store.OverloadedError
	var refused *store.RefusedError
	e := &Error{Code: run.CodeInternal, Message: "Something went wrong inside dvt. Try again; if it stays, give the " +
		"request id to your operator.", Cause: err}
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &invalid):
		e.Code, e.Message, e.Violations = run.CodePlanInvalid, "The plan has problems; each is listed.", invalid.Violations
	case errors.As(err, &schema):
		e.Code, e.Message, e.Violations = run.CodeSchemaValidation, "The event does not satisfy its schema.",
			schema.Violations
	case errors.Is(err, plan.ErrUnsupportedSchema):
		e.Code, e.Message, e.Supported = run.CodePlanSchema, "This plan's schemaVersion is not supported.",
			plan.SupportedSchemas()
	case errors.Is(err, plan.ErrTooLarge):
		e.Code, e.Message, e.Limit = run.CodePlanTooLarge, "The plan document is larger than 10 MiB.", plan.MaxDocumentBytes
	case errors.As(err, &refused):
		e.Code, e.Message, e.RetryAfter = refused.Code, "The tenant or project may start no more runs now. Nothing "+
			"was changed.", refused.RetryAfter
		if refused.Code == run.CodeQueueFull {
			e.Message = "As many runs of the tenant or project wait already as may. Nothing was changed."
		}
	case errors.Is(err, store.ErrNotFound):
		return RunNotFound()
	case errors.As(err, &overloaded):
		e.Code, e.Message, e.RetryAfter = run.CodeStoreOverloaded,
			"The store has as much to write as it can take. Nothing was changed; try again.", overloaded.RetryAfter
	case errors.Is(err, store.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeStoreUnavailable,
			"The store does not answer. Nothing was changed; try again.", 2*time.Second
	case errors.Is(err, engine.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeEngineUnavailable, "The engine does not answer. Try again.", 2*time.Second
	case errors.Is(err, authz.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeUnavailable,
			"The access policy cannot be read now, so nothing is decided. Try again.", 2*time.Second
	case errors.Is(err, live.ErrTooMany):
		e.Code, e.Message, e.RetryAfter = run.CodeTooManyStreams, "This server has all the streams that it may have.",
			5*time.Second
	case errors.Is(err, live.ErrShutdown):
		e.Code, e.Message = run.CodeServerShutdown, "This server is shutting down. Resume elsewhere with your last position."
	}
	return e
}

// Later sets how long the caller should wait before another try, and returns e.
func Later(e *Error, wait time.Duration) *Error {
	e.RetryAfter = wait
	return e
}

// BadInput returns BAD_USER_INPUT with all violations of a request.
func BadInput(vs []plan.Violation) *Error {
	return &Error{Code: run.CodeBadInput, Message: "The request has problems; each is listed.", Violations: vs}
}
