package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// HoldKind says what a legal hold covers.
type HoldKind string

// Kinds of holds.
const (
	HoldRun  HoldKind = "RUN"  // one run
	HoldPlan HoldKind = "PLAN" // every run of a plan
	// HoldSubject covers every run that a principal started, signalled, decided about or wrote a note to.
	HoldSubject HoldKind = "SUBJECT"
)

// MaxOpenHolds bounds the open holds of a tenant.
const MaxOpenHolds = 10_000

// Hold is a legal hold: runs that it covers are neither archived nor deleted until it is lifted.
type Hold struct {
	ID        string // made from the request, so that a repetition is the same hold
	TenantID  string
	Kind      HoldKind
	Subject   string // a run id, a plan id or a principal
	Reason    string
	PlacedBy  string
	PlacedAt  time.Time // set by the store
	LiftedBy  string    // "" while the hold is open
	LiftedAt  *time.Time
	LiftedFor string // the reason for lifting it
}

// HoldFilter selects holds of one tenant, the newest first.
type HoldFilter struct {
	TenantID string
	Open     bool   // without those that were lifted
	Before   string // the id of the hold before the page; "": from the newest
	Limit    int    // 1..MaxPage
}

// Holds keeps legal holds. All times are the store's.
type Holds interface {
	// PlaceHold stores an open hold, with the audit row in the same transaction. When there is one with its id it writes
	// nothing, and returns that one and false. ErrTooMany when the tenant has MaxOpenHolds open ones.
	PlaceHold(ctx context.Context, h Hold, audit AuditRow) (Hold, bool, error)
	// LiftHold lifts a hold, with the audit row in the same transaction. When it was lifted before it writes nothing, and
	// returns the hold and false. ErrNotFound for an unknown hold and for one of another tenant.
	LiftHold(ctx context.Context, tenantID, id, by, reason string, audit AuditRow) (Hold, bool, error)
	// CountLiftedHolds counts the holds of a tenant that were lifted.
	CountLiftedHolds(ctx context.Context, tenantID string) (int64, error)
	// ListHolds lists holds.
	ListHolds(ctx context.Context, f HoldFilter) ([]Hold, error)
}

// ArchiveObstacle says why a run is not archived or deleted now; "" means that nothing stands in the way.
type ArchiveObstacle string

// Obstacles.
const (
	ObstacleOpen        ArchiveObstacle = "OPEN"        // the run has not ended
	ObstacleRecent      ArchiveObstacle = "RECENT"      // its last event is younger than MinArchiveAge
	ObstacleHeld        ArchiveObstacle = "HELD"        // a legal hold covers it
	ObstacleRerun       ArchiveObstacle = "RERUN"       // an open rerun reuses its results
	ObstacleUndelivered ArchiveObstacle = "UNDELIVERED" // something of it was not projected, published or delivered
	ObstacleMoved       ArchiveObstacle = "MOVED"       // events were appended after the archive was written
	ObstacleNotArchived ArchiveObstacle = "NOT_ARCHIVED"
	ObstacleNotEmptied  ArchiveObstacle = "NOT_EMPTIED" // its events are still in the store
	ObstacleUnknown     ArchiveObstacle = "UNKNOWN"     // there is no such run
	ObstacleErasure     ArchiveObstacle = "ERASURE"     // an erasure is open; of the audit only
)

// MinArchiveAge is the least age of the last event of a run that can be marked as archived, by the clock of the
// database. A server whose program was taken over can delete no newer log.
const MinArchiveAge = 24 * time.Hour

// ObstacleError is the error of a write that an obstacle prevents. Nothing was written. errors.Is(err, ErrConflict) is
// true.
type ObstacleError struct {
	RunID    string // "": the audit of a tenant
	Obstacle ArchiveObstacle
}

// Error implements error.
func (e *ObstacleError) Error() string {
	if e.RunID == "" {
		return fmt.Sprintf("store: the audit cannot be cut: %s", e.Obstacle)
	}
	return fmt.Sprintf("store: run %s cannot be archived or deleted: %s", e.RunID, e.Obstacle)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ObstacleError) Is(target error) bool { return target == ErrConflict }

// ObstacleOf returns the obstacle of an error of a write of Retention, or "".
func ObstacleOf(err error) ArchiveObstacle {
	if o := (*ObstacleError)(nil); errors.As(err, &o) {
		return o.Obstacle
	}
	return ""
}

// EndedFilter selects runs of one tenant that ended with one status, in the order of their ends.
type EndedFilter struct {
	TenantID string
	Status   run.Status // a final one
	Before   time.Time  // runs that ended before
	// AfterAt and AfterRun are the position after which the list begins; the zero values begin with the first run.
	AfterAt  time.Time
	AfterRun string
	Limit    int // 1..MaxPage rows that are read, archived ones included
}

// EndedRun is a run that ended, by its checkpoint.
type EndedRun struct {
	RunID    string
	EndedAt  time.Time
	Head     run.Seq
	Archived bool
	Obstacle ArchiveObstacle // of archiving it, or of deleting parts of it
}

