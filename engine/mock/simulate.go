package mock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Simulation is the result of a simulated run.
type Simulation struct {
	Events   []run.Event
	State    run.State
	Receipts []run.SignalReceipt
	Took     time.Duration // virtual
}

// Errors of Simulate.
var (
	// ErrStuck means that nothing more can happen although the run has not ended: it waits for a signal that the script
	// does not send.
	ErrStuck = errors.New("the run waits for a signal that the script does not send")
	// ErrTooLong means that the simulation exceeded MaxMoments.
	ErrTooLong = errors.New("the simulation exceeded the maximum number of moments of virtual time")
)

// MaxMoments is the maximum number of distinct virtual times at which a simulation may act.
const MaxMoments = 1_000_000

// Simulate runs a plan with a script in memory, from its approval to its end. The same plan and script always give the
// same log. doc is the document of pl. Errors: ErrScript for a script that does not fit the plan, ErrStuck, ErrTooLong.
// With the last two the Simulation has the state reached so far. Other errors are those of the log.
func Simulate(doc []byte, pl plan.Plan, q plan.Queues, policy run.Policy, s Script) (Simulation, error) {
	if err := s.Check(pl); err != nil {
		return Simulation{}, err
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var e *Engine
	now := func() time.Time {
		if e == nil {
			return start
		}
		return e.now
	}
	log, err := NewLog(pl, doc, q, policy, now)
	if err != nil {
		return Simulation{}, err
	}
	e = New(Config{Journal: log, Steps: &player{script: s, used: map[string]int{}}, Start: start})
	sim := &simulation{e: e, log: log}
	sim.plan(s.Signals)
	e.watch = sim.watch
	if _, err := e.Start(context.Background(), log.Identity(), q); err != nil {
		return Simulation{}, err
	}
	for moments := 0; err == nil && !log.State().Status.Terminal(); moments++ {
		switch {
		case moments == MaxMoments:
			err = ErrTooLong
		case !e.Next():
			err = ErrStuck
		default:
			err = sim.failed
		}
	}
	return Simulation{Events: log.Events(), State: log.State(), Receipts: log.Receipts(), Took: e.Now().Sub(start)}, err
}

// simulation sends the signals of a script. The goroutine of Simulate runs it.
type simulation struct {
	e      *Engine
	log    *Log
	orders []*order // orders that wait for an event
	seen   int      // number of events processed
	sent   int      // number of signals sent, for their ids
	failed error    // the first error of the log, which ends the simulation
}

// order is an Order that waits for an event. due means that the event has happened.
type order struct {
	Order
	due bool
}

// plan schedules the orders that have a time, and stores those that wait for an event.
func (s *simulation) plan(orders []Order) {
	for _, o := range orders {
		w := &order{Order: o}
		if o.After != "" {
			s.orders = append(s.orders, w)
			continue
		}
		s.e.At(time.Duration(o.At), func() { s.send(o) })
	}
}

// watch schedules the orders whose event is in the log.
func (s *simulation) watch() {
	events := s.log.Events()
	for ; s.seen < len(events); s.seen++ {
		word := events[s.seen].Notation()
		for _, w := range s.orders {
			if !w.due && w.After == word {
				w.due = true
				s.e.at(time.Duration(w.At), func() { s.send(w.Order) })
			}
		}
	}
}

// send gives a signal to the log, and to the engine if it was accepted.
func (s *simulation) send(o Order) {
	s.sent++
	sig := run.Signal{
		ID: fmt.Sprintf("signal-%d", s.sent), Type: run.SignalType(o.Signal), StepID: o.Step, Force: o.Force,
		Outcome: o.Outcome,
	}
	out, d, err := s.log.Signal(sig, "operator", "scripted")
	switch {
	case err != nil:
		s.failed = err
	case d.Outcome != run.Reject:
		_ = s.e.Signal(context.Background(), s.log.Identity(), out) // a run that has ended has already rejected it
	}
}
