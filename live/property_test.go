package live_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// timeline remembers when the head moved, in each epoch.
type timeline struct {
	mu    sync.Mutex
	moves []move
}

type move struct {
	epoch string
	at    time.Time
	head  run.Seq
}

func (l *timeline) note(epoch string, head run.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moves = append(l.moves, move{epoch, time.Now(), head})
}

// headAt is the head of an epoch as of a time.
func (l *timeline) headAt(epoch string, at time.Time) (head run.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.moves {
		if m.epoch == epoch && !m.at.After(at) {
			head = m.head
		}
	}
	return head
}

// TestHub_Property_O9 plays a store and a bus that do everything that they may
// do to a hub, and holds each frame of its streams to what a frame promises.
func TestHub_Property_O9(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			play(t, 2, live.Config{}, func(s *scene) { chaos(s, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func chaos(s *scene, r *rand.Rand) {
	line := &timeline{}
	line.note("e1", 2)
	states := map[string]run.State{} // of every epoch and seq
	keep := func() {
		head := s.archive.head(theRun)
		states[fmt.Sprint(s.archive.epoch, head)] = s.archive.state(theRun, head)
		line.note(s.archive.epoch, head)
	}
	keep()
	var watchers sync.WaitGroup
	var mu sync.Mutex // of states
	stop := make(chan struct{})
	var final []live.Frame
	for i := range 3 {
		st := s.watch()
		watchers.Go(func() {
			defer st.Close()
			last := follow(s, st, line, states, &mu, stop, time.Duration(i)*700*time.Millisecond)
			mu.Lock()
			final = append(final, last)
			mu.Unlock()
		})
	}
	published := run.Seq(2)
	var delayed []live.Message
	for range 300 {
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		head := s.archive.head(theRun)
		switch n := r.IntN(100); {
		case n < 60 && int(head) < len(story())-3:
			mu.Lock()
			s.archive.grow(theRun, 1)
			keep()
			mu.Unlock()
			m := s.archive.message(theRun, published, head+1)
			published = head + 1
			switch r.IntN(10) {
			case 0: // lost
			case 1, 2:
				delayed = append(delayed, m)
			case 3:
				s.send(m)
				s.send(m)
			case 4:
				m.Delta = nil
				s.send(m)
			default:
				s.send(m)
			}
		case n < 70 && len(delayed) > 0:
			i := r.IntN(len(delayed))
			s.send(delayed[i])
			delayed = append(delayed[:i], delayed[i+1:]...)
		case n < 74:
			s.archive.set(func() { s.archive.err = store.ErrUnavailable })
		case n < 76:
			s.archive.set(func() { s.archive.hang = true })
		case n < 84:
			s.archive.set(func() { s.archive.err, s.archive.hang = nil, false })
		case n < 87:
			s.wire.setUp(false)
		case n < 92:
			if !s.wire.Up() {
				s.wire.setUp(true)
				s.wire.deliver(theRun, live.Delivery{Confirmed: true})
			}
		case n < 94:
			s.wire.deliver(theRun, live.Delivery{Overflow: true})
		case n < 95 && head > 20:
			mu.Lock()
			s.archive.restore(theRun, int(head)-r.IntN(10), fmt.Sprint("e", 2+r.IntN(1000000)))
			keep()
			mu.Unlock()
			published = s.archive.head(theRun)
		}
	}
	s.archive.set(func() { s.archive.err, s.archive.hang = nil, false })
	s.wire.setUp(true)
	time.Sleep(20 * time.Second) // one quiet frame is due in any case
	close(stop)
	watchers.Wait()
	synctest.Wait()
	for _, f := range final {
		if f.Sync != live.Live || f.State.Seq != s.archive.head(theRun) || f.Epoch != s.archive.epoch {
			s.Errorf("in the end %+v of %s, the head is %d of %s", seen(f), f.Epoch, s.archive.head(theRun), s.archive.epoch)
		}
	}
}

// follow checks each frame of a stream whose viewer thinks for a while after each.
func follow(
	s *scene, st *live.Stream, line *timeline, states map[string]run.State, mu *sync.Mutex, stop <-chan struct{}, think time.Duration,
) (last live.Frame) {
	for {
		f, err := st.Next(s.Context())
		if err != nil {
			s.Errorf("the stream ended: %v", err)
			return last
		}
		switch {
		case f.Reset && f.From != 0:
			s.Errorf("a reset from %d", f.From)
		case last.Epoch != "" && f.Epoch != last.Epoch && !f.Reset:
			s.Errorf("epoch %s after %s without a reset", f.Epoch, last.Epoch)
		case f.Epoch == last.Epoch && f.State.Seq < last.State.Seq:
			s.Errorf("%d after %d in epoch %s", f.State.Seq, last.State.Seq, f.Epoch)
		case f.Epoch == last.Epoch && f.AsOf.Before(last.AsOf):
			s.Errorf("as of %v after %v", f.AsOf, last.AsOf)
		case f.Epoch == last.Epoch && f.OpsRev < last.OpsRev:
			s.Errorf("ops %d after %d", f.OpsRev, last.OpsRev)
		case !f.Reset && last.Epoch != "" && f.From != last.State.Seq:
			s.Errorf("from %d, the viewer had %d", f.From, last.State.Seq)
		case !f.Changed && f.State.Seq != last.State.Seq:
			s.Errorf("%d after %d is said to be no change", f.State.Seq, last.State.Seq)
		}
		if f.Sync == live.Live {
			if f.HeadSeq > f.State.Seq {
				s.Errorf("LIVE at %d with head %d", f.State.Seq, f.HeadSeq)
			}
			if head := line.headAt(f.Epoch, f.AsOf.Add(-500*time.Millisecond)); head > f.State.Seq {
				s.Errorf("LIVE at %d as of %v, when the head was %d", f.State.Seq, f.AsOf, head)
			}
			if think == 0 && time.Since(f.AsOf) > 5*time.Second {
				s.Errorf("LIVE as of %v ago", time.Since(f.AsOf))
			}
		}
		mu.Lock()
		want, known := states[fmt.Sprint(f.Epoch, f.State.Seq)]
		mu.Unlock()
		if known && !reflect.DeepEqual(want, f.State) {
			s.Errorf("state at %d (-log +frame):\n%s", f.State.Seq, cmp.Diff(want, f.State))
		}
		last = f
		select {
		case <-stop:
			return last
		case <-time.After(think):
		}
	}
}
