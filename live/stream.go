package live

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// maxPending frames wait for a viewer: the transitions that it must hear of and
// the newest state. More than that and only the newest remains.
const maxPending = 8

// Stream is one viewer of a run. Next is for one reader; Close may be called from anywhere.
type Stream struct {
	hub   *Hub
	entry *entry
	wake  chan struct{}
	quiet time.Duration

	mu        sync.Mutex
	pending   []Frame
	err       error
	conflated int64
	closed    bool

	shown run.Seq // of the reader alone, and of join before it
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
		s.pending[n-1] = f
		s.conflated++
	case n == maxPending:
		for _, old := range s.pending {
			f.Changed, f.Reset = f.Changed || old.Changed, f.Reset || old.Reset
		}
		s.pending = append(s.pending[:0], f)
		s.conflated += int64(n)
	default:
		s.pending = append(s.pending, f)
	}
	s.ring()
}

func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.ring()
}

func (s *Stream) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next waits for the next frame, at most the quiet time; a quiet frame repeats
// the state and says how fresh it is (O9). It returns ErrShutdown,
// ErrNotFound or ctx's error when the stream is over.
func (s *Stream) Next(ctx context.Context) (Frame, error) {
	timer := time.NewTimer(s.quiet)
	defer timer.Stop()
	for {
		if f, ok, err := s.pop(); ok || err != nil {
			return s.mark(f), err
		}
		select {
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		case <-s.wake:
		case <-timer.C:
			s.entry.mu.Lock()
			f := s.entry.cur
			s.entry.mu.Unlock()
			f.Changed = false
			return s.mark(f), nil
		}
	}
}

func (s *Stream) pop() (Frame, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 {
		f := s.pending[0]
		s.pending = append(s.pending[:0], s.pending[1:]...)
		return f, true, nil
	}
	return Frame{}, false, s.err
}

// mark says what this viewer had before.
func (s *Stream) mark(f Frame) Frame {
	if f.Reset {
		s.shown = 0
	}
	f.From = min(s.shown, f.State.Seq)
	f.Changed = f.Changed || f.State.Seq > s.shown
	s.shown = f.State.Seq
	return f
}

// Conflated returns how many frames were replaced by newer ones before the viewer took them.
func (s *Stream) Conflated() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conflated
}

// Close frees the stream; Next then returns only what was pending.
func (s *Stream) Close() {
	s.mu.Lock()
	done := s.closed
	s.closed = true
	s.mu.Unlock()
	if done {
		return
	}
	s.entry.mu.Lock()
	delete(s.entry.streams, s)
	s.entry.mu.Unlock()
	s.hub.leave(s.entry)
}
