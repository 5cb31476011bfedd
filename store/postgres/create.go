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

// errExists says that the run or its request is there already.
var errExists = fmt.Errorf("run exists: %w", store.ErrConflict)

// errRefused says that some runs of a transaction were refused, which have their errors, and that nothing was written.
var errRefused = errors.New("runs were refused")

// CreateRun implements store.Transactor. The store's clock sets CreatedAt.
// store.ErrConflict when the run id is taken by another request.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (store.Run, bool, error) {
	out, err := s.CreateRuns(ctx, []store.NewRun{n})
	if err != nil {
		return store.Run{}, false, err
	}
	return out[0].Run, out[0].Created, out[0].Err
}

// CreateRuns implements store.Creator. It takes two round trips, and one more when a run has to wait. All lanes are
// locked from within the first one to the commit.
//
// Nobody else sees the heads before the commit, so package authority decides about the first events here, and
// they are inserted as those of Import are.
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
		out[i] = s.created(ctx, c)
	}
	return out, nil
}

// created is the answer about one run after the transaction: of one that existed, the run that its request made.
func (s *Store) created(ctx context.Context, c *creation) store.CreatedRun {
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

// createAll writes the runs that have no error. A run that cannot be written gets its error, and the others are
// written without it. An error of the call means that nothing was written, or that nobody can say.
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
		for _, c := range open { // the database refuses what one of them carries
			if err := s.createAll(ctx, []*creation{c}); err != nil {
				c.err = err
			}
		}
		return nil
	}
}

// creation is a run that is being made.
type creation struct {
	store.NewRun
	first authority.Batch // its events, unless it has to wait
	err   error           // it cannot be written

	// Of one try:
	exists  bool // somebody else wrote it, or its request
	batch   authority.Batch
	written store.Loaded
	now     time.Time // the store's clock, under the lock of the lanes if it has a queue row
	asks    *arrival  // nil: it has no queue row
}

// create writes runs in one transaction, but for those that exist. errRefused when one of them cannot be written.
func create(ctx context.Context, conn *pgx.Conn, runs []*creation) error {
	t := &tx{conn: conn}
	queueBegin(&t.batch)
	if err := queueRuns(&t.batch, runs); err != nil {
		return err
	}
	var crowd admission.Crowd
	var asking []*arrival
	for _, c := range runs {
		c.err, c.batch = nil, c.first
		if c.Enqueue != nil {
			c.asks = &arrival{id: c.Run.Identity, enqueue: *c.Enqueue}
			asking = append(asking, c.asks)
		}
	}
	if len(asking) > 0 {
		queueArrivals(&t.batch, asking, &crowd)
	}
	if err := t.flush(ctx); err != nil {
		return err
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
		c.tell(epoch)
	}
	return nil
}

// tell gives the caller what was committed.
func (c *creation) tell(epoch string) {
	if c.Written == nil {
		return
	}
	w := store.Written{Loaded: c.written}
	w.Loaded.Epoch = epoch
	if c.asks != nil {
		row := c.asks.row()
		w.Queue = &row
	}
	c.Written(w)
}

// admitNew decides about the runs that ask for a place, and queues their rows. A run that waits gets its events from
// Wait.
func (t *tx) admitNew(ctx context.Context, runs []*creation, crowd *admission.Crowd) error {
	var asking []*arrival
	for _, c := range runs {
		if c.asks == nil {
			continue
		}
		if c.err = c.asks.judge(crowd, len(asking)); c.err == nil {
			asking = append(asking, c.asks)
			c.now = c.asks.at
		}
	}
	if queueRanks(&t.batch, asking) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	queueRows(&t.batch, asking)
	for _, c := range runs {
		if c.err == nil && c.asks != nil && c.asks.told.Waiting && c.Wait != nil {
			var events []run.Draft
			if events, c.err = c.Wait(c.asks.told); c.err == nil {
				c.batch, c.err = authority.Prepare(c.Run.Identity, store.Append{RunID: c.Run.RunID, Events: events})
			}
		}
	}
	if slices.ContainsFunc(runs, func(c *creation) bool { return c.err != nil }) {
		return errRefused
	}
	return nil
}

// Import implements store.Log. The run keeps a CreatedAt that is given, else it
// has that of its first event.
// store.ErrConflict when the run, its request or one of the places exists.
func (s *Store) Import(ctx context.Context, n store.NewRun, evs []run.Event) error {
	return s.do(ctx, "import", func(ctx context.Context, c *pgx.Conn) error {
		r := n.Run
		if r.CreatedAt.IsZero() && len(evs) > 0 {
			r.CreatedAt = evs[0].PersistedAt
		}
		made := &creation{NewRun: n}
		made.Run.CreatedAt = r.CreatedAt
		t := &tx{conn: c, id: r.Identity}
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
				page[i].RunID = r.RunID // whatever run they had elsewhere
			}
			queueEvents(&t.batch, page)
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
		t.head = authority.Imported(r.RunID, evs)
		t.head.SignalNo = importReceipts(&t.batch, r.RunID, n.Receipts)
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
