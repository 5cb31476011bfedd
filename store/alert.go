package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// Limits of alerts.
const (
	// MaxOpenAlerts bounds the open alerts of a tenant, and those of the installation. Further ones are counted in one
	// alert with the code ALERTS_OVERFLOW.
	MaxOpenAlerts = 10_000
	// MaxSilences bounds the silences of a tenant that have not ended.
	MaxSilences = 100
	// MaxSilence is the longest time of a silence.
	MaxSilence = 30 * 24 * time.Hour
)

// Alert asks people to look at something. The row of its opening is insert-only and does not change the run (contract
// T197); its AlertState changes beside it.
type Alert struct {
	ID        string // UUID; "" lets the store choose one. A known ID changes nothing
	TenantID  string // "" for an alert about the installation
	ProjectID string
	RunID     string // "" for an alert that is not about a run
	StepID    string // "" for an alert about the whole run
	SignalID  string // of the ESCALATE_ALERT; "" when dvt raised the alert
	Level     AlertLevel
	Code      run.Code // the finding of dvt; "" for an ESCALATE_ALERT
	// Subject names what is affected when run, step and code do not: a queue, a duty, the signal of an escalation.
	Subject string
	// Shared says that the subject affects many runs: project, run and step are only an example. A shared alert does
	// not end with that run.
	Shared bool
	Note   string
	Actor  string
	At     time.Time // set by the store
}

// Fingerprint identifies the state that the alert is about. A tenant has at most one open alert with it.
func (a Alert) Fingerprint() string {
	if a.Shared {
		a.ProjectID, a.RunID, a.StepID = "", "", ""
	}
	return strings.Join([]string{a.TenantID, a.ProjectID, a.RunID, a.StepID, string(a.Code), a.Subject}, "\n")
}

// AlertState is an alert with what has become of it. Level and Note are those of the newest finding.
type AlertState struct {
	Alert
	EnvironmentID string // of the run, "" without one
	PlanID        string // of the run, "" without one
	Count         int64  // how often the state was found
	LastSeen      time.Time
	ResolvedAt    *time.Time // nil while the alert is open
	Resolution    string     // why it was resolved
	// AcknowledgedAt is nil until somebody has taken the alert on.
	AcknowledgedAt *time.Time
	AcknowledgedBy string
	AckNote        string
	SilencedUntil  *time.Time // end of the longest silence that covers the alert now; nil without one
}

// AlertRaised is the result of RaiseAlert. When the tenant has too many open alerts, State is the one that counts the
// rest.
type AlertRaised struct {
	State  AlertState
	Opened bool // this call opened the alert
}

// Alerts stores alerts and their states. Each change raises the number that AlertsRev returns.
type Alerts interface { //nolint:interfacebloat // one subject: alerts and their silences
	// RaiseAlert opens an alert. When an alert with the same fingerprint is open, it counts and updates that one instead;
	// after that one was resolved, it opens another.
	RaiseAlert(ctx context.Context, a Alert) (AlertRaised, error)
	// ResolveAlerts resolves the open alerts with these fingerprints, at most MaxPage, and returns them.
	ResolveAlerts(ctx context.Context, fingerprints []string, why string) ([]AlertState, error)
	// ResolveEndedAlerts resolves open alerts about runs that have ended, at most MaxPage, and returns them.
	ResolveEndedAlerts(ctx context.Context, why string) ([]AlertState, error)
	// AcknowledgeAlert records who has taken an alert on, with the audit rows in the same transaction. A later one
	// replaces an earlier one. ErrNotFound for an unknown alert; ErrConflict for a resolved one.
	AcknowledgeAlert(ctx context.Context, id, by, note string, audit ...AuditRow) (AlertState, error)
	// GetAlert reads an alert of any tenant; ErrNotFound.
	GetAlert(ctx context.Context, id string) (AlertState, error)
	// ListAlerts lists alerts, the newest first. It is one statement.
	ListAlerts(ctx context.Context, f AlertFilter) ([]AlertState, error)
	// CountAlerts counts the alerts that ListAlerts would return, but at most f.Limit.
	CountAlerts(ctx context.Context, f AlertFilter) (int, error)
	// ListOpenAlerts lists the open alerts of every tenant with one of the codes, at most limit (≤ MaxPage). The one that
	// was found longest ago comes first. The API must never call it for a request.
	ListOpenAlerts(ctx context.Context, codes []run.Code, limit int) ([]AlertState, error)
	// AlertsRev returns a number that grows with each change of an alert or a silence of any tenant.
	AlertsRev(ctx context.Context) (int64, error)

	// Silence stores a silence with its audit rows. It removes ended silences of the tenant. A known ID changes nothing
	// and returns the stored one. ErrTooMany when MaxSilences have not ended.
	Silence(ctx context.Context, s AlertSilence, audit ...AuditRow) (AlertSilence, error)
	// EndSilence removes a silence, with the audit rows in the same transaction; ErrNotFound.
	EndSilence(ctx context.Context, tenantID, id string, audit ...AuditRow) error
	// ListSilences lists the silences of a tenant that have not ended, the newest first.
	ListSilences(ctx context.Context, tenantID string) ([]AlertSilence, error)
}

