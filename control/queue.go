package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// QueueEntry is a run that is to be started.
type QueueEntry struct {
	store.QueueRow
	EnvironmentID string
	// Why it waits; "": it does not, it is being started.
	Why store.WaitReason
	// Wait is estimated from now; 0: nothing is known.
	Wait time.Duration
}

// QueueQuery asks for waiting runs of the caller's tenant.
type QueueQuery struct {
	ProjectID string // "": all that the caller may read
	First     int
	After     string // the run before the page, which waits still
}

// QueuePage is a page of waiting runs by project, then in the order of their lane.
type QueuePage struct {
	Entries []QueueEntry
	HasNext bool
	Depth   int // runs of the tenant that wait, whoever may see them
}

// maxQueuePage is the most entries of a page.
const maxQueuePage = 200

// Queue lists runs that wait for their quota or a place, those that p may READ (T137).
// BAD_USER_INPUT, CURSOR_INVALID when the run of the cursor waits no more.
func (s *Service) Queue(ctx context.Context, p authz.Principal, q QueueQuery) (QueuePage, error) {
	if q.First < 0 || q.First > maxQueuePage {
		return QueuePage{}, badInput([]plan.Violation{{Path: "first", Code: "RANGE", Message: fmt.Sprintf("must be from 1 to %d", maxQueuePage)}})
	}
	n := q.First
	if n == 0 {
		n = 50
	}
	asked := RunFilter{}
	if q.ProjectID != "" {
		asked.ProjectIDs = []string{q.ProjectID}
	}
	scope, ok := s.narrow(p, asked)
	if !ok {
		return QueuePage{}, nil
	}
	rows, err := s.cfg.Store.WaitingRuns(ctx, store.WaitingFilter{TenantID: p.TenantID, ProjectIDs: scope.ProjectIDs, After: q.After, Limit: n + 1})
	if err != nil {
		return QueuePage{}, pageError(q.After, err)
	}
	usage, err := s.cfg.Store.Usage(ctx, p.TenantID)
	if err != nil {
		return QueuePage{}, translate(err)
	}
	out := QueuePage{HasNext: len(rows) > n, Depth: int(usage.Tenant.Waiting)}
	for _, row := range rows[:min(n, len(rows))] {
		id, known := s.identities.kept.Get(row.RunID)
		if !known {
			if id, err = s.identify(ctx, row.RunID); err != nil {
				return QueuePage{}, translate(err)
			}
		}
		if s.mayRead(p, id.ProjectID, id.EnvironmentID) {
			out.Entries = append(out.Entries, s.queueEntry(row, id.EnvironmentID, usage))
		}
	}
	return out, nil
}

// queueEntry is a row with why it waits and how long it will, from now.
func (s *Service) queueEntry(row store.QueueRow, environmentID string, u store.Usage) QueueEntry {
	e := QueueEntry{QueueRow: row, EnvironmentID: environmentID}
	if !row.Waiting {
		return e
	}
	t := s.terms(row.TenantID, row.ProjectID)
	token := untilToken(t, row, u)
	lane := u.Projects[row.ProjectID]
	full := func(active int64, most int) bool { return most >= 0 && active >= int64(most) }
	switch {
	case t.Hold:
		e.Why = store.WaitHold
	case row.Position > 1:
		e.Why = store.WaitTurn
	case token != 0:
		e.Why = store.WaitQuota
	case full(u.Tenant.Active, t.Tenant.MaxActive) || full(lane.Active, t.Project.MaxActive):
		e.Why = store.WaitPlace
	default:
		e.Why = store.WaitTurn
	}
	if !t.Hold && token >= 0 {
		e.Wait = max(token, time.Duration(row.Position)*max(lane.Pace, u.Tenant.Pace))
	}
	return e
}

// untilToken is when there is a token for a waiting run, by its place in its lane and the
// lanes beside it that take of the same bucket; negative: never.
func untilToken(t store.Terms, row store.QueueRow, u store.Usage) time.Duration {
	perMinute, full, before := t.Tenant.PerMinute, u.Tenant.Full[store.BucketStart], int64(row.Position)
	if t.Project.PerMinute >= 0 {
		perMinute, full = t.Project.PerMinute, u.Projects[row.ProjectID].Full[store.BucketStart]
	} else {
		for project, lane := range u.Projects {
			if project != row.ProjectID {
				before += min(lane.Waiting, int64(row.Position)) // they take turns
			}
		}
	}
	switch {
	case perMinute < 0:
		return 0
	case perMinute == 0:
		return -1
	}
	missing := max(full.Sub(u.Now), 0) + time.Duration(before)*(time.Minute/time.Duration(perMinute))
	return max(missing-time.Minute, 0)
}

// entryOf is the queue row of a run that has not started.
func (s *Service) entryOf(ctx context.Context, r store.Run) (*QueueEntry, error) {
	row, err := s.cfg.Store.QueueRow(ctx, r.RunID)
	if err != nil || row.Status == store.QueueStarted {
		return nil, err
	}
	if !row.Waiting {
		return &QueueEntry{QueueRow: row, EnvironmentID: r.EnvironmentID}, nil
	}
	u, err := s.cfg.Store.Usage(ctx, r.TenantID)
	if err != nil {
		return nil, err
	}
	rows, err := s.cfg.Store.WaitingRuns(ctx, store.WaitingFilter{TenantID: r.TenantID, RunID: r.RunID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(rows, func(q store.QueueRow) bool { return q.RunID == r.RunID }); i >= 0 {
		row = rows[i]
	}
	e := s.queueEntry(row, r.EnvironmentID, u)
	return &e, nil
}

// pageError is translate for a page after a run.
func pageError(after string, err error) error {
	if after != "" && errors.Is(err, store.ErrNotFound) {
		return cursorInvalid()
	}
	return translate(err)
}
