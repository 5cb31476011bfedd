package interp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// tb is the common part of testing.T and rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is the environment of a machine, in memory and with a virtual clock: the log with the real store/authority,
// workers that ask the Journal before they start an attempt, and signals that are judged when they are accepted. It
// checks the guarantees for every effect and every event.
type world struct {
	tb  tb
	id  run.Identity
	sk  plan.Skeleton
	cfg interp.Config
	m   *interp.Machine
	now time.Time

	head     store.Head
	log      []run.Event
	state    run.State // fold of the log
	known    run.State // fold of the part of the log that the machine knows
	knownSeq run.Seq   // the last position of that part
	receipts map[string]*receipt
	signals  []engine.Signal // accepted, in order

	pending *interp.Append   // not committed
	sent    *interp.Append   // outstanding
	answer  *interp.Recorded // committed, not delivered
	flights []*flight
	orphans []*flight         // dispatches that the engine lost; their workers may still run
	past    map[dispatch]bool // all dispatches; true after the return
	timers  map[interp.Timer]time.Time
	fetch   []int64
	reading bool          // a ReadLog is outstanding
	tails   []engine.Tail // read from the log and not delivered
	hook    *hook         // the compensation in flight
	undone  []string      // steps whose hooks were dispatched

	lost        []*hook // hooks that the engine lost; their workers may still run
	hookMessage string  // appended to the message of a hook that fails

	// lag is the distance of the machine's clock behind now. It stands still until the next event of the engine.
	lag         time.Duration
	machineTime time.Time // the last time of the machine's clock

	inputs       []interp.Input
	effects      [][]interp.Effect
	rotations    int
	history      history              // the engine's history of the machine
	tailMost     int                  // maximum number of events in one read of the log; 0 for store.MaxTail
	useReceipts  func() bool          // whether the next end arrives as a receipt
	compareTwins bool                 // compare each idle machine with a machine resumed from its Carry
	refuse       func(run.Draft) bool // content that the store refuses
	ahead        map[string]bool      // PAUSEs that control applied when it accepted them
	held         int                  // number of Appends that the log held back
	noPauseAhead bool                 // control applies no PAUSE when it accepts it
	// throttle returns the time until a token is available for a step that is about to start, or 0.
	throttle func(stepID string) time.Duration
}

var (
	testIdentity = run.Identity{RunID: "r1", TenantID: "t1", ProjectID: "p1", EnvironmentID: "dev", PlanID: "plan-3",
		PlanVersion: "1.0"}
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// basePolicy has a retry window, a long drain timeout and room for all steps of small plans.
	basePolicy = run.Policy{RetryWindowMS: 60_000, DrainTimeoutMS: 300_000, MaxParallelSteps: 100,
		MaxLogicalAttemptsManual: 10}
)

// steps returns a skeleton of steps like "id<dep,dep", in the given order.
func steps(specs ...string) plan.Skeleton {
	sk := plan.Skeleton{PlanID: testIdentity.PlanID, PlanVersion: testIdentity.PlanVersion}
	ords := map[string]int{}
	for i, spec := range specs {
		id, _, _ := strings.Cut(spec, "<")
		ords[id] = i
	}
	for _, spec := range specs {
		id, deps, has := strings.Cut(spec, "<")
		s := plan.SkeletonStep{StepID: id, Type: plan.Noop, TaskQueue: "tq-control"}
		if has {
			for _, d := range strings.Split(deps, ",") {
				s.Deps = append(s.Deps, ords[d])
			}
			slices.Sort(s.Deps)
		}
		sk.Steps = append(sk.Steps, s)
	}
	return sk
}

func newWorld(tb tb, sk plan.Skeleton, policy run.Policy) *world {
	cfg := interp.Config{Identity: testIdentity, Policy: policy}
	w := &world{
		tb: tb, id: testIdentity, sk: sk, cfg: cfg, m: interp.New(sk, cfg), now: epoch,
		head:     store.Head{RunID: testIdentity.RunID},
		state:    run.State{Header: run.Header{Identity: testIdentity}},
		known:    run.State{Header: run.Header{Identity: testIdentity}},
		receipts: map[string]*receipt{}, ahead: map[string]bool{}, past: map[dispatch]bool{},
		timers: map[interp.Timer]time.Time{},
	}
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunApproved, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByPlanner}}})
	return w
}

