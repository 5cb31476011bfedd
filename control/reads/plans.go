package reads

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// PlanStore reads runs by plan.
type PlanStore interface {
	store.PlanHistories
	ApprovalsOf(ctx context.Context, runIDs []string) ([]store.Approval, error)
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
}

// PlanHistories reads the histories of plans and of their steps. It is safe for concurrent use.
type PlanHistories struct {
	rights *control.Rights
	store  PlanStore
	plans  *runs.PlanReader
}

// NewPlanHistories makes PlanHistories.
func NewPlanHistories(rights *control.Rights, store PlanStore, plans *runs.PlanReader) *PlanHistories {
	return &PlanHistories{rights: rights, store: store, plans: plans}
}

// Limits of a page of plans.
const (
	MaxPlansPage   = 50
	runsOfSummary  = 30
	runsOfRecent   = 5 // runs of PlanSummary.RecentMedian
	usualPlansPage = 20
)

// PlansQuery asks for a page of plans.
type PlansQuery struct {
	ProjectID, EnvironmentID string // empty: all
	Text                     string // a part of the plan id
	First                    int    // at most MaxPlansPage
	After                    string
}

// PlansPage is a page of plans, the plan with the newest run first.
type PlansPage struct {
	Plans   []PlanSummary
	Cursors []string // one per plan
	HasNext bool
}

// PlanSummary is a plan with its newest runs. A plan is a plan id in one project and environment.
type PlanSummary struct {
	store.PlanKey
	LastRunAt time.Time
	Runs      []run.Header // newest first, at most 30, or 50 in PlanHistory
	Open      int          // runs that have not ended, at most store.MaxOpenRuns
	Waiting   int          // runs among Runs that wait for a person
	// Ended counts the runs among Runs that COMPLETED or FAILED, Succeeded those that COMPLETED. A cancelled run counts in
	// neither, because it says nothing about its plan.
	Ended, Succeeded int
	// Took has durations from start to end, Work those in which steps ran: without waits for people and pauses.
	Took, Work PlanDurations
	Next       PlanNext
	NextRunID  string // the run that Next is about; empty for START
}

// PlanDurations are durations of the COMPLETED runs of a plan; nil when none is known.
type PlanDurations struct {
	Median       *time.Duration // the middle one
	Slow         *time.Duration // 90 % of the runs took no longer
	RecentMedian *time.Duration // the middle one of the newest runsOfRecent
}

func durationsOf(newestFirst []time.Duration) PlanDurations {
	return PlanDurations{Median: quantile(newestFirst, 0.5), Slow: quantile(newestFirst, 0.9),
		RecentMedian: quantile(newestFirst[:min(len(newestFirst), runsOfRecent)], 0.5)}
}

// PlanNext is what a person can do next about a plan.
type PlanNext string

// The next actions, the most urgent first.
const (
	NextRetry    PlanNext = "RETRY"    // a run waits for an operator after a failed step
	NextComplete PlanNext = "COMPLETE" // a run waits for a person to complete a step
	NextApprove  PlanNext = "APPROVE"  // a run waits for approval
	NextResume   PlanNext = "RESUME"   // a run is paused
	NextWatch    PlanNext = "WATCH"    // a run is active
	NextRerun    PlanNext = "RERUN"    // the newest run FAILED
	NextStart    PlanNext = "START"
)

// Plans reads a page of the plans with runs that p may read. Errors: BAD_USER_INPUT, CURSOR_INVALID.
func (s *PlanHistories) Plans(ctx context.Context, p authz.Principal, q PlansQuery) (PlansPage, error) {
	n, err := control.PageSize(q.First, usualPlansPage)
	if err == nil && n > MaxPlansPage {
		err = control.BadInput([]plan.Violation{control.OutOfRange("first", MaxPlansPage)})
	}
	if err != nil {
		return PlansPage{}, err
	}
	asked := control.RunFilter{EnvironmentID: q.EnvironmentID}
	if q.ProjectID != "" {
		asked.ProjectIDs = []string{q.ProjectID}
	}
	readable, ok := s.rights.Narrow(p, asked)
	if !ok {
		return PlansPage{}, nil
	}
	f := store.PlanFilter{TenantID: p.TenantID, ProjectIDs: readable.ProjectIDs, EnvironmentID: readable.EnvironmentID,
		Scopes: readable.Scopes, Text: q.Text, Runs: runsOfSummary, Limit: n + 1}
	if f.After, err = decodePlanCursor(q.After); err != nil {
		return PlansPage{}, err
	}
	rows, err := s.store.ListPlans(ctx, f)
	if err != nil {
		return PlansPage{}, control.Translate(err)
	}
	out := PlansPage{HasNext: len(rows) > n}
	rows = rows[:min(n, len(rows))]
	decided, err := s.decidedBy(ctx, p, rows)
	if err != nil {
		return PlansPage{}, err
	}
	for _, row := range rows {
		out.Plans = append(out.Plans, s.summaryOf(p, row, decided))
		out.Cursors = append(out.Cursors, encodePlanCursor(row.Pos()))
	}
	return out, nil
}

