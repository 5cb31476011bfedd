// Package storeadmin has the operations on a whole store for operators: verify a store against its logs, rebuild its
// checkpoints, refill it from the engine after a restore, and copy runs to another store.
//
// Every function handles the runs one by one, by id, and reads events in pages. It holds the state of one run in
// memory; Import and Repair also hold its log. All functions except Import and Repair may run beside servers.
package storeadmin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// TriggerImport is the trigger source of runs that were imported from a log of version 1. Their keys, ids, numbers and
// times are those of the program that wrote the log, so the rules for events do not hold for them (contract T04, T11).
const TriggerImport = "import"

// A Progress that is not nil is called after each run.
type Progress func(runID string)

func (p Progress) done(runID string) {
	if p != nil {
		p(runID)
	}
}

// UnknownRunsError names the requested runs that are not in the store. errors.Is(err, store.ErrNotFound) is true.
type UnknownRunsError struct{ RunIDs []string }

// Error implements error.
func (e *UnknownRunsError) Error() string {
	return "there is no run " + strings.Join(e.RunIDs, ", no run ") + " in this store"
}

// Is makes errors.Is(err, store.ErrNotFound) true.
func (e *UnknownRunsError) Is(target error) bool { return target == store.ErrNotFound }

// forEachRun calls f for the named runs, or for all when none is named. It reads all named runs before the first call
// of f.
func forEachRun(ctx context.Context, s store.Store, only []string, f func(store.Run) error) error {
	runs, err := findRuns(ctx, s, only)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := f(r); err != nil {
			return fmt.Errorf("run %s: %w", r.RunID, err)
		}
	}
	if len(only) > 0 {
		return nil
	}
	after := ""
	for {
		page, err := s.AllRuns(ctx, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := f(r); err != nil {
				return fmt.Errorf("run %s: %w", r.RunID, err)
			}
			after = r.RunID
		}
		if len(page) < store.MaxPage {
			return nil
		}
	}
}

// findRuns reads the runs with these ids; *UnknownRunsError when some do not exist.
func findRuns(ctx context.Context, s store.Store, ids []string) ([]store.Run, error) {
	var runs []store.Run
	var unknown []string
	for _, id := range ids {
		r, err := s.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			unknown = append(unknown, id)
		case err != nil:
			return nil, err
		default:
			runs = append(runs, r)
		}
	}
	if unknown != nil {
		return nil, &UnknownRunsError{RunIDs: unknown}
	}
	return runs, nil
}

// pages yields the events of a run up to a seq, in pages.
func pages(ctx context.Context, s store.Log, runID string, upTo run.Seq) iter.Seq2[[]run.Event, error] {
	return func(yield func([]run.Event, error) bool) {
		var after run.Seq
		for after < upTo {
			page, err := s.Events(ctx, runID, after, store.MaxPage)
			if err != nil {
				yield(nil, err)
				return
			}
			for len(page) > 0 && page[len(page)-1].Seq > upTo {
				page = page[:len(page)-1]
			}
			if len(page) == 0 || !yield(page, nil) { // fewer than asked do not end the log: a store may give smaller pages
				return
			}
			after = page[len(page)-1].Seq
		}
	}
}

// receipts yields the receipts of a run in the order in which they were received.
func receipts(ctx context.Context, s store.Signals, runID string) iter.Seq2[run.SignalReceipt, error] {
	return func(yield func(run.SignalReceipt, error) bool) {
		after := ""
		for {
			page, err := s.Receipts(ctx, runID, after, store.MaxPage)
			if err != nil {
				yield(run.SignalReceipt{}, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				after = r.Signal.ID
			}
			if len(page) < store.MaxPage {
				return
			}
		}
	}
}

// headOf reads the head of one run; false when it has none.
func headOf(ctx context.Context, s store.Log, runID string) (store.Head, bool, error) {
	h, err := s.Heads(ctx, []string{runID})
	head, ok := h.ByRun[runID]
	return head, ok, err
}

// draftOf returns the draft from which an event was made.
func draftOf(e run.Event) run.Draft {
	return run.Draft{
		Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
		EngineAttempt: e.EngineAttempt,
		EmittedAt:     e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload,
	}
}
