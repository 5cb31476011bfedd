package live

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counting and measuring happen for every frame of every viewer, so they must not allocate.
func TestStream_NextDoesNotAllocate(t *testing.T) {
	h := New(nil, nil, Config{Metrics: prometheus.NewRegistry()})
	h.clock.observe(time.Now(), time.Now(), time.Now())
	s := &Stream{hub: h, entry: &entry{hub: h}, wake: make(chan struct{}, 1)}
	f := Frame{Sync: Live, CommittedAt: h.Now(), Epoch: "e1"}
	next := func() {
		f.State.Seq++
		f.HeadSeq = f.State.Seq
		s.push(f)
		if got, err := s.Next(t.Context()); err != nil || got.From != max(0, f.State.Seq-1) {
			t.Fatalf("from %d, %v", got.From, err)
		}
	}
	next()
	if n := testing.AllocsPerRun(1000, next); n > 0 {
		t.Errorf("a frame costs %v allocations, want none", n)
	}
	if n := testing.AllocsPerRun(1000, func() { // a frame that has to be waited for
		f.State.Seq++
		s.arm()
		s.push(f)
		_, _ = s.Next(t.Context())
	}); n > 0 {
		t.Errorf("a frame that Next waits for costs %v allocations, want none", n)
	}
}

// A frame that conflates with a reset stays a reset.
// contract: T30
func TestStream_ConflatedResetStaysAReset(t *testing.T) {
	t.Parallel()
	h := New(nil, nil, Config{})
	s := &Stream{hub: h, entry: &entry{hub: h}, wake: make(chan struct{}, 1), shown: 120}
	f := Frame{Sync: Resyncing, Reason: Gap, Epoch: "e2", Reset: true, Changed: true}
	f.State.Seq = 100
	s.push(f)
	f.Reset, f.Changed, f.OpsRev = false, false, 1
	s.push(f)
	if got, err := s.Next(t.Context()); err != nil || !got.Reset || !got.Changed || got.From != 0 || got.OpsRev != 1 {
		t.Errorf("reset %v, changed %v, from %d, ops %d, %v", got.Reset, got.Changed, got.From, got.OpsRev, err)
	}
}

// The estimated time is at most as wrong as the reading claims, for any delays.
// contract: T34
func TestClock_ErrorIsAtMostHalfARoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 100 {
		now := epoch
		off := time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour
		rate := 1 + (r.Float64()-.5)*1.5*drift // of the store's clock
		began := now
		store := func() time.Time { return epoch.Add(off + time.Duration(float64(now.Sub(began))*rate)) }
		c := clock{local: func() time.Time { return now }}
		if !c.now().IsZero() {
			t.Fatal("now before the first read is not zero")
		}
		shortest := time.Hour
		for range 300 {
			there, back := time.Duration(r.Int64N(int64(200*time.Millisecond))),
				time.Duration(r.Int64N(int64(200*time.Millisecond)))
			at := now
			now = now.Add(there)
			says := store()
			now = now.Add(back)
			c.observe(at, now, says)
			shortest = min(shortest, there+back)
			kept := c.best.Load()
			if d := c.now().Sub(store()).Abs(); d > kept.error(now) {
				t.Fatalf("now is off by %v, the claimed maximum is %v", d, kept.error(now))
			}
			if bound := shortest/2 + time.Duration(float64(now.Sub(began))*drift); kept.error(now) > bound+time.Microsecond {
				t.Fatalf("the claimed error is %v, the shortest read took %v", kept.error(now), shortest)
			}
			now = now.Add(time.Duration(r.Int64N(int64(time.Second))))
		}
		off += time.Minute // the store's clock is set; the next read shows it
		at := now
		now = now.Add(300 * time.Millisecond)
		c.observe(at, now, store())
		if d := c.now().Sub(store()).Abs(); d > 300*time.Millisecond {
			t.Fatalf("now is off by %v after the clock was set", d)
		}
	}
}
