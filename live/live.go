// Package live keeps viewers of runs up to date and tells them when their view may be behind. A hub has one entry for
// each watched run, for any number of viewers. An entry subscribes to the bus, waits for the confirmation, reads the
// store, applies deltas by the overlap rule (contract T188), compares with the head every second (contract T187,
// T226) and resyncs with one read. The store is the truth: a message that the bus loses costs one check, not an
// event.
//
// Frames of one stream never go back within a store epoch (contract O9). Viewers pull: a slow one gets the newest
// state, never a backlog, and does not slow down others.
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

// Sync states of the contract (docs/contract/api.md).
const (
	Live      Sync = "LIVE"
	Stale     Sync = "STALE"
	Resyncing Sync = "RESYNCING"
	Verifying Sync = "VERIFYING"
)

// Reason says why a frame is not LIVE, or LIVE with a restriction.
type Reason string

// Reasons of the contract (docs/contract/api.md).
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

// Frame is the content of a stream at one moment. State is always complete. From is the position of the state that
// this stream showed before, 0 at first and after a Reset, so that State.Since(From) has the changes for this viewer.
type Frame struct {
	Sync    Sync
	Reason  Reason // "" if there is none
	State   run.State
	From    run.Seq
	Changed bool    // State moved since the last frame of this stream
	HeadSeq run.Seq // the highest known position of the store; never above State.Seq when Live
	Epoch   string
	OpsRev  int64
	AsOf    time.Time // by the store's clock
	// CommittedAt is when the newest event in State was committed, by the store's clock; zero if unknown.
	CommittedAt time.Time
	Lag         time.Duration
	Reset       bool
}

// Message is one message on the bus about one run (contract O8). It has a delta if its JSON has at most MaxMessage
// bytes; else Delta is nil and the message is a notice.
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
	At        time.Time `json:"at"` // the store's time of the read
	// CommittedAt is persistedAt of the event at To; zero if unknown.
	CommittedAt time.Time  `json:"committedAt,omitzero"`
	Delta       *run.Delta `json:"delta,omitempty"`
}

// Version of messages, and their maximum size in bytes (contract O8).
const (
	MessageVersion = 1
	MaxMessage     = 16 << 10
)

// ErrRefused means that the bus answered and does not accept this message. Every other error of Publish means that
// the bus cannot be used now, for any message (contract T124).
var ErrRefused = errors.New("live: the bus refused the message")

// Bus carries messages between processes, at most once and in no guaranteed order. Implementations are safe for
// concurrent use.
type Bus interface {
	// Publish sends m to its run's channel. An error that wraps ErrRefused concerns only m. After any error m may have
	// been sent.
	Publish(ctx context.Context, m Message) error
	// WakeLists sends a wake-up without content to the channels of lists and to the channels of their tenants. After an
	// error some may have been sent.
	WakeLists(ctx context.Context, lists ...List) error
	// Subscribe opens a run's channel and returns at once. The first Confirmed arrives when the bus has subscribed. Each
	// further Confirmed means that the bus reconnected and any message may have been lost (contract T206).
	Subscribe(runID string) Subscription
	// SubscribeList opens the list channel of a project of a tenant.
	SubscribeList(tenantID, projectID string) Subscription
	// Up reports whether the bus answers. It notices a fault within one second.
	Up() bool
	Close() error
}

// List names the runs of one project of a tenant.
type List struct{ TenantID, ProjectID string }

// Subscription is one open channel. Its reader never blocks the bus: when the mailbox is full, the next Delivery has
// Overflow set.
type Subscription interface {
	C() <-chan Delivery
	Close()
}

// Delivery is one item of a subscription.
type Delivery struct {
	Confirmed bool     // (re)subscribed; without a message
	Overflow  bool     // messages were dropped before this one; catch up with one read
	Message   *Message // nil for Confirmed and for wake-ups of lists
}
