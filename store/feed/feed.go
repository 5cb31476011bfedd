// Package feed reads what happens in all runs, for consumers such as webhooks and
// exporters. It promises each event of every run that the filter covers at least
// once, and the events of one run in the order of its log (T186); among runs there
// is no order. The store's feed says which runs changed; what changed is read from
// each run's own log beyond the seq that was read before.
//
// The feed follows the checkpoints that a projector saves: while none runs
// anywhere, nothing comes, and nothing is lost.
package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Store is what a Reader needs of a store.
type Store interface {
	store.Feed
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Epoch(ctx context.Context) (string, error)
}

// Limits that are not worth an option.
const (
	// MaxRuns is how many runs a Reader remembers the seq of. A run beyond them is
	// read from the beginning of its log when it changes again; those that ended
	// are forgotten first, then those that changed longest ago.
	MaxRuns = 1000
	// MaxEvents is the most events of one Batch.
	MaxEvents = 200
)

// ErrCheckpoint says that a checkpoint is none that a Reader gave.
var ErrCheckpoint = errors.New("feed: checkpoint unreadable")

// Batch is events of one run, ascending and without a gap from the last Batch of
// that run. Events may come again: EventID tells.
type Batch struct {
	RunID  string
	Epoch  string
	Events []run.Event // at most MaxEvents; none: nothing more has happened yet
	// Reset: the log is another than the one read so far (T194). Everything comes
	// again, from the beginning, and what is not in it never happened.
	Reset bool
}

// Reader reads the feed once through and then on. It serves one goroutine.
type Reader struct {
	store  Store
	filter store.RunFilter
	epoch  string // "" before the first look
	cursor string // of the page in hand
	next   string // of the page after it
	page   []store.RunRow
	last   bool // the page in hand was the newest one
	reset  bool // to be told with the next Batch
	read   positions
}

// NewReader goes on after a checkpoint of the same filter, or begins with the
// first event there is when checkpoint is "". ErrCheckpoint.
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

// Next reads the next events of one run. A Batch without events says that the
// reader has caught up: wait before the next call. After an error the same call
// may be repeated; it goes on where it was. Errors are the store's.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	for {
		for len(r.page) > 0 {
			b, err := r.events(ctx, r.page[0])
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
			return r.told(Batch{}), nil
		}
		if err := r.look(ctx); err != nil {
			return Batch{}, err
		}
	}
}

// events reads on in the log of a run that changed.
func (r *Reader) events(ctx context.Context, row store.RunRow) (Batch, error) {
	runID := row.Header.RunID
	after := r.read.of(runID)
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
	return r.told(Batch{RunID: runID, Events: events}), nil
}

// look reads the next page of runs that changed. The epoch is read first: when it
// changes in between, the next look finds out and begins anew.
func (r *Reader) look(ctx context.Context) error {
	epoch, err := r.store.Epoch(ctx)
	if err != nil {
		return err
	}
	if r.epoch != "" && epoch != r.epoch {
		r.reset, r.cursor, r.read = true, store.FeedStart, newPositions(MaxRuns)
	}
	r.epoch = epoch
	rows, next, err := r.store.Changed(ctx, r.filter, r.cursor)
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

// told gives a Batch the epoch, and once the reset.
func (r *Reader) told(b Batch) Batch {
	b.Epoch, b.Reset = r.epoch, r.reset
	r.reset = false
	return b
}
