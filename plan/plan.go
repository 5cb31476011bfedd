// Package plan is the vocabulary of execution plans: the document that a planner submits to dvt, its validation, its
// reference, and the compact skeleton that the engine stores. It is pure: it imports only the standard library, does no
// I/O and panics on no input.
package plan

import (
	"encoding/json"
	"time"
)

// Limits of a plan (contract O5). A larger document is rejected with PLAN_TOO_LARGE, one with more steps with
// PLAN_INVALID, before anything is stored.
const (
	MaxDocumentBytes = 10 << 20
	MaxSteps         = 5000
)

// StepType names the kind of work of a step (contract O13).
type StepType string

// The step types.
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

// StepTypes returns all types of steps.
func StepTypes() []StepType {
	return []StepType{Command, HTTPNotify, DBTCompile, DBTRun, DBTTest, Manual, Noop, Sleep}
}

// Plan is a valid ExecutionPlan. Steps are in canonical order: by (order, stepId) when every step has an order, else by
// stepId in byte order (contract T70, T71). DependsOn is always set: if no step of the document declares dependsOn, the
// steps are a linear chain in canonical order (contract T72).
type Plan struct {
	SchemaVersion string   `json:"schemaVersion"`
	Metadata      Metadata `json:"metadata"`
	Scope         Scope    `json:"scope"`
	Steps         []Step   `json:"steps"`
}

// Metadata has the identity, the author and the failure policy of a plan.
type Metadata struct {
	PlanID        string        `json:"planId"`
	PlanVersion   string        `json:"planVersion"`
	CreatedAt     time.Time     `json:"createdAt"`
	CreatedBy     string        `json:"createdBy"`
	SchemaVersion string        `json:"schemaVersion"`
	FailurePolicy FailurePolicy `json:"failurePolicy"`
	// Deadline is when a run should have ended; nil for a plan without one.
	Deadline *Deadline `json:"deadline,omitempty"`
}

// FailurePolicy controls a run after a step has failed and is not retried automatically any more (contract O2, T74).
type FailurePolicy struct {
	// RetryWindowSeconds is how long a run waits for a retry by a person before it fails. nil takes the default of the
	// server; 0 fails the run at once.
	RetryWindowSeconds *int `json:"retryWindowSeconds,omitempty"`
	// CancelRunning cancels the steps in flight that are cancellable when a step fails.
	CancelRunning bool `json:"cancelRunning,omitempty"`
}

// Scope is the only tenant, project and environment in which the plan may run.
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
	Inputs     json.RawMessage `json:"inputs"` // a JSON object with the members of Type
	Timeout    time.Duration   `json:"timeout"`
	Retry      Retry           `json:"retry"`
	Dispatch   Dispatch        `json:"dispatch"`
	SecretRefs []SecretRef     `json:"secretRefs,omitempty"`
	// Sandbox is set for COMMAND and DBT steps whose plan has a sandbox.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// Wait is set exactly for MANUAL steps.
	Wait *Wait `json:"manual,omitempty"`
	// Compensation undoes the effects of the step if the run fails later; nil if the step has none.
	Compensation *Compensation `json:"compensation,omitempty"`
}

// Wait configures how a MANUAL step waits for a person (contract T83, T87).
type Wait struct {
	// SOD (separation of duties) requires that the person neither started nor approved the run (contract O4). The default
	// of Parse is true.
	SOD bool `json:"sod"`
	// Timeout fails the attempt if nobody completes it in this time; 0 waits without a limit. In JSON it is a Go duration
	// from 1s to MaxTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Compensation is the hook that undoes a step (contract R183): an operation with inputs of its own. It runs at most
// twice, both times with the idempotency key "runId:stepId:compensate" (contract T88, M04).
type Compensation struct {
	Operation StepType        `json:"operation"` // any type but MANUAL
	Input     json.RawMessage `json:"input"`     // the inputs of a step of that type
	Timeout   time.Duration   `json:"timeout"`   // of one attempt; the default is the timeout of the step
	// Sandbox is set only for an operation that runs a program. The default is the sandbox of the step.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Retry is the policy of the automatic retries within one logical attempt (contract T55, T66, T67). Parse sets the
// defaults: 3 attempts, backoff from 1 s with a factor of 2.0 to at most 30 s.
type Retry struct {
	MaxAttempts       int     `json:"maxAttempts"` // 1..10, the first included
	InitialBackoffMS  int     `json:"initialBackoffMs"`
	BackoffMultiplier float64 `json:"backoffMultiplier"`
	MaxBackoffMS      int     `json:"maxBackoffMs"`
	// RetryableErrors names error classes. Empty means every class that may be retried, and unknown errors.
	RetryableErrors []string `json:"retryableErrors,omitempty"`
}

// Dispatch selects the workers of a step and permits its cancellation.
type Dispatch struct {
	TaskQueue          string `json:"taskQueue,omitempty"` // exact name; empty: the queue of the type (contract T218)
	ResourceClass      string `json:"resourceClass,omitempty"`
	Cancellable        bool   `json:"cancellable,omitempty"`
	AllowCancelOnPause bool   `json:"allowCancelOnPause,omitempty"`
}

// Ref refers to a plan document and pins its bytes, so that the document cannot change after approval (contract T139).
type Ref struct {
	URI           string `json:"uri"`
	SHA256        string `json:"sha256"` // lower-case hex of the bytes stored at URI
	SchemaVersion string `json:"schemaVersion"`
	PlanID        string `json:"planId"`
	PlanVersion   string `json:"planVersion"`
	SizeBytes     int64  `json:"sizeBytes,omitempty"`
	Compression   string `json:"compression,omitempty"` // "", "none" or "gzip"
	// Mirrors are further addresses of the same bytes, for when URI does not give them (contract R545).
	Mirrors []string `json:"mirrors,omitempty"`
	// ExpiresAt is the time after which the bytes need not be at any address; zero: they stay.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// SchemaEvolutionPath says through which versions the planner brought the document to SchemaVersion, such as
	// "v1.0 → v1.1 → v1.2". dvt records it for people.
	SchemaEvolutionPath string         `json:"schemaEvolutionPath,omitempty"`
	MigrationHint       *MigrationHint `json:"migrationHint,omitempty"`
}

// MigrationHint says how a document of another schema version becomes one of TargetVersion. dvt records it for people
// and runs nothing of it.
type MigrationHint struct {
	SourceVersion   string `json:"sourceVersion"`
	TargetVersion   string `json:"targetVersion"`
	TransformScript string `json:"transformScript,omitempty"` // its address
}
