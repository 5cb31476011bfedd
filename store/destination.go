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
	// Entry is the JSON document of what may be shown of the destination's entry in the file, and Digest identifies the
	// whole entry. Both are empty until a process has reported.
	Entry  json.RawMessage
	Digest string
	// ReportedAt is when a process that works for the destination last reported; nil when none has.
	ReportedAt *time.Time
	// RemovedAt is set while no process has the destination in its file.
	RemovedAt *time.Time
	// DisabledFor is the digest of the entry for which the destination is disabled, or DisabledByPerson; "" when it is
	// enabled. Another entry of the same name is enabled unless a person disabled the destination.
	DisabledFor  string
	DisabledWhy  string
	DisabledBy   string // principal; "" when dvt did it
	DisabledAt   *time.Time
	FailingSince *time.Time // nil after a success
	LastSent     *time.Time
	LastError    string
	// Waiting counts messages that were read and not delivered. OldestWaiting is the time of the oldest one.
	Waiting       int64
	OldestWaiting *time.Time
	// BeginsAt is how far back a destination that is disabled begins when it is enabled: messages before it were sent.
	BeginsAt *time.Time
	// Sent, Failed and Dead count deliveries, tries and dead letters. Dropped and Redriven count dead letters that fell
	// out and that were sent at last.
	Sent, Failed, Dead, Dropped, Redriven int64
	// MissedRuns counts runs that the retention deleted before the destination took all their messages.
	MissedRuns int64
}

// DisabledByPerson is the value of DestinationState.DisabledFor that disables every entry of the name.
const DisabledByPerson = "*"

// DestinationReport is what the process that works for a destination adds to its state.
type DestinationReport struct {
	Name          string
	Entry         json.RawMessage
	Digest        string
	Sent, Failed  int64      // since its last report
	FailingSince  *time.Time // replaces the stored one
	LastError     string     // replaces the stored one when it is not ""
	LastSent      *time.Time // replaces the stored one when it is not nil
	Waiting       int64
	OldestWaiting *time.Time
	BeginsAt      *time.Time // replaces the stored one when it is not nil
}

// DestinationSwitch disables or enables a destination.
type DestinationSwitch struct {
	Name string
	For  string // of DestinationState.DisabledFor; "" enables
	Why  string
	By   string // principal; "": dvt, which does not replace what a person did
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

// DeadDeliveryFilter selects dead letters of one destination. Zero fields do not restrict.
type DeadDeliveryFilter struct {
	Destination string
	TenantID    string // dead letters of this tenant, and those about the installation
	IDs         []int64
	Before      int64 // N < Before
	OldestFirst bool  // instead of the newest
	After       int64 // N > After
	Limit       int   // 1..MaxPage
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
	// GetDestination reads the state of one destination; ErrNotFound.
	GetDestination(ctx context.Context, name string) (DestinationState, error)
	// ReportDestination adds to the state of a destination.
	ReportDestination(ctx context.Context, r DestinationReport) error
	// CountMissedRun adds one to MissedRuns of each named destination that exists.
	CountMissedRun(ctx context.Context, names ...string) error
	// MarkDestinationsRemoved marks destinations that are not named and for which no process has reported for age, and
	// forgets those that were marked longer than forget ago, with their dead letters and orders.
	MarkDestinationsRemoved(ctx context.Context, named []string, age, forget time.Duration) error
	// SwitchDestination disables or enables a destination, with the audit rows in the same transaction.
	SwitchDestination(ctx context.Context, s DestinationSwitch, audit ...AuditRow) error
	// BuryDelivery stores a dead letter, and removes and counts the oldest ones of the destination beyond keep. A second
	// one of the same message replaces the first and is not counted.
	BuryDelivery(ctx context.Context, d DeadDelivery, keep int) error
	// DeadDeliveries lists dead letters.
	DeadDeliveries(ctx context.Context, f DeadDeliveryFilter) ([]DeadDelivery, error)
	// EndDeadDelivery removes the dead letter of a message that was accepted at last, and counts it as redriven. It does
	// nothing when there is none.
	EndDeadDelivery(ctx context.Context, name, messageID string) error
}

// DestinationOrderKind is what somebody asks of a destination.
type DestinationOrderKind string

// Kinds of orders.
const (
	OrderTest    DestinationOrderKind = "TEST"    // send one message that says that it is a test
	OrderReplay  DestinationOrderKind = "REPLAY"  // send the messages of a range of time again
	OrderRedrive DestinationOrderKind = "REDRIVE" // send dead letters again
)

// DestinationOrderState is what became of an order.
type DestinationOrderState string

// States of orders. DONE and FAILED are final.
const (
	OrderWaiting DestinationOrderState = "WAITING"
	OrderRunning DestinationOrderState = "RUNNING"
	OrderDone    DestinationOrderState = "DONE"
	OrderFailed  DestinationOrderState = "FAILED"
)

// IsFinal reports whether an order does not change any more.
func (s DestinationOrderState) IsFinal() bool { return s == OrderDone || s == OrderFailed }

// Limits of orders.
const (
	// MaxOpenOrders is the number of orders of a destination that are not final.
	MaxOpenOrders = 20
	// OrderLife is how long an order is kept after its end.
	OrderLife = 30 * 24 * time.Hour
	// MaxOrders bounds the final orders of a destination that are kept.
	MaxOrders = 1000
)

// DestinationOrder is what somebody asked of a destination. The process that works for the destination carries it out.
type DestinationOrder struct {
	ID          string // made from the request, so that a repetition is the same order
	Destination string
	Kind        DestinationOrderKind
	TenantID    string // of the actor
	Actor       string
	RequestID   string
	Reason      string
	Doc         json.RawMessage // what is asked
	State       DestinationOrderState
	At          time.Time  // set by the store
	EndedAt     *time.Time // set by the store
	// Messages counts those that were selected so far, Sent those that were accepted, Failed those that became dead
	// letters.
	Messages, Sent, Failed int64
	Error                  string
}

// DestinationOrders keeps orders to destinations. All times are the store's.
type DestinationOrders interface {
	// PutDestinationOrder stores a new order as WAITING, with the audit rows in the same transaction, and returns it.
	// When there is one with its id it returns that one and writes nothing. ErrTooMany when the destination has
	// MaxOpenOrders. It removes final orders beyond OrderLife and MaxOrders.
	PutDestinationOrder(ctx context.Context, o DestinationOrder, audit ...AuditRow) (DestinationOrder, error)
	// GetDestinationOrder reads an order; ErrNotFound.
	GetDestinationOrder(ctx context.Context, id string) (DestinationOrder, error)
	// DestinationOrders lists the newest orders of each named destination, at most each (≤ 100), the newest first.
	DestinationOrders(ctx context.Context, names []string, each int) ([]DestinationOrder, error)
	// OpenDestinationOrders lists the orders of a destination that are not final, the oldest first.
	OpenDestinationOrders(ctx context.Context, name string) ([]DestinationOrder, error)
	// ReportDestinationOrder stores the state, the counts and the error of an order that is not final.
	ReportDestinationOrder(ctx context.Context, o DestinationOrder) error
}
