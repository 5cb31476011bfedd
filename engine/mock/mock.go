// Package mock is an engine in this process: the interpreter on a virtual clock, with scripted executions instead of
// workers. Hours of a run take milliseconds, and the same script always gives the same log, so that authors of plans
// and tests can see the behaviour of a plan (contract C03).
//
// Time passes only in Advance and Next. All work happens in the caller's goroutine, at once and in order: when Start
// or Signal returns, everything that is due at the current virtual time has happened.
package mock

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Config configures an Engine; Journal is required.
type Config struct {
	Journal engine.Journal
	// Tickets sign dispatches; the keys of a Log if empty.
	Tickets ticket.Keys
	// Steps scripts the executions; nil lets all succeed at once. It is called while the engine is locked and must not
	// call the engine.
	Steps Steps
	// RotateAfter is the number of dispatches after which an execution rotates; 0 means never. See interp.Config.
	RotateAfter int
	// Start is the initial virtual time; zero means the time of New.
	Start time.Time
}

// Steps scripts executions. Attempt returns the behaviour of one execution; the engine calls it once for each.
type Steps interface{ Attempt(Execution) Attempt }

// Execution names one execution of a step's attempt, or of its compensation.
type Execution struct {
	RunID, StepID  string
	LogicalAttempt int
	EngineAttempt  int // from 1; raised by platform retries
	Compensation   bool
}

// Attempt is the behaviour of an execution.
type Attempt struct {
	Takes time.Duration // virtual; the timeout of a step, but not of a hook, ends the execution earlier
	// Fails is its failure; nil means success.
	Fails *Failure
	// Result of a success, within the limits of the log.
	Result json.RawMessage
	// Held, when set, keeps the execution running while it returns true; the engine then does not wait for Takes. It
	// calls Held after every action, with its lock held.
	Held func() bool
	// IgnoresCancel lets it continue when it is asked to stop.
	IgnoresCancel bool
}

// Failure describes why an execution failed.
type Failure struct {
	Code, Message string
	NotRetryable  bool
	Class         string // for the retry policy; "" is unknown and retried
}

// Engine implements engine.Engine. Make it with New. Methods are safe for concurrent use.
type Engine struct {
	cfg Config

	mu     sync.Mutex
	now    time.Time
	clock  atomic.Pointer[time.Time] // now, for Clock
	runs   map[string]*execution
	agenda agenda
	order  int // number of the last entry, so that entries of one time keep their order
	held   []*flight
	watch  func() // called after every action with mu held; may be nil
}

// New makes an engine that knows no runs.
func New(cfg Config) *Engine {
	if cfg.Start.IsZero() {
		cfg.Start = time.Now().UTC()
	}
	if cfg.Tickets.Empty() {
		cfg.Tickets = logKeys()
	}
	e := &Engine{cfg: cfg, runs: map[string]*execution{}}
	e.setNow(cfg.Start)
	return e
}

var _ engine.Engine = (*Engine)(nil)

// Now returns the virtual time.
func (e *Engine) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// Clock is Now without a lock, for code that the engine calls, such as its Journal.
func (e *Engine) Clock() time.Time { return *e.clock.Load() }

func (e *Engine) setNow(t time.Time) {
	e.now = t
	e.clock.Store(&t)
}

// Next runs everything that is due now, moves the clock to the next due time and runs the actions of that time. If no
// action is left it returns false and does not move the clock.
func (e *Engine) Next() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle()
	if len(e.agenda) == 0 {
		return false
	}
	e.setNow(latest(e.now, e.agenda[0].at))
	e.settle()
	return true
}

// Advance moves the clock by a duration and runs everything that becomes due, each at its own time. Advance(0) checks
// held executions again.
func (e *Engine) Advance(by time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := e.now.Add(by)
	for e.settle(); len(e.agenda) > 0 && !e.agenda[0].at.After(until); e.settle() {
		e.setNow(latest(e.now, e.agenda[0].at))
	}
	e.setNow(until)
}

// At calls f after a virtual duration, with the engine unlocked.
func (e *Engine) At(after time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at(after, f)
}

