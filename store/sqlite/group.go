package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// group is one shared transaction, from the point of view of its leader.
type group struct {
	*writer
	start   time.Time
	calls   int       // the calls that had their turn
	written bool      // the transaction contains work
	joined  []*member // the callers that wait for the commit
}

// lead runs one group. Its first call is f or d, whichever is not nil.
func (w *writer) lead(ctx context.Context, f func(*conn) error, d *decision) (err error) {
	defer w.pass()
	w.awaitReturning()
	g := &group{writer: w, start: time.Now()}
	if err := w.begin(ctx); err != nil {
		return err
	}
	committed := false
	answer := errLost // the answer if the leader panics
	defer func() {
		if !committed {
			w.rollback()
		}
		g.end(answer)
	}()
	if f != nil {
		if answer = f(w.conn); answer != nil {
			return answer
		}
		g.calls, g.written = 1, true
	}
	if answer = g.gather(d); answer == nil {
		_, answer = w.conn.exec(ctx, "commit", `COMMIT`)
		w.commits.Add(1)
	}
	if committed = answer == nil; committed {
		w.committed.Store(time.Now().UnixNano())
	}
	w.pace.note(time.Since(g.start) / time.Duration(g.calls))
	return answer
}

// awaitReturning waits for the callers that the last group answered, as long as they keep arriving. Their next calls
// then share this group's commit. The wait is short compared with the time of a group. It does not wait if the last
// call was alone.
func (w *writer) awaitReturning() {
	returning := w.expected
	began := time.Now()
	for came, newest := 0, began; came < returning; {
		now := time.Now()
		if n := int(w.waiting.Load()); n > came {
			came, newest = n, now
		}
		if now.Sub(newest) > grace || now.Sub(began) > time.Duration(returning)*grace {
			return
		}
		runtime.Gosched()
	}
}

// end answers the callers that wait for the end of the group.
func (g *group) end(err error) {
	g.expected = 0
	if n := len(g.joined); n > 0 {
		g.expected = n + int(g.waiting.Load())
	}
	for _, m := range g.joined {
		if m.decision != nil {
			m.turn <- turn{over: true, err: err}
		} else {
			m.end <- err
		}
	}
}

// gather gives every waiting call its turn in the transaction. It starts with own, the decision of the leader, if that
// is not nil. An error means that the transaction is lost.
func (g *group) gather(own *decision) error {
	for own != nil || g.calls < maxGroup && time.Since(g.start) < g.span {
		var decisions []*decision
		if own != nil {
			decisions = append(decisions, own)
		}
		made := make(chan struct{})
		members, worker := g.next(decisions, made)
		for _, m := range members {
			decisions = append(decisions, m.decision)
		}
		if len(decisions) == 0 && worker == nil {
			return nil
		}
		own = nil
		g.joined = append(g.joined, members...)
		if err := g.decideTogether(decisions, made); err != nil {
			return err
		}
		if worker == nil {
			continue
		}
		if err := g.runMember(worker); err != nil {
			return err
		}
	}
	return nil
}

// decideTogether makes decisions as one set. If the set fails, it makes each decision alone, so that only the caller of
// the bad one gets the error.
func (g *group) decideTogether(decisions []*decision, made chan<- struct{}) error {
	defer close(made)
	if len(decisions) == 0 {
		return nil
	}
	g.calls += len(decisions)
	failure, err := g.trySet(decisions)
	if err != nil || failure == nil {
		return err
	}
	if len(decisions) == 1 {
		decisions[0].err = failure
		return nil
	}
	g.log.Warn("a group of appends failed; writing them one by one",
		slog.Int("appends", len(decisions)), slog.Any("error", failure))
	for _, d := range decisions {
		if d.err != nil {
			continue // it failed before anything was written
		}
		failure, err := g.trySet([]*decision{d})
		if err != nil {
			return err
		}
		d.err = cmp.Or(failure, d.err) // trySet sets d.err, too
	}
	return nil
}

// trySet makes decisions as one set. If it returns a failure, the set left nothing behind. An error means that the
// transaction is lost.
func (g *group) trySet(decisions []*decision) (failure, err error) {
	if !g.written { // the transaction is empty, so a new one costs nothing
		if failure = g.decideSet(g.conn, decisions); failure != nil {
			g.rollback()
			return failure, g.begin(context.Background())
		}
		g.written = true
		return nil, nil
	}
	return g.inSavepoint(func() error { return g.decideSet(g.conn, decisions) })
}

// runMember gives m its turn and waits until its work is done.
func (g *group) runMember(m *member) error {
	g.calls++
	began := false
	failure, err := g.inSavepoint(func() error {
		began = true
		m.turn <- turn{conn: g.conn}
		return <-m.done
	})
	switch {
	case !began:
		m.turn <- turn{over: true, err: err}
	case failure == nil:
		g.joined = append(g.joined, m)
		g.written = true
	}
	return err
}

// inSavepoint runs work in a savepoint. If it returns a failure, the work left nothing behind. An error means that the
// transaction is lost.
func (g *group) inSavepoint(work func() error) (failure, err error) {
	ctx := context.Background()
	if _, err := g.conn.exec(ctx, "savepoint", `SAVEPOINT member`); err != nil {
		return nil, err
	}
	if failure = work(); failure != nil {
		if _, err := g.conn.exec(ctx, "roll back", `ROLLBACK TO member`); err != nil {
			return failure, fmt.Errorf("sqlite: group: %w: %w, after %w", store.ErrUnavailable, err, failure)
		}
	}
	_, err = g.conn.exec(ctx, "release", `RELEASE member`)
	return failure, err
}
