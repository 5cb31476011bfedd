// Package feed reads the events of all runs, for consumers such as webhooks and exporters. It delivers each event of
// every run that the filter covers at least once, and the events of one run in the order of its log (contract T186).
// There is no order between runs. The store's feed says which runs changed; the Reader then reads the events of these
// runs after the last seqs that it has read, of many runs at once. Readers of one process share what they read by a
// Cache.
//
// The feed sees a change when a projector has saved the checkpoint of the run. While no projector is running, no events
// come; they come later, and none is lost.
package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Store is the part of a store that a Reader needs.
type Store interface {
	store.Feed
	Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error)
	Epoch(ctx context.Context) (string, error)
}

// Fixed limits.
const (
	// MaxRuns is the number of runs whose seq a Reader remembers. It forgets ended runs first, then those that it has
	// read longest ago. When a forgotten run changes again, the Reader reads its log from the beginning.
	MaxRuns = 1000
	// MaxEvents is the most events of one Batch.
	MaxEvents = store.MaxTail
	// maxAhead is the number of events that a Reader reads at once, of many runs.
	maxAhead = 2 * MaxEvents
)

// ErrCheckpoint says that a text is not a checkpoint of a Reader.
var ErrCheckpoint = errors.New("feed: checkpoint unreadable")

// Batch is events of one run, ascending and without a gap after the previous Batch of that run. Events may repeat;
// consumers recognise a repetition by EventID. Consumers must not change Events: other readers may have the same slice.
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
	source source
	epoch  string         // "" before the first page
	cursor string         // of the current page
	next   string         // of the page after it
	began  time.Time      // when the first page of the current pass was read; zero between passes
	page   []changed      // the rest of the current page
	ahead  []pendingBatch // what was read of the first runs of page
	last   bool           // the current page is the newest one
	reset  bool           // the next Batch must report the reset
	read   positions
}

// pendingBatch is events that are read and not yet returned.
type pendingBatch struct {
	changed
	events []run.Event
}

// NewReader returns a reader that continues after a checkpoint of a Reader with the same filter, or starts with the
// first event when checkpoint is "". The error is ErrCheckpoint when the checkpoint cannot be read.
func NewReader(s Store, f store.RunFilter, checkpoint string) (*Reader, error) {
	return newReader(direct{s, f}, checkpoint)
}

func newReader(s source, checkpoint string) (*Reader, error) {
	r := &Reader{source: s, cursor: store.FeedStart, read: newPositions(MaxRuns)}
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
		if len(r.ahead) > 0 {
			b := r.ahead[0]
			r.ahead = r.ahead[1:]
			r.read.set(b.runID, b.events[len(b.events)-1].Seq, b.ended)
			return r.stamp(Batch{RunID: b.runID, Events: b.events}), nil
		}
		if len(r.page) > 0 {
			if err := r.readEvents(ctx); err != nil {
				return Batch{}, err
			}
			continue
		}
		r.cursor = r.next
		if r.last {
			r.last, r.began = false, time.Time{}
			return r.stamp(Batch{}), nil
		}
		if err := r.readPage(ctx); err != nil {
			return Batch{}, err
		}
	}
}

// readEvents reads the next events of the first runs of the page at once, and removes these runs from the page. A run
// that has more events stays.
func (r *Reader) readEvents(ctx context.Context) error {
	var known []store.TailRequest
	events, n := run.Seq(0), 0
	for ; n < len(r.page) && len(known) < store.MaxTails && events < maxAhead; n++ {
		row := r.page[n]
		if seq := r.read.seqOf(row.runID); row.head > seq {
			known = append(known, store.TailRequest{RunID: row.runID, Seq: seq})
			events += min(row.head-seq, MaxEvents)
		}
	}
	tails := map[string][]run.Event{}
	if len(known) > 0 {
		var err error
		if tails, err = r.source.tails(ctx, r.epoch, known); err != nil {
			return err
		}
	}
	var rest []changed
	for _, row := range r.page[:n] {
		evs := tails[row.runID] // none when the log is shorter since a restore; the next page says so
		if len(evs) == 0 {
			continue
		}
		row.ended = row.ended || slices.ContainsFunc(evs, func(e run.Event) bool { return e.Type.EndsRun() })
		r.ahead = append(r.ahead, pendingBatch{row, evs})
		if evs[len(evs)-1].Seq < row.head {
			rest = append(rest, row)
		}
	}
	r.page = append(rest, r.page[n:]...)
	return nil
}

// readPage reads the next page of runs that changed. The source reads the epoch first. If the epoch changes between the
// two reads, the next call detects it and starts again from the beginning.
func (r *Reader) readPage(ctx context.Context) error {
	p, err := r.source.page(ctx, r.cursor, r.began)
	if err != nil {
		return err
	}
	if r.epoch != "" && p.epoch != r.epoch {
		r.reset, r.next, r.began, r.read = true, store.FeedStart, time.Time{}, newPositions(MaxRuns)
		r.epoch = p.epoch
		return nil
	}
	if r.began.IsZero() {
		r.began = p.at
	}
	r.epoch, r.page, r.next, r.last = p.epoch, p.rows, p.next, p.last
	return nil
}

// stamp sets Epoch and Reset of a Batch. Only the first Batch after a reset reports it.
func (r *Reader) stamp(b Batch) Batch {
	b.Epoch, b.Reset = r.epoch, r.reset
	r.reset = false
	return b
}
