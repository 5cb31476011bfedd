package retention

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Pass is what one pass did for a tenant.
type Pass struct {
	StartedAt time.Time  `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt,omitempty"` // nil while it works
	Archived  int64      `json:"archived"`          // runs
	Bytes     int64      `json:"bytes"`             // of their objects
	Events    int64      `json:"events"`            // deleted from the store
	Receipts  int64      `json:"receipts"`          // runs whose receipts were deleted
	Deleted   int64      `json:"deleted"`           // runs, with their archives
	Objects   int64      `json:"objects"`           // step logs and artifacts removed from the bucket
	Rows      int64      `json:"rows"`              // dead letters and alerts
	// CutRecords are the records of the audit that were deleted.
	CutRecords int64  `json:"cutRecords,omitempty"`
	Held       int64  `json:"held"`            // runs that a hold keeps from being archived or deleted now
	Waiting    int64  `json:"waiting"`         // runs that another obstacle kept
	Failed     int64  `json:"failed"`          // runs that failed; the next pass tries again
	Error      string `json:"error,omitempty"` // of the first failure
	// Marks say up to which end of a run step logs and artifacts were removed, by what was removed and status.
	Marks map[string]Mark `json:"marks,omitempty"`
	// OverdueSince is since when something is late: the time at which the oldest thing that failed was due. It stays until
	// a pass ends without a failure. Nil when nothing is late.
	OverdueSince *time.Time `json:"overdueSince,omitempty"`
	// ArtifactDays are the days of the policy that the pass followed, by kind of artifacts, and Terms those of earlier
	// ones.
	ArtifactDays map[string]int `json:"artifactDays,omitempty"`
	Terms        []Term         `json:"terms,omitempty"`
	// Lifts is the number of lifted holds that the marks know of. Another number resets them.
	Lifts int64 `json:"lifts,omitempty"`
	// RewoundAt is when the marks of whole runs were last reset.
	RewoundAt time.Time `json:"rewoundAt,omitzero"`
}

// Batches of a pass.
const (
	pageRuns    = 50
	pageEvents  = 100
	pageObjects = 100
	pageRows    = 100
)

// ended are the statuses of runs that have ended.
var ended = []run.Status{run.Completed, run.Failed, run.Cancelled} //nolint:gochecknoglobals // a constant

// PassStore is what a pass reads and writes.
type PassStore interface {
	store.Retention
	store.Cursors
	PassReads
	Audit(ctx context.Context, rows ...store.AuditRow) error
	LinkAudit(ctx context.Context, limit int) (int, error)
	AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error)
}

// PassReads are the reads of a pass beside those of the retention.
type PassReads interface {
	SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
		limit int) ([]store.StoredSetting, error)
	DestinationStates(ctx context.Context) ([]store.DestinationState, error)
	CountMissedRun(ctx context.Context, names ...string) error
	Dirty(ctx context.Context, minAge time.Duration, limit int) ([]store.DirtyRun, error)
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// Archive writes and removes the archived logs of runs, and writes records of the audit.
type Archive interface {
	// WriteRun writes the log of an ended run, and verifies it by reading it back.
	WriteRun(ctx context.Context, runID string) (store.ArchivedRun, error)
	// CheckRun reads an archived log and returns an error unless it has the content that was marked.
	CheckRun(ctx context.Context, a store.ArchivedRun) error
	// RemoveRun removes an archived log, with its copies that were never marked. A log that does not exist is no error.
	RemoveRun(ctx context.Context, a store.ArchivedRun) error
	// WriteAudit writes the records of a tenant above a number up to another that a cut deletes, and verifies them by
	// reading them back. It returns the name and the digest of the object.
	WriteAudit(ctx context.Context, tenantID string, after, to int64) (location, sum string, err error)
	// CheckAudit reads such an object and returns an error unless it has the digest.
	CheckAudit(ctx context.Context, location, sum string) error
}

