package reads

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits of searching the logs of many steps.
const (
	// MaxSearchedRuns is the maximum number of runs of one search.
	MaxSearchedRuns = 20
	// MaxFoundLogs is the maximum number of logs with matches in a page.
	MaxFoundLogs = 50
	// linesOfLog is the number of lines that are shown of a log with matches.
	linesOfLog   = 5
	newestRuns   = 10
	usualFound   = 20
	maxSearchPos = 2000 // bytes of a cursor
)

// SearchLimits bound the work for one page of a search. A page that reaches one of them ends early and has a next page.
type SearchLimits struct {
	Logs  int           // logs that are read; 500
	Bytes int64         // of stored lines; a larger log is searched up to this size; 64 MiB
	Time  time.Duration // after it, no further log is read; 2 s
}

// LogSearchQuery asks for lines of step logs that contain Find. It names one run, or a plan whose newest runs are
// searched, the newest first.
type LogSearchQuery struct {
	RunID  string
	Plan   *SearchedPlan // nil with RunID
	Find   string
	First  int    // logs with matches, at most MaxFoundLogs; 0 means 20
	After  string // cursor of LogSearchPage
	Newest int    // runs of Plan, at most MaxSearchedRuns; 0 means 10
}

// SearchedPlan names the runs of one plan in one environment.
type SearchedPlan struct{ PlanID, ProjectID, EnvironmentID string }

// LogSearchPage has the logs with matches that were found, in the order of runs, steps of the plan, and attempts. A
// page may be empty although more logs follow.
type LogSearchPage struct {
	Logs []FoundLog
	// Searched is the number of logs that were read for this page.
	Searched int
	HasNext  bool
	// End is the cursor of the last log that was read; "" when none was.
	End string
}

// FoundLog is the log of a logical attempt that has matches.
type FoundLog struct {
	RunID            string
	CreatedAt        time.Time
	StepID, StepName string
	Attempt          int
	artifact.Found
	Cursor string
}

// SearchStore reads runs and their states.
type SearchStore interface {
	StateStore
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
}

// LogSearcher searches the logs of many steps. It is safe for concurrent use.
type LogSearcher struct {
	rights *control.Rights
	store  SearchStore
	logs   artifact.Logs
	limits SearchLimits
}

// NewLogSearcher makes a LogSearcher. Zero fields of limits have their defaults.
func NewLogSearcher(rights *control.Rights, store SearchStore, logs artifact.Logs, limits SearchLimits) *LogSearcher {
	limits.Logs = cmp.Or(limits.Logs, 500)
	limits.Bytes = cmp.Or(limits.Bytes, 64<<20)
	limits.Time = cmp.Or(limits.Time, 2*time.Second)
	return &LogSearcher{rights: rights, store: store, logs: logs, limits: limits}
}

// searchPos is a position between the logs of a search.
type searchPos struct {
	RunID     string    `json:"r"`
	CreatedAt time.Time `json:"c"`
	StepID    string    `json:"s"`
	Attempt   int       `json:"a"`
	Left      int       `json:"l"` // further runs to search, so that runs that start meanwhile do not move the page
}

func (p searchPos) cursor() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // unreachable: the fields are plain
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeSearchPos(cursor string) (*searchPos, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // no cursor means the beginning
	}
	var p searchPos
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) > maxSearchPos || json.Unmarshal(raw, &p) != nil || p.RunID == "" || p.Left < 0 ||
		p.Left >= MaxSearchedRuns {
		return nil, control.CursorInvalid()
	}
	return &p, nil
}

// SearchLogs reads a page of logs that contain the text, as they are stored: without secrets. Errors: NOT_FOUND for a
// run or scope that p may not read; BAD_USER_INPUT; CURSOR_INVALID.
func (s *LogSearcher) SearchLogs(ctx context.Context, p authz.Principal, q LogSearchQuery) (LogSearchPage, error) {
	if err := q.check(); err != nil {
		return LogSearchPage{}, err
	}
	after, err := decodeSearchPos(q.After)
	if err != nil {
		return LogSearchPage{}, err
	}
	runs, err := s.runsOf(ctx, p, q, after)
	if err != nil {
		return LogSearchPage{}, err
	}
	w := searchWork{LogSearcher: s, q: q, ends: s.rights.Now().Add(s.limits.Time), bytes: s.limits.Bytes}
	for i, r := range runs {
		if w.out.HasNext {
			break
		}
		from := (*searchPos)(nil)
		if after != nil && after.RunID == r.RunID {
			from = after
		}
		// Reading states one by one stops with the page; their number is bounded by MaxSearchedRuns.
		if err := w.searchRun(ctx, r, from, len(runs)-1-i); err != nil {
			return LogSearchPage{}, control.Translate(err)
		}
	}
	return w.out, nil
}

