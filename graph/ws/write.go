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

// frameWriter writes the frames of one socket, each completely before the next. offer never blocks. send blocks until
// earlier frames are written and the peer has taken this one, at most for the timeout.
type frameWriter struct {
	net     net.Conn
	now     func() time.Time
	timeout time.Duration
	// failed is called once, in a goroutine of its own, after a write has failed. slow means that the peer did not read
	// within the timeout.
	failed func(slow bool)

	raw     syscall.RawConn // nil if the connection has no non-blocking write
	attempt func(fd uintptr) bool

	mu       sync.Mutex
	pending  []byte       // input of attempt, then the part that it did not write
	err      error        // result of attempt
	flushing bool         // a goroutine waits for the peer to read
	senders  int          // calls of send that wait for flushing to end
	turn     sync.Cond    // wakes senders
	refused  []*operation // their offers were refused; release notifies them
	closed   bool         // a close frame was written, or a write failed
}

func (o *frameWriter) open(conn net.Conn, now func() time.Time, timeout time.Duration, failed func(slow bool)) {
	o.net, o.now, o.timeout, o.failed = conn, now, timeout, failed
	o.turn.L = &o.mu
	o.raw = rawConn(conn)
	o.attempt = o.writeOnce
}

// offer writes a frame of op without blocking. If an earlier frame is still being written it returns false and calls
// op.ready later. If the kernel accepts only a part of the frame, a goroutine writes the rest.
func (o *frameWriter) offer(frame []byte, op *operation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed || op.completed:
		return true // discarded, because nobody may receive it
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

// send writes a frame and blocks meanwhile. It returns false when the write failed, the socket is closed or the client
// has completed op. op is nil for a frame that belongs to no operation.
func (o *frameWriter) send(frame []byte, op *operation) bool { return o.write(frame, op, false) }

// close writes the last frame; later frames are discarded.
func (o *frameWriter) close(frame []byte) { o.write(frame, nil, true) }

func (o *frameWriter) write(frame []byte, op *operation, last bool) bool {
	o.mu.Lock()
	o.senders++
	for o.flushing && !o.closed {
		o.turn.Wait()
	}
	o.senders--
	if o.closed || op != nil && op.completed {
		o.release()
		return false
	}
	rest := o.try(frame)
	o.closed = o.closed || last
	if len(rest) == 0 {
		ok := !o.closed || last
		o.release()
		return ok
	}
	o.flushing = true
	o.mu.Unlock()
	return o.flush(rest)
}

// try writes as much as the kernel accepts now and returns the rest. The caller holds o.mu.
func (o *frameWriter) try(frame []byte) []byte {
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

// flush writes the rest of a frame and blocks meanwhile. The caller has set flushing.
func (o *frameWriter) flush(rest []byte) bool {
	_ = o.net.SetWriteDeadline(o.now().Add(o.timeout))
	_, err := o.net.Write(rest)
	_ = o.net.SetWriteDeadline(time.Time{}) // otherwise a later offer would fail with the expired deadline
	o.mu.Lock()
	o.flushing = false
	if err != nil {
		o.fail(err)
	}
	o.release()
	return err == nil
}

// fail ends all writing. The caller holds o.mu.
func (o *frameWriter) fail(err error) {
	o.closed = true
	go o.failed(errors.Is(err, os.ErrDeadlineExceeded))
}

// release unlocks o.mu and lets the next writer proceed: first the senders, then the operations whose offers were
// refused. In the other order a fast group could starve the senders.
func (o *frameWriter) release() {
	var refused []*operation
	switch {
	case o.closed:
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

// mute discards all later frames of op.
func (o *frameWriter) mute(op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op.completed = true
}