// passOf is one pass over one tenant.
type passOf struct {
	w      *Worker
	tenant string
	days   Days
	// version is that of the policy; 0: the tenant has none of its own.
	version int64
	now     time.Time
	out     *Pass
	held    map[string]int64 // runs that a hold keeps, by mark
	// unreadable says that the policy cannot be read, so days keep everything.
	unreadable bool
}

// do carries the pass out. It returns an error that ends the whole pass: the end of ctx or the loss of the lease.
func (p *passOf) do(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		p.archiveRuns, p.emptyRuns, p.deleteReceipts, p.deleteRuns, p.removeLogs, p.removeUploads, p.removeArtifacts,
		p.trimRows, p.cutAudit,
	} {
		if err := step(ctx); err != nil {
			if isFinal(ctx, err) {
				return err
			}
			p.fail(ctx, "", err)
		}
		if err := dutycycle.Rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errLeaseLost)
}

// archiveRuns writes old runs into the archive and marks them. Runs that a destination has not read yet wait for it.
func (p *passOf) archiveRuns(ctx context.Context) error {
	until := before(p.now, p.days.ArchiveRuns)
	if until.IsZero() {
		return nil
	}
	until, err := p.untilTaken(ctx, until)
	if err != nil {
		return err
	}
	for _, status := range ended {
		err := p.walk(ctx, archiveMark(status), func(m Mark, f func(candidate) error) error {
			return p.endedRuns(ctx, status, until, m, func(r store.EndedRun) error {
				return f(candidate{runID: r.RunID, at: r.EndedAt, due: r.EndedAt.AddDate(0, 0, p.days.ArchiveRuns),
					obstacle: r.Obstacle, isDone: r.Archived})
			})
		}, p.archiveRun)
		if err != nil {
			return err
		}
	}
	return nil
}

// archiveRun writes, verifies and marks one run. Nothing of it is deleted before. It keeps what it wrote when the mark
// fails: the store may have committed the mark before the error, and then this is the only copy of the log. RemoveRun
// removes copies without a mark together with the run.
func (p *passOf) archiveRun(ctx context.Context, c candidate) error {
	known, err := p.w.cfg.Store.FindArchived(ctx, c.runID)
	if err != nil {
		return err
	}
	if len(known) > 0 {
		p.pullBack(known[0].EndedAt)
		return nil
	}
	if err := p.checkFree(ctx, c.runID); err != nil {
		return err
	}
	a, err := p.w.cfg.Archive.WriteRun(ctx, c.runID)
	if err != nil {
		return err
	}
	if err := p.w.cfg.Store.MarkArchived(ctx, a); err != nil {
		return err
	}
	p.out.Archived++
	p.out.Bytes += a.Bytes
	p.pullBack(c.at)
	return nil
}

// archivedRuns does work on the archived runs that have a part and ended before a time.
func (p *passOf) archivedRuns(ctx context.Context, part store.ArchivedPart, until time.Time,
	do func(context.Context, store.ArchivedRun) error) error {
	filter := store.ArchivedFilter{TenantID: p.tenant, Part: part, Before: until, Limit: pageRuns}
	return p.walk(ctx, partMark(part), func(m Mark, f func(candidate) error) error {
		filter.AfterAt, filter.AfterRun = m.At, m.RunID
		for {
			page, err := p.w.cfg.Store.ListArchived(ctx, filter)
			if err != nil {
				return err
			}
			if err := dutycycle.Rest(ctx); err != nil {
				return err
			}
			for _, a := range page {
				due := p.now
				if part == store.PartRun {
					due = a.EndedAt.AddDate(0, 0, p.days.DeleteArchive)
				}
				if err := f(candidate{runID: a.RunID, at: a.EndedAt, due: due, archived: &a}); err != nil {
					return err
				}
				filter.AfterAt, filter.AfterRun = a.EndedAt, a.RunID
			}
			if len(page) < pageRuns {
				return nil
			}
		}
	}, func(ctx context.Context, c candidate) error {
		if c.archived != nil {
			return do(ctx, *c.archived)
		}
		known, err := p.w.cfg.Store.FindArchived(ctx, c.runID)
		if err != nil || len(known) == 0 {
			return err
		}
		return do(ctx, known[0])
	})
}

