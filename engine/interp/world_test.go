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
	told     run.State // fold as of the last commit
	known    run.State // fold as of the last Recorded
	receipts map[string]*receipt
	signals  []engine.Signal // accepted, in order

	pending *interp.Append   // not committed
	answer  *interp.Recorded // committed, not delivered
	late    []*lateTry       // writes that nobody confirmed and that may yet come to the log
	flights []*flight
	past    map[dispatch]bool // dispatched; true once it came back unbegun
	timers  map[interp.Timer]time.Time
	fetch   []int64
	hook    *hook    // the compensation in flight
	undone  []string // steps whose hooks were dispatched

	inputs    []interp.Input
	effects   [][]interp.Effect
	rotations int
	doubled   bool                              // each idle machine is compared with one made from what it carries
	refuse    func(run.Draft) bool              // content that the store does not take
	ahead     map[string]bool                   // PAUSEs that were applied as they were accepted
	held      int                               // Appends that were held back
	oldWay    bool                              // control applies no PAUSE as it accepts it
	throttle  func(stepID string) time.Duration // how long there is no token for a step that would begin; 0: there is one
}

// lateTry is an Append on its way to the log that nobody waits for any more.
type lateTry struct {
	store.Append
	settled bool // what replaced it is in the log
}

var (
	testIdentity = run.Identity{RunID: "r1", TenantID: "t1", ProjectID: "p1", EnvironmentID: "dev", PlanID: "plan-3", PlanVersion: "1.0"}
	epoch        = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	calm         = run.Policy{RetryWindowMS: 60_000, DrainTimeoutMS: 300_000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10}
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
		receipts: map[string]*receipt{}, ahead: map[string]bool{}, past: map[dispatch]bool{}, timers: map[interp.Timer]time.Time{},
	}
	w.write(store.Append{Events: []run.Draft{{Type: run.RunApproved, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now, EmittedBy: run.ByPlanner}}})
	return w
}

// start brings the run to RUNNING.
func (w *world) start() *world {
	w.tb.Helper()
	w.feed(interp.Begin{At: w.now})
	w.record()
	return w
}

// feed gives the machine one input and carries out the effects.
func (w *world) feed(in interp.Input) {
	w.tb.Helper()
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
				f.cancelled = f.cancelled || slices.Contains(e.Ords, f.ord)
			}
			if o, ok := w.sk.Ordinal(w.hookOf()); ok && slices.Contains(e.Ords, run.Ord(o)) {
				w.hook.cancelled = true
			}
		case interp.Compensate:
			w.onCompensate(e)
		case interp.SetTimer:
			w.timers[e.Timer] = e.At
		case interp.FetchSignals:
			w.fetch = append(w.fetch, e.After)
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
			if i != len(effects)-1 || !w.m.Rotated() || w.hook != nil {
				w.tb.Fatalf("Rotate with the hook %+v in flight, or it is not the last effect: %#v", w.hook, effects)
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
	w.pending = &a
}

func (w *world) onExecute(e interp.Execute) {
	w.tb.Helper()
	step := w.sk.Steps[e.Ord]
	d := dispatch{e.Ord, e.LA, e.N}
	if _, again := w.past[d]; again {
		w.tb.Fatalf("%s/%d.%d is dispatched twice", step.StepID, e.LA, e.N)
	}
	if e.N > 1 && !w.past[dispatch{e.Ord, e.LA, e.N - 1}] {
		w.tb.Fatalf("%s/%d.%d is dispatched though .%d did not come back unbegun", step.StepID, e.LA, e.N, e.N-1)
	}
	if step.Type == plan.Manual {
		w.tb.Fatalf("T82: %s, which waits for a person, is dispatched", step.StepID)
	}
	if e.N < 1 || e.LA < 1 {
		w.tb.Fatalf("%s/%d.%d", step.StepID, e.LA, e.N)
	}
	w.past[d] = false
	for _, dep := range step.Deps {
		p := w.known.Steps[dep]
		if p.Status != run.StepSuccess && p.Status != run.StepSkipped {
			w.tb.Fatalf("T191: %s is dispatched while %s is known to be %s", step.StepID, p.StepID, p.Status)
		}
	}
	unheard := w.known.Status == run.Paused && w.ahead[w.known.Pause.SignalID] && w.m.RunStatus() == run.Running
	if w.known.Status != run.Running && !unheard {
		w.tb.Fatalf("%s is dispatched while the run is known to be %s", step.StepID, w.known.Status)
	}
	w.flights = append(w.flights, &flight{dispatch: d, stepID: step.StepID, passes: e.PassFailing, signalID: e.SignalID})
	if len(w.flights) > w.who.Policy.MaxParallelSteps {
		w.tb.Fatalf("%d executions in flight", len(w.flights))
	}
}