// ArchivedRun says where the log of a run is kept. The checkpoint of the run stays in the store (contract T180).
type ArchivedRun struct {
	RunID     string
	TenantID  string // set by the store
	Head      run.Seq
	Location  string // the name of the object in the archive
	SHA256    string // of the object, in lower-case hex
	Bytes     int64  // of the object
	Events    int64
	EndedAt   time.Time  // set by the store: time of the last event
	MarkedAt  time.Time  // set by the store
	EmptiedAt *time.Time // set by the store when the last archived event was deleted
	// ReceiptsAt is set by the store when the receipts of the run were deleted.
	ReceiptsAt *time.Time
}

// ErrArchiveDamaged says that the archived log of a run is missing or does not have the content that was archived. A
// restore of the object mends it.
var ErrArchiveDamaged = errors.New("store: the archived log of the run is missing or damaged")

// ArchivedPart is a part of an archived run that is removed by its own age.
type ArchivedPart string

// Parts.
const (
	PartEvents   ArchivedPart = "EVENTS"
	PartReceipts ArchivedPart = "RECEIPTS"
	PartRun      ArchivedPart = "RUN" // the rest of the run, after its events
)

// ArchivedFilter selects archived runs of one tenant that still have a part, in the order of their ends.
type ArchivedFilter struct {
	TenantID string
	Part     ArchivedPart
	Before   time.Time // runs that ended before
	AfterAt  time.Time
	AfterRun string
	Limit    int // 1..MaxPage
}

// TrimKind is a kind of rows that are deleted by age alone.
type TrimKind string

// Kinds of rows.
const (
	TrimDeadLetters TrimKind = "DEAD_LETTERS" // of messages and of destinations
	TrimAlerts      TrimKind = "ALERTS"       // that were resolved, and incidents that were closed
)

// RetentionEstimate is what archiving would move. Bytes is estimated from a sample of the events. When More is true
// there are more runs than were counted.
type RetentionEstimate struct {
	Runs, Events, Bytes int64
	Held                int64 // runs that are not counted because a hold covers them
	More                bool
}

// Retention archives and deletes what is older than a tenant's policy allows to keep. No method touches a run that has
// not ended or that an open hold covers. Deletions are bounded, so that each transaction is short.
type Retention interface { //nolint:interfacebloat // one subject: how long things live
	Holds
	AuditCuts
	// RetentionTenants lists tenants that have runs, by id, strictly after the given one, at most limit (≤ MaxPage).
	RetentionTenants(ctx context.Context, after string, limit int) ([]string, error)
	// EndedRuns lists runs that ended. It reads at most f.Limit rows, whatever their obstacles are.
	EndedRuns(ctx context.Context, f EndedFilter) ([]EndedRun, error)
	// ArchiveObstacle returns why the run may not be archived or deleted now, or "".
	ArchiveObstacle(ctx context.Context, runID string) (ArchiveObstacle, error)
	// EstimateEnded counts runs that ended before a time and are not archived, at most limit of each status.
	EstimateEnded(ctx context.Context, tenantID string, before time.Time, limit int) (RetentionEstimate, error)
	// EstimateArchived counts archived runs that ended before a time, at most limit. Bytes are those of their objects.
	EstimateArchived(ctx context.Context, tenantID string, before time.Time, limit int) (RetentionEstimate, error)
	// MarkArchived records that the log of a run up to a.Head is in the archive and was verified there. A repetition
	// changes nothing. *ObstacleError.
	MarkArchived(ctx context.Context, a ArchivedRun) error
	// FindArchived reads those of up to MaxPage runs that are archived, in no order.
	FindArchived(ctx context.Context, runIDs ...string) ([]ArchivedRun, error)
	// ListArchived lists archived runs that still have a part.
	ListArchived(ctx context.Context, f ArchivedFilter) ([]ArchivedRun, error)
	// DeleteArchivedEvents deletes at most limit events of an archived run, the oldest first, up to ArchivedRun.Head. It
	// reports how many it deleted; fewer than limit when none is left. *ObstacleError.
	DeleteArchivedEvents(ctx context.Context, runID string, limit int) (int, error)
	// DeleteArchivedReceipts deletes the receipts of an archived run. *ObstacleError.
	DeleteArchivedReceipts(ctx context.Context, runID string) (int, error)
	// DeleteArchivedRun deletes what is left of a run whose events were deleted: its facts, checkpoint, tags, notes and
	// rows of delivery. The audit keeps its rows. *ObstacleError.
	DeleteArchivedRun(ctx context.Context, runID string) error
	// TrimRows deletes at most limit rows of a tenant that are older than before, and reports how many.
	TrimRows(ctx context.Context, kind TrimKind, tenantID string, before time.Time, limit int) (int, error)
	// SaveRetentionPass stores what the last pass did for a tenant.
	SaveRetentionPass(ctx context.Context, tenantID string, doc json.RawMessage) error
	// RetentionPass reads it; ErrNotFound.
	RetentionPass(ctx context.Context, tenantID string) (json.RawMessage, error)
}
