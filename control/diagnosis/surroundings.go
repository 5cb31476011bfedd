package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
)

// Limits on what one diagnosis asks.
const (
	engineWait = 2 * time.Second
	maxQueues  = 16
)

// Surroundings are the parts that a run needs: workers, the engine, and what the health watches. It is safe for
// concurrent use.
type Surroundings struct {
	pollers *health.Pollers
	reports *health.Reports
	drains  *health.WorkerReader
	engine  engine.Engine
	queues  plan.Queues // templates
}

// NewSurroundings makes Surroundings. queues are the templates of the queues of runs.
func NewSurroundings(pollers *health.Pollers, reports *health.Reports, drains *health.WorkerReader, e engine.Engine,
	queues plan.Queues) *Surroundings {
	return &Surroundings{pollers, reports, drains, e, queues}
}

// drained returns the drains that keep ready steps waiting, by queue. Who drained a worker, and why, is left out unless
// named is set: operators are not known to other tenants.
func (s *Surroundings) drained(ctx context.Context, f doctor.Facts, named bool) (map[string][]doctor.Drain, error) {
	var queues []string
	for _, step := range f.State.ReadySteps(func(id string) bool { return f.Retried[id] }) {
		if step.TaskQueue != "" && len(queues) < maxQueues && !slices.Contains(queues, step.TaskQueue) {
			queues = append(queues, step.TaskQueue)
		}
	}
	found, err := s.drains.Drained(ctx, queues...)
	out := map[string][]doctor.Drain{}
	for queue, drains := range found {
		for _, d := range drains {
			shown := doctor.Drain{Since: d.At}
			if named {
				shown = doctor.Drain{Worker: d.Account + "/" + d.Worker, By: d.Actor, Reason: d.Reason, Since: d.At}
			}
			out[queue] = append(out[queue], shown)
		}
	}
	return out, err
}

// brokenParts returns the parts that the newest health names as not working.
func (s *Surroundings) brokenParts(ctx context.Context) []doctor.Part {
	names := map[string]string{health.CheckTemporal: "Temporal", health.CheckStore: "The state store",
		health.CheckBus: "The event bus"}
	var out []doctor.Part
	for _, c := range s.reports.SampledHealth(ctx).Checks {
		if c.Status == "HEALTHY" || names[c.Name] == "" {
			continue
		}
		out = append(out, doctor.Part{Name: names[c.Name], Message: c.Message, Engine: c.Name == health.CheckTemporal,
			Store: c.Name == health.CheckStore, Slow: c.Status == "DEGRADED"})
	}
	return out
}

// workers looks at the control queue, and at the queues of the steps that have not ended. It looks at all of them at
// once, because an engine that does not answer delays each look.
func (s *Surroundings) workers(ctx context.Context, f doctor.Facts) (map[string]doctor.Workers, error) {
	queues := []string{f.ControlQueue}
	for _, step := range f.State.Steps {
		isOpen := step.Status == run.StepPending || step.Status == run.StepRunning
		if isOpen && step.TaskQueue != "" && len(queues) < maxQueues && !slices.Contains(queues, step.TaskQueue) {
			queues = append(queues, step.TaskQueue)
		}
	}
	sights, known := make([]health.QueueSight, len(queues)), make([]bool, len(queues))
	looks := make([]func(), len(queues))
	for i, queue := range queues {
		looks[i] = func() { sights[i], known[i] = s.pollers.Look(ctx, queue) }
	}
	err := together(looks...)
	out := map[string]doctor.Workers{}
	for i, queue := range queues {
		if q := sights[i]; known[i] {
			out[queue] = doctor.Workers{Count: q.Count, LastPoll: q.LastSeen, Watched: q.Since, Waiting: q.Waiting}
		}
	}
	return out, err
}

// together asks all questions at once and waits for their ends. A panic of one is an error, because it would end the
// process.
func together(questions ...func()) error {
	errs := make([]error, len(questions))
	var asked sync.WaitGroup
	for i, question := range questions {
		asked.Go(func() {
			errs[i] = contain.Call(func() error { question(); return nil })
		})
	}
	asked.Wait()
	return cmp.Or(errs...)
}

// askEngine returns nil when the engine does not answer, or gives no such information.
func (s *Surroundings) askEngine(ctx context.Context, id run.Identity) *doctor.Engine {
	debugger, ok := s.engine.(engine.Debugger)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	d, err := debugger.Debug(ctx, id)
	switch {
	case errors.Is(err, engine.ErrNotStarted):
		return &doctor.Engine{}
	case err != nil:
		return nil
	}
	out := &doctor.Engine{Known: true}
	if n := len(d.Executions); n > 0 {
		out.Closed, out.Status = d.Executions[n-1].ClosedAt != nil, d.Executions[n-1].Status
	}
	for _, p := range d.Pending {
		stepID, _, isStep := strings.Cut(p.ID, "/")
		if isStep {
			out.Pending = append(out.Pending, doctor.Activity{StepID: stepID, Attempt: p.Attempt,
				Started: strings.HasSuffix(strings.ToUpper(p.State), "STARTED"), LastHeartbeat: p.LastHeartbeat})
		}
	}
	return out
}
