package reads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// WaitKind is what a run waits for.
type WaitKind string

// Kinds of waits of runs.
const (
	WaitApproval WaitKind = "APPROVAL"
	WaitQueue    WaitKind = "QUEUE"
	WaitPlan     WaitKind = "PLAN_FETCH"
	WaitEngine   WaitKind = "ENGINE"
	WaitStore    WaitKind = "STORE"
	WaitJournal  WaitKind = "JOURNAL"
	WaitQuota    WaitKind = "QUOTA"
	WaitWorker   WaitKind = "WORKER"
	WaitDrain    WaitKind = "DRAIN"
	WaitPaused   WaitKind = "PAUSED"
	WaitPerson   WaitKind = "PERSON"
	WaitRetry    WaitKind = "RETRY"
)

// RunWait is one thing that a run waits for.
type RunWait struct {
	Kind         WaitKind
	Since, Until time.Time // zero if unknown
	Message      string    // what the run waits for, a sentence
	Help         string    // who can help, a sentence
	WhoCould     []string  // principals that can help, at most authz.MaxWhoCould
	Steps        []string  // the steps that wait, in plan order, at most maxWaitSteps
	StepCount    int
	TaskQueue    string
	PollerSeen   time.Time // last known poll of TaskQueue, zero if none is known
	Try, Tries   int       // of WaitPlan, and of WaitRetry of one step; 0 if unknown
	Status       int       // HTTP status of WaitJournal; 0 if nothing answers
}

// StepWait is what the engine knows about a step that nothing works on. Kind is WaitRetry for a running step between
// two tries; for a step that has not started it is WaitQuota, WaitJournal, WaitStore or WaitWorker. Until is when the
// step is offered to a worker again.
type StepWait struct {
	Kind         WaitKind
	Since, Until time.Time // zero if unknown
	Try, Tries   int       // the next try and the last one; only of WaitRetry
}

// Limits on the waits of one run.
const (
	maxWaitSteps = 20
	waitsLife    = 2 * time.Second  // how long an answer of the engine is reused
	waitsDown    = 10 * time.Second // how long a failure to answer is reused, so that pages do not wait for it each time
	waitsWithin  = time.Second      // how long a caller waits for the engine
	maxWaitRuns  = 1000
	pollerFresh  = time.Minute // a worker that polled its queue so lately is there, so it is busy
)

// PollerSight returns when a worker last polled a queue, or nil when no poll is known.
type PollerSight interface {
	PollerSeen(ctx context.Context, queue string) *time.Time
}

// DrainSight returns by queue the drains of its workers, for queues whose live workers are all drained.
type DrainSight interface {
	Drained(ctx context.Context, queues ...string) (map[string][]store.WorkerDrain, error)
}

// WaitReader says what runs wait for. It is safe for concurrent use.
type WaitReader struct {
	rights  *control.Rights
	views   *runs.Views
	engine  *engineWaits
	pollers PollerSight
	drains  DrainSight
	queues  plan.Queues
}

// engineWaits caches what the engine knows about runs.
type engineWaits struct {
	engine engine.Waiter // nil when the engine cannot tell
	now    func() time.Time
	known  *lru.Cache[string, *knownWaits]
}

// NewWaitReader makes a WaitReader.
func NewWaitReader(rights *control.Rights, views *runs.Views, e engine.Engine, pollers PollerSight, drains DrainSight,
	queues plan.Queues, now func() time.Time) *WaitReader {
	waiter, _ := e.(engine.Waiter)
	return &WaitReader{rights: rights, views: views, pollers: pollers, drains: drains, queues: queues,
		engine: &engineWaits{engine: waiter, now: now, known: control.NewLRU[*knownWaits](maxWaitRuns)}}
}

// knownWaits is the last answer of the engine about a run.
type knownWaits struct {
	mu        sync.Mutex // held while the engine is asked
	asked     time.Time
	waits     engine.Waits
	err       error
	late      bool      // no answer came within waitsWithin
	downSince time.Time // since when the engine has not answered; zero while it answers
}

// RunWaits returns what an open run waits for, the cause that stops the most first. It is empty for a run that has
// ended, and for one on whose running steps workers work. Errors: NOT_FOUND.
func (s *WaitReader) RunWaits(ctx context.Context, p authz.Principal, runID string) ([]RunWait, error) {
	v, err := s.views.Run(ctx, p, runID, nil)
	if err != nil {
		return nil, err
	}
	return s.WaitsOf(ctx, v), nil
}

