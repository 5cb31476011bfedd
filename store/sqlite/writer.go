package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Bounds of a group, so that its first call does not wait long for its last.
const (
	maxGroup     = 256 // calls
	maxSet       = 64  // events of decisions that are made together
	maxGroupTime = 10 * time.Millisecond
	grace        = 30 * time.Microsecond // for the next of those who were just answered
)

// writer lets one call at a time write, and has calls that wait share a
// transaction and its commit. The call that finds the file free leads: it opens
// the transaction, does its own work, then that of everyone who waits by then,
// commits once and only then answers. Nobody waits for company, and a call that is
// alone goes through no other goroutine.
//
// There are two kinds of calls. Decisions that wait one behind the other are made
// together by the leader, by statements of many rows; when the file refuses
// something of theirs, all of it is taken back and each is made alone. Any other
// call does its work on its own goroutine under a savepoint, and what it did is
// rolled back alone. A panic is the caller's own in both. A context ends the
// waiting of its call, never the group: a call whose context is over before its
// turn is left out.
type writer struct {
	log     *slog.Logger
	open    func() (*conn, error)
	makeSet func(*conn, []*decision) error // of the store
	most    int                            // calls that may wait
	span    time.Duration                  // of a group

	mu     sync.Mutex
	queue  []*member
	busy   bool // somebody leads
	closed bool
	idle   chan struct{} // closed once the writer is closed and nobody leads

	// Of the leader alone.
	conn     *conn // nil after a failure that left it in doubt
	expected int   // calls that wait once those who were answered by the last group have come again

	waiting   atomic.Int32 // the length of queue
	pace      pace
	commits   atomic.Int64
	committed atomic.Int64 // when the last of them succeeded, in Unix nanoseconds of this machine
}

// member is a call that waits for its turn.
type member struct {
	decision *decision  // nil for a call that works on its own goroutine
	turn     chan turn  // one turn, the lead, or for a decision the answer
	done     chan error // what became of its work
	end      chan error // what became of the group
	// made is closed when nobody reads the decision any more; nil until its turn.
	// Guarded by the writer's mu.
	made chan struct{}
}

// turn tells a member what to do: to work on conn, to lead when there is none, or
// that it is over, because of err if it is not nil.
type turn struct {
	conn *conn
	over bool
	err  error
}

var (
	errClosed    = fmt.Errorf("sqlite: %w: closed", store.ErrUnavailable)
	errLost      = fmt.Errorf("sqlite: group: %w: its leader panicked", store.ErrUnavailable)
	errAbandoned = errors.New("sqlite: the work panicked")
)

func (s *Store) newWriter(o Options, open func() (*conn, error)) *writer {
	return &writer{log: o.Logger, open: open, makeSet: s.makeSet, most: o.Waiting, span: maxGroupTime,
		idle: make(chan struct{})}
}

// do runs f in a write transaction and returns when it is durable. An error of f
// rolls back what f did and comes back as it is. store.ErrOverloaded says that
// too many wait, store.ErrUnavailable that the group was lost.
func (w *writer) do(ctx context.Context, f func(*conn) error) error {
	m, err := w.enter(ctx, nil)
	if err != nil {
		return err
	}
	if m == nil {
		return w.lead(ctx, f, nil)
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
	case t.over:
		return t.err
	case t.conn == nil:
		return w.lead(ctx, f, nil)
	}
	return m.work(ctx, t.conn, f)
}

// decide has d made in a write transaction and returns when it is durable, with
// d's own error or those of do. Nobody else has d then.
func (w *writer) decide(ctx context.Context, d *decision) error {
	m, err := w.enter(ctx, d)
	if err != nil {
		return err
	}
	if m == nil {
		return d.outcome(w.lead(ctx, nil, d))
	}
	var t turn
	select {
	case t = <-m.turn:
	case <-ctx.Done():
		if w.leave(m) {
			return ctx.Err()
		}
		if m.made == nil { // it leads, or is refused
			t = <-m.turn
			break
		}
		<-m.made
		select {
		case t = <-m.turn:
		default:
			return ctx.Err()
		}
	}
	if !t.over {
		t.err = w.lead(ctx, nil, d)
	}
	return d.outcome(t.err)
}

// enter gives the caller the lead (no member) or a place in the queue.
func (w *writer) enter(ctx context.Context, d *decision) (*member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
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
	m := &member{decision: d, turn: make(chan turn, 1)}
	if d == nil {
		m.done, m.end = make(chan error, 1), make(chan error, 1)
	}
	w.queue = append(w.queue, m)
	w.waiting.Add(1)
	return m, nil
}

// leave takes m out of the queue; false says that its turn has come.
func (w *writer) leave(m *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, m)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		w.waiting.Add(-1)
	}
	return i >= 0
}

// next takes those whose turn it is: the decisions that fit into one set with
// those that are there, and the call behind them if it works itself.
func (w *writer) next(there []*decision, made chan struct{}) (decisions []*member, worker *member) {
	events := 0
	for _, d := range there {
		events += d.events()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		d := w.queue[0].decision
		if d == nil {
			return decisions, w.pop()
		}
		if events += d.events(); events > maxSet && events > d.events() {
			break
		}
		m := w.pop()
		m.made = made
		decisions = append(decisions, m)
	}
	return decisions, nil
}

func (w *writer) pop() *member {
	if len(w.queue) == 0 {
		return nil
	}
	m := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	w.waiting.Add(-1)
	return m
}

// refuse answers everyone who waits.
func (w *writer) refuse(err error) {
	for m := w.pop(); m != nil; m = w.pop() {
		m.turn <- turn{over: true, err: err}
	}
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
		w.mu.Lock()
		w.refuse(err)
		w.mu.Unlock()
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
	w.refuse(errClosed)
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