// at is At for a caller that holds mu.
func (e *Engine) at(after time.Duration, f func()) {
	e.schedule(after, func() {
		e.mu.Unlock()
		defer e.mu.Lock()
		f()
	})
}

// Start implements engine.Engine.
func (e *Engine) Start(ctx context.Context, id run.Identity, _ plan.Queues) (engine.Started, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x, known := e.runs[id.RunID]; known {
		return engine.Started{Ref: x.ref()}, nil
	}
	sk, err := e.cfg.Journal.Skeleton(ctx, id.RunID)
	if err != nil {
		return engine.Started{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	x := &execution{e: e, id: id, policy: sk.Policy, timers: map[interp.Timer]*entry{}}
	if sk.Failure == nil {
		if err := x.sk.UnmarshalBinary(sk.Binary); err != nil {
			return engine.Started{}, fmt.Errorf("mock: skeleton: %w", err)
		}
	}
	e.runs[id.RunID] = x
	x.start(sk.Failure)
	e.settle()
	return engine.Started{Ref: x.ref()}, nil
}

// Signal implements engine.Engine. It only wakes the run, which reads the accepted signals from the Journal.
func (e *Engine) Signal(_ context.Context, id run.Identity, _ engine.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.openExecution(id)
	if err != nil {
		return err
	}
	x.feed(interp.Woken{At: e.now})
	e.settle()
	return nil
}

// Terminate implements engine.Engine.
func (e *Engine) Terminate(_ context.Context, id run.Identity, _ string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.openExecution(id)
	if err != nil {
		return err
	}
	x.closedAs = "TERMINATED"
	return nil
}

// openExecution returns the open execution of a run. The caller holds mu. Errors: engine.ErrNotStarted,
// engine.ErrClosed.
func (e *Engine) openExecution(id run.Identity) (*execution, error) {
	x, known := e.runs[id.RunID]
	switch {
	case !known:
		return nil, engine.ErrNotStarted
	case x.closedAs != "":
		return nil, engine.ErrClosed
	}
	return x, nil
}

// Describe implements engine.Engine. HistorySize is the number of inputs of the interpreter.
func (e *Engine) Describe(_ context.Context, id run.Identity) (engine.Description, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, known := e.runs[id.RunID]
	if !known {
		return engine.Description{}, engine.ErrNotStarted
	}
	return engine.Description{Identity: id, Ref: x.ref(), Open: x.closedAs == "", ClosedAs: x.closedAs,
		HistorySize: x.inputs}, nil
}

// Generations returns the number of executions of a run; 0 for an unknown one.
func (e *Engine) Generations(runID string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x, known := e.runs[runID]; known {
		return x.generation + 1
	}
	return 0
}

// Capabilities implements engine.Engine (contract DD-14).
func (e *Engine) Capabilities() []engine.Capability {
	const note = "simulated: scripted executions on a virtual clock"
	var out []engine.Capability
	for _, name := range []string{"signals", "pause", "parallel", "cancellation", "retries", "manual", "compensation",
		"rotation"} {
		out = append(out, engine.Capability{Name: name, Support: "emulated", Note: note})
	}
	return out
}

// settle runs everything that is due now, and everything that becomes due by it. The caller holds mu.
func (e *Engine) settle() {
	for {
		if e.watch != nil {
			e.watch()
		}
		e.release()
		if len(e.agenda) == 0 || e.agenda[0].at.After(e.now) {
			return
		}
		it := heap.Pop(&e.agenda).(*entry)
		if !it.cancelled {
			it.do()
		}
	}
}

// release schedules the ends of executions that are no longer held, and forgets those that are over.
func (e *Engine) release() {
	still := e.held[:0]
	for _, f := range e.held {
		if f.over || f.x.closedAs != "" {
			continue
		}
		if f.what.Held() {
			still = append(still, f)
			continue
		}
		e.schedule(0, f.finish)
	}
	clear(e.held[len(still):])
	e.held = still
}

// schedule adds an action to the agenda, after a virtual duration. The caller may set cancelled on the entry.
func (e *Engine) schedule(after time.Duration, do func()) *entry {
	e.order++
	it := &entry{at: e.now.Add(after), order: e.order, do: do}
	heap.Push(&e.agenda, it)
	return it
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
