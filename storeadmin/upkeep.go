// Package storeadmin is what operators do with a whole store: verify that it is what
// its logs say, make its checkpoints anew, refill it from the engine after a
// restore, and carry runs to another store.
//
// Every function goes through the runs one by one, in the order of their ids,
// and reads events by the page: its memory is that of one run's state, and of its
// log where it is written whole (Import, Repair). All but Import and Repair may
// work beside running servers.
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

// TriggerImport is the trigger source of runs that came from a log of version 1.
// Their keys, ids, numbers and times are those of whoever wrote them (T04, T11).
const TriggerImport = "import"

// Progress is told of every run that is done.
type Progress func(runID string)

func (p Progress) done(runID string) {
	if p != nil {
		p(runID)
	}
}

// UnknownRunsError names runs that were asked for and are not there. It is store.ErrNotFound.
type UnknownRunsError struct{ RunIDs []string }

// Error implements error.
func (e *UnknownRunsError) Error() string {
	return "there is no run " + strings.Join(e.RunIDs, ", no run ") + " in this store"
}

// Is makes errors.Is(err, store.ErrNotFound) true.
func (e *UnknownRunsError) Is(target error) bool { return target == store.ErrNotFound }

// each calls f for the runs named, or for all. It looks for every name first.
func each(ctx context.Context, s store.Store, only []string, f func(store.Run) error) error {
	runs, err := named(ctx, s, only)
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

func named(ctx context.Context, s store.Store, ids []string) ([]store.Run, error) {
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

// pages yields the log of a run up to a seq, page by page.
func pages(ctx context.Context, s store.Log, runID string, upTo run.Seq) iter.Seq2[[]run.Event, error] {
	return func(yield func([]run.Event, error) bool) {
		var after run.Seq
		for after < upTo {
			page, err := s.Events(ctx, runID, after, store.MaxPage)
			if err != nil {
				yield(nil, err)
				return
			}
			full := len(page) == store.MaxPage
			for len(page) > 0 && page[len(page)-1].Seq > upTo {
				page = page[:len(page)-1]
			}
			if len(page) == 0 || !yield(page, nil) || !full {
				return
			}
			after = page[len(page)-1].Seq
		}
	}
}

// receipts yields the receipts of a run in the order in which they were received.
func receipts(ctx context.Context, s store.Signals, runID string) iter.Seq2[run.Receipt, error] {
	return func(yield func(run.Receipt, error) bool) {
		after := ""
		for {
			page, err := s.Receipts(ctx, runID, after, store.MaxPage)
			if err != nil {
				yield(run.Receipt{}, err)
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

// headOf is the head of one run; false when it has none.
func headOf(ctx context.Context, s store.Log, runID string) (store.Head, bool, error) {
	h, err := s.Heads(ctx, []string{runID})
	head, ok := h.ByRun[runID]
	return head, ok, err
}

// draftOf is what an event was before it had a place.
func draftOf(e run.Event) run.Draft {
	return run.Draft{
		Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
		EngineAttempt: e.EngineAttempt,
		EmittedAt:     e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload,
	}
}
