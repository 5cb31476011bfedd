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

// group is the transaction of one lead.
type group struct {
	*writer
	start   time.Time
	calls   int       // that had their turn
	written bool      // there is work in it
	joined  []*member // those who wait for its end
}

// lead runs one group, beginning with f or d.
func (w *writer) lead(ctx context.Context, f func(*conn) error, d *decision) (err error) {
	defer w.pass()
	w.expect()
	g := &group{writer: w, start: time.Now()}
	if err := w.begin(ctx); err != nil {
		return err
	}
	committed := false
	answer := errLost // unless it comes to an end
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

// expect lets those come who were just answered, for as long as they come one after
// the other: a moment that is short beside what a group takes. After a call that was
// alone there is nobody.
func (w *writer) expect() {
	most := w.expected
	began := time.Now()
	for came, newest := 0, began; came < most; {
		now := time.Now()
		if n := int(w.waiting.Load()); n > came {
			came, newest = n, now
		}
		if now.Sub(newest) > grace || now.Sub(began) > time.Duration(most)*grace {
			return
		}
		runtime.Gosched()
	}
}

// end answers those who wait for the end of the group.
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

// gather gives everyone who waits a turn in the transaction, after the leader's
// own decision if there is one. An error says that the transaction is lost.
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
		if err := g.together(decisions, made); err != nil {
			return err
		}
		if worker == nil {
			continue
		}
		if err := g.let(worker); err != nil {
			return err
		}
	}
	return nil
}

// together makes decisions as one set. When that fails each is made alone, so
// that what the file refuses is refused to its caller alone.
func (g *group) together(decisions []*decision, made chan<- struct{}) error {
	defer close(made)
	if len(decisions) == 0 {
		return nil
	}
	g.calls += len(decisions)
	failure, err := g.attempt(decisions)
	if err != nil || failure == nil {
		return err
	}
	if len(decisions) == 1 {
		decisions[0].err = failure
		return nil
	}
	g.log.Warn("appends that were to be written together failed and are written one by one",
		slog.Int("appends", len(decisions)), slog.Any("error", failure))
	for _, d := range decisions {
		if d.err != nil {
			continue // it was refused before anything was written
		}
		failure, err := g.attempt([]*decision{d})
		if err != nil {
			return err
		}
		d.err = cmp.Or(failure, d.err) // which the attempt sets, too
	}
	return nil
}

// attempt makes a set. Its failure left nothing behind; an error says that the
// transaction is lost.
func (g *group) attempt(decisions []*decision) (failure, err error) {
	if !g.written { // nothing is lost by starting anew
		if failure = g.makeSet(g.conn, decisions); failure != nil {
			g.rollback()
			return failure, g.begin(context.Background())
		}
		g.written = true
		return nil, nil
	}
	return g.apart(func() error { return g.makeSet(g.conn, decisions) })
}

// let gives a call its turn.
func (g *group) let(m *member) error {
	g.calls++
	began := false
	failure, err := g.apart(func() error {
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

// apart runs work under a savepoint. Its failure left nothing behind; an error
// says that the transaction is lost.
func (g *group) apart(work func() error) (failure, err error) {
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
