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

// Bounds of a group, so that its first call does not wait long for its last one.
const (
	maxGroup     = 256 // calls
	maxSet       = 64  // events of one set of decisions
	maxGroupTime = 10 * time.Millisecond
	grace        = 30 * time.Microsecond // wait for the next call of a caller that was just answered
)

// writer lets one call at a time write, and lets waiting calls share a transaction and its commit. A call that finds
// the writer free becomes the leader: it opens the transaction, does its own work and then that of all calls that wait
// by then, commits once, and only then answers them. A call that is alone uses no other goroutine.
//
// There are two kinds of calls. The leader makes decisions that wait one behind the other together, by statements with
// many rows; if the database refuses one, it rolls all of them back and makes each one alone. Any other call does its
// work on its own goroutine in a savepoint, so that only its own work is rolled back if it fails.
//
// A panic reaches only the caller whose work panicked. A context ends the wait of its call, never the group. A call
// whose context ends before its turn is left out.
type writer struct {
	log        *slog.Logger
	open       func() (*conn, error)
	decideSet  func(*conn, []*decision) error // Store.decideSet
	maxWaiting int                            // the most calls that may wait
	span       time.Duration                  // the longest duration of a group

	mu     sync.Mutex
	queue  []*member
	busy   bool // a call leads
	closed bool
	idle   chan struct{} // closed when the writer is closed and no call leads

	// Only the leader uses these.
	conn     *conn // nil after a failure that left its state unknown
	expected int   // calls that will wait when the callers of the last group have returned

	waiting   atomic.Int32 // the length of queue
	pace      pace
	commits   atomic.Int64
	committed atomic.Int64 // time of the last successful commit, in Unix nanoseconds
}

// member is a call that waits for its turn.
type member struct {
	decision *decision  // nil for a call that works on its own goroutine
	turn     chan turn  // receives one turn, the lead, or the result of a decision
	done     chan error // receives the result of its work
	end      chan error // receives the result of the group
	// made is closed when the leader no longer uses the decision. It is nil before the turn. The writer's mu guards it.
	made chan struct{}
}

// turn tells a member what to do. If over is true, the member is done, with the error err. If conn is nil, it becomes
// the leader. Otherwise it works on conn.
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
	return &writer{log: o.Logger, open: open, decideSet: s.decideSet, maxWaiting: o.Waiting, span: maxGroupTime,
		idle: make(chan struct{})}
}

// do runs f in a write transaction and returns when it is durable. It rolls back the work of f if f fails, and returns
// that error unchanged. It returns a *store.OverloadedError if too many calls wait, and store.ErrUnavailable if the
// group was lost.
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

// decide makes d in a write transaction and returns when it is durable, with the error of d or one of those of do.
// After it returns, no other goroutine uses d.
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
		if m.made == nil { // it becomes the leader, or is refused
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

// enter makes the caller the leader (nil member) or puts it into the queue.
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
	case len(w.queue) >= w.maxWaiting:
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

// leave removes m from the queue. It returns false if the turn of m has come.
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

// next removes the next calls from the queue: the decisions that fit into one set with those in first, and the call
// behind them if it is not a decision.
func (w *writer) next(first []*decision, made chan struct{}) (decisions []*member, worker *member) {
	events := 0
	for _, d := range first {
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

// refuse answers all waiting calls with err.
func (w *writer) refuse(err error) {
	for m := w.pop(); m != nil; m = w.pop() {
		m.turn <- turn{over: true, err: err}
	}
}

// pass ends the lead. The first waiting call becomes the leader.
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

// begin opens the transaction. If the database is unavailable, it refuses all waiting calls, too, because they would
// fail the same way.
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
			w.rollback() // the interrupt may have come after BEGIN succeeded
		}
	}
	if errors.Is(err, store.ErrUnavailable) {
		w.mu.Lock()
		w.refuse(err)
		w.mu.Unlock()
	}
	return err
}

// rollback ends the transaction if SQLite has not done so. If that fails, it closes the connection.
func (w *writer) rollback() {
	if w.conn == nil {
		return
	}
	if _, err := w.conn.exec(context.Background(), "rollback", `ROLLBACK`); err != nil {
		_ = w.conn.close() // the connection is not used again
		w.conn = nil
	}
}

// work runs f as a member of another call's group, and waits for the end of the group.
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

// close refuses all waiting calls, waits for the running group, and closes the connection.
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

// pace is the moving average of the duration of a call. Refused callers get it as a hint when to retry.
type pace struct{ ns atomic.Int64 }

func (p *pace) note(took time.Duration) {
	old := p.ns.Load()
	p.ns.Store(old + (int64(took)-old)/8)
}

// refuse returns the error of a call that would have ahead calls before it.
func (p *pace) refuse(ahead int) error {
	return &store.OverloadedError{RetryAfter: max(time.Millisecond, time.Duration(p.ns.Load())*time.Duration(ahead))}
}
