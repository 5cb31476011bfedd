// Package plan is the vocabulary of execution plans: the document a planner
// hands to dvt, its validation, its reference, and the compact skeleton that
// the engine keeps. It is pure: it imports the standard library only, does no
// I/O and never panics on any input.
package plan

import (
	"encoding/json"
	"time"
)

// Limits of a plan (contract O5). A document past one of them is refused with
// PLAN_TOO_LARGE or PLAN_INVALID before anything is stored.
const (
	MaxDocumentBytes = 10 << 20
	MaxSteps         = 5000
)

// StepType names what a step does (contract O13).
type StepType string

// The step types of the first version.
const (
	Command    StepType = "COMMAND"
	HTTPNotify StepType = "HTTP_NOTIFY"
	DBTCompile StepType = "DBT_COMPILE"
	DBTRun     StepType = "DBT_RUN"
	DBTTest    StepType = "DBT_TEST"
	Manual     StepType = "MANUAL"
	Noop       StepType = "NOOP"
	Sleep      StepType = "SLEEP"
)

func stepTypes() []StepType {
	return []StepType{Command, HTTPNotify, DBTCompile, DBTRun, DBTTest, Manual, Noop, Sleep}
}

// Plan is a valid ExecutionPlan. Steps stand in canonical order: by (order,
// stepId) when every step has an order, else by stepId in byte order (contract T70, T71).
// DependsOn is always filled in: a document in which no step declares
// dependsOn is an implicit linear chain in canonical order (contract T72).
type Plan struct {
	SchemaVersion string   `json:"schemaVersion"`
	Metadata      Metadata `json:"metadata"`
	Scope         Scope    `json:"scope"`
	Steps         []Step   `json:"steps"`
}

// Metadata says which plan this is and who made it.
type Metadata struct {
	PlanID        string        `json:"planId"`
	PlanVersion   string        `json:"planVersion"`
	CreatedAt     time.Time     `json:"createdAt"`
	CreatedBy     string        `json:"createdBy"`
	SchemaVersion string        `json:"schemaVersion"`
	FailurePolicy FailurePolicy `json:"failurePolicy"`
}

// FailurePolicy says what happens after a step has failed for good (contract O2, T74).
type FailurePolicy struct {
	// RetryWindowSeconds is nil when the plan leaves it to the server; 0 fails at once.
	RetryWindowSeconds *int `json:"retryWindowSeconds,omitempty"`
	// CancelRunning cancels the cancellable steps in flight when a step fails.
	CancelRunning bool `json:"cancelRunning,omitempty"`
}

// Scope says where the plan may run.
type Scope struct {
	TenantID      string `json:"tenantId"`
	ProjectID     string `json:"projectId"`
	EnvironmentID string `json:"environmentId"`
	RepoSHA       string `json:"repoSha"`
}

// Step is one node of the plan.
type Step struct {
	StepID     string          `json:"stepId"`
	Type       StepType        `json:"type"`
	Name       string          `json:"name,omitempty"`
	Group      string          `json:"group,omitempty"`
	Order      int             `json:"order,omitempty"` // 0: the plan gives no order
	DependsOn  []string        `json:"dependsOn"`
	Inputs     json.RawMessage `json:"inputs"` // a JSON object, its shape set by Type
	Timeout    time.Duration   `json:"timeout"`
	Retry      Retry           `json:"retry"`
	Dispatch   Dispatch        `json:"dispatch"`
	SecretRefs []SecretRef     `json:"secretRefs,omitempty"`
	// Sandbox is set for COMMAND and DBT steps whose plan asks for something else than the defaults.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// Wait is set for every MANUAL step, and for no other.
	Wait *Wait `json:"manual,omitempty"`
	// Compensation undoes what the step did when the run fails later; nil for none.
	Compensation *Compensation `json:"compensation,omitempty"`
}

// Wait says how a MANUAL step waits for a person (contract T83, T87).
type Wait struct {
	// SOD asks for another person than the one who started or approved the run (contract O4).
	// A plan that does not say gets true.
	SOD bool `json:"sod"`
	// Timeout fails the attempt when nobody has completed it for so long; 0 waits
	// for ever. It is written as a Go duration, from 1s to MaxTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Compensation is the hook that undoes a step (contract R183): another operation, with its
// own inputs, run at most twice with the key "runId:stepId:compensate" (contract T88, M04).
type Compensation struct {
	Operation StepType        `json:"operation"` // any type but MANUAL
	Input     json.RawMessage `json:"input"`     // as inputs of a step of that type
	Timeout   time.Duration   `json:"timeout"`   // of one attempt; the step's own when the plan does not say
	// Sandbox is for an operation that runs a program. It is the step's own when the plan does not say.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Retry is the platform retry policy of one logical attempt (R WA 3.1, T55, T66,
// T67). The zero value is never stored: Parse fills in 3 attempts, 1 s, 2.0, 30 s.
type Retry struct {
	MaxAttempts       int      `json:"maxAttempts"` // 1..10, the first included
	InitialBackoffMS  int      `json:"initialBackoffMs"`
	BackoffMultiplier float64  `json:"backoffMultiplier"`
	MaxBackoffMS      int      `json:"maxBackoffMs"`
	RetryableErrors   []string `json:"retryableErrors,omitempty"` // known classes; empty: all but the never-retryable
}

// Dispatch says where and how a step runs.
type Dispatch struct {
	TaskQueue          string `json:"taskQueue,omitempty"` // exact name; empty: chosen by type (T218)
	ResourceClass      string `json:"resourceClass,omitempty"`
	Cancellable        bool   `json:"cancellable,omitempty"`
	AllowCancelOnPause bool   `json:"allowCancelOnPause,omitempty"`
}

// SecretRef names a secret; a literal value in a plan is PLAN_INVALID (contract L07).
type SecretRef struct {
	Provider string `json:"provider"`
	Key      string `json:"key"`
	Version  string `json:"version,omitempty"`
}

// Ref pins a plan document by its bytes (R DD-10, T139).
type Ref struct {
	URI           string `json:"uri"`
	SHA256        string `json:"sha256"` // lower-case hex of the bytes stored at URI
	SchemaVersion string `json:"schemaVersion"`
	PlanID        string `json:"planId"`
	PlanVersion   string `json:"planVersion"`
	SizeBytes     int64  `json:"sizeBytes,omitempty"`
	Compression   string `json:"compression,omitempty"` // "", "none" or "gzip"
}
