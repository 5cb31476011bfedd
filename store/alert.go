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
	// MaxUncounted is how many alerts a process opens without another count. Other processes may do the same meanwhile,
	// so it also bounds by how much each of them can pass MaxOpenAlerts.
	MaxUncounted = 20

	roomLife = time.Minute
	maxRooms = 10_000 // tenants
)

// AlertRoom remembers how many alerts of a tenant a process may open before it must count the open ones again. A count
// costs the more the more alerts are open, so counting for each made ten thousand at once take minutes. A single
// process never passes MaxOpenAlerts; each further one may pass it by MaxUncounted. The zero value is ready. It is safe
// for concurrent use.
type AlertRoom struct {
	mu    sync.Mutex
	rooms map[string]alertRoom // by tenant
}

type alertRoom struct {
	left  int
	until time.Time
}

// Take reports whether an alert of the tenant may be opened without a count, and takes its place.
func (r *AlertRoom) Take(tenantID string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.rooms[tenantID]
	if room.left == 0 || !now.Before(room.until) {
		delete(r.rooms, tenantID)
		return false
	}
	room.left--
	r.rooms[tenantID] = room
	return true
}

// Counted records how many alerts of the tenant are open, with the one for which the caller counted.
func (r *AlertRoom) Counted(tenantID string, open int, now time.Time) {
	left := min(MaxOpenAlerts-open, MaxUncounted)
	if left <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms == nil || len(r.rooms) >= maxRooms {
		r.rooms = map[string]alertRoom{}
	}
	r.rooms[tenantID] = alertRoom{left: left, until: now.Add(roomLife)}
}
