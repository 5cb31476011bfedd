package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// maxPending frames wait for a viewer: the changes of the sync state and the newest state. When there are more, or
// when the viewer takes none for maxWaiting, only the newest remains, with the reason SLOW_CONSUMER if it has none of
// its own.
const (
	maxPending = 8
	maxWaiting = time.Second
)

// waiting is a frame that the viewer has not taken.
type waiting struct {
	Frame
	at time.Time // when it became the newest frame of its kind
}

// Stream is one viewer of a run. Only one goroutine may call Next; Close is safe for concurrent use.
type Stream struct {
	hub   *Hub
	entry *entry
	wake  chan struct{}
	timer *time.Timer // used only by the reader

	mu        sync.Mutex
	pending   []waiting
	err       error
	conflated int64
	closed    bool
	showing   Sync      // sync state of the last frame returned; "" before the first and when closed
	shown     run.Seq   // position of the state that the viewer has
	last      time.Time // when the last frame was returned
	fresh     bool      // the last frame was neither quiet nor the first
}

// push queues a frame without blocking. A frame replaces a waiting one of equal sync state and reason. Changes of the
// sync state are kept.
func (s *Stream) push(f Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.pending)
	switch {
	case n > 0 && s.pending[n-1].Sync == f.Sync && s.pending[n-1].Reason == f.Reason && !f.Reset:
		f.Changed = f.Changed || s.pending[n-1].Changed
		f.Reset = s.pending[n-1].Reset
		s.pending[n-1] = waiting{f, time.Now()}
		s.countConflated(1)
	case n == maxPending:
		s.pending = append(s.pending, waiting{f, time.Now()})
		s.collapse()
	default:
		s.pending = append(s.pending, waiting{f, time.Now()})
	}
	s.ring()
}

// collapse keeps only the newest frame and merges the Changed and Reset marks of the others into it. The caller holds
// s.mu.
func (s *Stream) collapse() {
	n := len(s.pending) - 1
	last := s.pending[n]
	for _, old := range s.pending[:n] {
		last.Changed, last.Reset = last.Changed || old.Changed, last.Reset || old.Reset
	}
	if last.Reason == "" {
		last.Reason = SlowConsumer
	}
	clear(s.pending)
	s.pending = append(s.pending[:0], last)
	s.countConflated(n)
}

func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.ring()
}

func (s *Stream) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// countConflated counts frames that no viewer will see. The caller holds s.mu.
func (s *Stream) countConflated(n int) {
	s.conflated += int64(n)
	s.hub.metrics.conflated.Add(float64(n))
}

// Next waits for the next frame, at most KeepAlive after the last one. A quiet frame repeats the state and says how
// fresh it is (contract O9). When the stream has ended it returns ErrShutdown, ErrNotFound, ErrClosed or ctx's error.
func (s *Stream) Next(ctx context.Context) (Frame, error) {
	for armed := false; ; {
		if f, ok, err := s.pop(); ok || err != nil {
			return f, err
		}
		if !armed {
			s.arm()
			armed = true
		}
		select {
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		case <-s.wake:
		case <-s.timer.C:
			if f, ok := s.repeat(); ok {
				return f, nil
			}
		}
	}
}

// arm sets the timer to the time of the next quiet frame.
func (s *Stream) arm() {
	left := s.hub.cfg.KeepAlive
	if s.fresh {
		left = min(left, s.hub.cfg.Settle)
	}
	if !s.last.IsZero() { // only the reader writes last and fresh
		left -= time.Since(s.last)
	}
	if s.timer == nil {
		s.timer = time.NewTimer(left)
	} else {
		s.timer.Reset(left)
	}
}

func (s *Stream) pop() (Frame, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return Frame{}, false, s.err
	}
	if len(s.pending) > 1 && time.Since(s.pending[0].at) > maxWaiting {
		s.collapse()
	}
	f := s.pending[0].Frame
	s.pending = slices.Delete(s.pending, 0, 1)
	kind := f.Sync
	if f.Reset {
		kind = kindReset
	}
	return s.deliver(f, kind), true, nil
}

// repeat returns the entry's frame unless frames wait for the reader. Those come first; else an older state would
// follow a newer one.
func (s *Stream) repeat() (Frame, bool) {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 || s.err != nil {
		return Frame{}, false
	}
	f := s.entry.cur
	f.Lag = s.entry.lag()
	return s.deliver(f, kindQuiet), true
}

// deliver prepares f for this viewer and counts it. The caller holds s.mu.
func (s *Stream) deliver(f Frame, kind Sync) Frame {
	m := s.hub.metrics
	if f.Reset {
		s.shown = 0
	}
	advanced := f.State.Seq > s.shown
	if advanced && !f.Reset && !s.last.IsZero() && !f.CommittedAt.IsZero() {
		m.latency.Observe(max(0, s.hub.Now().Sub(f.CommittedAt)).Seconds())
	}
	m.frames[kind].Inc()
	if !s.closed && s.showing != f.Sync {
		s.clearShowing()
		s.showing = f.Sync
		m.viewers[f.Sync].Inc()
	}
	f.From = min(s.shown, f.State.Seq)
	f.Changed = f.Changed || advanced
	s.fresh = kind != kindQuiet && !s.last.IsZero()
	s.shown, s.last = f.State.Seq, time.Now()
	return f
}

// clearShowing removes the stream from the gauge of viewers. The caller holds s.mu.
func (s *Stream) clearShowing() {
	if s.showing != "" {
		s.hub.metrics.viewers[s.showing].Dec()
		s.showing = ""
	}
}

// ConflatedFrames returns how many frames were replaced by newer ones before the viewer took them.
func (s *Stream) ConflatedFrames() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conflated
}

// Close frees the stream. Next then returns the pending frames and ErrClosed. Calls after the first do nothing.
func (s *Stream) Close() {
	s.mu.Lock()
	done := s.closed
	s.closed = true
	s.clearShowing()
	s.mu.Unlock()
	if done {
		return
	}
	s.entry.mu.Lock()
	delete(s.entry.streams, s)
	s.entry.mu.Unlock()
	s.end(ErrClosed)
	s.hub.leave(s.entry)
}
