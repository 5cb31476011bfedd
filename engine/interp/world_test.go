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

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is everything around a machine, in memory and on a virtual clock: the
// log with the real Append Authority, executors that ask Begin, and signals that
// are judged at acceptance. It checks what must hold of every effect and event.
type world struct {
	tb  tb
	id  run.Identity
	sk  plan.Skeleton
	who interp.Config
	m   *interp.Machine
	now time.Time

	head     store.Head
	log      []run.Event
	state    run.State // fold of the log
	known    run.State // fold of the part that the machine was told of
	knownSeq run.Seq   // its length
	receipts map[string]*receipt
	signals  []engine.Signal // accepted, in order

	pending *interp.Append   // not committed
	sent    *interp.Append   // the one that is outstanding
	answer  *interp.Recorded // committed, not delivered
	flights []*flight
	strays  []*flight         // dispatches that the engine lost and whose workers may live
	past    map[dispatch]bool // dispatched; true once it came back
	timers  map[interp.Timer]time.Time
	fetch   []int64
	reading bool          // a ReadLog is not answered
	tails   []engine.Tail // read and not delivered
	hook    *hook         // the compensation in flight
	undone  []string      // steps whose hooks were dispatched

	lost      []*hook // hooks that the engine lost and whose workers may live
	complaint string  // more of what a hook that fails says

	lag     time.Duration // how far the machine's clock is behind while it hears of no event of the engine
	machine time.Time     // what it showed last

	inputs    []interp.Input
	effects   [][]interp.Effect
	rotations int
	history   history                           // what the engine keeps of the machine
	tailMost  int                               // how many events one read of the log gives at most; 0 for store.MaxTail
	proves    func() bool                       // ends come by receipts when it says so
	doubled   bool                              // each idle machine is compared with one made from what it carries
	refuse    func(run.Draft) bool              // content that the store does not take
	ahead     map[string]bool                   // PAUSEs that were applied as they were accepted
	held      int                               // Appends that were held back
	oldWay    bool                              // control applies no PAUSE as it accepts it
	throttle  func(stepID string) time.Duration // how long there is no token for a step that would begin; 0: there is one
}

var (
	testIdentity = run.Identity{RunID: "r1", TenantID: "t1", ProjectID: "p1", EnvironmentID: "dev", PlanID: "plan-3",
		PlanVersion: "1.0"}
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	calm  = run.Policy{RetryWindowMS: 60_000, DrainTimeoutMS: 300_000, MaxParallelSteps: 100,
		MaxLogicalAttemptsManual: 10}
)

// steps makes a skeleton of "id<dep,dep" in the order given.
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
	who := interp.Config{Identity: testIdentity, Policy: policy}
	w := &world{
		tb: tb, id: testIdentity, sk: sk, who: who, m: interp.New(sk, who), now: epoch,
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

// feed gives the machine one input and carries out the effects.
func (w *world) feed(in interp.Input) {
	w.tb.Helper()
	in = w.timed(in)
	w.beginInput(in)
	over := w.m.Done() || w.m.Rotated()
	effects := w.m.Step(in)
	w.inputs = append(w.inputs, in)
	w.effects = append(w.effects, effects)
	if over && len(effects) > 0 {
		w.tb.Fatalf("effects after Finish: %#v", effects)
	}
	for i, e := range effects {
		switch e := e.(type) {
		case interp.Append:
			w.onAppend(e)
		case interp.Execute:
			w.onExecute(e)
		case interp.CancelSteps:
			if !slices.IsSorted(e.Ords) || len(e.Ords) == 0 {
				w.tb.Fatalf("CancelSteps of %v", e.Ords)
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
				w.tb.Fatalf("Finish of a run that is %s in the log", w.state.Status)
			}
			if e.Status != "" && e.Status != w.state.Status {
				w.tb.Fatalf("Finish %s, the log says %s", e.Status, w.state.Status)
			}
		case interp.Rotate:
			if i != len(effects)-1 || !w.m.Rotated() {
				w.tb.Fatalf("Rotate is not the last effect: %#v", effects)
			}
		}
	}
	switch {
	case len(effects) > 0 && w.m.Rotated():
		w.rotate()
	case w.doubled && w.m.Idle():
		w.double()
	}
}

// timed gives an input the time of the workflow. It stands still for as long as one workflow task lasts, whatever the
// task reads and writes, and what workers write meanwhile has later times.
func (w *world) timed(in interp.Input) interp.Input {
	at := w.now.Add(-w.lag)
	if at.Before(w.machine) {
		at = w.machine
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
	default: // it begins a task
		at = w.now
	}
	w.machine = at
	return in
}

func (w *world) onAppend(a interp.Append) {
	w.tb.Helper()
	if w.pending != nil || w.answer != nil {
		w.tb.Fatalf("T191: a second Append is outstanding")
	}
	if len(a.Events) > store.MaxBatch {
		w.tb.Fatalf("Append of %d events", len(a.Events))
	}
	if a.SetGate&a.ClearGate != 0 {
		w.tb.Fatalf("Append sets and clears gate %b", a.SetGate&a.ClearGate)
	}
	for _, o := range a.Outcomes {
		if o.AppliedBy >= len(a.Events) || o.AppliedBy < -1 {
			w.tb.Fatalf("outcome of %s by event %d of %d", o.SignalID, o.AppliedBy, len(a.Events))
		}
	}
	if a.Seen != w.m.Seen() {
		w.tb.Fatalf("Append.Seen is %d, the machine has observed %d", a.Seen, w.m.Seen())
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
			strings.Join(w.story(), "\n"))
	}
	if _, again := w.past[d]; again {
		bad("twice")
	}
	if e.N > 1 && !w.past[dispatch{e.Ord, e.LogicalAttempt, e.N - 1}] {
		bad("though .%d did not come back", e.N-1)
	}
	if step.Type == plan.Manual {
		bad("though it waits for a person (T82)")
	}
	if e.N < 1 || e.LogicalAttempt < 1 || e.Spent < 0 {
		bad("with %d engine attempts spent", e.Spent)
	}
	w.past[d] = false
	for _, dep := range step.Deps {
		p := w.known.Steps[dep]
		if p.Status != run.StepSuccess && p.Status != run.StepSkipped {
			bad("while %s is known to be %s (T191)", p.StepID, p.Status)
		}
	}
	running := w.sees(step.StepID, e.LogicalAttempt, run.StepStartedEvent)
	unheard := w.known.Status == run.Paused && (w.ahead[w.known.Pause.SignalID] || w.history.losses > 0) &&
		w.m.RunStatus() == run.Running
	if w.m.Finalizing() {
		bad("while the run ends")
	}
	if w.known.Status != run.Running && !unheard && !running {
		bad("while the run is known to be %s", w.known.Status)
	}
	if w.sees(step.StepID, e.LogicalAttempt, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent) {
		bad("after its end was observed")
	}
	w.flights = append(w.flights, &flight{dispatch: d, stepID: step.StepID, passes: e.PassFailing, signalID: e.SignalID,
		spent: e.Spent, since: w.history.task})
	flying := 0
	for _, f := range w.flights {
		if !w.sees(f.stepID, f.la, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent) {
			flying++
		}
	}
	if flying > w.who.Policy.MaxParallelSteps && !running {
		bad("as the %d. execution in flight", flying)
	}
}

