package engine

import (
	"context"

	"github.com/dvt-engine/dvt/run"
)

// Limits of what a worker says about secrets.
const (
	// MaxSecretReads is the greatest number of a record within an engine attempt, and so the number of its records.
	MaxSecretReads = 200
	// MaxSecretOrderRefs bounds the secrets of one order.
	MaxSecretOrderRefs = 200
)

// SecretReads are records of one execution. The fields beside Worker and Reads are as in Evidence.
type SecretReads struct {
	RunID          string       `json:"runId"`
	StepID         string       `json:"stepId"`
	LogicalAttempt int          `json:"logicalAttempt"`
	EngineAttempt  int          `json:"engineAttempt"`
	N              int          `json:"n"`
	Hook           bool         `json:"hook,omitempty"`
	StartedSeq     run.Seq      `json:"startedSeq,omitempty"`
	Key            string       `json:"key"`
	Worker         string       `json:"worker,omitempty"` // as WorkerReport.Worker
	Reads          []SecretRead `json:"reads"`
}

// SecretRead is the record of one secret. It has no value.
type SecretRead struct {
	No       int    `json:"no"` // within the engine attempt, from 1
	Provider string `json:"provider"`
	Key      string `json:"key"`
	Version  string `json:"version,omitempty"` // that the plan asks for
	// Answered is the version that the provider answered with; "" when it did not say.
	Answered string `json:"answered,omitempty"`
	// Cached means that the worker remembered the value, so that the provider was not asked.
	Cached bool     `json:"cached,omitempty"`
	Code   run.Code `json:"code,omitempty"` // why it was not read; "" when it was
}

// SecretOrder asks a worker to do something about the secrets of a tenant. One of Check and Revoke is set.
type SecretOrder struct {
	ID       string        `json:"id"`
	TenantID string        `json:"tenantId"`
	Check    *SecretCheck  `json:"check,omitempty"`
	Revoke   *SecretRevoke `json:"revoke,omitempty"`
}

// SecretCheck asks which secrets the worker can read.
type SecretCheck struct {
	EnvironmentID string      `json:"environmentId"`
	Queues        []string    `json:"queues"` // of the steps: any worker of one of them may answer
	Refs          []SecretRef `json:"refs"`
}

// SecretRef names a secret.
type SecretRef struct {
	Provider string `json:"provider"`
	Key      string `json:"key"`
	Version  string `json:"version,omitempty"`
	Unmasked bool   `json:"unmasked,omitempty"` // the value may be too short to be masked
}

// SecretRevoke asks a worker to forget the values that it remembers of the tenant and to end the leases that it holds
// for it, or for one run of it.
type SecretRevoke struct {
	RunID string `json:"runId,omitempty"`
}

// SecretAnswer is what a worker did about an order.
type SecretAnswer struct {
	OrderID string `json:"orderId"`
	// Checked are the secrets of a check in the order of its Refs.
	Checked []CheckedSecret `json:"checked,omitempty"`
	// Dropped counts the values that the worker forgot, Ended the leases that it ended, and Failed those that it could not
	// end yet.
	Dropped int `json:"dropped,omitempty"`
	Ended   int `json:"ended,omitempty"`
	Failed  int `json:"failed,omitempty"`
}

// CheckedSecret says whether a worker could read a secret.
type CheckedSecret struct {
	Code    run.Code `json:"code,omitempty"` // "" when it could
	Message string   `json:"message,omitempty"`
	// Answered is the version that the provider answered with; "" when it did not say.
	Answered string `json:"answered,omitempty"`
}

// SecretPoll is how a worker asks for orders. It says what became of earlier ones.
type SecretPoll struct {
	Worker  string         `json:"worker"` // as WorkerReport.Worker
	Queues  []string       `json:"queues"`
	Answers []SecretAnswer `json:"answers,omitempty"`
}

// SecretDispatcher gives one worker its orders. A server's Journal implements it.
type SecretDispatcher interface {
	// SecretOrders stores the answers and returns the orders that the worker is given, also those that it has answered.
	// ErrRefused if the poll is malformed or names a queue that is not the worker's own.
	SecretOrders(ctx context.Context, p SecretPoll) ([]SecretOrder, error)
}
