package storeadmin_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

// past is an engine with a handwritten history.
type past struct {
	recorded []engine.Recorded
	runs     []engine.Description
}

func (p past) History(context.Context, run.Identity) iter.Seq2[engine.Recorded, error] {
	return func(yield func(engine.Recorded, error) bool) {
		if p.recorded == nil {
			yield(engine.Recorded{}, engine.ErrNotStarted)
		}
		for _, r := range p.recorded {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (p past) Runs(context.Context) iter.Seq2[engine.Description, error] {
	return func(yield func(engine.Description, error) bool) {
		for _, d := range p.runs {
			if !yield(d, nil) {
				return
			}
		}
	}
}

var now = time.Date(2026, 2, 16, 13, 0, 0, 0, time.UTC)

// draft returns a draft of an event of a step.
func draft(t run.EventType, step string, attempt int) run.Draft {
	return runtest.Draft(t, step, attempt)
}

// recorded returns an Append of the history; more changes the Append.
func recorded(head run.Seq, seqs []run.Seq, more func(*store.Append), events ...run.Draft) engine.Recorded {
	r := engine.Recorded{Append: store.Append{Events: events}, Seqs: seqs, Head: head, At: now}
	if more != nil {
		more(&r.Append)
	}
	return r
}

// lines renders the log of a run, one line for each event.
func (d *db) lines(runID string) (out []string) {
	for _, e := range d.log(runID) {
		out = append(out, fmt.Sprintf("%d %s(%s%s,%d)", e.Seq, e.Type, e.StepID, e.SignalID, e.LogicalAttempt))
	}
	return out
}

// The running attempts decide what the store stamps. So a refilled log must have the order that it had, and the same
// gates and retry windows. A second repair changes nothing.
// contract: T221
func TestRepair_RestoresOrderGatesAndWindows(t *testing.T) {
	onEach(t, func(d *db) {
		id := identity(1)
		_, _, err := d.CreateRun(d.Context(), newRun(id))
		must(d.T, err)
		for _, e := range runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("a", "b", "c")) {
			d.write(id, e)
		}
		deadline := now.Add(time.Hour)
		window := func(a *store.Append) { a.RetryDeadline, a.SetGate = deadline, run.GateFailing }
		started, failed, completed := run.StepStartedEvent, run.StepFailedEvent, run.StepCompletedEvent
		history := past{recorded: []engine.Recorded{
			// b was running when a failed, so the window opened with the end of b.
			recorded(6, []run.Seq{3, 5}, window, draft(started, "a", 1), draft(failed, "a", 1)),
			recorded(6, []run.Seq{4, 6}, window, draft(started, "b", 1), draft(completed, "b", 1)),
			recorded(6, nil, func(a *store.Append) { a.ClearGate = run.GateFailing }), // only gates
			{Signal: &engine.Signal{No: 1, ID: "sig-1", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1}, At: now},
			// the same signal again, because it was delivered twice
			{Signal: &engine.Signal{No: 1, ID: "sig-1", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1}, At: now},
			{Append: store.Append{Events: []run.Draft{runtest.Draft(started, "a", 2, runtest.M{"signalId": "sig-1"})}}, At: now},
		}, runs: []engine.Description{{Identity: id}, {Identity: identity(7), Open: true}}}
		out, err := storeadmin.Repair(d.Context(), d.Store, history, d.Store, nil, nil)
		must(d.T, err)
		want := []string{
			"1 RunApproved(,1)", "2 RunStarted(,1)", "3 StepStarted(a,1)", "4 StepStarted(b,1)", "5 StepFailed(a,1)",
			"6 StepCompleted(b,1)",
			"7 SignalAccepted(sig-1,1)", "8 StepStarted(a,2)",
		}
		equal(d.T, "log", want, d.lines(id.RunID))
		for _, e := range d.log(id.RunID)[4:6] {
			p, err := run.PayloadOf[run.StepCompletedPayload](e.Payload)
			must(d.T, err)
			if opened := e.Seq == 6; opened != (p.RetryDeadline != nil) {
				d.Errorf("retryDeadline of event %d is %v, want one only on event 6", e.Seq, p.RetryDeadline)
			}
		}
		if h := d.head(id.RunID); h.Gate != 0 || h.Running != 1 || h.SignalNo != 1 {
			d.Errorf("head %+v, want an open gate, 1 running and 1 signal", h)
		}
		if r, err := d.Receipt(d.Context(), id.RunID, "sig-1"); err != nil || r.Application != run.SignalApplied ||
			r.AppliedSeq != 8 || r.AcceptedSeq != 7 {
			d.Errorf("receipt %+v, want one accepted at 7 and applied at 8 (error %v)", r, err)
		}
		if len(out.Refilled) != 1 || out.Refilled[0].Events != 5 || len(out.Refilled[0].Receipts) != 1 ||
			len(out.Lost) != 1 || out.Lost[0].RunID != "run-007" {
			d.Errorf("repaired %+v, want 5 events and 1 receipt refilled, and run-007 lost", out)
		}
		d.clean()

		// The run continues and its gate closes again. A repair must not open it by an old write of the gate.
		_, err = d.Append(d.Context(), store.Append{RunID: id.RunID, SetGate: run.GateFailing,
			Events: []run.Draft{draft(failed, "a", 2)}})
		must(d.T, err)
		history.recorded = append(history.recorded,
			recorded(9, []run.Seq{8, 9}, func(a *store.Append) { a.SetGate = run.GateFailing },
				runtest.Draft(started, "a", 2, runtest.M{"signalId": "sig-1"}), draft(failed, "a", 2)))
		before := d.log(id.RunID)
		again, err := storeadmin.Repair(d.Context(), d.Store, history, d.Store, []string{id.RunID}, nil)
		must(d.T, err)
		if len(again.Refilled) > 0 || d.head(id.RunID).Gate != run.GateFailing {
			d.Errorf("the second repair refilled %+v, gate %04b; want nothing and a failing run", again.Refilled,
				d.head(id.RunID).Gate)
		}
		equal(d.T, "log after the second repair", before, d.log(id.RunID))
	})
}

func TestRepair_ReportsRefusedEventsAndTakenNumbers(t *testing.T) {
	onEach(t, func(d *db) {
		id := d.sample() // somebody wrote to the run after the restore, so that sig-1 has number 1
		history := past{recorded: []engine.Recorded{
			{Signal: &engine.Signal{No: 1, ID: "sig-0", Type: run.Pause}, At: now},
			recorded(30, []run.Seq{29, 30}, nil, draft(run.StepStartedEvent, "a", 1), draft(run.StepCompletedEvent, "a", 1)),
		}}
		out, err := storeadmin.Repair(d.Context(), d.Store, history, d.Store, nil, nil)
		must(d.T, err)
		r := out.Refilled[0]
		if len(r.Receipts) != 1 || !r.Receipts[0].Renumbered {
			d.Errorf("receipts %+v, want one that is renumbered", r.Receipts)
		}
		if !slices.Equal(r.Refused, []string{"StepCompleted(a,1): INVALID_TRANSITION"}) || r.Known != 30 {
			d.Errorf("refilled %+v, want a refused StepCompleted and known head 30", r)
		}
		if _, err := storeadmin.Repair(d.Context(), d.Store, past{}, d.Store, []string{"nobody"}, nil); !errors.Is(err,
			store.ErrNotFound) {
			d.Errorf("repair of an unknown run: error %v, want ErrNotFound", err)
		}
		if out, err := storeadmin.Repair(d.Context(), d.Store, past{}, d.Store, []string{id}, nil); err != nil ||
			len(out.Refilled) > 0 || out.Looked != 1 {
			d.Errorf("a run that the engine does not know: %+v, want it compared and not refilled (error %v)", out, err)
		}
	})
}