// WaitsOf returns what RunWaits does, for a caller who has read the run.
func (s *WaitReader) WaitsOf(ctx context.Context, v control.RunView) []RunWait {
	if v.State.Status.Terminal() {
		return nil
	}
	known := s.engine.of(ctx, v)
	var out []RunWait
	if v.State.StartedAt == nil {
		out = s.beforeStart(ctx, v, known)
	} else {
		out = s.afterStart(ctx, v, known)
	}
	for i := range out {
		out[i].StepCount = len(out[i].Steps)
		out[i].Steps = out[i].Steps[:min(len(out[i].Steps), maxWaitSteps)]
		s.addHelp(&out[i], v.Run)
	}
	return out
}

// StepWaits returns what the engine knows about the waits of the steps of an open run that has started, by their ids.
// It is empty when the engine does not answer.
func (s *WaitReader) StepWaits(ctx context.Context, v control.RunView) map[string]StepWait {
	if v.State.StartedAt == nil || v.State.Status.Terminal() || v.Past {
		return nil
	}
	waits := s.engine.of(ctx, v).waits.Steps
	out := make(map[string]StepWait, len(waits))
	for _, w := range waits {
		if w.Ended {
			continue // the step has started
		}
		out[w.StepID] = StepWait{Kind: WaitKind(w.Cause), Since: w.Since, Until: w.Until, Try: w.Try, Tries: w.Tries}
	}
	return out
}

