package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Error is the part of a failure that a caller may know: a code and a message that says what to do. The cause is not
// shown to the caller; the edge logs it once.
type Error struct {
	Code       run.Code
	Message    string
	RetryAfter time.Duration    // 0 when waiting does not help
	Violations []plan.Violation // BAD_USER_INPUT, PLAN_INVALID, SCHEMA_VALIDATION_FAILED
	RunSeq     run.Seq          // RUN_MOVED: the current seq of the run
	// PolicyVersion is the current version of the policy, for POLICY_MOVED.
	PolicyVersion int64
	QuotaVersion  int64    // QUOTA_MOVED: the current version of the settings
	Count         int      // BULK_MOVED: how many runs the selection matches now
	Denial        *Denial  // FORBIDDEN
	Supported     []string // PLAN_SCHEMA_UNSUPPORTED
	Limit         int64    // the limit that was exceeded
	// Artifact is the reference of the content that was removed, for ARTIFACT_REMOVED.
	Artifact *run.ArtifactRef
	Cause    error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause, for logs.
func (e *Error) Unwrap() error { return e.Cause }

// Denial explains a FORBIDDEN, limited to what the caller may know.
type Denial struct {
	Action   authz.Action
	Rule     string
	WhoCould []string
	// PolicyVersion is the version of the tenant's policy, 0 when the tenant has no policy of its own.
	PolicyVersion int64
}

// Refuse returns an error with a code and a message for the caller.
func Refuse(code run.Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// RunNotFound returns the NOT_FOUND for a run that does not exist and for a run of another tenant. It does not repeat
// the id, so that the two cannot be told apart (contract T101).
func RunNotFound() *Error {
	return Refuse(run.CodeNotFound, "There is no such run, or it is not yours.")
}

// CursorInvalid returns CURSOR_INVALID, for a cursor that this server did not make.
func CursorInvalid() *Error {
	return Refuse(run.CodeCursorInvalid, "This cursor cannot be read. Start from the first page.")
}

// Translate maps an error of a store, engine or other port to a *Error that a caller may see. It returns nil, a *Error
// and the error of an ended context unchanged. Every other unknown error becomes INTERNAL, with the error as its cause.
func Translate(err error) error {
	if err == nil { // fast path: Translate runs once for every frame
		return nil
	}
	var own *Error
	var invalid *plan.InvalidError
	var schema *run.SchemaError
	var overloaded *store.OverloadedError
	var refused *store.RefusedError
	e := &Error{Code: run.CodeInternal, Message: "Something went wrong inside dvt. Try again; if the error persists, " +
		"give the request id to your operator.", Cause: err}
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
		e.Code, e.Message, e.RetryAfter = refused.Code, "The quota of the tenant or project allows no more runs now. "+
			"Nothing was changed.", refused.RetryAfter
		if refused.Code == run.CodeQueueFull {
			e.Message = "The queue of the tenant or project is full. Nothing was changed; try again later."
		}
	case errors.Is(err, store.ErrNotFound):
		return RunNotFound()
	case errors.As(err, &overloaded):
		e.Code, e.Message, e.RetryAfter = run.CodeStoreOverloaded,
			"The store is overloaded. Nothing was changed; try again.", overloaded.RetryAfter
	case errors.Is(err, store.ErrReadOnly):
		e.Code, e.Message, e.RetryAfter = run.CodeStandby, StandbyMessage, 2*time.Second
	case errors.Is(err, store.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeStoreUnavailable,
			"The store does not answer. Nothing was changed; try again.", 2*time.Second
	case errors.Is(err, engine.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeEngineUnavailable, "The engine does not answer. Try again.", 2*time.Second
	case errors.Is(err, artifact.ErrTorn):
		e.Code, e.Message = run.CodeArtifactTorn, "The stored object is torn: it is not what was written. Restore it from a "+
			"version of the bucket, or run the step again."
	case errors.Is(err, store.ErrArchiveDamaged):
		e.Code, e.Message = run.CodeArtifactTorn, "The archived log of the run is missing from the bucket, or is not what was "+
			"archived. Restore the object from a version of the bucket."
	case errors.Is(err, artifact.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeUnavailable,
			"The bucket of logs and artifacts does not answer. Try again.", 2*time.Second
	case errors.Is(err, authz.ErrUnavailable):
		e.Code, e.Message, e.RetryAfter = run.CodeUnavailable,
			"The access policy cannot be read now, so nothing is decided. Try again.", 2*time.Second
	case errors.Is(err, live.ErrTooMany):
		e.Code, e.Message, e.RetryAfter = run.CodeTooManyStreams,
			"This server has reached its limit of streams. Try again.", 5*time.Second
	case errors.Is(err, live.ErrShutdown):
		e.Code, e.Message = run.CodeServerShutdown, "This server is shutting down. Resume elsewhere with your last position."
	}
	return e
}

// StandbyMessage is the message of STANDBY.
const StandbyMessage = "This site is a standby: it answers reads and changes nothing. Send changes to the primary site."

// Later sets how long the caller should wait before another try, and returns e.
func Later(e *Error, wait time.Duration) *Error {
	e.RetryAfter = wait
	return e
}

// BadInput returns BAD_USER_INPUT with all violations of a request.
func BadInput(vs []plan.Violation) *Error {
	return &Error{Code: run.CodeBadInput, Message: "The request has problems; each is listed.", Violations: vs}
}