// emptyRuns deletes the events of archived runs, in batches. It reads the archive of each run once more before, because
// hours may have passed since the mark: the bucket may have lost the object meanwhile.
func (p *passOf) emptyRuns(ctx context.Context) error {
	return p.archivedRuns(ctx, store.PartEvents, p.now, func(ctx context.Context, a store.ArchivedRun) error {
		if err := p.w.cfg.Archive.CheckRun(ctx, a); err != nil {
			return err
		}
		for {
			n, err := p.w.cfg.Store.DeleteArchivedEvents(ctx, a.RunID, pageEvents)
			p.out.Events += int64(n)
			if err != nil || n < pageEvents {
				return err
			}
			if err := dutycycle.Rest(ctx); err != nil {
				return err
			}
			if err := p.w.turn(ctx); err != nil {
				return err
			}
		}
	})
}

func (p *passOf) deleteReceipts(ctx context.Context) error {
	until := before(p.now, p.days.Receipts)
	if until.IsZero() {
		return nil
	}
	return p.archivedRuns(ctx, store.PartReceipts, until, func(ctx context.Context, a store.ArchivedRun) error {
		_, err := p.w.cfg.Store.DeleteArchivedReceipts(ctx, a.RunID)
		if err == nil {
			p.out.Receipts++
		}
		return err
	})
}

// deleteRuns deletes archived runs for good. The objects go first: after a crash in between, the row is still there and
// the next pass continues.
func (p *passOf) deleteRuns(ctx context.Context) error {
	until := before(p.now, p.days.DeleteArchive)
	if until.IsZero() || p.days.ArchiveRuns == 0 {
		return nil
	}
	behind, err := p.backlogs(ctx)
	if err != nil {
		return err
	}
	return p.archivedRuns(ctx, store.PartRun, until, func(ctx context.Context, a store.ArchivedRun) error {
		if err := p.checkFree(ctx, a.RunID); err != nil {
			return err
		}
		for _, kind := range []artifact.Kind{artifact.KindLogs, artifact.KindArtifacts} {
			if err := p.removeObjects(ctx, kind, a.RunID); err != nil {
				return err
			}
		}
		if err := p.checkFree(ctx, a.RunID); err != nil { // the removals before took their time
			return err
		}
		if err := p.w.cfg.Archive.RemoveRun(ctx, a); err != nil {
			return err
		}
		if err := p.w.cfg.Store.DeleteArchivedRun(ctx, a.RunID); err != nil {
			return err
		}
		p.out.Deleted++
		return p.countMissed(ctx, behind, a.EndedAt)
	})
}

// checkFree returns the *store.ObstacleError of what keeps a run, or nil. It is asked before objects are removed.
func (p *passOf) checkFree(ctx context.Context, runID string) error {
	obstacle, err := p.w.cfg.Store.ArchiveObstacle(ctx, runID)
	if err == nil && obstacle != "" {
		err = &store.ObstacleError{RunID: runID, Obstacle: obstacle}
	}
	return err
}

func (p *passOf) trimRows(ctx context.Context) error {
	for kind, days := range map[store.TrimKind]int{store.TrimDeadLetters: p.days.DeadLetters,
		store.TrimAlerts: p.days.Alerts} {
		until := before(p.now, days)
		for n := pageRows; !until.IsZero() && n == pageRows; {
			err := p.each(ctx, "", func() (err error) {
				n = 0
				n, err = p.w.cfg.Store.TrimRows(ctx, kind, p.tenant, until, pageRows)
				p.out.Rows += int64(n)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
