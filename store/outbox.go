package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Outbox handles single messages that the bus refuses: they are retried with a growing delay, then become dead letters,
// so that later messages of the run continue (contract T123, T189). It must not be used while the bus is down, because
// an outage would turn all messages into dead letters (contract T124).
type Outbox interface {
	// RecordRefusal records that the bus refused the run's message, which reached to, and removes the run from Dirty for
	// retryIn. Refusal.Upto is the to of the first refusal since the last success. ErrNotFound when the run has nothing
	// to publish any more.
	RecordRefusal(ctx context.Context, runID string, to run.Seq, cause string, retryIn time.Duration) (Refusal, error)
	// AddDeadLetter inserts a dead letter for (published, upto], sets the published seq to upto and forgets the refusals,
	// in one transaction. upto is Refusal.Upto. It returns false when another process has published the message or added
	// the dead letter meanwhile.
	AddDeadLetter(ctx context.Context, runID string, upto run.Seq, cause string) (bool, error)
	// DeadLetters lists dead letters, the newest first.
	DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, error)
	// MarkRedriven records that a dead letter was published after all. It returns false when that was recorded before.
	// ErrNotFound for an unknown dead letter.
	MarkRedriven(ctx context.Context, id string) (bool, error)
}

// Refusal says how often the bus refused a run's next message, and up to which seq the message of the first refusal
// reached.
type Refusal struct {
	Attempts int
	Upto     run.Seq
}

// DeadLetter is a message that was given up: the changes of a run in (From, To] were not published. The log still has
// the events.
type DeadLetter struct {
	ID         string // UUID
	TenantID   string
	ProjectID  string
	RunID      string
	From, To   run.Seq
	Attempts   int
	Cause      string
	CreatedAt  time.Time
	RedrivenAt *time.Time
}

// DeadLetterFilter selects dead letters of one tenant.
type DeadLetterFilter struct {
	TenantID string
	RunID    string // "" for every run
	ID       string // "" for every dead letter
	Open     bool   // only those not redriven
	Limit    int    // at most MaxPage
	// Before pages: dead letters strictly older than this one; "" for the first page.
	Before string
}
