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

// past is an engine with a history that is written by hand.
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

func drafted(t run.EventType, step string, attempt int) run.Draft {
	return runtest.Draft(t, step, attempt)
}

func appended(head run.Seq, seqs []run.Seq, more func(*store.Append), events ...run.Draft) engine.Recorded {
	r := engine.Recorded{Append: store.Append{Events: events}, Seqs: seqs, Head: head, At: now}
	if more != nil {
		more(&r.Append)
	}
	return r
}

func (d *db) lines(runID string) (out []string) {
	for _, e := range d.log(runID) {
		out = append(out, fmt.Sprintf("%d %s(%s%s,%d)", e.Seq, e.Type, e.StepID, e.SignalID, e.LogicalAttempt))
	}
	return out
}

// What the store stamps depends on what ran at the time, so a refilled log has the
// order that it had, gates and windows included; doing it twice changes nothing.
// contract: T221
func TestRepair_OrderGatesAndWindows(t *testing.T) {
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
			// b ran while a failed, so the window opened with its end.
			appended(6, []run.Seq{3, 5}, window, drafted(started, "a", 1), drafted(failed, "a", 1)),
			appended(6, []run.Seq{4, 6}, window, drafted(started, "b", 1), drafted(completed, "b", 1)),
			appended(6, nil, func(a *store.Append) { a.ClearGate = run.GateFailing }), // gates alone
			{Signal: &engine.Signal{No: 1, ID: "sig-1", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1}, At: now},
			// delivered twice
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
				d.Errorf("retryDeadline of %d is %v", e.Seq, p.RetryDeadline)
			}
		}
		if h := d.head(id.RunID); h.Gate != 0 || h.Running != 1 || h.SignalNo != 1 {
			d.Errorf("head %+v", h)
		}
		if r, err := d.Receipt(d.Context(), id.RunID, "sig-1"); err != nil || r.Application != run.SignalApplied ||
			r.AppliedSeq != 8 || r.AcceptedSeq != 7 {
			d.Errorf("receipt %+v %v", r, err)
		}
		if len(out.Refilled) != 1 || out.Refilled[0].Events != 5 || len(out.Refilled[0].Receipts) != 1 ||
			len(out.Lost) != 1 || out.Lost[0].RunID != "run-007" {
			d.Errorf("%+v", out)
		}
		d.clean()

		// The run goes on and its gate closes again; an old gate does not open it.
		_, err = d.Append(d.Context(), store.Append{RunID: id.RunID, SetGate: run.GateFailing,
			Events: []run.Draft{drafted(failed, "a", 2)}})
		must(d.T, err)
		history.recorded = append(history.recorded,
			appended(9, []run.Seq{8, 9}, func(a *store.Append) { a.SetGate = run.GateFailing },
				runtest.Draft(started, "a", 2, runtest.M{"signalId": "sig-1"}), drafted(failed, "a", 2)))
		before := d.log(id.RunID)
		again, err := storeadmin.Repair(d.Context(), d.Store, history, d.Store, []string{id.RunID}, nil)
		must(d.T, err)
		if len(again.Refilled) > 0 || d.head(id.RunID).Gate != run.GateFailing {
			d.Errorf("again: %+v, gate %d", again.Refilled, d.head(id.RunID).Gate)
		}
		equal(d.T, "log after the second repair", before, d.log(id.RunID))
	})
}

func TestRepair_SaysWhatCannotBe(t *testing.T) {
	onEach(t, func(d *db) {
		id := d.sample() // somebody wrote to it after the restore: sig-1 has number 1
		history := past{recorded: []engine.Recorded{
			{Signal: &engine.Signal{No: 1, ID: "sig-0", Type: run.Pause}, At: now},
			appended(30, []run.Seq{29, 30}, nil, drafted(run.StepStartedEvent, "a", 1), drafted(run.StepCompletedEvent, "a", 1)),
		}}
		out, err := storeadmin.Repair(d.Context(), d.Store, history, d.Store, nil, nil)
		must(d.T, err)
		r := out.Refilled[0]
		if len(r.Receipts) != 1 || !r.Receipts[0].Renumbered {
			d.Errorf("receipts %+v", r.Receipts)
		}
		if !slices.Equal(r.Refused, []string{"StepCompleted(a,1): INVALID_TRANSITION"}) || r.Known != 30 {
			d.Errorf("%+v", r)
		}
		if _, err := storeadmin.Repair(d.Context(), d.Store, past{}, d.Store, []string{"nobody"}, nil); !errors.Is(err,
			store.ErrNotFound) {
			d.Errorf("unknown run: %v", err)
		}
		if out, err := storeadmin.Repair(d.Context(), d.Store, past{}, d.Store, []string{id}, nil); err != nil ||
			len(out.Refilled) > 0 || out.Looked != 1 {
			d.Errorf("a run that the engine does not know: %+v %v", out, err)
		}
	})
}
