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

// maxMedianRuns is how many runs a median is looked for in.
const maxMedianRuns = 10

// RunBefore is an earlier run of the same plan, project and environment.
type RunBefore struct {
	RunID       string
	PlanVersion string
	Status      run.Status
	CreatedAt   time.Time
	StartedAt   *time.Time
	CompletedAt *time.Time
}

// LastGreen finds the newest run before h, of the same plan, project and environment, that
// COMPLETED; nil when there is none, or p may not read there. It is one statement.
func (s *RunLists) LastGreen(ctx context.Context, p authz.Principal, h run.Header) (*RunBefore, error) {
	rows, err := s.before(ctx, p, h, control.RunFilter{Statuses: []run.Status{run.Completed}, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, control.Translate(err)
	}
	return new(beforeOf(rows[0].Header)), nil
}

func beforeOf(h run.Header) RunBefore {
	return RunBefore{
		RunID: h.RunID, PlanVersion: h.PlanVersion, Status: h.Status, CreatedAt: h.CreatedAt, StartedAt: h.StartedAt,
		CompletedAt: h.CompletedAt,
	}
}

// StepMedians gives by stepId the median of how long the steps of h's plan took in the newest
// runs before it, in the same project and environment, that have ended: of the attempts that
// succeeded in the newest maxMedianRuns runs, or in as many as have store.MaxListSteps steps
// together. Steps that never succeeded there are left out. It is one statement.
func (s *RunLists) StepMedians(ctx context.Context, p authz.Principal, h run.Header) (map[string]time.Duration, error) {
	f := control.RunFilter{Statuses: []run.Status{run.Completed, run.Failed, run.Cancelled}, Steps: true,
		Limit: maxMedianRuns}
	if n := h.Counts.Total; n > 0 {
		f.Limit = max(1, min(f.Limit, store.MaxListSteps/n))
	}
	rows, err := s.before(ctx, p, h, f)
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

// Of how many runs a forecast is made, and how much of them it covers.
const (
	minForecastRuns    = 5
	maxForecastRuns    = 20
	ForecastConfidence = 0.8
)

// Forecast is how long runs took from their start to their end: ForecastConfidence of them between Low and High.
type Forecast struct {
	Low, High time.Duration
	Runs      int
}

// Forecast is made of the newest runs before h, of the same plan, project and environment, that COMPLETED; nil when
// there are too few, or p may not read there. Pauses and waits count. It is one statement.
func (s *RunLists) Forecast(ctx context.Context, p authz.Principal, h run.Header) (*Forecast, error) {
	rows, err := s.before(ctx, p, h, control.RunFilter{Statuses: []run.Status{run.Completed}, Limit: maxForecastRuns})
	if err != nil {
		return nil, control.Translate(err)
	}
	var took []time.Duration
	for _, row := range rows {
		if from, to := row.Header.StartedAt, row.Header.CompletedAt; from != nil && to != nil {
			took = append(took, to.Sub(*from))
		}
	}
	if len(took) < minForecastRuns {
		return nil, nil //nolint:nilnil // too little is known
	}
	slices.Sort(took)
	// As many are left out below as above.
	out := int(float64(len(took)) * (1 - ForecastConfidence) / 2)
	return &Forecast{Low: took[out], High: took[len(took)-1-out], Runs: len(took)}, nil
}

// before lists runs of the plan, project and environment of h that were created before it, the newest first.
func (s *RunLists) before(ctx context.Context, p authz.Principal, h run.Header, f control.RunFilter) ([]store.RunRow,
	error) {
	if p.TenantID != h.TenantID || !s.rights.MayRead(p, h.ProjectID, h.EnvironmentID) {
		return nil, nil
	}
	f.TenantID, f.ProjectIDs, f.EnvironmentID, f.PlanID = h.TenantID, []string{h.ProjectID}, h.EnvironmentID, h.PlanID
	f.After = &store.RunPos{CreatedAt: h.CreatedAt, RunID: h.RunID}
	return s.store.List(ctx, f)
}
