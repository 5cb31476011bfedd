package feed

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// source is where a Reader reads: the store, or what another Reader of the process read from it shortly before.
type source interface {
	// page reads the page of changed runs at a cursor. began is when the first page of the pass was read; zero for that
	// page itself.
	page(ctx context.Context, cursor string, began time.Time) (page, error)
	// tails reads the next events after known seqs, by run: at least one of each run that has one, at most MaxEvents.
	tails(ctx context.Context, epoch string, known []store.TailRequest) (map[string][]run.Event, error)
}

// page is a page of changed runs.
type page struct {
	epoch string
	at    time.Time // before it was read
	rows  []changed
	next  string // the cursor after it
	last  bool   // it ends a pass
}

// changed is a run that changed, with its head when the page was read.
type changed struct {
	runID string
	head  run.Seq
	ended bool
}

// direct is the store itself.
type direct struct {
	store  Store
	filter store.RunFilter
}

func (d direct) page(ctx context.Context, cursor string, _ time.Time) (page, error) {
	p := page{at: time.Now()}
	var err error
	if p.epoch, err = d.store.Epoch(ctx); err != nil {
		return page{}, err
	}
	rows, next, err := d.store.ListChanged(ctx, d.filter, cursor)
	if err != nil {
		return page{}, err
	}
	limit := d.filter.Limit
	if limit <= 0 || limit > store.MaxPage {
		limit = store.MaxPage
	}
	p.rows, p.next, p.last = make([]changed, len(rows)), next, len(rows) < limit
	for i, row := range rows {
		p.rows[i] = changed{row.Header.RunID, row.Head, row.Header.RunStatus().Terminal()}
	}
	return p, nil
}

func (d direct) tails(ctx context.Context, _ string, known []store.TailRequest) (map[string][]run.Event, error) {
	tails, err := d.store.Tails(ctx, known)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]run.Event, len(tails.ByRun))
	for id, t := range tails.ByRun {
		out[id] = t.Events
	}
	return out, nil
}
