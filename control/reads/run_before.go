package reads

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
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
// environment that have ended, of the newest maxMedianRuns. Steps that never succeeded there are left out. It is empty
// when p may not read that scope.
func (s *RunLists) StepMedians(ctx context.Context, p authz.Principal, h run.Header) (map[string]time.Duration, error) {
	if !s.mayReadScopeOf(p, h) {
		return map[string]time.Duration{}, nil
	}
	before, err := s.durations.Before(ctx, h)
	return before.StepMedians(maxMedianRuns), control.Translate(err)
}

// maxUsualRuns is the number of runs that UsualDuration rests on.
const maxUsualRuns = 20

// UsualDuration returns the time within which nine of ten of the newest COMPLETED runs before h ended, and false when
// there are too few of them. It decides no right: callers show it only with runs of that scope.
func (s *RunLists) UsualDuration(ctx context.Context, h run.Header) (time.Duration, bool, error) {
	before, err := s.durations.Before(ctx, h)
	if err != nil {
		return 0, false, err
	}
	took := before.Took()
	took = took[max(0, len(took)-maxUsualRuns):]
	return forecast.Percentile(took, 0.9), len(took) >= forecast.MinRuns, nil
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
