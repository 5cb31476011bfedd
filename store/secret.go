package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// SecretRead records that a worker asked a provider for one secret of an attempt. It never has a value.
type SecretRead struct {
	Pos            int64     // set by the store; nobody outside sees it
	At             time.Time // set by the store
	TenantID       string
	RunID          string
	StepID         string
	LogicalAttempt int
	EngineAttempt  int // as engine.StoredAttempt
	No             int // within the engine attempt, from 1; a second record with the same number is not stored
	Account        string
	Worker         string // the process, as it calls itself
	Provider       string
	Key            string
	Version        string   // that the plan asks for; "" is the newest
	Answered       string   // that the provider answered with; "" when it did not say
	As             string   // env:NAME or file:NAME
	Cached         bool     // the worker remembered the value
	Code           run.Code // why it was not read; "" when it was
}

// SecretReadFilter selects records of one tenant. Zero fields do not restrict.
type SecretReadFilter struct {
	TenantID      string
	RunID, StepID string
	Provider, Key string
	From, To      time.Time // At >= From, At < To
	Before        string    // cursor of the record after which the page begins, as SecretReadCursor
	Limit         int       // 1..MaxPage
}

// Limits of orders about secrets.
const (
	// SecretCheckLife and SecretRevocationLife are how long workers are given an order.
	SecretCheckLife      = time.Minute
	SecretRevocationLife = time.Hour
	// MaxSecretChecks and MaxSecretRevocations bound the orders of a tenant within these times.
	MaxSecretChecks      = 20
	MaxSecretRevocations = 100
	// MaxSecretAnswers bounds the answers to an order.
	MaxSecretAnswers = 1000
	// SecretOrderLife is how long an order and its answers are kept.
	SecretOrderLife = 7 * 24 * time.Hour
)

// SecretOrderKind is what workers are asked to do about secrets.
type SecretOrderKind string

// Kinds of orders.
const (
	SecretCheck      SecretOrderKind = "CHECK"      // say which secrets can be read
	SecretRevocation SecretOrderKind = "REVOCATION" // forget values and end leases
)

// Bounds returns how long workers are given an order of the kind, and how many a tenant may have in that time.
func (k SecretOrderKind) Bounds() (life time.Duration, most int) {
	if k == SecretRevocation {
		return SecretRevocationLife, MaxSecretRevocations
	}
	return SecretCheckLife, MaxSecretChecks
}

// SecretOrder asks workers to do something about the secrets of one tenant.
type SecretOrder struct {
	ID        string // made from the request, so that a repetition is the same order
	Kind      SecretOrderKind
	TenantID  string // whose secrets
	Actor     string
	RequestID string
	Reason    string
	Doc       json.RawMessage // what is asked
	At        time.Time       // set by the store
}

// SecretAnswer is what one worker did about an order.
type SecretAnswer struct {
	OrderID string
	Account string
	Worker  string
	Doc     json.RawMessage
	At      time.Time // set by the store
}

// Secrets keeps who read which secret, and the orders about secrets. All times are the store's. It has no values.
type Secrets interface {
	// PutSecretReads adds records, which nobody can change or remove later. Records that are known by run, step, attempts
	// and number are not written again.
	PutSecretReads(ctx context.Context, rows []SecretRead) error
	// SecretReads lists records of a tenant, the newest first. ErrCursor for a wrong cursor.
	SecretReads(ctx context.Context, f SecretReadFilter) ([]SecretRead, error)

	// PutSecretOrder stores an order with the audit rows in one transaction, and returns it. When there is one with its
	// id it returns that one and writes nothing. ErrTooMany when the tenant has as many orders of the kind as it may. It
	// removes orders beyond SecretOrderLife with their answers.
	PutSecretOrder(ctx context.Context, o SecretOrder, audit ...AuditRow) (SecretOrder, error)
	// OpenSecretOrders lists the orders that workers are given, the oldest first, at most MaxPage.
	OpenSecretOrders(ctx context.Context) ([]SecretOrder, error)
	// PutSecretAnswer stores what a worker did about an order. The first answer of a worker counts, and those beyond
	// MaxSecretAnswers are dropped. ErrNotFound without the order.
	PutSecretAnswer(ctx context.Context, a SecretAnswer) error
	// SecretAnswers lists the answers to an order by account and worker.
	SecretAnswers(ctx context.Context, orderID string) ([]SecretAnswer, error)
}

// SecretReadCursor returns the cursor of a record. It has what the record shows and no position, because positions
// would tell how many secrets other tenants read.
func SecretReadCursor(r SecretRead) string {
	doc, _ := json.Marshal([]any{r.At.UTC().Format(time.RFC3339Nano), r.RunID, r.StepID, r.LogicalAttempt,
		r.EngineAttempt, r.No}) // texts and numbers always marshal
	return string(doc)
}

// ParseSecretReadCursor returns the fields of a record that its cursor has. Error: ErrCursor.
func ParseSecretReadCursor(cursor string) (r SecretRead, _ error) {
	var at string
	parts := []any{&at, &r.RunID, &r.StepID, &r.LogicalAttempt, &r.EngineAttempt, &r.No}
	var fields []json.RawMessage
	err := json.Unmarshal([]byte(cursor), &fields)
	if err != nil || len(fields) != len(parts) {
		return r, fmt.Errorf("%w: it is none of a secret read", ErrCursor)
	}
	for i, field := range fields {
		if json.Unmarshal(field, parts[i]) != nil {
			return r, fmt.Errorf("%w: it is none of a secret read", ErrCursor)
		}
	}
	r.At, err = time.Parse(time.RFC3339Nano, at)
	isInt32 := func(n int) bool { return n >= 0 && n <= math.MaxInt32 }
	if year := r.At.UTC().Year(); err != nil || year < 1 || year > 9999 || !run.IsText(r.RunID) ||
		!run.IsText(r.StepID) || !isInt32(r.LogicalAttempt) || !isInt32(r.EngineAttempt) || !isInt32(r.No) {
		return r, fmt.Errorf("%w: it is none of a secret read", ErrCursor)
	}
	return r, nil
}
