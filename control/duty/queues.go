package duty

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// silentQueue is a queue with waiting tasks that no worker has polled for too long.
type silentQueue struct {
	cycle   int             // the sweep cycle that noticed it first
	busy    time.Time       // when one of its workers was last known to be at work
	alerted map[string]bool // tenants with an alert
}

// checkQueues raises an alert (NO_WORKER_FOR_QUEUE) about each queue that a run waits for and that no worker serves.
// It raises one for each queue and tenant until a worker is back. Three conditions make a queue unserved: no worker
// polled it for NoWorkerAfter, tasks wait in it, and a whole cycle found no worker busy with one of its steps. The
// third one is needed because a worker with all slots taken does not poll.
func (w *pass) checkQueues(ctx context.Context, r store.QuietRun) error {
	q := w.s.help.Plans.Queues.For(r.TenantID, r.EnvironmentID)
	var due []string
	for _, name := range q.Names() {
		if x := w.silentQueues[name]; x != nil && x.alerted[r.TenantID] {
			continue // the tenant has its alert, so the engine is not asked again
		}
		silent, err := w.noteSilence(ctx, r, name)
		if err != nil {
			return err
		}
		if silent && w.cycle-w.silentQueues[name].cycle >= 2 {
			due = append(due, name)
		}
	}
	if len(due) == 0 {
		return nil
	}
	l, err := w.s.runs.Load(ctx, r.RunID)
	if err != nil {
		return err
	}
	for _, s := range waitsForWorkers(l.State, q) {
		if x := w.silentQueues[s.queue]; slices.Contains(due, s.queue) && !x.alerted[r.TenantID] {
			if err := w.alertQueue(ctx, r.Identity, s.stepID, s.queue); err != nil {
				return err
			}
			x.alerted[r.TenantID] = true
		}
	}
	return nil
}

// noteSilence reports whether a queue counts as unserved now, and records that in silentQueues. A step of r may prove
// that a worker is busy.
func (w *pass) noteSilence(ctx context.Context, r store.QuietRun, name string) (bool, error) {
	sight, ok := w.s.help.Pollers.Look(ctx, name)
	if !ok || sight.Waiting == 0 || w.silence(sight) < w.cfg.NoWorkerAfter {
		return false, nil
	}
	x := w.silentQueues[name]
	switch now := w.s.background.Now(); {
	case x == nil && len(w.silentQueues) >= health.MaxQueues:
		return false, nil
	case x == nil:
		x = &silentQueue{cycle: w.cycle, alerted: map[string]bool{}}
		w.silentQueues[name] = x
	case now.Sub(x.busy) < w.cfg.NoWorkerAfter:
		return false, nil
	case !x.busy.IsZero(): // the proof is too old: wait a whole cycle for a new one
		x.busy, x.cycle = time.Time{}, w.cycle
	}
	busy, err := w.busy(ctx, r, name)
	if busy {
		x.busy = w.s.background.Now()
	}
	return err == nil && !busy, err
}

// silence returns the time since a worker last polled a queue, or since this process first looked at it.
func (w *pass) silence(sight health.QueueSight) time.Duration {
	last := sight.LastSeen
	if last.IsZero() {
		last = sight.Since
	}
	return w.s.background.Now().Sub(last)
}

// busy reports whether a worker of a queue sent a recent heartbeat for a step of this run.
func (w *pass) busy(ctx context.Context, r store.QuietRun, queue string) (bool, error) {
	on := func(s *run.Step) bool { return s.TaskQueue == queue }
	if !slices.ContainsFunc(r.Running, on) {
		return false, nil
	}
	d, err := w.engine.Debug(ctx, r.Identity)
	if err != nil {
		return false, err
	}
	for _, s := range r.Running {
		for _, p := range d.Pending {
			if on(s) && strings.HasPrefix(p.ID, s.StepID+"/") && p.LastHeartbeat != nil &&
				w.s.background.Now().Sub(*p.LastHeartbeat) < w.cfg.NoWorkerAfter {
				return true, nil
			}
		}
	}
	return false, nil
}

// checkSilentQueues forgets queues whose workers are back and queues without waiting tasks, and resolves their alerts,
// also those of other servers and of earlier processes.
func (w *pass) checkSilentQueues(ctx context.Context) error {
	alerted := 0
	for name, x := range w.silentQueues {
		sight, ok := w.s.help.Pollers.Look(ctx, name)
		if ok && (w.silence(sight) < w.cfg.NoWorkerAfter || sight.Waiting == 0) {
			delete(w.silentQueues, name)
		} else if len(x.alerted) > 0 {
			alerted++
		}
	}
	w.metrics.open.WithLabelValues(noWorker).Set(float64(alerted))
	return w.resolveOpen(ctx, "A worker serves the queue again, or nothing waits for it.", func(a store.AlertState) bool {
		sight, ok := w.s.help.Pollers.Look(ctx, a.Subject)
		// A process that has not seen a poll yet cannot tell that the queue is served.
		served := !sight.LastSeen.IsZero() && w.silence(sight) < w.cfg.NoWorkerAfter
		return ok && w.silentQueues[a.Subject] == nil && (served || sight.Waiting == 0)
	}, run.CodeNoWorker)
}

// alertQueue raises the alert about a queue. All runs of the tenant that wait for the queue share it.
func (w *pass) alertQueue(ctx context.Context, id run.Identity, stepID, queue string) error {
	sight, _ := w.s.help.Pollers.Look(ctx, queue)
	last := "none is known to have asked it for work"
	if !sight.LastSeen.IsZero() {
		last = "the last one asked it for work at " + sight.LastSeen.UTC().Format(time.RFC3339)
	}
	why := fmt.Sprintf("No worker serves the queue %s: %s. ", queue, last)
	if stepID != "" {
		why += fmt.Sprintf("Step %s waits for it. ", stepID)
	}
	why += fmt.Sprintf("Start one with `dvt worker --queues %s`.", queue)
	raised, err := w.s.background.Alerts.Raise(ctx, store.Alert{
		TenantID: id.TenantID, ProjectID: id.ProjectID, RunID: id.RunID, StepID: stepID, Level: store.AlertHigh,
		Code: run.CodeNoWorker, Subject: queue, Shared: true, Note: why, Actor: control.EngineActor,
	})
	if raised.Opened {
		w.metrics.done.WithLabelValues(noWorker, didEscalate).Inc()
	}
	return err
}

// queueWait is a step that waits for a worker of a queue; with an empty stepID, the run itself waits.
type queueWait struct{ stepID, queue string }

// waitsForWorkers returns the queues that an open run waits for if no worker serves them.
func waitsForWorkers(st run.State, q plan.Queues) []queueWait {
	out := []queueWait{{"", q.Control}} // every run needs the control queue
	ready := map[*run.Step]bool{}
	if st.Pause == nil {
		for _, s := range st.ReadySteps(func(string) bool { return false }) {
			ready[s] = true
		}
	}
	for _, s := range st.Steps {
		lost := s.Status == run.StepRunning // the worker may have been lost, and the retry waits
		if plan.StepType(s.Type).NeedsWorker() && (ready[s] || lost) {
			out = append(out, queueWait{s.StepID, s.TaskQueue})
		}
	}
	return out
}