// sees reports whether the machine has observed such an event of an attempt.
func (w *world) sees(stepID string, la int, types ...run.EventType) bool {
	return slices.ContainsFunc(w.log[:w.m.Seen()], func(e run.Event) bool {
		return e.StepID == stepID && e.LogicalAttempt == la && slices.Contains(types, e.Type)
	})
}

// write appends to the log by the real authority.
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
	return p.Appended(w.head), nil
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
		w.tb.Fatalf("anomalies: %v in\n%s", anomalies, strings.Join(w.story(), "\n"))
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

// completeStart does what the Journal does to RunStarted.
func (w *world) completeStart(raw json.RawMessage) json.RawMessage {
	p, err := run.PayloadOf[run.RunStartedPayload](raw)
	if err != nil {
		w.tb.Fatalf("RunStarted: %v", err)
	}
	p.PlanRef = run.PlanRef{SHA256: strings.Repeat("a", 64), SchemaVersion: "v1.2", PlanID: w.id.PlanID,
		PlanVersion: w.id.PlanVersion}
	p.Engine.Provider, p.Engine.WorkflowID = "test", "dvt/t1/r1"
	p.Policy = w.who.Policy
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

// commit writes the pending Append as Journal.Append does; deliver tells the machine.
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
		w.mayEnd(a.Events)
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

// mayEnd checks the end of a run before it is written.
func (w *world) mayEnd(events []run.Draft) {
	w.tb.Helper()
	for _, d := range events {
		// A run completes when the machine knows the completion of each step: nothing is left that it could have missed.
		concludes := d.Type.EndsRun() && d.Type != run.RunCompleted || d.Type == run.RunCompensationStarted
		if !concludes || w.state.Status.Terminal() {
			continue
		}
		for _, e := range w.log[w.m.Seen():] {
			if e.Type == run.StepCompletedEvent || e.Type == run.StepFailedEvent {
				own := slices.ContainsFunc(events, func(d run.Draft) bool { return d.Key(w.id) == e.Key })
				if !own {
					w.tb.Fatalf("%s is written though the machine has not observed %s; the log is\n%s", d.Type, tell(e),
						strings.Join(w.story(), "\n"))
				}
			}
		}
		if w.head.Running > 0 {
			w.tb.Fatalf("%s is written while %d attempts are RUNNING; the log is\n%s", d.Type, w.head.Running,
				strings.Join(w.story(), "\n"))
		}
		if c := w.state.Counts; d.Type == run.RunCompleted && c.Success+c.Skipped != c.Total {
			w.tb.Fatalf("RunCompleted is written though not every step succeeded; the log is\n%s", strings.Join(w.story(), "\n"))
		}
	}
}

func (w *world) deliver() {
	w.tb.Helper()
	rec := *w.answer
	w.answer, w.sent = nil, nil
	rec.At = w.now
	w.know(rec.Head)
	w.feed(rec)
}

// forget takes back what the machine was told behind a place.
func (w *world) forget(seq int) {
	w.known, w.knownSeq = run.State{Header: run.Header{Identity: w.id}}, 0
	w.know(run.Seq(seq))
}

// know notes up to where the machine was told what the log says.
func (w *world) know(seq run.Seq) {
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
			w.tb.Fatalf("the machine writes and reads for ever; the log is\n%s", strings.Join(w.story(), "\n"))
		case w.pending != nil:
			w.commit()
		case w.answer != nil:
			w.deliver()
		default:
			w.hand(w.read())
		}
	}
}

// story renders the log, one event a line.
func (w *world) story() []string {
	var out []string
	for _, e := range w.log {
		out = append(out, fmt.Sprintf("%d %s", e.Seq, tell(e)))
	}
	return out
}

func tell(e run.Event) string {
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