// start brings the run to RUNNING.
func (w *world) start() *world {
	w.tb.Helper()
	w.feed(interp.Init{At: w.now})
	w.record()
	return w
}

// feed gives the machine one input, checks the effects and performs them.
func (w *world) feed(in interp.Input) {
	w.tb.Helper()
	in = w.timed(in)
	w.beginInput(in)
	over := w.m.Done() || w.m.HasRotated()
	effects := w.m.Step(in)
	w.inputs = append(w.inputs, in)
	w.effects = append(w.effects, effects)
	if over && len(effects) > 0 {
		w.tb.Fatalf("the machine returns effects after Finish or Rotate: %#v", effects)
	}
	for i, e := range effects {
		switch e := e.(type) {
		case interp.Append:
			w.onAppend(e)
		case interp.Execute:
			w.onExecute(e)
		case interp.CancelSteps:
			if !slices.IsSorted(e.Ords) || len(e.Ords) == 0 {
				w.tb.Fatalf("CancelSteps has the steps %v, want some in ascending order", e.Ords)
			}
			for _, f := range w.flights {
				if !f.cancelled && slices.Contains(e.Ords, f.ord) {
					f.cancelled, f.asked = true, w.history.task
				}
			}
			if o, ok := w.sk.Ordinal(w.hookOf()); ok && slices.Contains(e.Ords, run.Ord(o)) {
				w.hook.cancelled = true
			}
		case interp.Compensate:
			w.onCompensate(e)
		case interp.SetTimer:
			if w.timers[e.Timer] = e.At; w.history.lossy {
				w.history.armers[e.Timer] = w.history.task
			}
		case interp.FetchSignals:
			w.fetch = append(w.fetch, e.After)
		case interp.ReadLog:
			if w.reading {
				w.tb.Fatalf("a second ReadLog is outstanding")
			}
			w.reading = true
		case interp.Finish:
			if i != len(effects)-1 || !w.m.Done() {
				w.tb.Fatalf("Finish is not the last effect: %#v", effects)
			}
			if !w.state.Status.Terminal() {
				w.tb.Fatalf("the machine finishes a run that is %s in the log", w.state.Status)
			}
			if e.Status != "" && e.Status != w.state.Status {
				w.tb.Fatalf("Finish has the status %s, the log has %s", e.Status, w.state.Status)
			}
		case interp.Rotate:
			if i != len(effects)-1 || !w.m.HasRotated() {
				w.tb.Fatalf("Rotate is not the last effect: %#v", effects)
			}
		}
	}
	switch {
	case len(effects) > 0 && w.m.HasRotated():
		w.rotate()
	case w.compareTwins && w.m.Idle():
		w.compareWithTwin()
	}
}

// timed sets the time of an input to the workflow's time. That time stands still during a workflow task, also while the
// task reads and writes. Events that workers write meanwhile have later times.
func (w *world) timed(in interp.Input) interp.Input {
	at := w.now.Add(-w.lag)
	if at.Before(w.machineTime) {
		at = w.machineTime
	}
	switch i := in.(type) {
	case interp.Recorded:
		i.At = at
		in = i
	case interp.Observed:
		i.At = at
		in = i
	case interp.Ended:
		i.At = at
		in = i
	case interp.Signalled:
		i.At = at
		in = i
	case interp.Returned:
		i.At = at
		in = i
	case interp.HookReturned:
		i.At = at
		in = i
	default: // it starts a workflow task
		at = w.now
	}
	w.machineTime = at
	return in
}

func (w *world) onAppend(a interp.Append) {
	w.tb.Helper()
	if w.pending != nil || w.answer != nil {
		w.tb.Fatalf("a second Append is outstanding (contract T191)")
	}
	if len(a.Events) > store.MaxBatch {
		w.tb.Fatalf("the Append has %d events, want at most %d", len(a.Events), store.MaxBatch)
	}
	if a.SetGate&a.ClearGate != 0 {
		w.tb.Fatalf("the Append sets and clears the bits %b of the gate", a.SetGate&a.ClearGate)
	}
	for _, o := range a.Outcomes {
		if o.AppliedBy >= len(a.Events) || o.AppliedBy < -1 {
			w.tb.Fatalf("the outcome of signal %s is applied by event %d of %d", o.SignalID, o.AppliedBy, len(a.Events))
		}
	}
	if a.Seen != w.m.ObservedSeq() {
		w.tb.Fatalf("Append.Seen is %d, want the position that the machine has observed, %d", a.Seen, w.m.ObservedSeq())
	}
	w.pending, w.sent = &a, &a
}

