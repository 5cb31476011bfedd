package reads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits of the history of a plan.
const (
	MaxGridRuns     = store.MaxPlanRuns
	maxUsedRuns     = store.MaxPage // runs that versions and starters are counted in
	maxVersions     = 50
	maxPlanStarters = 50
)

// PlanHistory is what the newest runs of a plan show about it.
type PlanHistory struct {
	PlanSummary
	// Used is the number of runs that Versions and Starters count, the newest ones; More means that older runs exist.
	Used     int
	More     bool
	Versions []PlanVersion // the most recently used first, at most maxVersions
	Starters []PlanStarter // the most runs first, at most maxPlanStarters
	Grid     PlanGrid
}

// PlanVersion is a document of a plan that runs used.
type PlanVersion struct {
	PlanVersion, SHA256     string
	FirstUsedAt, LastUsedAt time.Time
	Runs                    int
	LastRunID               string
}

// PlanStarter is a principal that started runs.
type PlanStarter struct {
	Principal string
	Runs      int
	LastRunAt time.Time
	LastRunID string
}

// PlanGrid shows steps of the newest runs. Runs times Steps is at most store.MaxListSteps.
type PlanGrid struct {
	Runs    []run.Header // newest first
	LeftOut int          // requested runs that exist and are not shown, because there would be too many cells
	Steps   []GridStep   // in the order of the newest plan; steps of older plans only come last
}

// GridStep is a row of a grid.
type GridStep struct {
	StepID, Name string
	Cells        []*GridCell // one for each run of the grid; nil when the plan of the run has no such step
}

// GridCell is a step of one run.
type GridCell struct {
	Status   run.StepStatus
	Duration *time.Duration // of the newest attempt, if it ended
	Attempts int
	Kept     bool // a rerun took over the result, so the step did not run
}

// Plan reads the history of a plan, with the newest runs (1..MaxGridRuns) in its grid. NOT_FOUND when it has no runs
// that p may read. Versions, starters and durations lag behind the logs by the time of a projection. It makes a fixed
// number of queries.
func (s *PlanHistories) Plan(ctx context.Context, p authz.Principal, k store.PlanKey, runs int) (PlanHistory, error) {
	if runs < 1 || runs > MaxGridRuns {
		return PlanHistory{}, control.BadInput([]plan.Violation{control.OutOfRange("runs", MaxGridRuns)})
	}
	k.TenantID = p.TenantID
	if !s.rights.MayRead(p, k.ProjectID, k.EnvironmentID) {
		return PlanHistory{}, planNotFound()
	}
	rows, err := s.store.ListPlans(ctx, store.PlanFilter{TenantID: k.TenantID, ProjectIDs: []string{k.ProjectID},
		EnvironmentID: k.EnvironmentID, PlanID: k.PlanID, Runs: MaxGridRuns, Limit: 1})
	if err != nil {
		return PlanHistory{}, control.Translate(err)
	}
	if len(rows) == 0 {
		return PlanHistory{}, planNotFound()
	}
	decided, err := s.decidedBy(ctx, p, rows)
	if err != nil {
		return PlanHistory{}, err
	}
	out := PlanHistory{PlanSummary: s.summaryOf(p, rows[0], decided)}
	used, err := s.store.PlanRuns(ctx, k, maxUsedRuns)
	if err != nil {
		return PlanHistory{}, control.Translate(err)
	}
	out.Used, out.More = len(used), len(used) == maxUsedRuns
	out.Versions, out.Starters = usesOf(used)
	out.Grid, err = s.grid(ctx, p, k, out.Runs[:min(runs, len(out.Runs))])
	return out, control.Translate(err)
}

func planNotFound() error {
	return control.Refuse(run.CodeNotFound, "There is no such plan with runs, or it is not yours.")
}

