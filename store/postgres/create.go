package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
	"github.com/dvt-engine/dvt/store/authority"
)

// errExists reports that the run id or the request exists.
var errExists = fmt.Errorf("run exists: %w", store.ErrConflict)

// errRefused reports that some runs of a transaction have errors and that nothing was written.
var errRefused = errors.New("some runs were refused")

// CreateRun implements store.Transactor. The store's clock sets CreatedAt. It returns store.ErrConflict if another
// request has the run id.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (store.Run, bool, error) {
	out, err := s.CreateRuns(ctx, []store.NewRun{n})
	if err != nil {
		return store.Run{}, false, err
	}
	return out[0].Run, out[0].Created, out[0].Err
}

// CreateRuns implements store.Creator. It takes two round trips, and a third one if a run has to wait. From the first
// round trip to the commit it holds the lock of all lanes.
//
// Before the commit no other transaction sees the heads. So package authority decides about the first events in Go, and
// they are inserted like those of Import.
func (s *Store) CreateRuns(ctx context.Context, runs []store.NewRun) ([]store.CreatedRun, error) {
	if len(runs) > store.MaxEntries {
		return nil, fmt.Errorf("postgres: %d runs to create, at most %d", len(runs), store.MaxEntries)
	}
	all := make([]*creation, len(runs))
	for i, n := range runs {
		n.Run.CreatedAt = time.Time{}
		all[i] = &creation{NewRun: n}
		all[i].first, all[i].err = authority.Prepare(n.Run.Identity, store.Append{RunID: n.Run.RunID, Events: n.Events})
	}
	if err := s.createAll(ctx, all); err != nil {
		return nil, err
	}
	out := make([]store.CreatedRun, len(runs))
	for i, c := range all {
		out[i] = s.creationResult(ctx, c)
	}
	return out, nil
}

// creationResult returns the result of c after the transaction. If the request exists, that is the run of the request.
func (s *Store) creationResult(ctx context.Context, c *creation) store.CreatedRun {
	switch {
	case c.err != nil:
		return store.CreatedRun{Err: fmt.Errorf("postgres: create run: %w", c.err)}
	case !c.exists:
		return store.CreatedRun{Run: c.Run, Created: true}
	case c.Run.RequestKey != "":
		if r, err := s.ByRequest(ctx, c.Run.RequestKey); !errors.Is(err, store.ErrNotFound) {
			return store.CreatedRun{Run: r, Err: err}
		}
	}
	return store.CreatedRun{Err: fmt.Errorf("postgres: create run: %w", errExists)}
}

// createAll writes the runs that have no error. A run that cannot be written gets its error, and the others are written
// without it. An error of createAll itself means that nothing was written, or that the outcome is unknown.
func (s *Store) createAll(ctx context.Context, all []*creation) error {
	for {
		open := slices.DeleteFunc(slices.Clone(all), func(c *creation) bool { return c.err != nil })
		if len(open) == 0 {
			return nil
		}
		err := s.do(ctx, "create run", func(ctx context.Context, conn *pgx.Conn) error { return create(ctx, conn, open) })
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errRefused):
			continue
		case len(open) == 1, errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrOverloaded), ctx.Err() != nil:
			return err
		}
		for _, c := range open { // the database refuses the data of one of them
			if err := s.createAll(ctx, []*creation{c}); err != nil {
				c.err = err
			}
		}
		return nil
	}
}

// creation is a run that is being created.
type creation struct {
	store.NewRun
	first authority.Batch // its events if it does not wait
	err   error           // why it cannot be written

	// The rest belongs to one try.
	exists  bool // another transaction wrote it or its request
	batch   authority.Batch
	written store.Loaded
	now     time.Time // the store's clock; if it has a queue row, read under the lock of the lanes
	arrival *arrival  // nil if it gets no queue row
}

