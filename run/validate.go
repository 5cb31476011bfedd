package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dvt-engine/dvt/plan"
)

// Limits of payloads. RunStarted has a limit of its own because it carries the outline of every step of a plan, whose
// document has up to plan.MaxDocumentBytes.
const (
	MaxPayloadBytes      = 1 << 20
	MaxStartPayloadBytes = 16 << 20
)

// ErrSchema matches every *SchemaError under errors.Is.
var ErrSchema = errors.New("run: event does not satisfy its schema")

// SchemaError lists the violations of a draft, at most 100. Its code is SCHEMA_VALIDATION_FAILED. Callers must not
// repeat the append unchanged: it always fails.
type SchemaError struct{ Violations []plan.Violation }

func (e *SchemaError) Error() string {
	var b strings.Builder
	b.WriteString(ErrSchema.Error())
	for i, v := range e.Violations {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(e.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "; %s %s", v.Path, v.Message)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrSchema) true.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// Code returns SCHEMA_VALIDATION_FAILED.
func (e *SchemaError) Code() Code { return CodeSchemaValidation }

var (
	// anID excludes "|", which separates the parts of an idempotency key, and ":", which marks signals there (contract
	// T13, T228).
	anID = wordOf(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`, alphanumeric+"_.-", ".-", 1, 128)
	// aRunID also accepts ids that are not UUIDs, such as those of imported runs (contract T12).
	aRunID       = wordOf(`^[A-Za-z0-9._:-]{1,128}$`, alphanumeric+"._:-", "", 1, 128)
	aHash        = wordOf(`^[0-9a-f]{64}$`, "0123456789abcdef", "", 64, 64)
	alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// reservedStepID is the subject of run events in keys (contract T13).
const reservedStepID = "RUN"

// Validate checks that d may be appended to the log of the run id. It returns nil or a *SchemaError with all violations
// (contract A09, A10, T40, T183). PayloadOf decodes the payload of a valid draft without error. Unknown members of the
// payload are allowed (contract A11). Validate does not read the log: the store checks the order of events and that
// nothing follows a terminal event.
func (d Draft) Validate(id Identity) error {
	f := &findings{}
	id.check(f)
	d.checkEnvelope(f)
	d.checkPayload(f, id)
	if len(f.list) == 0 {
		return nil
	}
	return &SchemaError{Violations: f.list}
}

func (id Identity) check(f *findings) {
	aRunID(f, "runId", id.RunID)
	for _, part := range []struct{ name, value string }{
		{"tenantId", id.TenantID},
		{"projectId", id.ProjectID},
		{"environmentId", id.EnvironmentID},
		{"planId", id.PlanID},
		{"planVersion", id.PlanVersion},
	} {
		anID(f, part.name, part.value)
	}
}

func (d Draft) checkEnvelope(f *findings) {
	switch {
	case strings.HasPrefix(string(d.Type), "on"):
		f.add("eventType", "UNKNOWN", "%q must be written without the prefix \"on\"", d.Type)
	case !d.Type.Known():
		f.add("eventType", "UNKNOWN", "%q is not an event type", d.Type)
	case !d.EmittedBy.May(d.Type):
		f.add("emittedBy", "INVALID", "%q may not append %s", d.EmittedBy, d.Type)
	}
	switch {
	case !d.Type.OfStep() && d.StepID != "":
		f.add("stepId", "INVALID", "must be absent: %s is not about a step", d.Type)
	case d.Type.OfStep() && d.StepID == reservedStepID:
		f.add("stepId", "INVALID", "%q is reserved", d.StepID)
	case d.Type.OfStep():
		anID(f, "stepId", d.StepID)
	}
	switch {
	case !d.Type.OfSignal() && d.SignalID != "":
		f.add("signalId", "INVALID", "must be absent: %s is not about a signal", d.Type)
	case d.Type.OfSignal():
		anID(f, "signalId", d.SignalID)
	}
	checkAttempt(f, "logicalAttemptId", d.LogicalAttempt)
	checkAttempt(f, "engineAttemptId", d.EngineAttempt)
	epoch := d.Type == RunPaused || d.Type == RunResumed
	if !d.Type.OfStep() && !epoch && d.LogicalAttempt > 1 {
		f.add("logicalAttemptId", "RANGE", "must be 1 for %s", d.Type)
	}
	switch {
	case d.EmittedAt.IsZero():
		f.add("emittedAt", "MISSING", "is required")
	case d.EmittedAt.UTC().Year() < 0 || d.EmittedAt.UTC().Year() > 9999:
		f.add("emittedAt", "RANGE", "must be in the years 0 to 9999")
	}
}

func checkAttempt(f *findings, path string, n int) {
	if n < 1 || n > math.MaxInt32 {
		f.add(path, "RANGE", "must be from 1 to %d", math.MaxInt32)
	}
}

func (d Draft) checkPayload(f *findings, id Identity) {
	most := MaxPayloadBytes
	if d.Type == RunStarted {
		most = MaxStartPayloadBytes
	}
	if len(d.Payload) > most {
		f.add("payload", "RANGE", "has %d bytes, at most %d are allowed", len(d.Payload), most)
		return
	}
	o, err := parseObject(d.Payload)
	if err != nil {
		f.add("payload", "INVALID", "%v", err)
		return
	}
	body, known := payloads[d.Type]
	if !known {
		return
	}
	before := len(f.list)
	body(f, "payload", o)
	if len(f.list) > before {
		return
	}
	switch {
	case d.Type == RunStarted:
		d.checkStart(f, id)
	case d.Type.OfSignal() && o["signalId"] != d.SignalID:
		f.add("payload.signalId", "INVALID", "must equal the signal %q of the event", d.SignalID)
	}
}

// checkStart checks that the pinned plan is the plan of the run (contract A09, T14, T147) and that every step has an id
// of its own, which is not that of the run.
func (d Draft) checkStart(f *findings, id Identity) {
	p, err := PayloadOf[RunStartedPayload](d.Payload)
	if err != nil {
		f.add("payload", "INVALID", "%v", err)
		return
	}
	if p.PlanRef.PlanID != id.PlanID {
		f.add("payload.planRef.planId", "INVALID", "must equal planId %q of the run", id.PlanID)
	}
	if p.PlanRef.PlanVersion != id.PlanVersion {
		f.add("payload.planRef.planVersion", "INVALID", "must equal planVersion %q of the run", id.PlanVersion)
	}
	seen := make(map[string]bool, len(p.Steps))
	for i, s := range p.Steps {
		path := "payload.steps[" + strconv.Itoa(i) + "].stepId"
		switch {
		case seen[s.StepID]:
			f.add(path, "DUPLICATE", "%q is listed twice", s.StepID)
		case s.StepID == reservedStepID:
			f.add(path, "INVALID", "%q is reserved", s.StepID)
		}
		seen[s.StepID] = true
	}
}

// PayloadOf decodes a payload into its type; an empty payload gives the zero value. If a member has a wrong type, it
// returns the error and the value with the members that could be decoded. Readers of imported events use that value
// (contract T40).
func PayloadOf[T any](raw json.RawMessage) (T, error) {
	var p T
	if len(raw) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("run: payload: %w", err)
	}
	return p, nil
}
