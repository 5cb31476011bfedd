package history

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Client is one actor: it calls a store and records its calls and their results. It is not safe for concurrent use.
type Client struct {
	journal *Journal
	actor   string
	store   store.Store
}

// Client returns the actor with this name. An actor that continues in another process keeps its name.
func (j *Journal) Client(actor string, s store.Store) *Client { return &Client{j, actor, s} }

// record writes the call to the journal, makes it, and writes its result.
func (c *Client) record(call Call, do func(*Return) error) error {
	call.Actor = c.actor
	r := Return{Call: c.journal.call(call), Effect: Done}
	err := do(&r)
	if err != nil {
		r.Error, r.Missing, r.Regressed = err.Error(), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrRegressed)
		r.Strange = strange(call.Kind, err)
		if r.Effect == Done {
			r.Effect = effectOf(err)
		}
	}
	c.journal.Write(Record{Return: &r})
	return err
}

// effectOf returns the conclusion that the contract permits from an error.
func effectOf(err error) Effect {
	for _, refused := range []error{run.ErrSchema, store.ErrNotFound, store.ErrConflict, store.ErrOverloaded,
		store.ErrRegressed, store.ErrSchema} {
		if errors.Is(err, refused) {
			return Nothing
		}
	}
	return Unknown
}

// strange reports whether err is an error that the contract does not permit for the calls of this package. Permitted
// are the loss of the store, refusals with a sentinel error, and the end of the caller's context.
func strange(kind Kind, err error) bool {
	if errors.Is(err, store.ErrConflict) {
		return kind != KindCreate && kind != KindTransact
	}
	if errors.Is(err, run.ErrSchema) || errors.Is(err, store.ErrSchema) {
		return true // every draft is valid
	}
	return effectOf(err) == Unknown && !errors.Is(err, store.ErrUnavailable) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// Append calls and records Log.Append.
func (c *Client) Append(ctx context.Context, a store.Append) (out store.Appended, err error) {
	err = c.record(Call{Kind: KindAppend, RunID: a.RunID, Entries: []Entry{{Append: &a}}}, func(r *Return) error {
		if out, err = c.store.Append(ctx, a); err == nil {
			r.Answers = []Answer{appendAnswer(out)}
		}
		return err
	})
	return out, err
}

// StartAttempt calls and records Log.StartAttempt.
func (c *Client) StartAttempt(ctx context.Context, b store.StartAttempt) (out store.AttemptStarted, err error) {
	err = c.record(Call{Kind: KindStartAttempt, RunID: b.RunID, Entries: []Entry{{Start: &b}}}, func(r *Return) error {
		if out, err = c.store.StartAttempt(ctx, b); err == nil {
			r.Answers = []Answer{startAnswer(out)}
		}
		return err
	})
	return out, err
}

// Batch calls and records Batcher.Batch. On a store without Batcher it makes one call for each entry.
func (c *Client) Batch(ctx context.Context, runID string, entries []store.Entry) error {
	batcher, ok := c.store.(store.Batcher)
	if !ok {
		return c.oneByOne(ctx, entries)
	}
	call := Call{Kind: KindBatch, RunID: runID}
	for _, e := range entries {
		call.Entries = append(call.Entries, Entry{e.Append, e.Start})
	}
	return c.record(call, func(r *Return) error {
		results, err := batcher.Batch(ctx, runID, entries)
		if err != nil {
			return err
		}
		for i, result := range results {
			var a Answer
			switch {
			case result.Err != nil:
				a = Answer{Effect: Nothing, Error: result.Err.Error()}
			case entries[i].Append != nil:
				a = appendAnswer(result.Appended)
			default:
				a = startAnswer(result.Started)
			}
			r.Answers = append(r.Answers, a)
		}
		return nil
	})
}

func (c *Client) oneByOne(ctx context.Context, entries []store.Entry) (err error) {
	for _, e := range entries {
		if e.Append != nil {
			_, err = c.Append(ctx, *e.Append)
		} else {
			_, err = c.StartAttempt(ctx, *e.Start)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Accept appends a and stores the receipt of an accepted signal in one InRun. It returns false if the run has ended or
// has the receipt already; then it wrote nothing.
func (c *Client) Accept(ctx context.Context, a store.Append, receipt run.SignalReceipt) (accepted bool, err error) {
	err = c.record(Call{Kind: KindTransact, RunID: a.RunID, Entries: []Entry{{Append: &a}}}, func(r *Return) error {
		var own error
		err := c.store.InRun(ctx, a.RunID, func(tx store.RunTx) error {
			r.Answers = nil
			if own = nil; tx.Head().Terminal {
				return nil
			}
			if _, own = tx.Receipt(ctx, receipt.Signal.ID); !errors.Is(own, store.ErrNotFound) {
				return own
			}
			var out store.Appended
			if out, own = tx.Append(ctx, a); own != nil {
				return own
			}
			receipt.AcceptedSeq = out.Outcomes[0].Seq
			if _, own = tx.PutReceipt(ctx, receipt, true); own != nil {
				return own
			}
			answer := appendAnswer(out)
			answer.Head = tx.Head()
			r.Answers = []Answer{answer}
			return nil
		})
		if err != nil {
			r.Answers = nil
		}
		switch {
		case own != nil: // an error of the function rolls back the transaction
			r.Effect = Nothing
		case err == nil && r.Answers == nil:
			r.Answers = []Answer{{Effect: Nothing, Error: "the run has ended or has the receipt already"}}
		}
		accepted = err == nil && r.Answers[0].Effect == Done
		return err
	})
	return accepted, err
}

// Create calls and records Transactor.CreateRun.
func (c *Client) Create(ctx context.Context, n store.NewRun) error {
	id := n.Run.Identity
	call := Call{Kind: KindCreate, RunID: id.RunID, Identity: &id,
		Entries: []Entry{{Append: &store.Append{RunID: id.RunID, Events: n.Events}}}}
	return c.record(call, func(r *Return) (err error) {
		_, r.Wrote, err = c.store.CreateRun(ctx, n)
		return err
	})
}

// Events calls and records Log.Events.
func (c *Client) Events(ctx context.Context, runID string, after run.Seq, limit int) (evs []run.Event, err error) {
	err = c.record(Call{Kind: KindEvents, RunID: runID, Seq: after, Limit: limit}, func(r *Return) error {
		evs, err = c.store.Events(ctx, runID, after, limit)
		r.Page = seeAll(evs)
		return err
	})
	return evs, err
}

// EventsBefore calls and records Log.EventsBefore.
func (c *Client) EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) error {
	return c.record(Call{Kind: KindBefore, RunID: runID, Seq: before, Limit: limit}, func(r *Return) error {
		evs, err := c.store.EventsBefore(ctx, runID, before, limit)
		r.Page = seeAll(evs)
		return err
	})
}

// Load calls and records States.Load.
func (c *Client) Load(ctx context.Context, runID string) (l store.Loaded, err error) {
	err = c.record(Call{Kind: KindLoad, RunID: runID}, func(r *Return) error {
		if l, err = c.store.Load(ctx, runID); err == nil {
			r.setLoaded(l, Fold{Of: OfState, Seq: l.State.Seq, Sum: digest(l.State)})
		}
		return err
	})
	return l, err
}

// Since calls and records States.Since.
func (c *Client) Since(ctx context.Context, runID string, w run.Seq) (to run.Seq, err error) {
	err = c.record(Call{Kind: KindSince, RunID: runID, Seq: w}, func(r *Return) error {
		l, d, err := c.store.Since(ctx, runID, w)
		if err == nil {
			to = d.To
			r.setLoaded(l, Fold{Of: OfDelta, From: d.From, Seq: d.To, Sum: digest(d)})
		}
		return err
	})
	return to, err
}

func (r *Return) setLoaded(l store.Loaded, f Fold) {
	f.RunID, f.Head = l.State.RunID, l.Head.LastSeq
	r.Epoch, r.Heads, r.Folds = l.Epoch, []store.Head{l.Head}, []Fold{f}
}

// Heads calls and records Log.Heads.
func (c *Client) Heads(ctx context.Context, runIDs []string) error {
	return c.record(Call{Kind: KindHeads, RunIDs: runIDs}, func(r *Return) error {
		h, err := c.store.Heads(ctx, runIDs)
		r.Epoch = h.Epoch
		for _, id := range runIDs {
			if head, known := h.ByRun[id]; known {
				r.Heads = append(r.Heads, head)
			}
		}
		return err
	})
}

// Save calls and records States.Save of a loaded state.
func (c *Client) Save(ctx context.Context, l store.Loaded) error {
	return c.record(Call{Kind: KindSave, RunID: l.State.RunID, Seq: l.State.Seq}, func(r *Return) (err error) {
		r.Wrote, err = c.store.Save(ctx, l.State, l.Changes)
		return err
	})
}

// ListChanged calls and records Feed.ListChanged.
func (c *Client) ListChanged(ctx context.Context, f store.RunFilter, cursor string) (rows []store.RunRow, next string,
	err error) {
	err = c.record(Call{Kind: KindChanged, Cursor: cursor, Limit: f.Limit}, func(r *Return) error {
		if rows, next, err = c.store.ListChanged(ctx, f, cursor); err != nil {
			return err
		}
		r.Next = next
		for _, row := range rows {
			r.Folds = append(r.Folds, Fold{Of: OfHeader, RunID: row.Header.RunID, Seq: row.Header.Seq, Head: row.Head,
				Sum: digest(row.Header)})
		}
		return nil
	})
	return rows, next, err
}

// Final reads a run completely and records it as the final content of the store.
func (c *Client) Final(ctx context.Context, runID string) error {
	facts, err := c.store.Get(ctx, runID)
	if err != nil {
		return err
	}
	log := Log{Identity: facts.Identity, CreatedAt: facts.CreatedAt, TriggeredBy: facts.TriggeredBy}
	heads, err := c.store.Heads(ctx, []string{runID})
	if err != nil {
		return err
	}
	log.Head = heads.ByRun[runID]
	for page, after := store.MaxPage, run.Seq(0); page == store.MaxPage; {
		evs, err := c.store.Events(ctx, runID, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, e := range evs {
			log.Events, after = append(log.Events, Event{Event: e, SignalID: e.SignalID}), e.Seq
		}
		page = len(evs)
	}
	for last := ""; ; {
		page, err := c.store.Receipts(ctx, runID, last, 200)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		log.Receipts, last = append(log.Receipts, page...), page[len(page)-1].Signal.ID
	}
	c.journal.Write(Record{Log: &log})
	return nil
}

func appendAnswer(out store.Appended) Answer {
	a := Answer{Effect: Done, Head: out.Head}
	for _, o := range out.Outcomes {
		a.Outcomes = append(a.Outcomes, Outcome{
			Seq: o.Seq, EventID: o.EventID, PersistedAt: o.PersistedAt, Deduplicated: o.Deduplicated,
			PayloadMismatch: o.PayloadMismatch, Refused: o.Refused, Existing: seenOrNil(o.Existing),
		})
	}
	return a
}

func startAnswer(out store.AttemptStarted) Answer {
	return Answer{Effect: Done, Head: out.Head, Verdict: out.Verdict, StartedSeq: out.StartedSeq,
		Terminal: seenOrNil(out.Terminal)}
}

func seenOrNil(e *run.Event) *Seen {
	if e == nil {
		return nil
	}
	s := see(*e)
	return &s
}

func seeAll(evs []run.Event) []Seen {
	out := make([]Seen, 0, len(evs))
	for _, e := range evs {
		out = append(out, see(e))
	}
	return out
}