// create writes the runs that do not exist yet, in one transaction. It returns errRefused if one of them cannot be
// written.
func create(ctx context.Context, conn *pgx.Conn, runs []*creation) error {
	t := &tx{conn: conn}
	queueBegin(&t.batch)
	queueHolds(&t.batch, runs)
	queueChainLocks(&t.batch, runs)
	if err := queueRuns(&t.batch, runs); err != nil {
		return err
	}
	queueRerunChecks(&t.batch, runs)
	var crowd admission.ArrivalBatch
	var arrivals []*arrival
	for _, c := range runs {
		c.err, c.batch = nil, c.first
		if c.Enqueue != nil {
			c.arrival = &arrival{id: c.Run.Identity, enqueue: *c.Enqueue}
			arrivals = append(arrivals, c.arrival)
		}
	}
	if len(arrivals) > 0 {
		queueArrivals(&t.batch, arrivals, &crowd)
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(runs, func(c *creation) bool { return c.err != nil }) {
		return errRefused
	}
	left := slices.DeleteFunc(slices.Clone(runs), func(c *creation) bool { return c.exists })
	if len(left) == 0 {
		return nil // the caller rolls back
	}
	if err := t.admitNew(ctx, left, &crowd); err != nil {
		return err
	}
	queuePlans(&t.batch, left)
	var rows newRows
	for _, c := range left {
		if err := rows.add(&t.batch, c); err != nil {
			return err
		}
	}
	rows.queue(&t.batch)
	var epoch string
	if slices.ContainsFunc(left, func(c *creation) bool { return c.Written != nil }) {
		t.batch.Queue(`SELECT ` + epochSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&epoch) })
	}
	t.batch.Queue(`commit`)
	if err := t.flush(ctx); err != nil {
		return err
	}
	for _, c := range left {
		c.report(epoch)
	}
	return nil
}

// report passes the committed rows to the callback Written.
func (c *creation) report(epoch string) {
	if c.Written == nil {
		return
	}
	w := store.Written{Loaded: c.written}
	w.Loaded.Epoch = epoch
	if c.arrival != nil {
		row := c.arrival.row()
		w.Queue = &row
	}
	c.Written(w)
}

// admitNew decides which runs get a slot, and queues their queue rows. A run that waits gets its events from its
// callback Wait.
func (t *tx) admitNew(ctx context.Context, runs []*creation, crowd *admission.ArrivalBatch) error {
	var arrivals []*arrival
	for _, c := range runs {
		if c.arrival == nil {
			continue
		}
		if c.err = c.arrival.judge(crowd, len(arrivals)); c.err == nil {
			arrivals = append(arrivals, c.arrival)
			c.now = c.arrival.at
		}
	}
	if queueRanks(&t.batch, arrivals) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	queueRows(&t.batch, arrivals)
	for _, c := range runs {
		if c.err == nil && c.arrival != nil && c.arrival.answer.Waiting && c.Wait != nil {
			var events []run.Draft
			if events, c.err = c.Wait(c.arrival.answer); c.err == nil {
				c.batch, c.err = authority.Prepare(c.Run.Identity, store.Append{RunID: c.Run.RunID, Events: events})
			}
		}
	}
	if slices.ContainsFunc(runs, func(c *creation) bool { return c.err != nil }) {
		return errRefused
	}
	return nil
}

// Import implements store.Log. The run keeps its CreatedAt, or gets that of its first event if it has none. Import
// returns store.ErrConflict if the run, its request or an event with the same position exists.
func (s *Store) Import(ctx context.Context, n store.NewRun, evs []run.Event) error {
	return s.do(ctx, "import", func(ctx context.Context, c *pgx.Conn) error {
		r := n.Run
		if r.CreatedAt.IsZero() && len(evs) > 0 {
			r.CreatedAt = evs[0].PersistedAt
		}
		made := &creation{NewRun: n}
		made.Run.CreatedAt = r.CreatedAt
		t := &tx{conn: c, id: r.Identity, alerts: &s.alertRoom}
		queueBegin(&t.batch)
		if err := queueRuns(&t.batch, []*creation{made}); err != nil {
			return err
		}
		if err := t.flush(ctx); err != nil {
			return err
		}
		if made.exists {
			return errExists
		}
		r.CreatedAt, t.now = made.Run.CreatedAt, made.now
		queuePlans(&t.batch, []*creation{made})
		t.batch.Queue(`INSERT INTO run_head (run_id) VALUES ($1)`, r.RunID)
		queueAudit(&t.batch, n.Audit)
		for page := range slices.Chunk(evs, store.MaxPage) {
			page = slices.Clone(page)
			for i := range page {
				page[i].RunID = r.RunID // the events may come from a run with another id
			}
			queueEvents(&t.batch, page)
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
		t.head = authority.HeadOfImport(r.RunID, evs)
		t.head.SignalNo = importReceipts(&t.batch, r.RunID, n.Receipts)
		queueAnnotations(&t.batch, r, n)
		h := t.head
		t.batch.Queue(`UPDATE run_head SET last_seq = $2, last_at = $3, terminal = $4, gate = $5, running = $6 WHERE run_id = $1`,
			r.RunID, h.LastSeq, h.LastAt, h.Terminal, h.Gate, h.Running)
		var rows newRows
		if _, err := rows.checkpoint(&t.batch, r, evs); err != nil {
			return err
		}
		rows.queue(&t.batch)
		return t.commit(ctx)
	})
}
