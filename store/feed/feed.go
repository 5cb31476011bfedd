// Package feed reads the events of all runs, for consumers such as webhooks and exporters. It delivers each event of
// every run that the filter covers at least once, and the events of one run in the order of its log (contract T186).
// There is no order between runs. The store's feed says which runs changed; the Reader then reads the events of each of
// these runs after the last seq that it has read.
//
// The feed sees a change when a projector has saved the checkpoint of the run. While no projector is running, no events
// come; they come later, and none is lost.
package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Store is the part of a store that a Reader needs.
type Store interface {
	store.Feed
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Epoch(ctx context.Context) (string, error)
}

// Fixed limits.
const (
	// MaxRuns is the number of runs whose seq a Reader remembers. It forgets ended runs first, then those that it has
	// read longest ago. When a forgotten run changes again, the Reader reads its log from the beginning.
	MaxRuns = 1000
	// MaxEvents is the most events of one Batch.
	MaxEvents = 200
)

// ErrCheckpoint says that a text is not a checkpoint of a Reader.
var ErrCheckpoint = errors.New("feed: checkpoint unreadable")

// Batch is events of one run, ascending and without a gap after the previous Batch of that run. Events may repeat;
// consumers recognise a repetition by EventID.
type Batch struct {
	RunID  string
	Epoch  string
	Events []run.Event // at most MaxEvents; empty when the Reader has caught up
	// Reset says that the store's history was replaced, for example by a restore. The Reader starts again from the
	// beginning; the consumer must treat events that do not come again as events that never happened (contract T194).
	Reset bool
}

// Reader reads the feed from its start to the newest event and then waits for more. It is not safe for concurrent use.
type Reader struct {
	store  Store
	filter store.RunFilter
	epoch  string         // "" before the first page
	cursor string         // of the current page
	next   string         // of the page after it
	page   []store.RunRow // the rest of the current page
	last   bool           // the current page is the newest one
	reset  bool           // the next Batch must report the reset
	read   positions
}

// NewReader returns a reader that continues after a checkpoint of a Reader with the same filter, or starts with the
// first event when checkpoint is "". The error is ErrCheckpoint when the checkpoint cannot be read.
func NewReader(s Store, f store.RunFilter, checkpoint string) (*Reader, error) {
	r := &Reader{store: s, filter: f, cursor: store.FeedStart, read: newPositions(MaxRuns)}
	if checkpoint != "" {
		if err := r.restore(checkpoint); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
		}
	}
	r.next = r.cursor
	return r, nil
}

// Next reads the next events of one run. A Batch without events says that the Reader has caught up; the caller should
// wait before the next call. Errors are the store's. After an error the caller may call Next again, and no event is
// skipped.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	for {
		for len(r.page) > 0 {
			b, err := r.readEvents(ctx, r.page[0])
			if err != nil {
				return Batch{}, err
			}
			if len(b.Events) < MaxEvents {
				r.page = r.page[1:]
			}
			if len(b.Events) > 0 {
				return b, nil
			}
		}
		r.cursor = r.next
		if r.last {
			r.last = false
			return r.stamp(Batch{}), nil
		}
		if err := r.readPage(ctx); err != nil {
			return Batch{}, err
		}
	}
}

// readEvents reads the next events of a run that changed.
func (r *Reader) readEvents(ctx context.Context, row store.RunRow) (Batch, error) {
	runID := row.Header.RunID
	after := r.read.seqOf(runID)
	if row.Head <= after {
		return Batch{}, nil
	}
	events, err := r.store.Events(ctx, runID, after, MaxEvents)
	if err != nil || len(events) == 0 {
		return Batch{}, err
	}
	ended := row.Header.RunStatus().Terminal()
	for _, e := range events {
		ended = ended || e.Type.EndsRun()
	}
	r.read.set(runID, events[len(events)-1].Seq, ended)
	return r.stamp(Batch{RunID: runID, Events: events}), nil
}

// readPage reads the next page of runs that changed. It reads the epoch first. If the epoch changes between the two
// reads, the next call detects it and starts again from the beginning.
func (r *Reader) readPage(ctx context.Context) error {
	epoch, err := r.store.Epoch(ctx)
	if err != nil {
		return err
	}
	if r.epoch != "" && epoch != r.epoch {
		r.reset, r.cursor, r.read = true, store.FeedStart, newPositions(MaxRuns)
	}
	r.epoch = epoch
	rows, next, err := r.store.ListChanged(ctx, r.filter, r.cursor)
	if err != nil {
		return err
	}
	limit := r.filter.Limit
	if limit <= 0 || limit > store.MaxPage {
		limit = store.MaxPage
	}
	r.page, r.next, r.last = rows, next, len(rows) < limit
	return nil
}

// stamp sets Epoch and Reset of a Batch. Only the first Batch after a reset reports it.
func (r *Reader) stamp(b Batch) Batch {
	b.Epoch, b.Reset = r.epoch, r.reset
	r.reset = false
	return b
}
