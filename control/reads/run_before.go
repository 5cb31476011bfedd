package reads

import (
	"context"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// maxMedianRuns is the number of runs that medians are computed from.
const maxMedianRuns = 10

// RunBefore is an earlier run of the same plan, project and environment.
type RunBefore struct {
	RunID       string
	PlanVersion string
	PlanSHA256  string // "" for a run that never started
	Status      run.Status
	CreatedAt   time.Time
	StartedAt   *time.Time
	CompletedAt *time.Time
}

// LastGreen returns the newest COMPLETED run before h of the same plan, project and environment. It returns nil when
// there is none, or when p may not read that scope. It makes one query.
func (s *RunLists) LastGreen(ctx context.Context, p authz.Principal, h run.Header) (*RunBefore, error) {
	rows, err := s.earlierRuns(ctx, p, h, control.RunFilter{Statuses: []run.Status{run.Completed}, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, control.Translate(err)
	}
	return new(runBeforeOf(rows[0].Header)), nil
}

func runBeforeOf(h run.Header) RunBefore {
	sha := ""
	if h.PlanRef != nil {
		sha = h.PlanRef.SHA256
	}
	return RunBefore{
		RunID: h.RunID, PlanVersion: h.PlanVersion, PlanSHA256: sha, Status: h.Status, CreatedAt: h.CreatedAt,
		StartedAt: h.StartedAt, CompletedAt: h.CompletedAt,
	}
}

// StepMedians returns by stepId the median duration of the successful attempts in earlier runs of h's plan, project and
// environment that have ended. It reads the newest maxMedianRuns runs, or fewer when they have more than
// store.MaxListSteps steps together. Steps that never succeeded there are left out. It makes one query.
func (s *RunLists) StepMedians(ctx context.Context, p authz.Principal, h run.Header) (map[string]time.Duration, error) {
	f := control.RunFilter{Statuses: []run.Status{run.Completed, run.Failed, run.Cancelled}, Steps: true,
		Limit: maxMedianRuns}
	if n := h.Counts.Total; n > 0 {
		f.Limit = max(1, min(f.Limit, store.MaxListSteps/n))
	}
	rows, err := s.earlierRuns(ctx, p, h, f)
	if err != nil {
		return nil, control.Translate(err)
	}
	took := map[string][]int64{}
	for _, row := range rows {
		for _, step := range row.Steps {
			if n := len(step.Attempts); n > 0 && step.Status == run.StepSuccess && step.Attempts[n-1].StartedAt != nil {
				took[step.StepID] = append(took[step.StepID], step.Attempts[n-1].DurationMS)
			}
		}
	}
	out := make(map[string]time.Duration, len(took))
	for id, ms := range took {
		slices.Sort(ms)
		middle := ms[len(ms)/2]
		if len(ms)%2 == 0 {
			middle = (middle + ms[len(ms)/2-1]) / 2
		}
		out[id] = time.Duration(middle) * time.Millisecond
	}
	return out, nil
}

// Limits on the number of runs that a forecast uses, and the part of them that it covers.
const (
	minForecastRuns    = 5
	maxForecastRuns    = 20
	ForecastConfidence = 0.8
)

// Forecast is a range for the duration of a run. ForecastConfidence of the earlier runs took between Low and High.
type Forecast struct {
	Low, High time.Duration
	Runs      int
}

// Forecast computes a forecast from the newest COMPLETED runs before h of the same plan, project and environment. It
// returns nil when there are fewer than minForecastRuns, or when p may not read that scope. Pauses and waits count as
// part of the duration. It makes one query.
func (s *RunLists) Forecast(ctx context.Context, p authz.Principal, h run.Header) (*Forecast, error) {
	if !s.mayReadScopeOf(p, h) {
		return nil, nil //nolint:nilnil // as if nothing were known
	}
	f, err := s.forecast(ctx, h)
	return f, control.Translate(err)
}

// UsualDuration returns the time within which nine of ten of the newest COMPLETED runs before h ended, and false when
// there are too few of them. It decides no right: callers show it only with runs of that scope. It makes one query.
func (s *RunLists) UsualDuration(ctx context.Context, h run.Header) (time.Duration, bool, error) {
	f, err := s.forecast(ctx, h)
	if err != nil || f == nil {
		return 0, false, err
	}
	return f.High, true, nil
}

func (s *RunLists) forecast(ctx context.Context, h run.Header) (*Forecast, error) {
	rows, err := s.store.List(ctx, before(h, control.RunFilter{Statuses: []run.Status{run.Completed},
		Limit: maxForecastRuns}))
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, row := range rows {
		if d := row.Header.Duration(); d != nil {
			took = append(took, *d)
		}
	}
	if len(took) < minForecastRuns {
		return nil, nil //nolint:nilnil // too little is known
	}
	slices.Sort(took)
	// Leave out the same number of runs below and above.
	out := int(float64(len(took)) * (1 - ForecastConfidence) / 2)
	return &Forecast{Low: took[out], High: took[len(took)-1-out], Runs: len(took)}, nil
}

// earlierRuns lists runs of the plan, project and environment of h that were created before it, newest first.
func (s *RunLists) earlierRuns(ctx context.Context, p authz.Principal, h run.Header,
	f control.RunFilter) ([]store.RunRow, error) {
	if !s.mayReadScopeOf(p, h) {
		return nil, nil
	}
	return s.store.List(ctx, before(h, f))
}

func (s *RunLists) mayReadScopeOf(p authz.Principal, h run.Header) bool {
	return p.TenantID == h.TenantID && s.rights.MayRead(p, h.ProjectID, h.EnvironmentID)
}

// before restricts f to the plan, project and environment of h, and to runs that were created before it.
func before(h run.Header, f control.RunFilter) control.RunFilter {
	f.TenantID, f.ProjectIDs, f.EnvironmentID, f.PlanID = h.TenantID, []string{h.ProjectID}, h.EnvironmentID, h.PlanID
	f.After = &store.RunPos{CreatedAt: h.CreatedAt, RunID: h.RunID}
	return f
}