func (q *LogSearchQuery) check() error {
	q.First, q.Newest = cmp.Or(q.First, usualFound), cmp.Or(q.Newest, newestRuns)
	var vs []plan.Violation
	check := func(ok bool, path, message string) {
		if !ok {
			vs = append(vs, plan.Violation{Path: path, Code: plan.CodeRange, Message: message})
		}
	}
	check(q.Find != "" && len(q.Find) <= maxFindBytes, "find", fmt.Sprintf("must be from 1 to %d bytes", maxFindBytes))
	check(q.First > 0 && q.First <= MaxFoundLogs, "first", fmt.Sprintf("must be from 1 to %d", MaxFoundLogs))
	check(q.Newest > 0 && q.Newest <= MaxSearchedRuns, "newest", fmt.Sprintf("must be from 1 to %d", MaxSearchedRuns))
	for path, value := range q.planFields() {
		check(value != "", path, "must not be empty") // the store would read it as any
	}
	if len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}

func (q *LogSearchQuery) planFields() map[string]string {
	if q.Plan == nil {
		return nil
	}
	return map[string]string{"in.plan.planId": q.Plan.PlanID, "in.plan.projectId": q.Plan.ProjectID,
		"in.plan.environmentId": q.Plan.EnvironmentID}
}

// searchedRun is a run whose logs are searched.
type searchedRun struct {
	run.Identity
	createdAt time.Time
}

// runsOf returns the runs to search, from the run of the cursor on.
func (s *LogSearcher) runsOf(ctx context.Context, p authz.Principal, q LogSearchQuery, after *searchPos) ([]searchedRun,
	error) {
	var out []searchedRun
	from := q.RunID
	if q.Plan != nil && after != nil {
		from = after.RunID
	}
	if from != "" {
		r, err := s.rights.GetVisible(ctx, p, authz.Read, from)
		if err != nil {
			return nil, err
		}
		out = append(out, searchedRun{r.Identity, r.CreatedAt})
	}
	if q.Plan == nil {
		if after != nil && after.RunID != q.RunID {
			return nil, control.CursorInvalid()
		}
		return out, nil
	}
	f, ok := s.rights.Narrow(p, store.RunFilter{ProjectIDs: []string{q.Plan.ProjectID},
		EnvironmentID: q.Plan.EnvironmentID, PlanID: q.Plan.PlanID})
	if !ok {
		return nil, control.Refuse(run.CodeNotFound, "There are no such runs, or you may not read them.")
	}
	f.Limit = q.Newest
	if after != nil {
		of := SearchedPlan{out[0].PlanID, out[0].ProjectID, out[0].EnvironmentID}
		if of != *q.Plan || !out[0].createdAt.Equal(after.CreatedAt) {
			return nil, control.CursorInvalid()
		}
		f.Limit, f.After = after.Left, &store.RunPos{CreatedAt: after.CreatedAt, RunID: after.RunID}
	}
	if f.Limit == 0 {
		return out, nil
	}
	rows, err := s.store.List(ctx, f)
	for _, row := range rows {
		out = append(out, searchedRun{row.Header.Identity, row.Header.CreatedAt})
	}
	return out, control.Translate(err)
}

// searchWork is the work for one page.
type searchWork struct {
	*LogSearcher
	q     LogSearchQuery
	ends  time.Time
	bytes int64 // that may still be read
	out   LogSearchPage
}

// searchRun searches the logs of a run that come after the position from; nil means all.
func (w *searchWork) searchRun(ctx context.Context, r searchedRun, from *searchPos, left int) error {
	l, err := w.store.Load(ctx, r.RunID)
	if err != nil {
		return err
	}
	skipping := from != nil
	for _, step := range l.State.Steps {
		for _, a := range step.Attempts {
			if skipping {
				skipping = step.StepID != from.StepID || a.LogicalAttempt != from.Attempt
				continue
			}
			if a.StartedAt == nil { // it has printed nothing
				continue
			}
			pos := searchPos{r.RunID, r.createdAt, step.StepID, a.LogicalAttempt, left}
			if err := w.searchLog(ctx, r, step, pos); err != nil || w.out.HasNext {
				return err
			}
		}
	}
	if skipping {
		return control.CursorInvalid()
	}
	return nil
}

// searchLog searches one log, or ends the page before it.
func (w *searchWork) searchLog(ctx context.Context, r searchedRun, step *run.Step, pos searchPos) error {
	full := len(w.out.Logs) == w.q.First || w.out.Searched == w.limits.Logs ||
		w.out.Searched > 0 && !w.rights.Now().Before(w.ends)
	if full {
		w.out.HasNext = true
		return nil
	}
	id := artifact.AttemptID{TenantID: r.TenantID, RunID: r.RunID, StepID: step.StepID, LogicalAttempt: pos.Attempt}
	found, err := w.logs.Search(ctx, id, w.q.Find, linesOfLog, w.bytes)
	if err != nil {
		return err
	}
	if !found.Whole && w.out.Searched > 0 {
		w.out.HasNext = true // the next page begins with this log and has all bytes for it
		return nil
	}
	w.bytes -= found.Bytes
	w.out.Searched++
	w.out.End = pos.cursor()
	if found.Total > 0 {
		w.out.Logs = append(w.out.Logs, FoundLog{RunID: r.RunID, CreatedAt: r.createdAt, StepID: step.StepID,
			StepName: step.Name, Attempt: pos.Attempt, Found: found, Cursor: w.out.End})
	}
	return nil
}
