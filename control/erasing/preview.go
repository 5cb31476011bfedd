package erasing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Deadline is the time from a request to the latest end of its erasure.
const Deadline = 30 * 24 * time.Hour

// Limits of a preview.
const (
	maxObjects  = 10_000 // of one kind in the bucket
	previewTime = 20 * time.Second
)

// Wait says what an erasure waits for.
type Wait string

// What an erasure waits for.
const (
	WaitPerson  Wait = "SECOND_PERSON" // another person has to confirm it
	WaitRepeat  Wait = "ANOTHER_REQUEST"
	WaitHold    Wait = "LEGAL_HOLD" // a legal hold forbids it
	WaitOwner   Wait = "OWNER"      // the owner of the database has to carry it out
	WaitOpen    Wait = "OPEN_WORK"  // open runs or working bulks name the person
	WaitNothing Wait = ""           // it goes on, or it has ended
)

// Erasure is a request to erase, what became of it, and what it waits for.
type Erasure struct {
	store.Erasure
	Waits Wait
	// Holds is the number of open legal holds that forbid it, while it has not begun.
	Holds int64
	DueAt time.Time
	// Open is what it waits for with WaitOpen, as the owner found it at OpenAt; OpenCount counts what is not listed, too.
	Open      []OpenItem
	OpenCount int
	OpenAt    time.Time
}

// OpenItem is an open run or a working bulk for which an erasure waits, and where it stands now.
type OpenItem struct {
	Run    store.Run  // without RunID: a bulk
	Status run.Status // of the run; "" when it no longer exists
	BulkID string
}

// isUndone reports whether an erasure may still begin, or an expired request be repeated.
func isUndone(e store.Erasure) bool {
	return e.FinishedAt == nil && e.CancelledAt == nil && e.StartedAt == nil
}

func waitOf(e store.Erasure, holds int64, now time.Time) Wait {
	_, open := store.OpenWorkOf(e)
	switch {
	case open:
		return WaitOpen
	case !isUndone(e):
		return WaitNothing
	case e.ConfirmedAt == nil && !e.ExpiresAt.After(now):
		return WaitRepeat
	case e.ConfirmedAt == nil:
		return WaitPerson
	case holds > 0:
		return WaitHold
	}
	return WaitOwner
}

// waitReads are the reads of what an erasure waits for.
type waitReads interface {
	ErasureHolds(ctx context.Context, tenantID, subject string) (int64, error)
	Get(ctx context.Context, runID string) (store.Run, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// openItems completes what an erasure waits for by where it stands. A run that no longer exists has no status.
func openItems(ctx context.Context, s waitReads, tenantID string, w store.OpenWork) (out []OpenItem, err error) {
	for _, id := range w.Runs {
		item := OpenItem{}
		r, err := s.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && r.TenantID != tenantID {
			item.Run.RunID = id
			out = append(out, item)
			continue
		}
		if err != nil {
			return nil, control.Translate(err)
		}
		l, err := s.Load(ctx, id)
		if err != nil {
			return nil, control.Translate(err)
		}
		out = append(out, OpenItem{Run: r, Status: l.State.Status})
	}
	for _, id := range w.Bulks {
		out = append(out, OpenItem{BulkID: id})
	}
	return out, nil
}

// look completes an erasure by what it waits for.
func look(ctx context.Context, s waitReads, e store.Erasure, now time.Time) (out Erasure, err error) {
	out = Erasure{Erasure: e, DueAt: e.RequestedAt.Add(Deadline)}
	if isUndone(e) {
		if out.Holds, err = s.ErasureHolds(ctx, e.TenantID, e.Subject); err != nil {
			return out, control.Translate(err)
		}
	}
	if w, waits := store.OpenWorkOf(e); waits {
		out.OpenCount, out.OpenAt = w.Count, w.At
		if out.Open, err = openItems(ctx, s, e.TenantID, w); err != nil {
			return out, err
		}
	}
	out.Waits = waitOf(e, out.Holds, now)
	return out, nil
}

// Place is a number of things at a place, such as `table event` or `bucket logs`. More says that there are more.
type Place struct {
	Name  string
	Count int64
	More  bool
}

// Preview is what an erasure would do now.
type Preview struct {
	Kind   store.ErasureKind
	Erased []Place
	// Remaining are the rows that name the person and remain, with another name where it can be replaced.
	Remaining []Place
	Holds     int64 // open legal holds that forbid it
	// Missing are the settings that this server lacks and every erasure needs.
	Missing []string
}

// Bucket measures what a tenant has in the bucket.
type Bucket interface {
	Measure(ctx context.Context, scope artifact.Scope, limit int) (artifact.Removed, error)
}

// Installation is what the installation has for erasures.
type Installation struct {
	Bucket  Bucket   // nil: previews count rows only
	Missing []string // names of settings that an erasure needs and that are not set
}

// PreviewErasure counts what an erasure of a person of the caller's tenant would erase, or of the whole tenant when
// subject is "". It changes nothing, and needs no request. Errors: FORBIDDEN without READ_AUDIT on the whole tenant,
// BAD_USER_INPUT, UNAVAILABLE, also when the counts take longer than 20 s.
func (s *ErasureDesk) PreviewErasure(ctx context.Context, p authz.Principal, person string) (Preview, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return Preview{}, err
	}
	if len(person) > maxSubject || !run.IsText(person) {
		return Preview{}, control.BadInput([]plan.Violation{{Path: "subject", Code: plan.CodeRange,
			Message: "must be text of 1 to 256 bytes"}})
	}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	out := Preview{Kind: kindOf(person), Missing: s.installed.Missing}
	counts, err := s.store.CountErasure(ctx, p.TenantID, person)
	if err != nil {
		return out, control.Translate(err)
	}
	out.Erased, out.Remaining = placesOf(counts.Deleted), placesOf(counts.Remaining)
	if out.Holds, err = s.store.ErasureHolds(ctx, p.TenantID, person); err != nil {
		return out, control.Translate(err)
	}
	if out.Kind == store.EraseSubject || s.installed.Bucket == nil {
		return out, nil
	}
	for _, kind := range []artifact.Kind{artifact.KindArtifacts, artifact.KindLogs, artifact.KindArchive} {
		m, err := s.installed.Bucket.Measure(ctx, artifact.Scope{Kind: kind, TenantID: p.TenantID}, maxObjects)
		if err != nil {
			return out, control.Translate(err)
		}
		if m.Objects > 0 {
			out.Erased = append(out.Erased, Place{"bucket " + string(kind), m.Objects, m.More})
		}
	}
	return out, nil
}

func kindOf(person string) store.ErasureKind {
	if person == "" {
		return store.EraseTenant
	}
	return store.EraseSubject
}

func placesOf(counts map[string]int64) (out []Place) {
	for _, table := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Place{"table " + table, counts[table], counts[table] >= store.MaxErasureCount})
	}
	return out
}
