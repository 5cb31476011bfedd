package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Outbox is what becomes of messages that the bus refuses one by one: repeated
// with a growing delay, then buried, so that the run's later messages go on
// (T123, T189). A bus that is down is not its concern (T124).
type Outbox interface {
	// PublishFailed notes that the bus refused the run's message up to the head to,
	// and holds the run back from Dirty for retryIn. The first refusal since the last
	// success fixes Upto. ErrNotFound when nothing is to be published any more.
	PublishFailed(ctx context.Context, runID string, to run.Seq, cause string, retryIn time.Duration) (Refusal, error)
	// Bury makes a dead letter of (published, upto], moves the published seq to upto
	// and forgets the refusals, in one transaction. It reports false when somebody
	// published or buried it meanwhile.
	Bury(ctx context.Context, runID string, upto run.Seq, cause string) (bool, error)
	// DeadLetters lists dead letters, newest first.
	DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, error)
	// Redriven records that a dead letter was published after all. It reports false
	// when it was before; ErrNotFound for an unknown one.
	Redriven(ctx context.Context, id string) (bool, error)
}

// Refusal is how often a run's next message was refused, and up to which seq the
// first of those refusals reached.
type Refusal struct {
	Attempts int
	Upto     run.Seq
}

// DeadLetter is a message that was given up: what changed in (From, To] of a run
// was not published by itself. Nothing is lost, for the log has it.
type DeadLetter struct {
	ID         string // UUID
	TenantID   string
	ProjectID  string
	RunID      string
	From, To   run.Seq
	Attempts   int
	Cause      string
	BuriedAt   time.Time
	RedrivenAt *time.Time
}

// DeadLetterFilter selects dead letters of one tenant.
type DeadLetterFilter struct {
	TenantID string
	RunID    string // "" for every run
	ID       string // "" for every letter
	Open     bool   // only those not redriven
	Limit    int    // at most MaxPage
	// Before pages: letters strictly older than this one; "" for the first page.
	Before string
}
