package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// maxPending frames wait for a viewer: the transitions that it must hear of and
// the newest state. More than that, or when it does not take them for a while, and
// only the newest remains, with the reason SLOW_CONSUMER if it has none of its own.
const (
	maxPending = 8
	maxWaiting = time.Second
)

// waiting is a frame that a viewer has not taken.
type waiting struct {
	Frame
	at time.Time // since when it is the newest of its kind
}

// Stream is one viewer of a run. Next is for one reader; Close may be called from anywhere.
type Stream struct {
	hub   *Hub
	entry *entry
	wake  chan struct{}
	timer *time.Timer // of the reader

	mu        sync.Mutex
	pending   []waiting
	err       error
	conflated int64
	closed    bool
	showing   Sync      // by the frame given out last; "" before the first and when closed
	shown     run.Seq   // the state that the viewer has
	last      time.Time // when the last frame was given out
	fresh     bool      // it said something new, and was not the first
}

// push hands a frame over without blocking. Frames of equal sync conflate: the
// newer state replaces the older one. Transitions are kept.
func (s *Stream) push(f Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.pending)
	switch {
	case n > 0 && s.pending[n-1].Sync == f.Sync && s.pending[n-1].Reason == f.Reason && !f.Reset:
		f.Changed = f.Changed || s.pending[n-1].Changed
		f.Reset = s.pending[n-1].Reset
		s.pending[n-1] = waiting{f, time.Now()}
		s.lose(1)
	case n == maxPending:
		s.pending = append(s.pending, waiting{f, time.Now()})
		s.collapse()
	default:
		s.pending = append(s.pending, waiting{f, time.Now()})
	}
	s.ring()
}

// collapse leaves the newest frame, which says what the others would have said
// changed; it needs s.mu.
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
	s.lose(n)
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

// lose counts frames that nobody will see; it needs s.mu.
func (s *Stream) lose(n int) {
	s.conflated += int64(n)
	s.hub.metrics.conflated.Add(float64(n))
}

// Next waits for the next frame, at most the quiet time after the last one; a
// quiet frame repeats the state and says how fresh it is (O9). When the stream is
// over it returns ErrShutdown, ErrNotFound, ErrClosed or ctx's error.
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

// arm has the timer ring when a quiet frame is due.
func (s *Stream) arm() {
	left := s.hub.cfg.Quiet
	if s.fresh {
		left = min(left, s.hub.cfg.Settle)
	}
	if !s.last.IsZero() { // which, as fresh, only the reader writes
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
	return s.give(f, kind), true, nil
}

// repeat is the entry's frame, unless something waits for the reader: that
// comes first, or an older state would follow a newer one.
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
	return s.give(f, kindQuiet), true
}

// give says what this viewer had before, and counts; it needs s.mu.
func (s *Stream) give(f Frame, kind Sync) Frame {
	m := s.hub.metrics
	if f.Reset {
		s.shown = 0
	}
	news := f.State.Seq > s.shown
	if news && !f.Reset && !s.last.IsZero() && !f.CommittedAt.IsZero() {
		m.latency.Observe(max(0, s.hub.Now().Sub(f.CommittedAt)).Seconds())
	}
	m.frames[kind].Inc()
	if !s.closed && s.showing != f.Sync {
		s.unshow()
		s.showing = f.Sync
		m.viewers[f.Sync].Inc()
	}
	f.From = min(s.shown, f.State.Seq)
	f.Changed = f.Changed || news
	s.fresh = kind != kindQuiet && !s.last.IsZero()
	s.shown, s.last = f.State.Seq, time.Now()
	return f
}

// unshow needs s.mu.
func (s *Stream) unshow() {
	if s.showing != "" {
		s.hub.metrics.viewers[s.showing].Dec()
		s.showing = ""
	}
}

// Conflated returns how many frames were replaced by newer ones before the viewer took them.
func (s *Stream) Conflated() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conflated
}

// Close frees the stream; Next then returns what was pending and ErrClosed.
func (s *Stream) Close() {
	s.mu.Lock()
	done := s.closed
	s.closed = true
	s.unshow()
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