// write appends to the log by the real authority.
func (w *world) write(a store.Append) store.Appended {
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
		w.tb.Fatalf("append: %v", err)
	}
	w.carryOut(p)
	return p.Appended(w.head)
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
	p.PlanRef = run.PlanRef{SHA256: strings.Repeat("a", 64), SchemaVersion: "v1.2", PlanID: w.id.PlanID, PlanVersion: w.id.PlanVersion}
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

// commit writes the pending Append; deliver tells the machine.
func (w *world) commit() {
	w.tb.Helper()
	a := w.pending
	w.pending = nil
	rec := interp.Recorded{Batch: a.Batch}
	if a.UnlessPaused && w.head.Gate&run.GatePaused != 0 && slices.ContainsFunc(a.Events, w.state.HoldsBack) {
		rec.HeldBack = true
		w.held++
		w.answer = &rec
		return
	}
	if w.refuse != nil && slices.ContainsFunc(a.Events, w.refuse) {
		for range a.Events { // nobody says which one
			rec.Ends = append(rec.Ends, interp.RecordedEvent{Rejected: true})
		}
		w.answer = &rec
		return
	}
	got := w.write(a.Append)
	w.told = w.state
	for _, l := range w.late {
		l.settled = true
	}
	for _, o := range got.Outcomes {
		end := interp.RecordedEvent{Seq: o.Seq, NotStarted: o.Refused == run.CodeStepNotStarted}
		if o.Existing != nil {
			end.Seq, end.Won = o.Existing.Seq, o.Existing.Type
			if o.Existing.Type == run.StepFailedEvent {
				f, _ := run.PayloadOf[run.FailurePayload](o.Existing.Payload)
				end.Failure = &f
			}
		}
		rec.Ends = append(rec.Ends, end)
	}
	rec.Head, rec.Running, rec.RunTerminal, rec.WindowOpened = got.Head.LastSeq, got.Head.Running, got.Head.Terminal, got.WindowOpened
	w.answer = &rec
}

// silence lets the write budget of the pending Append run out; the write itself
// may still come to the log: see land.
func (w *world) silence() {
	w.tb.Helper()
	a := w.pending
	if !a.Bounded {
		w.tb.Fatalf("T120: an Append is not bounded: %+v", a.Append)
	}
	w.pending, w.answer = nil, &interp.Recorded{Batch: a.Batch, Unconfirmed: true}
	if w.refuse == nil || !slices.ContainsFunc(a.Events, w.refuse) {
		w.late = append(w.late, &lateTry{Append: a.Append})
	}
}

// land lets a write come to the log that nobody confirmed. When what replaced it
// is there already it changes nothing.
func (w *world) land(l *lateTry) {
	w.tb.Helper()
	before := w.head
	w.late = slices.DeleteFunc(w.late, func(o *lateTry) bool { return o == l })
	if w.write(l.Append); l.settled && w.head != before {
		w.tb.Fatalf("T120: a late write changed %+v to %+v; the log is\n%s", before, w.head, strings.Join(w.story(), "\n"))
	}
}

func (w *world) deliver() {
	w.tb.Helper()
	rec := *w.answer
	w.answer = nil
	rec.At = w.now
	w.known = w.told
	w.feed(rec)
}

// record commits and delivers until nothing is outstanding.
func (w *world) record() {
	w.tb.Helper()
	for w.pending != nil || w.answer != nil {
		if w.pending != nil {
			w.commit()
		}
		w.deliver()
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