// of asks the engine about a run, at most once in waitsLife.
func (s *engineWaits) of(ctx context.Context, v control.RunView) *knownWaits {
	if s.engine == nil {
		return &knownWaits{err: engine.ErrNotStarted}
	}
	k := &knownWaits{}
	if other, there, _ := s.known.PeekOrAdd(v.Run.RunID, k); there {
		k = other
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	life := waitsLife
	if !k.downSince.IsZero() {
		life = waitsDown
	}
	if now := s.now(); k.asked.IsZero() || now.Sub(k.asked) >= life {
		// Everybody who opens the run gets this answer. A viewer who leaves must not turn it into a failure.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitsWithin)
		defer cancel()
		k.waits, k.err = s.engine.Waits(ctx, v.Run.Identity)
		k.asked = s.now()
		// A busy engine may be late once without being down.
		late := ctx.Err() != nil
		down := errors.Is(k.err, engine.ErrUnavailable) && (!late || k.late)
		k.late = late
		switch {
		case !down:
			k.downSince = time.Time{}
		case k.downSince.IsZero():
			k.downSince = now
		}
	}
	return &knownWaits{waits: k.waits, err: k.err, downSince: k.downSince}
}

// beforeStart returns the waits of a run without RunStarted.
func (s *WaitReader) beforeStart(ctx context.Context, v control.RunView, known *knownWaits) []RunWait {
	w := RunWait{Since: v.Run.CreatedAt}
	q := v.Queue
	switch {
	case v.Approval != nil && v.State.Status == run.Pending && !v.State.Queued:
		w.Kind, w.Until = WaitApproval, v.Approval.ExpiresAt
		w.Message = "The run waits until people approve it."
	case q != nil && q.Why != "":
		w.Kind, w.Since, w.Until = WaitQueue, q.CreatedAt, q.ExpiresAt
		w.Message = queueMessages[q.Why]
		if q.Why == store.WaitQuota {
			w.Kind = WaitQuota
		}
	case q != nil && q.LastError != "":
		w.Kind, w.Since, w.Until = WaitEngine, q.CreatedAt, q.NotBefore
		w.Message = "The engine did not start the run. A server tries again."
		if q.Attempts > 1 {
			w.Message = fmt.Sprintf("A server has tried %d times to start the run in the engine, and tries again.", q.Attempts)
		}
	case q != nil:
		w.Kind, w.Since = WaitEngine, q.CreatedAt
		w.Message = "A server gives the run to the engine."
	case !known.downSince.IsZero():
		w = engineDown(known)
	case !known.waits.WorkerSince.IsZero():
		return []RunWait{s.controlWorker(ctx, v, known)}
	default:
		w.Kind, w.Message = WaitPlan, "The engine loads the plan of the run."
		if l := known.waits.Loading; l != nil {
			w.Since, w.Until, w.Try, w.Tries = l.Since, l.Until, l.Try, l.Tries
			if l.Try > 0 {
				w.Message = fmt.Sprintf("The engine loads the plan of the run: try %d of %d.", l.Try, l.Tries)
			}
		}
	}
	return []RunWait{w}
}

// queueMessages say why a run waits in the queue.
var queueMessages = map[store.WaitReason]string{
	store.WaitQuota: "The run waits because the quota of starts is used up for now.",
	store.WaitSlot:  "The run waits for a slot: all slots for active runs are in use.",
	store.WaitTurn:  "The run waits for its turn: other runs of the project are ahead of it.",
	store.WaitHold:  "The run waits because new runs are on hold.",
}

func engineDown(known *knownWaits) RunWait {
	return RunWait{Kind: WaitEngine, Since: known.downSince,
		Message: "The engine does not answer. The run continues by itself when it answers again."}
}

// controlWorker returns the wait for a worker of the run's control queue, which makes the run's decisions.
func (s *WaitReader) controlWorker(ctx context.Context, v control.RunView, known *knownWaits) RunWait {
	w := s.worker(ctx, s.queues.For(v.Run.TenantID, v.Run.EnvironmentID).Control)
	w.Since = known.waits.WorkerSince
	return w
}

// worker returns the wait for a worker of a queue.
func (s *WaitReader) worker(ctx context.Context, queue string) RunWait {
	w := RunWait{Kind: WaitWorker, TaskQueue: queue,
		Message: fmt.Sprintf("The run waits for a worker that serves the queue %s.", queue)}
	if seen := s.pollers.PollerSeen(ctx, queue); seen != nil {
		w.PollerSeen = *seen
		if s.engine.now().Sub(*seen) < pollerFresh {
			w.Message = fmt.Sprintf("The run waits until a worker of the queue %s is free: all of them are busy.", queue)
		}
	}
	// Without an answer of the store the wait is still true, only less exact.
	if drained, err := s.drains.Drained(ctx, queue); err == nil && len(drained[queue]) > 0 {
		w.Message = fmt.Sprintf("The run waits for a worker: all workers that serve the queue %s are drained.", queue)
	}
	return w
}

// afterStart returns the waits of a run that has started.
func (s *WaitReader) afterStart(ctx context.Context, v control.RunView, known *knownWaits) []RunWait {
	h := v.State.Header
	var out []RunWait
	switch {
	case !known.downSince.IsZero():
		out = append(out, engineDown(known))
	case !known.waits.StoreSince.IsZero():
		out = append(out, RunWait{Kind: WaitStore, Since: known.waits.StoreSince,
			Message: "The workers get no answer from the store. The run continues by itself when it answers again."})
	case !known.waits.WorkerSince.IsZero():
		out = append(out, s.controlWorker(ctx, v, known))
	case known.waits.Loading != nil: // of a rotation
		out = append(out, RunWait{Kind: WaitPlan, Since: known.waits.Loading.Since,
			Message: "The engine loads the plan of the run."})
	}
	out = append(out, s.unreported(v, known)...)
	if h.Pause != nil {
		w := RunWait{Kind: WaitPaused, Since: h.Pause.Since, Message: "The run is paused until somebody resumes it."}
		if h.RunningSteps() > 0 {
			w.Kind, w.Steps = WaitDrain, runningSteps(v.State)
			w.Message = fmt.Sprintf("The run is paused and waits until %d running steps end.", h.RunningSteps())
			if h.RunningSteps() == 1 {
				w.Message = "The run is paused and waits until a running step ends."
			}
		}
		return append(append(out, w), retriedSteps(v, known)...)
	}
	out = append(out, s.heldSteps(ctx, v, known)...)
	out = append(out, retriedSteps(v, known)...)
	if h.RetryDeadline != nil {
		w := RunWait{Kind: WaitPerson, Until: *h.RetryDeadline,
			Message: "The run waits until a person retries or skips the failed step. After that time it fails."}
		if h.RootCause != nil {
			w.Steps = []string{h.RootCause.StepID}
		}
		out = append(out, w)
	}
	return append(out, manualSteps(v.State)...)
}

func runningSteps(st run.State) []string {
	var out []string
	for _, step := range st.Steps {
		if step.Status == run.StepRunning && step.Substatus != run.WaitingManual {
			out = append(out, step.StepID)
		}
	}
	return out
}

// manualSteps returns the wait for people to complete manual steps; none if no step waits for one.
func manualSteps(st run.State) []RunWait {
	w := RunWait{Kind: WaitPerson, Message: "The run waits until a person completes a manual step."}
	for _, step := range st.Steps {
		if step.Status != run.StepRunning || step.Substatus != run.WaitingManual {
			continue
		}
		w.Steps = append(w.Steps, step.StepID)
		if at := step.Attempts[len(step.Attempts)-1].StartedAt; at != nil && (w.Since.IsZero() || at.Before(w.Since)) {
			w.Since = *at
		}
	}
	if len(w.Steps) == 0 {
		return nil
	}
	return []RunWait{w}
}

// heldSteps groups the steps that could run and do not, by what they wait for: what the engine says, else a worker of
// their queue.
func (s *WaitReader) heldSteps(ctx context.Context, v control.RunView, known *knownWaits) []RunWait {
	held := make(map[string]engine.StepWait, len(known.waits.Steps))
	for _, w := range known.waits.Steps {
		held[w.StepID] = w
	}
	type group struct {
		kind   WaitKind
		queue  string
		status int
	}
	found := map[group]*RunWait{}
	var order []group
	for _, step := range v.State.ReadySteps(func(stepID string) bool { return v.PendingRetry[stepID] }) {
		g := group{kind: WaitWorker, queue: step.TaskQueue}
		w, known := held[step.StepID]
		if w.Ended || w.Cause == engine.WaitRetry { // of an earlier attempt
			w, known = engine.StepWait{}, false
		}
		if known && w.Cause != engine.WaitWorker {
			g = group{kind: WaitKind(w.Cause), status: w.Status}
		}
		of := found[g]
		if of == nil {
			if g.kind == WaitWorker && g.queue == "" {
				continue // a timer or a manual step: nothing else is needed
			}
			of = s.held(ctx, g.kind, g.queue, g.status)
			found[g], order = of, append(order, g)
		}
		of.Steps = append(of.Steps, step.StepID)
		if !w.Since.IsZero() && (of.Since.IsZero() || w.Since.Before(of.Since)) {
			of.Since = w.Since
		}
		if !w.Until.IsZero() && (of.Until.IsZero() || w.Until.Before(of.Until)) {
			of.Until = w.Until
		}
	}
	out := make([]RunWait, len(order))
	for i, g := range order {
		out[i] = *found[g]
	}
	slices.SortStableFunc(out, func(a, b RunWait) int { return cmp.Compare(len(b.Steps), len(a.Steps)) })
	return out
}

// held returns the wait of a group of steps.
func (s *WaitReader) held(ctx context.Context, kind WaitKind, queue string, status int) *RunWait {
	w := RunWait{Kind: kind, Status: status}
	switch kind {
	case WaitQuota:
		w.Message = "Heavy steps wait because the quota of heavy steps is used up for now."
	case WaitStore:
		w.Message = "A worker gets no answer from the store, so the step has not started."
	case WaitJournal:
		w.Message = "A worker does not reach the journal of the server, so the step has not started."
		if status != 0 {
			w.Message = fmt.Sprintf("A worker has no access to the journal of the server: the answer was HTTP %d, so the "+
				"step has not started.", status)
		}
	default:
		w = s.worker(ctx, queue)
	}
	return &w
}

// addHelp says who can help. Names are those of principals of the run's own tenant.
func (s *WaitReader) addHelp(w *RunWait, r store.Run) {
	help := waitHelp[w.Kind]
	w.Help = help.sentence
	if help.action != "" {
		w.WhoCould = s.rights.Authz.WhoCould(help.action,
			authz.Object{TenantID: r.TenantID, ProjectID: r.ProjectID, EnvironmentID: r.EnvironmentID})
	}
}

const operators = "The people who operate this installation can help."

// waitHelp says who can end each kind of wait.
var waitHelp = map[WaitKind]struct {
	sentence string
	action   authz.Action
}{
	WaitApproval: {"Somebody who may approve the run can help.", authz.Approve},
	WaitQueue:    {"Somebody who may cancel runs or change quotas can help.", authz.SetQuota},
	WaitPlan:     {"Somebody who may cancel the run can end the wait; else the run fails after the last try.", authz.Cancel},
	WaitEngine:   {operators, ""},
	WaitStore:    {operators, ""},
	WaitJournal: {"The people who operate the workers can help: the settings server and worker-token of the worker, and the " +
		"proxy in front of the server.", ""},
	WaitQuota:  {"Somebody who may change quotas can help.", authz.SetQuota},
	WaitWorker: {"The people who operate the workers can help: start a worker that serves this queue, or free its slots.", ""},
	WaitDrain:  {"Somebody who may cancel the run can end it at once.", authz.Cancel},
	WaitPaused: {"Somebody who may resume the run can help.", authz.Resume},
	WaitPerson: {"Somebody who may complete, retry or skip the step can help.", authz.RetryStep},
	WaitRetry:  {"Nobody has to do anything. Somebody who may cancel the run can end the wait.", authz.Cancel},
}
