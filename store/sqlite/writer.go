package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Bounds of a group, so that its first call does not wait long for its last.
const (
	maxGroup     = 256
	maxGroupTime = 10 * time.Millisecond
)

// writer lets one call at a time write, and has calls that wait share a
// transaction and its commit. The call that finds the file free leads: it opens
// the transaction, does its own work, gives everyone who waits by then a turn
// under a savepoint of their own, commits once and only then answers. Nobody
// waits for company, and a call that is alone goes through no other goroutine.
//
// Every call does its work on its own goroutine, so its panic is its own, and
// what it did is rolled back alone. Its context ends its waiting, never the
// group: a call whose context is over before its turn is left out.
type writer struct {
	open func() (*conn, error)
	most int           // calls that may wait
	span time.Duration // of a group

	mu     sync.Mutex
	queue  []*member
	busy   bool // somebody leads
	closed bool
	idle   chan struct{} // closed once the writer is closed and nobody leads

	// Of the leader alone.
	conn *conn // nil after a failure that left it in doubt

	pace    pace
	commits atomic.Int64
}

// member is a call that waits for its turn.
type member struct {
	turn chan turn  // one turn, or the lead
	done chan error // what became of its work
	end  chan error // what became of the group
}

// turn tells a member what to do: to work on conn, to lead when there is none, or
// to give up because of err.
type turn struct {
	conn *conn
	err  error
}

var (
	errClosed    = fmt.Errorf("sqlite: %w: closed", store.ErrUnavailable)
	errAbandoned = errors.New("sqlite: the work panicked")
)

func newWriter(most int, open func() (*conn, error)) *writer {
	return &writer{open: open, most: most, span: maxGroupTime, idle: make(chan struct{})}
}

// do runs f in a write transaction and returns when it is durable. An error of f
// rolls back what f did and comes back as it is. store.ErrOverloaded says that
// too many wait, store.ErrUnavailable that the group was lost.
func (w *writer) do(ctx context.Context, f func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := w.enter()
	if err != nil {
		return err
	}
	if m == nil {
		return w.lead(ctx, f)
	}
	var t turn
	select {
	case t = <-m.turn:
	case <-ctx.Done():
		if w.leave(m) {
			return ctx.Err()
		}
		t = <-m.turn
	}
	switch {
	case t.err != nil:
		return t.err
	case t.conn == nil:
		return w.lead(ctx, f)
	}
	return m.work(ctx, t.conn, f)
}

// enter gives the caller the lead (no member) or a place in the queue.
func (w *writer) enter() (*member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, errClosed
	case !w.busy:
		w.busy = true
		return nil, nil
	case len(w.queue) >= w.most:
		return nil, w.pace.refuse(len(w.queue))
	}
	m := &member{turn: make(chan turn, 1), done: make(chan error, 1), end: make(chan error, 1)}
	w.queue = append(w.queue, m)
	return m, nil
}

// leave takes m out of the queue; false says that its turn has come.
func (w *writer) leave(m *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, m)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	return i >= 0
}

// next takes the first of the queue, nil when nobody waits.
func (w *writer) next() *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pop()
}

func (w *writer) pop() *member {
	if len(w.queue) == 0 {
		return nil
	}
	m := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return m
}

// pass ends a lead.
func (w *writer) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.pop(); m != nil {
		m.turn <- turn{}
		return
	}
	w.busy = false
	if w.closed {
		close(w.idle)
	}
}

// lead runs one group, beginning with f.
func (w *writer) lead(ctx context.Context, f func(*conn) error) error {
	defer w.pass()
	start := time.Now()
	if err := w.begin(ctx); err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			w.rollback()
		}
	}()
	if err := f(w.conn); err != nil {
		return err
	}
	joined, err := w.gather(start)
	if err == nil {
		_, err = w.conn.exec(ctx, "commit", `COMMIT`)
		w.commits.Add(1)
	}
	committed = err == nil
	for _, m := range joined {
		m.end <- err
	}
	w.pace.note(time.Since(start) / time.Duration(1+len(joined)))
	return err
}

// begin opens the transaction. When the file cannot be had, those who wait for it
// now cannot have it either.
func (w *writer) begin(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.conn == nil {
		w.conn, err = w.open()
	}
	if err == nil {
		_, err = w.conn.execInterruptible(ctx, "begin", `BEGIN IMMEDIATE`)
		if err != nil {
			w.rollback() // an interrupt may have come too late
		}
	}
	if errors.Is(err, store.ErrUnavailable) {
		for m := w.next(); m != nil; m = w.next() {
			m.turn <- turn{err: err}
		}
	}
	return err
}

// rollback ends the transaction, if SQLite has not. A connection that answers
// nothing good is given up.
func (w *writer) rollback() {
	if w.conn == nil {
		return
	}
	if _, err := w.conn.exec(context.Background(), "rollback", `ROLLBACK`); err != nil {
		_ = w.conn.close() // nothing of it is needed any more
		w.conn = nil
	}
}

// gather gives everyone who waits a turn in the transaction. The answer is those
// whose work is part of it; an error says that SQLite gave the transaction up.
func (w *writer) gather(start time.Time) (joined []*member, err error) {
	ctx := context.Background()
	for n := 1; n < maxGroup && time.Since(start) < w.span; n++ {
		m := w.next()
		if m == nil {
			runtime.Gosched() // who was just answered may be about to come again
			if m = w.next(); m == nil {
				return joined, nil
			}
		}
		if _, err := w.conn.exec(ctx, "savepoint", `SAVEPOINT member`); err != nil {
			m.turn <- turn{err: err}
			return joined, err
		}
		m.turn <- turn{conn: w.conn}
		failure := <-m.done
		if failure != nil {
			if _, err := w.conn.exec(ctx, "roll back", `ROLLBACK TO member`); err != nil {
				return joined, fmt.Errorf("sqlite: group: %w: %w, after %w", store.ErrUnavailable, err, failure)
			}
		} else {
			joined = append(joined, m)
		}
		if _, err := w.conn.exec(ctx, "release", `RELEASE member`); err != nil {
			return joined, err
		}
	}
	return joined, nil
}

// work is the turn of a member in the group of another.
func (m *member) work(ctx context.Context, c *conn, f func(*conn) error) error {
	if err := m.run(ctx, c, f); err != nil {
		return err
	}
	select {
	case err := <-m.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *member) run(ctx context.Context, c *conn, f func(*conn) error) (err error) {
	outcome := errAbandoned
	defer func() { m.done <- outcome }()
	if err = ctx.Err(); err == nil {
		err = f(c)
	}
	outcome = err
	return err
}

// close refuses everyone who waits, lets the group in hand end, and closes the
// connection.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	for m := w.pop(); m != nil; m = w.pop() {
		m.turn <- turn{err: errClosed}
	}
	if !w.busy {
		close(w.idle)
	}
	w.mu.Unlock()
	<-w.idle
	if w.conn == nil {
		return nil
	}
	return w.conn.close()
}

// pace is how long one call takes lately, for those who are told to come back.
type pace struct{ ns atomic.Int64 }

func (p *pace) note(took time.Duration) {
	old := p.ns.Load()
	p.ns.Store(old + (int64(took)-old)/8)
}

// refuse is the answer to a call that would be the ahead-th to wait.
func (p *pace) refuse(ahead int) error {
	return &store.OverloadedError{RetryAfter: max(time.Millisecond, time.Duration(p.ns.Load())*time.Duration(ahead))}
}
