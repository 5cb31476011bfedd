package admission

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// fullQueues raises alerts about full queues of runs. One goroutine may use it.
type fullQueues struct {
	alerts *control.Alerts
	open   map[string]store.Alert // raised by this process, by fingerprint
}

func newFullQueues(alerts *control.Alerts) *fullQueues {
	return &fullQueues{alerts: alerts, open: map[string]store.Alert{}}
}

// check raises an alert about the queue of a tenant, and about that of each project with its own maximum, while it is
// full: new runs are then refused. It resolves the alerts of queues that are not full any more.
func (s *fullQueues) check(ctx context.Context, tenantID string, q *tenantQuota, u store.Usage) error {
	lanes := []QuotaSnapshot{snapshot("", q.limits, q.limits, u.Tenant, u.Now)}
	for id, project := range q.projects {
		if project.limits[limitDepth] >= 0 {
			lanes = append(lanes, snapshot(id, project.limits, q.limits, u.Projects[id], u.Now))
		}
	}
	for _, lane := range lanes {
		a := store.Alert{TenantID: tenantID, ProjectID: lane.ProjectID, Level: store.AlertMedium, Code: run.CodeQueueFull,
			Actor: control.EngineActor}
		a.Note = fmt.Sprintf("%d runs wait, which is the maximum, and %d are active: new runs are refused. Raise the quota, "+
			"or cancel runs that need not wait.", lane.Depth, lane.Active)
		key := a.Fingerprint()
		_, known := s.open[key]
		switch full := lane.MaxDepth > 0 && lane.Depth >= lane.MaxDepth; {
		case full:
			if _, err := s.alerts.Raise(ctx, a); err != nil {
				return err
			}
			s.open[key] = a
		case known:
			if err := s.alerts.Resolve(ctx, "The queue takes runs again.", a); err != nil {
				return err
			}
			delete(s.open, key)
		}
	}
	return nil
}