// AlertFilter selects alerts of one tenant. Empty fields do not restrict.
type AlertFilter struct {
	TenantID string
	// Installation adds the alerts about the installation, which no scope restricts.
	Installation bool
	Scopes       Scopes // nil: every scope; an alert without a project is only in the scope of the whole tenant
	ProjectID    string
	RunID        string
	Levels       []AlertLevel
	Code         run.Code
	States       []AlertStage // nil: every stage
	Unsilenced   bool         // only alerts that no silence covers
	Since        time.Time    // only alerts raised at or after it
	Before       string       // ID of an alert: only alerts raised before it
	Limit        int          // 1..MaxPage
}

// AlertStage is a stage in the life of an alert.
type AlertStage string

// Stages of alerts.
const (
	AlertOpen         AlertStage = "OPEN" // and not acknowledged
	AlertAcknowledged AlertStage = "ACKNOWLEDGED"
	AlertResolved     AlertStage = "RESOLVED"
)

// AlertStages returns all stages in the order of an alert's life.
func AlertStages() []AlertStage { return []AlertStage{AlertOpen, AlertAcknowledged, AlertResolved} }

// Stage returns the stage of the alert.
func (s AlertState) Stage() AlertStage {
	switch {
	case s.ResolvedAt != nil:
		return AlertResolved
	case s.AcknowledgedAt != nil:
		return AlertAcknowledged
	}
	return AlertOpen
}

// AlertSilence keeps alerts of a tenant from asking for people until its end. Empty matchers match every alert.
type AlertSilence struct {
	ID        string // UUID
	TenantID  string
	Code      run.Code
	ProjectID string
	RunID     string
	PlanID    string
	Actor     string
	Reason    string
	At        time.Time // set by the store
	Until     time.Time
}

// AlertTx raises alerts in the transaction of the locked run.
type AlertTx interface {
	// Raise works like Alerts.RaiseAlert.
	Raise(ctx context.Context, a Alert) error
}

// OnlyUnresolved reports whether the filter names stages and none of them is AlertResolved.
func (f AlertFilter) OnlyUnresolved() bool {
	return f.States != nil && !slices.Contains(f.States, AlertResolved)
}

// OverflowAlert is the alert that counts a when its tenant has too many open alerts.
func OverflowAlert(a Alert) Alert {
	return Alert{TenantID: a.TenantID, Level: AlertHigh, Code: run.CodeAlertsOverflow, Actor: a.Actor, Note: fmt.Sprintf(
		"%d alerts are open, so further ones are only counted here. The newest has the code %s: %s", MaxOpenAlerts,
		cmp.Or(a.Code, "ESCALATE_ALERT"), a.Note)}
}

const (
	roomLife = time.Minute
	maxRooms = 10_000 // tenants
)

// AlertRoom remembers how many alerts of a tenant are open, so that a process need not count all of them for each new
// one: a count costs the more the more alerts are open, and ten thousand at once took minutes. Only alerts after the
// last one that it knows are counted, so alerts of other processes count too. Alerts that were resolved meanwhile are
// not noticed; a Room without places therefore asks for another count of all. The caller holds the lock of the alerts
// of the tenant. The zero value is ready. It is safe for concurrent use.
type AlertRoom struct {
	mu    sync.Mutex
	rooms map[string]room // by tenant
}

type room struct {
	left  int
	after int64
	until time.Time
}

// Left returns how many alerts of the tenant may be open whose position is above after. It returns 0 when all open
// alerts must be counted.
func (r *AlertRoom) Left(tenantID string, now time.Time) (left int, after int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.rooms[tenantID]
	if known.left <= 0 || !now.Before(known.until) {
		delete(r.rooms, tenantID)
		return 0, 0
	}
	return known.left, known.after
}

// Counted records a count: open alerts of the tenant are open up to the position last.
func (r *AlertRoom) Counted(tenantID string, open int, last int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms == nil || len(r.rooms) >= maxRooms {
		r.rooms = map[string]room{}
	}
	r.rooms[tenantID] = room{left: MaxOpenAlerts - open, after: last, until: now.Add(roomLife)}
}

// Opened records that the tenant has opened alerts after the last count: more others, and one at the position last.
func (r *AlertRoom) Opened(tenantID string, others int, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.rooms[tenantID]; ok {
		known.left, known.after = known.left-others-1, last
		r.rooms[tenantID] = known
	}
}