// decidedBy returns which runs of rows that wait for approval p has decided about. It reads those of the first
// store.MaxPage such runs.
func (s *PlanHistories) decidedBy(ctx context.Context, p authz.Principal, rows []store.PlanRow) (map[string]bool,
	error) {
	var waiting []string
	for _, row := range rows {
		for _, r := range row.Runs {
			if nextOfOpen(r.Header) == NextApprove && len(waiting) < store.MaxPage {
				waiting = append(waiting, r.Header.RunID)
			}
		}
	}
	if len(waiting) == 0 {
		return nil, nil //nolint:nilnil // nothing waits
	}
	approvals, err := s.store.ApprovalsOf(ctx, waiting)
	if err != nil {
		return nil, control.Translate(err)
	}
	out := map[string]bool{}
	for _, a := range approvals {
		out[a.RunID] = runs.HasDecided(a, p)
	}
	return out, nil
}

// summaryOf summarizes a plan for p; decided has the runs about whose approval p has decided.
func (s *PlanHistories) summaryOf(p authz.Principal, row store.PlanRow, decided map[string]bool) PlanSummary {
	out := PlanSummary{PlanKey: row.PlanKey, LastRunAt: row.LastRunAt, Open: row.Open, Next: NextStart}
	var took, work []time.Duration
	for _, r := range row.Runs {
		h := r.Header
		out.Runs = append(out.Runs, h)
		if !h.Status.Terminal() && nextOfOpen(h) != NextWatch {
			out.Waiting++
		}
		if h.Status == run.Completed || h.Status == run.Failed {
			out.Ended++
		}
		if h.Status == run.Completed {
			out.Succeeded++
			if d := h.Duration(); d != nil {
				took, work = append(took, *d), append(work, *h.Work())
			}
		}
	}
	out.Took, out.Work = durationsOf(took), durationsOf(work)
	out.Next, out.NextRunID = nextOf(out.Runs, func(action authz.Action, h run.Header) bool {
		d, err := s.rights.Authz.Decide(p, action, authz.Object{TenantID: row.TenantID, ProjectID: row.ProjectID,
			EnvironmentID: row.EnvironmentID})
		return err == nil && d.Allowed && !s.isExcluded(p, action, h) && (action != authz.Approve || !decided[h.RunID])
	})
	return out
}

// isExcluded reports whether separation of duties may keep p from an action on a run. It does not read whether the
// manual step of this run asks for another person: the plan of each run would have to be read, and the page of the run
// offers the action anyway.
func (s *PlanHistories) isExcluded(p authz.Principal, action authz.Action, h run.Header) bool {
	requested := h.TriggeredBy == p.ID
	switch action {
	case authz.CompleteManual:
		return s.rights.IsInvolved(true, requested, p)
	case authz.Approve:
		return s.rights.Authz.SOD(p.TenantID).Approve && (requested || authz.IsService(p.ID))
	default:
		return false
	}
}

// actionOf has the action that a next action takes; to watch takes none.
//
//nolint:gochecknoglobals // a table
var actionOf = map[PlanNext]authz.Action{
	NextRetry: authz.RetryStep, NextComplete: authz.CompleteManual, NextApprove: authz.Approve, NextResume: authz.Resume,
	NextRerun: authz.Rerun,
}

// urgency has the next actions about a single run, the most urgent first.
var urgency = []PlanNext{NextRetry, NextComplete, NextApprove, NextResume, NextWatch} //nolint:gochecknoglobals // a table

// nextOf returns the most urgent action about the open runs, about the newest of them if several are equal. Without an
// open run the newest run decides. What a person may not do is left to others: they can watch it.
func nextOf(newest []run.Header, may func(authz.Action, run.Header) bool) (PlanNext, string) {
	best, of := len(urgency), ""
	for _, h := range newest {
		if h.Status.Terminal() {
			continue
		}
		next := nextOfOpen(h)
		if action, takes := actionOf[next]; takes && !may(action, h) {
			next = NextWatch
		}
		if i := slices.Index(urgency, next); i < best {
			best, of = i, h.RunID
		}
	}
	switch {
	case of != "":
		return urgency[best], of
	case len(newest) > 0 && newest[0].Status == run.Failed && may(authz.Rerun, newest[0]):
		return NextRerun, newest[0].RunID
	}
	return NextStart, ""
}

func nextOfOpen(h run.Header) PlanNext {
	switch {
	case h.RetryDeadline != nil:
		return NextRetry
	case h.Counts.Manual > 0:
		return NextComplete
	case h.Status == run.Pending && !h.Queued:
		return NextApprove
	case h.Status == run.Paused:
		return NextResume
	}
	return NextWatch
}

// quantile returns the value that a share of the values do not exceed; nil without values. With two values in the
// middle, the median is their mean.
func quantile(of []time.Duration, share float64) *time.Duration {
	n := len(of)
	if n == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(of))
	if share == 0.5 && n%2 == 0 {
		return new((sorted[n/2-1] + sorted[n/2]) / 2)
	}
	return new(sorted[min(n-1, int(share*float64(n)))])
}

func encodePlanCursor(p store.PlanPos) string {
	doc, _ := json.Marshal(p) // strings and a time always encode
	return base64.RawURLEncoding.EncodeToString(doc)
}

func decodePlanCursor(c string) (*store.PlanPos, error) {
	if c == "" {
		return nil, nil //nolint:nilnil // no cursor means the beginning
	}
	var p store.PlanPos
	doc, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil || json.Unmarshal(doc, &p) != nil || p.PlanID == "" {
		return nil, control.CursorInvalid()
	}
	return &p, nil
}

// PlanKey names a plan.
type PlanKey = store.PlanKey
