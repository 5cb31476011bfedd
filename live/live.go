// Package live keeps watchers of runs up to date and tells them honestly when
// they may be behind. A hub has one entry per watched run, whatever the number
// of viewers: it subscribes to the bus and waits for the confirmation, reads the
// store, applies deltas by the overlap rule (T188), compares with the head every
// second (T187, T226) and resyncs with one read. The bus is never the truth: a
// lost message costs one check, not an event.
//
// Frames of one stream never go back within a store epoch (O9). A viewer pulls:
// a slow one gets the newest state, never a backlog, and never slows another.
package live

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Errors that end a stream.
var (
	ErrShutdown = errors.New("live: shutting down")
	ErrNotFound = store.ErrNotFound
	ErrTooMany  = errors.New("live: too many streams")
	ErrClosed   = errors.New("live: stream closed")
)

// Sync says whether a frame is fresh.
type Sync string

// Sync states (api.md §5).
const (
	Live      Sync = "LIVE"
	Stale     Sync = "STALE"
	Resyncing Sync = "RESYNCING"
	Verifying Sync = "VERIFYING"
)

// Reason says why a frame is not simply LIVE.
type Reason string

// Reasons.
const (
	Gap          Reason = "GAP"
	TailLoss     Reason = "TAIL_LOSS"
	ProjectorLag Reason = "PROJECTOR_LAG"
	BusDegraded  Reason = "BUS_DEGRADED"
	StoreDown    Reason = "STORE_DOWN"
	EpochChanged Reason = "EPOCH_CHANGED"
	SlowConsumer Reason = "SLOW_CONSUMER"
	Reconnected  Reason = "RECONNECTED"
)

// Frame is what a stream shows at one moment. State is always whole; From is the
// seq of the state that this stream showed before (0 at first and after Reset),
// so State.Since(From) is what changed for this viewer.
type Frame struct {
	Sync    Sync
	Reason  Reason // "" for no special cause
	State   run.State
	From    run.Seq
	Changed bool    // State moved since the last frame of this stream
	HeadSeq run.Seq // what the store is known to have; never above State.Seq when Live
	Epoch   string
	OpsRev  int64
	AsOf    time.Time // the store's clock
	// CommittedAt is when the newest event that State shows was committed, by the
	// store's clock; zero when that is not known.
	CommittedAt time.Time
	Lag         time.Duration
	Reset       bool
}

// Message is what travels on the bus for one run (O8): a delta when it is at
// most MaxMessage bytes, else a notice without one (Delta nil).
type Message struct {
	V         int       `json:"v"`
	TenantID  string    `json:"tenantId"`
	ProjectID string    `json:"projectId"`
	RunID     string    `json:"runId"`
	Epoch     string    `json:"storeEpoch"`
	Rev       int       `json:"rev"`
	From      run.Seq   `json:"fromSeq"`
	To        run.Seq   `json:"toSeq"`
	OpsRev    int64     `json:"opsRev"`
	At        time.Time `json:"at"` // the store's clock when it was read
	// CommittedAt is persistedAt of the event at To; zero when it is not known.
	CommittedAt time.Time  `json:"committedAt,omitzero"`
	Delta       *run.Delta `json:"delta,omitempty"`
}

// MessageVersion and MaxMessage of the bus (O8).
const (
	MessageVersion = 1
	MaxMessage     = 16 << 10
)

// ErrRefused says that the bus answered and will not take this message. Every other
// error of Publish says that the bus cannot be used now, whatever the message (T124).
var ErrRefused = errors.New("live: the bus refused the message")

// Bus carries messages between processes, at most once, in no promised order.
type Bus interface {
	// Publish sends m to its run's channel. An error that wraps ErrRefused concerns m
	// alone; after any error m may have been sent.
	Publish(ctx context.Context, m Message) error
	// WakeLists sends a bare wake-up to the channels of lists, and to those of all
	// projects of their tenants. After an error some may have been sent.
	WakeLists(ctx context.Context, lists ...List) error
	// Subscribe opens a run's channel. It returns at once; the first Confirmed
	// comes when the bus has really subscribed, each further one means that it was
	// reconnected and anything may have been lost (T206).
	Subscribe(runID string) Subscription
	// SubscribeList opens the list channel of a tenant and project.
	SubscribeList(tenantID, projectID string) Subscription
	// Up reports whether the bus answers now; it changes within a second of a fault.
	Up() bool
	Close() error
}

// List names the runs of one project of a tenant.
type List struct{ TenantID, ProjectID string }

// Subscription is one open channel. Its reader never blocks the bus: a full
// mailbox sets Overflow in the next Delivery instead.
type Subscription interface {
	C() <-chan Delivery
	Close()
}

// Delivery is what a subscription yields.
type Delivery struct {
	Confirmed bool     // (re)subscribed; no message
	Overflow  bool     // messages were dropped before this one: catch up by one read
	Message   *Message // nil for Confirmed and for list wake-ups
}
