package controltest

import (
	"context"
	"sync"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// FakeEngine is an engine whose answers a test sets. By default it accepts everything.
type FakeEngine struct {
	Mu            sync.Mutex
	OnStart       func(run.Identity) error
	OnSignal      func(run.Identity, engine.Signal) error
	OnTerminate   func(run.Identity) error
	OnWaits       func(run.Identity) (engine.Waits, error) // nil: the engine holds nothing back
	DescribeError error
	Started       map[string]int
	signals       map[string][]engine.Signal
}

func (e *FakeEngine) Start(_ context.Context, id run.Identity, _ plan.Queues) (engine.Started, error) {
	e.Mu.Lock()
	e.Started[id.RunID]++
	f := e.OnStart
	e.Mu.Unlock()
	if f != nil {
		return engine.Started{}, f(id)
	}
	return engine.Started{Ref: run.EngineRunRef{Provider: "fake", WorkflowID: id.RunID}}, nil
}

func (e *FakeEngine) Signal(_ context.Context, id run.Identity, s engine.Signal) error {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.OnSignal != nil {
		if err := e.OnSignal(id, s); err != nil {
			return err
		}
	}
	e.signals[id.RunID] = append(e.signals[id.RunID], s)
	return nil
}

// Waits implements engine.Waiter. Like a real engine, it is unavailable to a caller that has gone by the time of the
// answer.
func (e *FakeEngine) Waits(ctx context.Context, id run.Identity) (waits engine.Waits, err error) {
	e.Mu.Lock()
	f := e.OnWaits
	e.Mu.Unlock()
	if f != nil {
		waits, err = f(id)
	}
	if ctx.Err() != nil {
		return engine.Waits{}, engine.ErrUnavailable
	}
	return waits, err
}

func (e *FakeEngine) Terminate(_ context.Context, id run.Identity, _ string) error {
	e.Mu.Lock()
	f := e.OnTerminate
	e.Mu.Unlock()
	if f != nil {
		return f(id)
	}
	return nil
}

func (e *FakeEngine) Describe(context.Context, run.Identity) (engine.Description, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.DescribeError != nil {
		return engine.Description{}, e.DescribeError
	}
	return engine.Description{}, engine.ErrNotStarted
}

func (e *FakeEngine) Capabilities() []engine.Capability { return nil }

// Set runs f under the lock of the engine.
func (e *FakeEngine) Set(f func(*FakeEngine)) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	f(e)
}

// StartsOf returns how often a run was started.
func (e *FakeEngine) StartsOf(runID string) int {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return e.Started[runID]
}

// SignalsTo returns the signals that a run received.
func (e *FakeEngine) SignalsTo(runID string) []engine.Signal {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return append([]engine.Signal(nil), e.signals[runID]...)
}