// usesOf groups runs, newest first, by document and by starter.
func usesOf(used []store.PlanRun) (versions []PlanVersion, starters []PlanStarter) {
	type document struct{ version, sha256 string }
	byDocument, byStarter := map[document]int{}, map[string]int{}
	for _, r := range used {
		d := document{r.PlanVersion, r.PlanSHA256}
		i, known := byDocument[d]
		if !known {
			i = len(versions)
			byDocument[d] = i
			versions = append(versions, PlanVersion{PlanVersion: d.version, SHA256: d.sha256, LastUsedAt: r.CreatedAt,
				LastRunID: r.RunID})
		}
		versions[i].FirstUsedAt = r.CreatedAt
		versions[i].Runs++
		if i, known = byStarter[r.TriggeredBy]; !known {
			i = len(starters)
			byStarter[r.TriggeredBy] = i
			starters = append(starters, PlanStarter{Principal: r.TriggeredBy, LastRunAt: r.CreatedAt, LastRunID: r.RunID})
		}
		starters[i].Runs++
	}
	slices.SortStableFunc(starters, func(a, b PlanStarter) int { return cmp.Compare(b.Runs, a.Runs) })
	return versions[:min(len(versions), maxVersions)], starters[:min(len(starters), maxPlanStarters)]
}

// grid reads the steps of the runs, which are the newest runs of the plan.
func (s *PlanHistories) grid(ctx context.Context, p authz.Principal, k store.PlanKey,
	runs []run.Header) (PlanGrid, error) {
	widest := 1
	for _, h := range runs {
		widest = max(widest, h.Counts.Total)
	}
	n := min(len(runs), max(1, store.MaxListSteps/widest))
	f := k.Filter(n)
	f.Steps = true
	rows, err := s.store.List(ctx, f)
	for ; errors.Is(err, store.ErrTooMany) && n > 1; rows, err = s.store.List(ctx, f) {
		n /= 2 // a run that has started since has more steps
		f.Limit = n
	}
	if errors.Is(err, store.ErrTooMany) {
		return PlanGrid{LeftOut: len(runs)}, nil
	}
	if err != nil {
		return PlanGrid{}, err
	}
	var order map[string]int
	if len(rows) > 0 {
		if order, err = s.plans.StepOrder(ctx, p, rows[0].Header.RunID); err != nil {
			return PlanGrid{}, err
		}
	}
	return gridOf(rows, len(runs), order), nil
}

// gridOf returns the grid of runs, newest first. Steps are in the order of the newest plan, by the positions of its
// steps; those that only older runs have follow.
func gridOf(rows []store.RunRow, wanted int, order map[string]int) PlanGrid {
	steps, byID := []GridStep{}, map[string]int{}
	shown := 0
	for i, row := range rows {
		for _, step := range inPlanOrder(row.Steps, order) {
			if _, known := byID[step.StepID]; !known {
				if (len(steps)+1)*(i+1) > store.MaxListSteps {
					return cutGrid(rows, steps, shown, wanted)
				}
				byID[step.StepID] = len(steps)
				steps = append(steps, GridStep{StepID: step.StepID, Name: step.Name, Cells: make([]*GridCell, len(rows))})
			}
			steps[byID[step.StepID]].Cells[i] = cellOf(step)
		}
		if len(steps)*(i+1) > store.MaxListSteps {
			break
		}
		shown = i + 1
	}
	return cutGrid(rows, steps, shown, wanted)
}

// cutGrid keeps the first runs of a grid, and the steps that they have.
func cutGrid(rows []store.RunRow, steps []GridStep, shown, wanted int) PlanGrid {
	out := PlanGrid{LeftOut: max(0, wanted-shown)}
	for _, row := range rows[:shown] {
		out.Runs = append(out.Runs, row.Header)
	}
	for _, step := range steps {
		step.Cells = step.Cells[:shown]
		if slices.ContainsFunc(step.Cells, func(c *GridCell) bool { return c != nil }) {
			out.Steps = append(out.Steps, step)
		}
	}
	return out
}

func cellOf(step *run.Step) *GridCell {
	return &GridCell{Status: step.Status, Duration: LastDuration(step), Attempts: len(step.Attempts), Kept: isKept(step)}
}

// DurationOf returns the duration of an attempt that started and ended, else nil.
func DurationOf(a run.Attempt) *time.Duration {
	if a.StartedAt == nil || a.CompletedAt == nil {
		return nil
	}
	return new(time.Duration(a.DurationMS) * time.Millisecond)
}