func (w *world) onExecute(e interp.Execute) {
	w.tb.Helper()
	step := w.sk.Steps[e.Ord]
	d := dispatch{e.Ord, e.LogicalAttempt, e.N}
	bad := func(format string, args ...any) {
		w.tb.Helper()
		w.tb.Fatalf("%s/%d.%d is dispatched %s; the log is\n%s", step.StepID, e.LogicalAttempt, e.N, fmt.Sprintf(format,
			args...),
			strings.Join(w.logLines(), "\n"))
	}
	if _, again := w.past[d]; again {
		bad("twice")
	}
	if e.N > 1 && !w.past[dispatch{e.Ord, e.LogicalAttempt, e.N - 1}] {
		bad("although dispatch %d has not returned", e.N-1)
	}
	if step.Type == plan.Manual {
		bad("although it waits for a person (contract T82)")
	}
	if e.N < 1 || e.LogicalAttempt < 1 || e.Spent < 0 {
		bad("with %d engine attempts spent", e.Spent)
	}
	w.past[d] = false
	for _, dep := range step.Deps {
		p := w.known.Steps[dep]
		if p.Status != run.StepSuccess && p.Status != run.StepSkipped {
			bad("while the machine knows that %s is %s (contract T191)", p.StepID, p.Status)
		}
	}
	running := w.hasObserved(step.StepID, e.LogicalAttempt, run.StepStartedEvent)
	pauseUnknown := w.known.Status == run.Paused && (w.ahead[w.known.Pause.SignalID] || w.history.losses > 0) &&
		w.m.RunStatus() == run.Running
	if w.m.Finalizing() {
		bad("while the run ends")
	}
	if w.known.Status != run.Running && !pauseUnknown && !running {
		bad("while the machine knows that the run is %s", w.known.Status)
	}
	if w.hasObserved(step.StepID, e.LogicalAttempt, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent) {
		bad("after its end was observed")
	}
	w.flights = append(w.flights, &flight{dispatch: d, stepID: step.StepID, passes: e.PassFailing, signalID: e.SignalID,
		spent: e.Spent, since: w.history.task})
	executions := 0
	for _, f := range w.flights {
		if !w.hasObserved(f.stepID, f.logicalAttempt, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent) {
			executions++
		}
	}
	if executions > w.cfg.Policy.MaxParallelSteps && !running {
		bad("as execution number %d in flight, of at most %d", executions, w.cfg.Policy.MaxParallelSteps)
	}
}

// hasObserved reports whether the machine has observed an event of one of these types about an attempt.
func (w *world) hasObserved(stepID string, logicalAttempt int, types ...run.EventType) bool {
	return slices.ContainsFunc(w.log[:w.m.ObservedSeq()], func(e run.Event) bool {
		return e.StepID == stepID && e.LogicalAttempt == logicalAttempt && slices.Contains(types, e.Type)
	})
}

// write appends to the log as the real store/authority decides, and fails the test if it refuses.
func (w *world) write(a store.Append) store.Appended {
	w.tb.Helper()
	done, err := w.tryWrite(a)
	if err != nil {
		w.tb.Fatalf("append: %v", err)
	}
	return done
}

func (w *world) tryWrite(a store.Append) (store.Appended, error) {
	w.tb.Helper()
	a.Events = slices.Clone(a.Events)
	for i := range a.Events {
		if a.Events[i].Type == run.RunStarted {
			a.Events[i].Payload = w.completeStart(a.Events[i].Payload)
		}
		if strings.Contains(string(a.Events[i].Payload), `"reused"`) {
			a.Events[i].Payload = json.RawMessage(`{"reused":{"runId":"r0","runSeq":9}}`)
		}
	}
	b, err := authority.Prepare(w.id, a)
	if err != nil {
		w.tb.Fatalf("append: %v", err)
	}
	p, err := authority.Decide(w.head, b, w.facts(), w.now)
	if err != nil {
		return store.Appended{}, err
	}
	w.carryOut(p)
	return p.Result(w.head), nil
}

