package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Outbox keeps messages that the bus refuses one by one: they are repeated with a growing delay, then become dead
// letters, so that later messages of the run continue (contract T123, T189). It does not handle a bus that is down
// (contract T124).
type Outbox interface {
	// PublishFailed notes that the bus refused the run's message up to the head to,
	// and holds the run back from Dirty for retryIn. The first refusal since the last
	// success fixes Upto. ErrNotFound when nothing is to be published any more.
	PublishFailed(ctx context.Context, runID string, to run.Seq, cause string, retryIn time.Duration) (Refusal, error)
	// AddDeadLetter makes a dead letter of (published, upto], moves the published seq to upto
	// and forgets the refusals, in one transaction. It reports false when another process
	// published the message or made the dead letter meanwhile.
	AddDeadLetter(ctx context.Context, runID string, upto run.Seq, cause string) (bool, error)
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
