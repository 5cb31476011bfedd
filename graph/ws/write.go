package ws

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// outlet writes the frames of one socket, each whole before the next. Who offers
// never waits; who sends waits for its turn and for the peer, within the timeout.
type outlet struct {
	net     net.Conn
	now     func() time.Time
	timeout time.Duration
	// failed is told once that the socket takes nothing more; slow says that the peer
	// did not read in time.
	failed func(slow bool)

	raw     syscall.RawConn // nil: nothing can be written without waiting
	attempt func(fd uintptr) bool

	mu       sync.Mutex
	pending  []byte       // what attempt is to write, and then what it did not
	err      error        // of attempt
	flushing bool         // somebody waits for the peer
	senders  int          // who wait for their turn
	turn     sync.Cond    // of senders
	refused  []*operation // whose offers were, since
	shut     bool         // a close frame was written, or writing failed
}

func (o *outlet) open(conn net.Conn, now func() time.Time, timeout time.Duration, failed func(slow bool)) {
	o.net, o.now, o.timeout, o.failed = conn, now, timeout, failed
	o.turn.L = &o.mu
	o.raw = rawConn(conn)
	o.attempt = o.writeOnce
}

// offer writes a frame of op unless earlier ones are still on their way: then it
// returns false, and op is told when there is room again. What the kernel does not
// take at once is finished by a goroutine.
func (o *outlet) offer(frame []byte, op *operation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.shut || op.over:
		return true // to nobody
	case o.flushing || o.senders > 0:
		o.refused = append(o.refused, op)
		return false
	}
	if rest := o.try(frame); len(rest) > 0 {
		o.flushing = true
		rest = bytes.Clone(rest)
		go func() { o.flush(rest) }()
	}
	return true
}

// send writes a frame; false when the peer did not take it or nobody is to get it.
// op is whose frame it is, nil for the socket's own.
func (o *outlet) send(frame []byte, op *operation) bool { return o.write(frame, op, false) }

// close writes the last frame.
func (o *outlet) close(frame []byte) { o.write(frame, nil, true) }

func (o *outlet) write(frame []byte, op *operation, last bool) bool {
	o.mu.Lock()
	o.senders++
	for o.flushing && !o.shut {
		o.turn.Wait()
	}
	o.senders--
	if o.shut || op != nil && op.over {
		o.release()
		return false
	}
	rest := o.try(frame)
	o.shut = o.shut || last
	if len(rest) == 0 {
		ok := !o.shut || last
		o.release()
		return ok
	}
	o.flushing = true
	o.mu.Unlock()
	return o.flush(rest)
}

// try writes what the kernel takes now and returns the rest. The lock is held.
func (o *outlet) try(frame []byte) []byte {
	if o.raw == nil {
		return frame
	}
	o.pending, o.err = frame, nil
	err := o.raw.Write(o.attempt)
	rest := o.pending
	o.pending = nil
	if err = errors.Join(err, o.err); err != nil {
		o.fail(err)
		return nil
	}
	return rest
}

// flush writes the rest of a frame, for the caller that set flushing.
func (o *outlet) flush(rest []byte) bool {
	_ = o.net.SetWriteDeadline(o.now().Add(o.timeout))
	_, err := o.net.Write(rest)
	_ = o.net.SetWriteDeadline(time.Time{}) // an expired one would fail what is offered
	o.mu.Lock()
	o.flushing = false
	if err != nil {
		o.fail(err)
	}
	o.release()
	return err == nil
}

// fail ends all writing. The lock is held.
func (o *outlet) fail(err error) {
	o.shut = true
	go o.failed(errors.Is(err, os.ErrDeadlineExceeded))
}

// release gives up the lock and passes on the turn: to senders before those whose
// offers were refused, or a fast group would keep them waiting.
func (o *outlet) release() {
	var refused []*operation
	switch {
	case o.shut:
		o.refused = nil
		o.turn.Broadcast()
	case o.flushing:
	case o.senders > 0:
		o.turn.Signal()
	default:
		refused, o.refused = o.refused, nil
	}
	o.mu.Unlock()
	for _, op := range refused {
		op.ready()
	}
}

// silence makes sure that nothing more is written for op.
func (o *outlet) silence(op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op.over = true
}
