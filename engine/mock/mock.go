// Package mock is an engine in this process: the interpreter that every engine
// drives, on a virtual clock, with scripted executions in the place of workers.
// What takes hours elsewhere takes milliseconds here, and the same script gives
// the same log every time, so that authors of plans and tests of dvt can see
// what a plan does (C03).
//
// Time moves only when it is told to (Advance, Next). Everything else happens in
// the caller's goroutine, at once and in order: when Start or Signal returns, all
// that can happen at this moment of the virtual clock has happened.
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

// Config of an Engine; Journal is required.
type Config struct {
	Journal engine.Journal
	// Tickets sign dispatches; those that a Log knows when they are empty.
	Tickets ticket.Keys
	// Steps says what executions do; all succeed at once when nil. It is called
	// with the engine locked: it must not call it.
	Steps Steps
	// RotateAfter is interp.Config's; 0 never rotates.
	RotateAfter int
	// Start of the virtual clock; the time of New when zero.
	Start time.Time
}

// Steps says what one execution does.
type Steps interface{ Attempt(Execution) Attempt }

// Execution names one execution of a step's attempt, or of its compensation.
type Execution struct {
	RunID, StepID  string
	LogicalAttempt int
	EngineAttempt  int // from 1; platform retries raise it
	Compensation   bool
}

// Attempt is what an execution does.
type Attempt struct {
	Takes time.Duration
	// Fails is the failure that it ends with; nil succeeds.
	Fails *Failure
	// Result of a success, at most what the log takes.
	Result json.RawMessage
	// Held, when set, keeps the execution going for as long as it says true; it is
	// asked whenever something happens.
	Held func() bool
	// IgnoresCancel goes on to its end when it is asked to stop.
	IgnoresCancel bool
}

// Failure is why an execution failed.
type Failure struct {
	Code, Message string
	NotRetryable  bool
	Class         string // of the retry policy; "" is unknown and retried
}

// Engine is an engine.Engine. Methods are safe for concurrent use.
type Engine struct {
	cfg Config

	mu     sync.Mutex
	now    time.Time
	clock  atomic.Pointer[time.Time] // now, for Clock
	runs   map[string]*execution
	agenda agenda
	order  int // of entries, so that those of one moment keep their order
	held   []*flight
	watch  func() // called after everything that happens, with mu held; may be nil
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

// Now is the virtual time.
func (e *Engine) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// Clock is Now for what the engine calls, such as its Journal: it takes no lock.
func (e *Engine) Clock() time.Time { return *e.clock.Load() }

func (e *Engine) setNow(t time.Time) {
	e.now = t
	e.clock.Store(&t)
}

// Next moves the clock to the next moment at which something happens, and has it
// happen. It reports false, and changes nothing, when nothing ever will.
func (e *Engine) Next() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle()
	if len(e.agenda) == 0 {
		return false
	}
	e.setNow(later(e.now, e.agenda[0].at))
	e.settle()
	return true
}

// Advance moves the clock and has everything happen that is due meanwhile, each
// at its own time. Advance(0) looks at held executions again.
func (e *Engine) Advance(by time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := e.now.Add(by)
	for e.settle(); len(e.agenda) > 0 && !e.agenda[0].at.After(until); e.settle() {
		e.setNow(later(e.now, e.agenda[0].at))
	}
	e.setNow(until)
}

// At has f happen after so much virtual time, with the engine unlocked.
func (e *Engine) At(after time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at(after, f)
}

func (e *Engine) at(after time.Duration, f func()) {
	e.later(after, func() {
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
	x.begin(sk.Failure)
	e.settle()
	return engine.Started{Ref: x.ref()}, nil
}

// Signal implements engine.Engine.
func (e *Engine) Signal(_ context.Context, id run.Identity, _ engine.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.going(id)
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
	x, err := e.going(id)
	if err != nil {
		return err
	}
	x.closedAs = "TERMINATED"
	return nil
}

// going is the execution of a run that goes on, with mu held.
func (e *Engine) going(id run.Identity) (*execution, error) {
	x, known := e.runs[id.RunID]
	switch {
	case !known:
		return nil, engine.ErrNotStarted
	case x.closedAs != "":
		return nil, engine.ErrClosed
	}
	return x, nil
}

// Describe implements engine.Engine. HistorySize counts the inputs of the
// interpreter.
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

// Generations is how many executions a run has had; 0 for an unknown one.
func (e *Engine) Generations(runID string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x, known := e.runs[runID]; known {
		return x.generation + 1
	}
	return 0
}

// Capabilities implements engine.Engine (R DD-14).
func (e *Engine) Capabilities() []engine.Capability {
	const note = "simulated: scripted executions on a virtual clock"
	var out []engine.Capability
	for _, name := range []string{"signals", "pause", "parallel", "cancellation", "retries", "manual", "compensation",
		"rotation"} {
		out = append(out, engine.Capability{Name: name, Support: "emulated", Note: note})
	}
	return out
}

// settle has everything happen that is due now.
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

// release ends held executions that are held no longer.
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
		e.later(0, f.finish)
	}
	clear(e.held[len(still):])
	e.held = still
}

// later puts something on the agenda.
func (e *Engine) later(after time.Duration, do func()) *entry {
	e.order++
	it := &entry{at: e.now.Add(after), order: e.order, do: do}
	heap.Push(&e.agenda, it)
	return it
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
