package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BulkReadStore reads bulks and their rows.
type BulkReadStore interface {
	Bulk(ctx context.Context, id string) (store.Bulk, error)
	Bulks(ctx context.Context, f store.BulkFilter) ([]store.Bulk, error)
	BulkMarks(ctx context.Context, id string) ([]store.BulkMark, error)
	BulkStatuses(ctx context.Context, tenantID, actor string, ids []string) ([]store.BulkStatusCount, error)
	BulkRows(ctx context.Context, f store.BulkRowFilter) ([]store.BulkRow, error)
}

// TargetStore reads the runs that bulks target.
type TargetStore interface {
	Identities(ctx context.Context, tenantID string, runIDs []string) ([]run.Identity, error)
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
	runs.ChainStore
}

// Reader reads bulks and the runs that they target. It is safe for concurrent use.
type Reader struct {
	rights *control.Rights
	store  BulkReadStore
	runs   TargetStore
	quiet  time.Duration
}

// NewReader makes a Reader.
func NewReader(rights *control.Rights, store BulkReadStore, runs TargetStore, quiet time.Duration) *Reader {
	return &Reader{rights: rights, store: store, runs: runs, quiet: quiet}
}

// BulkRow is one run of a bulk.
type BulkRow = store.BulkRow

// BulkOutcome is the result of sending the signal of a row.
type BulkOutcome = store.BulkOutcome

// BulksPage is a page of bulks, newest first.
type BulksPage struct {
	Bulks   []Bulk
	HasNext bool
}

// BulkRowsQuery asks for a page of a bulk's rows.
type BulkRowsQuery struct {
	BulkID  string
	Outcome BulkOutcome // "" for all outcomes
	Failed  bool
	First   int
	After   string // cursor: the number of the row before the page
}

// BulkRowsPage is a page of rows by number.
type BulkRowsPage struct {
	Rows    []BulkRow
	HasNext bool
}

func bulkNotFound() *control.Error {
	return control.Refuse(run.CodeNotFound, "There is no such bulk, or it is not yours.")
}

// Bulk reads one of p's own bulks. Error: NOT_FOUND, also for a bulk of another principal (contract T101).
func (s *Reader) Bulk(ctx context.Context, p authz.Principal, id string) (Bulk, error) {
	b, err := s.ownBulk(ctx, p, id)
	if errors.Is(err, store.ErrNotFound) {
		return Bulk{}, bulkNotFound()
	}
	if err != nil {
		return Bulk{}, control.Translate(err)
	}
	return bulkView(b)
}

// ownBulk reads one of p's own bulks. Error: store.ErrNotFound, also for a bulk of another principal.
func (s *Reader) ownBulk(ctx context.Context, p authz.Principal, id string) (store.Bulk, error) {
	b, err := s.store.Bulk(ctx, id)
	if err == nil && (b.TenantID != p.TenantID || b.Actor != p.ID) {
		err = store.ErrNotFound
	}
	return b, err
}

// Bulks reads a page of p's own bulks, newest first. Errors: BAD_USER_INPUT, CURSOR_INVALID.
func (s *Reader) Bulks(ctx context.Context, p authz.Principal, first int, after string) (BulksPage, error) {
	n, err := control.PageSize(first, 20)
	if err != nil {
		return BulksPage{}, err
	}
	if after != "" {
		if _, err := s.ownBulk(ctx, p, after); err != nil {
			return BulksPage{}, control.PageError(after, err)
		}
	}
	list, err := s.store.Bulks(ctx, store.BulkFilter{TenantID: p.TenantID, Actor: p.ID, Before: after, Limit: n + 1})
	if err != nil {
		return BulksPage{}, control.Translate(err)
	}
	bulks, more, err := control.PageOf(list, n, bulkView)
	return BulksPage{Bulks: bulks, HasNext: more}, err
}