func (w *world) facts() authority.Facts {
	f := authority.Facts{Events: w.log}
	for i := range w.log {
		if w.log[i].Type.EndsRun() {
			f.End = &w.log[i]
		}
	}
	return f
}

func (w *world) carryOut(p authority.Plan) {
	w.tb.Helper()
	w.head = p.Head
	w.log = append(w.log, p.Insert...)
	s, _, anomalies := run.Fold(w.state, p.Insert)
	if len(anomalies) > 0 {
		w.tb.Fatalf("the log has the anomalies %v:\n%s", anomalies, strings.Join(w.logLines(), "\n"))
	}
	w.state = s
	for _, mv := range p.Moves {
		if r := w.receipts[mv.SignalID]; r != nil && !r.app.Final() {
			*r = receipt{mv.Application, mv.Reason, mv.AppliedSeq}
		}
	}
	if p.EndsRun {
		for _, s := range w.signals {
			if r := w.receipts[s.ID]; !r.app.Final() {
				*r = receipt{run.SignalNotApply, string(run.CodeRunTerminal), 0}
			}
		}
	}
}

// completeStart adds to a RunStarted the fields that the Journal adds.
func (w *world) completeStart(raw json.RawMessage) json.RawMessage {
	p, err := run.PayloadOf[run.RunStartedPayload](raw)
	if err != nil {
		w.tb.Fatalf("RunStarted: %v", err)
	}
	p.PlanRef = run.PlanRef{SHA256: strings.Repeat("a", 64), SchemaVersion: "v1.2", PlanID: w.id.PlanID,
		PlanVersion: w.id.PlanVersion}
	p.Engine.Provider, p.Engine.WorkflowID = "test", "dvt/t1/r1"
	p.Policy = w.cfg.Policy
	p.Steps = []run.StepOutline{}
	for _, s := range w.sk.Steps {
		o := run.StepOutline{StepID: s.StepID, Type: string(s.Type)}
		for _, d := range s.Deps {
			o.DependsOn = append(o.DependsOn, w.sk.Steps[d].StepID)
		}
		p.Steps = append(p.Steps, o)
	}
	out, err := json.Marshal(p)
	if err != nil {
		w.tb.Fatalf("RunStarted: %v", err)
	}
	return out
}

// commit writes the pending Append as Journal.Append does. deliver gives the answer to the machine.
func (w *world) commit() {
	w.tb.Helper()
	a := w.pending
	w.pending = nil
	var done store.Appended
	var err error
	switch {
	case a.UnlessPaused && w.head.Gate&run.GatePaused != 0 && slices.ContainsFunc(a.Events, w.state.HoldsBack):
		w.held++
		err = engine.ErrPaused
	case w.refuse != nil && slices.ContainsFunc(a.Events, w.refuse):
		err = &run.SchemaError{}
	default:
		w.checkEnd(a.Events)
		b := a.Append
		if slices.ContainsFunc(w.log[a.Seen:], func(e run.Event) bool { return e.Type == run.StepFailedEvent }) {
			b.ClearGate &^= run.GateFailing
		}
		if done, err = w.tryWrite(b); err != nil {
			w.held++
		}
	}
	rec, _ := interp.Outcome(*a, done, err)
	rec.Batch = a.Batch
	w.answer = &rec
}

