package store

import (
	"context"
	"encoding/json"
	"time"
)

// AlertChangeKind says what happened to an alert.
type AlertChangeKind string

// Kinds of changes. A finding that only counts is none.
const (
	AlertChangeOpened       AlertChangeKind = "OPENED"
	AlertChangeLevel        AlertChangeKind = "LEVEL" // a later finding has another level
	AlertChangeAcknowledged AlertChangeKind = "ACKNOWLEDGED"
	AlertChangeResolved     AlertChangeKind = "RESOLVED"
)

// AlertChange is one change of an alert.
type AlertChange struct {
	N    int64 // increases in the order of commits
	Kind AlertChangeKind
	At   time.Time
	// Alert is the alert now, with the level, note and count of the change.
	Alert AlertState
}

// DestinationState is what became of the messages to one destination.
type DestinationState struct {
	Name string
	// DisabledFor is the digest of the configuration for which the destination is disabled; "" when it is not. Another
	// configuration of the same name is enabled.
	DisabledFor  string
	DisabledWhy  string
	FailingSince *time.Time // nil after a success
	LastSent     *time.Time
	LastError    string
	// Sent, Failed and Dead count deliveries, tries and dead letters. Dropped counts dead letters that fell out.
	Sent, Failed, Dead, Dropped int64
}

// DestinationReport is what one process adds to the state of a destination.
type DestinationReport struct {
	Name         string
	Sent, Failed int64      // since its last report
	FailingSince *time.Time // replaces the stored one
	LastError    string     // replaces the stored one when it is not ""
	LastSent     *time.Time // replaces the stored one when it is not nil
}

// DeadDelivery is a message that a destination did not accept.
type DeadDelivery struct {
	N           int64 // set by the store; grows
	Destination string
	MessageID   string // a destination has at most one dead letter of a message
	TenantID    string
	RunID       string
	Tries       int
	Error       string
	Message     json.RawMessage
	At          time.Time // set by the store
}

// Destinations keeps what became of messages to other systems. All times are the store's.
type Destinations interface { //nolint:interfacebloat // one subject: the deliveries to other systems
	// AlertChanges lists the changes with N > after, ascending, at most limit (≤ MaxPage). A change that commits later
	// has a greater N, so that a reader that continues after the last N misses none.
	AlertChanges(ctx context.Context, after int64, limit int) ([]AlertChange, error)
	// TrimAlertChanges removes changes that are older than age.
	TrimAlertChanges(ctx context.Context, age time.Duration) error
	// DestinationStates lists the states of all destinations that ever reported, by name, at most MaxPage.
	DestinationStates(ctx context.Context) ([]DestinationState, error)
	// ReportDestination adds to the state of a destination.
	ReportDestination(ctx context.Context, r DestinationReport) error
	// DisableDestination disables the configuration of a destination with this digest. "" enables the destination.
	DisableDestination(ctx context.Context, name, digest, why string) error
	// BuryDelivery stores a dead letter, and removes and counts the oldest ones of the destination beyond keep. A second
	// one of the same message replaces the first and is not counted.
	BuryDelivery(ctx context.Context, d DeadDelivery, keep int) error
	// DeadDeliveries lists the dead letters of a destination with N < before, or the newest ones when before is 0,
	// descending, at most limit (≤ MaxPage).
	DeadDeliveries(ctx context.Context, name string, before int64, limit int) ([]DeadDelivery, error)
}