// BulkRows reads a page of the rows of one of p's own bulks. Rows of runs that p may no longer READ have only what the
// bulk itself knows: no receipt, new run, status, plan or cause.
// Errors: NOT_FOUND, BAD_USER_INPUT, CURSOR_INVALID.
func (s *Reader) BulkRows(ctx context.Context, p authz.Principal, q BulkRowsQuery) (BulkRowsPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return BulkRowsPage{}, err
	}
	f := store.BulkRowFilter{BulkID: q.BulkID, Outcome: q.Outcome, Failed: q.Failed, Limit: n + 1}
	if q.After != "" {
		if f.After, err = strconv.Atoi(q.After); err != nil || f.After < 1 {
			return BulkRowsPage{}, control.CursorInvalid()
		}
	}
	if _, err := s.Bulk(ctx, p, q.BulkID); err != nil {
		return BulkRowsPage{}, err
	}
	rows, err := s.bulkRows(ctx, p, f)
	return BulkRowsPage{Rows: rows[:min(n, len(rows))], HasNext: len(rows) > n}, err
}

// bulkRows reads rows and removes what BulkRows says of runs that p may no longer READ.
func (s *Reader) bulkRows(ctx context.Context, p authz.Principal, f store.BulkRowFilter) ([]BulkRow, error) {
	rows, err := s.store.BulkRows(ctx, f)
	if err != nil {
		return nil, control.Translate(err)
	}
	for i, r := range rows {
		d, err := s.rights.Authz.Decide(p, authz.Read, authz.Object{TenantID: p.TenantID, ProjectID: r.ProjectID,
			EnvironmentID: r.EnvironmentID})
		if err != nil {
			return nil, control.Translate(err)
		}
		if !d.Allowed {
			rows[i].Receipt, rows[i].NewRunID, rows[i].RunStatus = nil, "", ""
			rows[i].PlanID, rows[i].Cause = "", nil
		}
	}
	return rows, nil
}

// failedRows reads the rows of one of p's own bulks that have failed so far.
func (s *Reader) failedRows(ctx context.Context, p authz.Principal, id string) ([]BulkRow, error) {
	if _, err := s.Bulk(ctx, p, id); err != nil {
		return nil, err
	}
	return s.bulkRows(ctx, p, store.BulkRowFilter{BulkID: id, Failed: true, Limit: MaxBulk})
}

// BulkProgress counts how far the accepted rows of one of p's own bulks have come. Error: NOT_FOUND.
func (s *Reader) BulkProgress(ctx context.Context, p authz.Principal, id string) (BulkProgress, error) {
	if _, err := s.Bulk(ctx, p, id); err != nil {
		return BulkProgress{}, err
	}
	marks, err := s.store.BulkMarks(ctx, id)
	return progressOf(marks), control.Translate(err)
}

// MostBulkCounts is the greatest number of bulks that BulkRunCounts takes, because it reads every row of each.
const MostBulkCounts = 50

// BulkRunCounts counts the runs of accepted rows of bulks by their status now, for reruns the new runs. Bulks that are
// not p's own are absent. Error: BAD_USER_INPUT for more than MostBulkCounts ids.
func (s *Reader) BulkRunCounts(ctx context.Context, p authz.Principal, ids []string) (map[string]BulkRunCounts,
	error) {
	if len(ids) > MostBulkCounts {
		return nil, control.BadInput([]plan.Violation{{Path: "ids", Code: plan.CodeRange,
			Message: fmt.Sprintf("must be at most %d", MostBulkCounts)}})
	}
	statuses, err := s.store.BulkStatuses(ctx, p.TenantID, p.ID, ids)
	out := make(map[string]BulkRunCounts, len(ids))
	for _, one := range statuses {
		c := out[one.BulkID]
		c.add(one.Status, one.Count)
		out[one.BulkID] = c
	}
	return out, control.Translate(err)
}

func progressOf(marks []store.BulkMark) (p BulkProgress) {
	for _, m := range marks {
		if m.Outcome == store.BulkAccepted {
			p.Applications.count(m.Application)
			p.Runs.add(m.RunStatus, 1)
		}
	}
	return p
}

func (a *BulkApplications) count(of run.Application) {
	switch of {
	case run.SignalDelivered:
		a.Delivered++
	case run.SignalApplied, "": // a rerun has no receipt: it is applied when its run exists
		a.Applied++
	case run.SignalNoop:
		a.Noop++
	case run.SignalNotApply:
		a.NotApplied++
	default:
		a.Pending++
	}
}

func (c *BulkRunCounts) add(of run.Status, n int) {
	switch of {
	case run.Running:
		c.Running += n
	case run.Paused:
		c.Paused += n
	case run.Completed:
		c.Completed += n
	case run.Failed:
		c.Failed += n
	case run.Cancelled:
		c.Cancelled += n
	default:
		c.Waiting += n
	}
}