// checkEnd checks the end of a run before it is written.
func (w *world) checkEnd(events []run.Draft) {
	w.tb.Helper()
	for _, d := range events {
		// RunCompleted needs no check: the machine knows the completion of each step, so that it cannot have missed an end.
		concludes := d.Type.EndsRun() && d.Type != run.RunCompleted || d.Type == run.RunCompensationStarted
		if !concludes || w.state.Status.Terminal() {
			continue
		}
		for _, e := range w.log[w.m.ObservedSeq():] {
			if e.Type == run.StepCompletedEvent || e.Type == run.StepFailedEvent {
				own := slices.ContainsFunc(events, func(d run.Draft) bool { return d.Key(w.id) == e.Key })
				if !own {
					w.tb.Fatalf("the machine writes %s and has not observed %s; the log is\n%s", d.Type, describe(e),
						strings.Join(w.logLines(), "\n"))
				}
			}
		}
		if w.head.Running > 0 {
			w.tb.Fatalf("the machine writes %s while %d attempts are RUNNING; the log is\n%s", d.Type, w.head.Running,
				strings.Join(w.logLines(), "\n"))
		}
		if c := w.state.Counts; d.Type == run.RunCompleted && c.Success+c.Skipped != c.Total {
			w.tb.Fatalf("the machine writes RunCompleted, but not every step has succeeded; the log is\n%s",
				strings.Join(w.logLines(), "\n"))
		}
	}
}

func (w *world) deliver() {
	w.tb.Helper()
	rec := *w.answer
	w.answer, w.sent = nil, nil
	rec.At = w.now
	w.extendKnown(rec.Head)
	w.feed(rec)
}

// resetKnown shortens the part of the log that the machine knows to the given position.
func (w *world) resetKnown(seq int) {
	w.known, w.knownSeq = run.State{Header: run.Header{Identity: w.id}}, 0
	w.extendKnown(run.Seq(seq))
}

// extendKnown extends the part of the log that the machine knows to the given position.
func (w *world) extendKnown(seq run.Seq) {
	if seq > w.knownSeq {
		w.known, _, _ = run.Fold(w.known, w.log[w.knownSeq:seq])
		w.knownSeq = seq
	}
}

// record commits and delivers, and answers reads of the log, until nothing is outstanding.
func (w *world) record() {
	w.tb.Helper()
	for i := 0; w.pending != nil || w.answer != nil || w.reading; i++ {
		switch {
		case i > 10_000:
			w.tb.Fatalf("the machine does not stop writing and reading; the log is\n%s", strings.Join(w.logLines(), "\n"))
		case w.pending != nil:
			w.commit()
		case w.answer != nil:
			w.deliver()
		default:
			w.deliverTail(w.read())
		}
	}
}

// logLines returns the log with one line for each event.
func (w *world) logLines() []string {
	var out []string
	for _, e := range w.log {
		out = append(out, fmt.Sprintf("%d %s", e.Seq, describe(e)))
	}
	return out
}

func describe(e run.Event) string {
	switch e.Type {
	case run.StepStartedEvent, run.StepAwaitingManualCompletion, run.StepCompletedEvent:
		return fmt.Sprintf("%s(%s,%d)", e.Type, e.StepID, e.LogicalAttempt)
	case run.StepFailedEvent:
		p, _ := run.PayloadOf[run.FailurePayload](e.Payload)
		return fmt.Sprintf("%s(%s,%d,%s)", e.Type, e.StepID, e.LogicalAttempt, p.ErrorCode)
	case run.StepSkippedEvent:
		p, _ := run.PayloadOf[run.StepSkippedPayload](e.Payload)
		return fmt.Sprintf("%s(%s,%d,%s)", e.Type, e.StepID, e.LogicalAttempt, p.ReasonCode)
	case run.StepCompensated, run.StepCompensationFailed:
		p, _ := run.PayloadOf[run.CompensationPayload](e.Payload)
		return fmt.Sprintf("%s(%s,%d,%s)", e.Type, e.StepID, p.Attempts, p.ErrorCode)
	case run.RunCompensationStarted:
		p, _ := run.PayloadOf[run.CompensationStartedPayload](e.Payload)
		return fmt.Sprintf("%s(%s)", e.Type, strings.Join(p.StepIDs, " "))
	case run.RunPaused, run.RunResumed:
		return fmt.Sprintf("%s(%d)", e.Type, e.LogicalAttempt)
	case run.SignalAccepted, run.SignalRejected:
		return fmt.Sprintf("%s(%s)", e.Type, e.SignalID)
	case run.RunFailed:
		p, _ := run.PayloadOf[run.RunFailedPayload](e.Payload)
		return fmt.Sprintf("%s(%s,%d,%s)", e.Type, p.RootCause.StepID, p.RootCause.LogicalAttempt, p.ErrorCode)
	}
	return string(e.Type)
}
