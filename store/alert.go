package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// AlertLevel is how urgent an alert is.
type AlertLevel string

// Levels of alerts.
const (
	AlertLow    AlertLevel = "LOW"
	AlertMedium AlertLevel = "MEDIUM"
	AlertHigh   AlertLevel = "HIGH"
)

// AlertLevels returns all levels, the least urgent first.
func AlertLevels() []AlertLevel { return []AlertLevel{AlertLow, AlertMedium, AlertHigh} }

// Alert asks people to look at a run. It is insert-only and does not change the run (contract T197). Processes that
// notify people read the alerts from the store.
type Alert struct {
	ID        string // UUID; a repetition of the same alert has the same ID, so that it is stored once
	TenantID  string
	ProjectID string
	RunID     string
	StepID    string // "" for an alert about the whole run
	SignalID  string // of the ESCALATE_ALERT; "" when dvt raised the alert
	Level     AlertLevel
	Code      run.Code // the finding of dvt; "" for an ESCALATE_ALERT
	Note      string
	Actor     string
	At        time.Time // set by the store
}

// Alerts stores alerts.
type Alerts interface {
	// Raise inserts alerts. An alert whose ID is stored already does not change.
	Raise(ctx context.Context, alerts ...Alert) error
	// Alerts lists alerts, the newest first.
	Alerts(ctx context.Context, f AlertFilter) ([]Alert, error)
}

// AlertFilter selects alerts of one tenant. Empty fields do not restrict.
type AlertFilter struct {
	TenantID string
	RunID    string
	Before   string // ID of an alert: only alerts raised before it
	Limit    int    // 1..MaxPage
}

// AlertTx raises alerts in the transaction of the locked run.
type AlertTx interface {
	// Raise works like Alerts.Raise.
	Raise(ctx context.Context, alerts ...Alert) error
}
