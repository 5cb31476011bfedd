package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// AlertLevel is how urgent an alert is.
type AlertLevel string

// Levels of alerts (R260).
const (
	AlertLow    AlertLevel = "LOW"
	AlertMedium AlertLevel = "MEDIUM"
	AlertHigh   AlertLevel = "HIGH"
)

// AlertLevels lists every level, the least urgent first.
func AlertLevels() []AlertLevel { return []AlertLevel{AlertLow, AlertMedium, AlertHigh} }

// Alert asks people to look at a run. It is insert-only and changes nothing in
// the run (T197); whoever tells people reads it from here.
type Alert struct {
	ID        string // UUID; the same alert again has the same
	TenantID  string
	ProjectID string
	RunID     string
	StepID    string // "" when no step is meant
	SignalID  string // of the ESCALATE_ALERT; "" when dvt raised it
	Level     AlertLevel
	Code      run.Code // what dvt found; "" for an ESCALATE_ALERT
	Note      string
	Actor     string
	At        time.Time // set by the store
}

// Alerts keeps alerts.
type Alerts interface {
	// Raise keeps alerts; one whose ID is known is left as it is.
	Raise(ctx context.Context, alerts ...Alert) error
	// Alerts lists alerts, newest first.
	Alerts(ctx context.Context, f AlertFilter) ([]Alert, error)
}

// AlertFilter selects alerts of one tenant. Empty fields do not restrict.
type AlertFilter struct {
	TenantID string
	RunID    string
	Before   string // ID: those raised before it
	Limit    int    // 1..MaxPage
}

// AlertTx raises alerts in the transaction of the locked run.
type AlertTx interface {
	Raise(ctx context.Context, alerts ...Alert) error
}
