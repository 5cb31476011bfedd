package projector

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func constant(x float64) func() float64 { return func() float64 { return x } }

func inSeconds(ns ...int) (out []time.Duration) {
	for _, n := range ns {
		out = append(out, time.Duration(n)*time.Second)
	}
	return out
}

// contract: O06, R101
func TestBackoff_GrowsToAMinuteWithFullJitter(t *testing.T) {
	t.Parallel()
	b := backoff{base: time.Second, limit: time.Minute, random: constant(0)}
	var limits []time.Duration
	for n := range 9 {
		limits = append(limits, b.after(n+1))
	}
	want := inSeconds(1, 2, 4, 8, 16, 32, 60, 60, 60)
	if !slices.Equal(limits, want) {
		t.Errorf("limits are %v", limits)
	}
	if d := b.after(1 << 40); d != time.Minute {
		t.Errorf("delay after very many failures is %v", d)
	}
	b.random = rand.New(rand.NewPCG(1, 1)).Float64
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := b.after(5)
		least, most = min(least, d), max(most, d)
	}
	if least <= 0 || least > time.Second || most > 16*time.Second || most < 15*time.Second {
		t.Errorf("jitter ranges from %v to %v", least, most)
	}
}

// contract: O06, T124
func TestBreaker_OpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	b := newBreaker(backoff{base: time.Second, limit: time.Minute, random: constant(0)})
	now, up := epoch, true
	if !b.allow(now, up) || !b.fail(now, up) || b.current() != Open {
		t.Fatal("the first failure did not open the breaker")
	}
	if b.fail(now, up) { // a message that was in flight
		t.Error("the second failure opened the breaker again")
	}
	for n, wait := range inSeconds(1, 2, 4, 8, 16, 32, 60, 60) { // failed probes
		if now = now.Add(wait - 1); b.allow(now, up) {
			t.Fatalf("probe %d was allowed before %v", n, wait)
		}
		if now = now.Add(1); !b.isReady(now, up) || !b.allow(now, up) {
			t.Fatalf("probe %d was not allowed after %v", n, wait)
		}
		if b.current() != HalfOpen || b.allow(now, up) || b.isReady(now, up) {
			t.Fatal("two concurrent probes were allowed")
		}
		b.fail(now, up)
	}
	now = now.Add(time.Minute)
	if !b.allow(now, up) || !b.succeed() || b.current() != Closed {
		t.Fatal("a success did not close the breaker")
	}
	if b.succeed() || !b.allow(now, up) || !b.allow(now, up) {
		t.Error("a closed breaker must allow every message")
	}
	b.fail(now, up)
	if !b.allow(now.Add(time.Second), up) {
		t.Error("the delay did not restart at its base")
	}
	b.abandon(now)
	if b.current() != Open || !b.allow(now, up) {
		t.Error("no probe is allowed after an abandoned one")
	}
}

// contract: T124
func TestBreaker_ReturningBusIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBreaker(backoff{base: time.Hour, limit: time.Hour, random: constant(0)})
	b.fail(epoch, true) // Publish failed before Up changed
	now := epoch.Add(time.Second)
	if b.isReady(now, true) || b.isReady(now, false) || b.isReady(now, false) {
		t.Fatal("a probe is allowed before the bus is up")
	}
	if !b.isReady(now, true) || !b.allow(now, true) {
		t.Fatal("no probe is allowed although the bus is up")
	}
	b.fail(now, false) // seen down at once
	if !b.allow(now, true) {
		t.Fatal("no probe is allowed although the bus is up again")
	}
	b.fail(now, true) // it is up but unusable, such as a replica
	if b.allow(now, true) {
		t.Error("an unusable bus that is up is probed without delay")
	}
}

// maxInWindow returns the largest number of times within any window.
func maxInWindow(window time.Duration, times []time.Time) (most int) {
	for i, from := range times {
		n := 0
		for _, at := range times[i:] {
			if at.Sub(from) < window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// In any second at most ten messages are due. A message is sent at most a tenth of a second before it is due, and
// late only if the worker is (contract O8).
// contract: O8
func TestSchedule_AtMostTenMessagesAreDueInAnySecond(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 60 * time.Millisecond,
		99 * time.Millisecond} {
		for _, hiccup := range []time.Duration{0, 350 * time.Millisecond} { // a pause of the workers in the second second
			ms := newSchedule(time.Second, 10, 100)
			var due, sent []time.Time
			newest, shown := time.Time{}, time.Time{}
			for now := epoch; now.Before(epoch.Add(7 * time.Second)); now = now.Add(time.Millisecond) {
				if now.Sub(epoch)%every == 0 && now.Before(epoch.Add(4*time.Second)) {
					ms.wake(now, "r", pendingEvents{mustRead: true})
					newest = now
				}
				if begun := now.Sub(epoch) - time.Second; begun >= 0 && begun < hiccup {
					continue
				}
				taken, _ := ms.next(now, 10)
				for _, w := range taken {
					due, sent, shown = append(due, ms.runs[w.runID].due), append(sent, now), newest
					ms.finish(now, w.runID, true)
				}
			}
			if n := maxInWindow(time.Second, due); n > 10 {
				t.Errorf("every %v: %d messages are due within a second", every, n)
			}
			most := 10
			if every >= 50*time.Millisecond || hiccup > 0 {
				most = 11 + int(hiccup/(100*time.Millisecond))
			}
			if n := maxInWindow(time.Second, sent); n > most {
				t.Errorf("every %v, hiccup %v: %d messages were sent within a second", every, hiccup, n)
			}
			for i := range sent {
				if early := due[i].Sub(sent[i]); early > 100*time.Millisecond {
					t.Errorf("every %v: message %d was sent %v before it was due", every, i, early)
				}
				if late := sent[i].Sub(due[i]); late > hiccup {
					t.Errorf("every %v: message %d was sent %v after it was due", every, i, late)
				}
			}
			if len(sent) < 38 || !shown.Equal(newest) {
				t.Errorf("every %v: %d messages, the last one shows the state at %v of %v", every, len(sent), shown, newest)
			}
			if len(ms.runs) != 0 {
				t.Errorf("every %v: an idle run is still in the schedule", every)
			}
		}
	}
}

// A run that emits at the maximum rate is not delayed after some messages were late.
// contract: O8
func TestSchedule_LateMessageDelaysNoLaterOne(t *testing.T) {
	t.Parallel()
	ms := newSchedule(time.Second, 10, 100)
	last := epoch
	for i := range 100 {
		now := epoch.Add(time.Duration(i) * 100 * time.Millisecond)
		switch i {
		case 0, 24:
			now = now.Add(90 * time.Millisecond) // a slow append
		case 13, 57:
			now = now.Add(250 * time.Millisecond) // the next ones waited for it
		}
		now = latest(now, last)
		last = now
		ms.wake(now, "r", pendingEvents{mustRead: true})
		if i == 40 {
			now = now.Add(80 * time.Millisecond) // the workers were busy
		}
		if taken, _ := ms.next(now, 10); len(taken) != 1 {
			t.Fatalf("message %d is delayed", i)
		}
		ms.finish(now, "r", true)
	}
}

// contract: O8
func TestSchedule_RandomWakesKeepTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		ms := newSchedule(time.Second, 10, 100)
		var due, sent []time.Time
		wake, step := epoch, 10+r.IntN(300)
		for now := epoch; now.Before(epoch.Add(12 * time.Second)); now = now.Add(time.Millisecond) {
			for !wake.After(now) && now.Before(epoch.Add(10*time.Second)) {
				ms.wake(now, "r", pendingEvents{mustRead: true})
				wake = wake.Add(time.Duration(r.IntN(step)) * time.Millisecond)
				if r.IntN(20) == 0 { // a pause, or another rate
					wake, step = wake.Add(time.Duration(r.IntN(1500))*time.Millisecond), 10+r.IntN(300)
				}
			}
			taken, _ := ms.next(now, 10)
			for _, w := range taken {
				due, sent = append(due, ms.runs[w.runID].due), append(sent, now)
				ms.finish(now, w.runID, true)
			}
		}
		if !slices.IsSortedFunc(due, time.Time.Compare) {
			t.Errorf("seed %d: due times are not in order", seed)
		}
		if n := maxInWindow(time.Second, due); n > 10 {
			t.Errorf("seed %d: %d messages are due within a second", seed, n)
		}
		if n := maxInWindow(time.Second, sent); n > 13 {
			t.Errorf("seed %d: %d messages were sent within a second", seed, n)
		}
	}
}

// contract: O8
func TestSchedule_TenMessagesASecondAreNeverDelayed(t *testing.T) {
	t.Parallel()
	ms := newSchedule(time.Second, 10, 100)
	for i := range 100 {
		now := epoch.Add(time.Duration(i) * 100 * time.Millisecond)
		if i%10 == 0 { // all messages of this second at once, then none
			now = now.Add(0)
			for range 10 {
				ms.wake(now, "burst", pendingEvents{mustRead: true})
				if taken, _ := ms.next(now, 10); len(taken) != 1 {
					t.Fatalf("a message of a burst of ten is delayed at %v", now.Sub(epoch))
				}
				ms.finish(now.Add(50*time.Millisecond), "burst", true) // slow work must not delay
			}
		}
		ms.wake(now, "even", pendingEvents{mustRead: true})
		if taken, _ := ms.next(now, 10); len(taken) != 1 {
			t.Fatalf("message %d of ten a second is delayed", i)
		}
		ms.finish(now.Add(30*time.Millisecond), "even", true)
	}
}

func TestSchedule_KeepsAWokenRun(t *testing.T) {
	t.Parallel()
	ms := newSchedule(time.Second, 1, 2)
	now := epoch
	take := func(want ...string) {
		t.Helper()
		var got []string
		taken, _ := ms.next(now, 10)
		for _, w := range taken {
			got = append(got, w.runID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("next returned %v, want %v", got, want)
		}
	}
	ms.wake(now, "a", pendingEvents{mustRead: true})
	ms.wake(now, "a", pendingEvents{mustRead: true})
	take("a")
	ms.wake(now, "a", pendingEvents{mustRead: true}) // while busy
	take()
	ms.finish(now, "a", false) // nothing was sent, so it is due at once
	take("a")
	ms.finish(now, "a", true)
	ms.wake(now, "a", pendingEvents{mustRead: true}) // above the rate
	ms.wake(now, "b", pendingEvents{mustRead: true})
	ms.wake(now, "c", pendingEvents{mustRead: true}) // one above the limit
	take("b")
	ms.finish(now, "b", false)
	if _, at := ms.next(now, 10); !at.Equal(epoch.Add(900 * time.Millisecond)) {
		t.Errorf("the next due time is %v", at)
	}
	now = epoch.Add(time.Second)
	take("a")
	ms.finish(now, "a", false)
	take()
	if len(ms.runs) != 0 {
		t.Errorf("%d runs are in the schedule, want none", len(ms.runs))
	}
}

func TestPendingEvents_AreOrderedAndContiguous(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seqs []run.Seq
		want int // number of events after 5; -1 when the log must be read
	}{
		{nil, 0}, {[]run.Seq{6}, 1}, {[]run.Seq{8, 6, 7}, 3}, {[]run.Seq{4, 6, 5}, 1}, {[]run.Seq{7}, -1},
		{[]run.Seq{6, 8}, -1},
	} {
		var n pendingEvents
		for _, seq := range c.seqs {
			n.add(pendingEvents{events: []committedEvent{{seq: seq}}})
		}
		evs, whole := n.after(run.State{Header: run.Header{Seq: 5}})
		if whole != (c.want >= 0) || whole && len(evs) != c.want {
			t.Errorf("%v: %d events, whole %v, want %d (-1: not whole)", c.seqs, len(evs), whole, c.want)
		}
	}
}

func TestPendingEvents_AreBounded(t *testing.T) {
	t.Parallel()
	tell := func(seq run.Seq, size int) pendingEvents {
		return pendingEvents{events: []committedEvent{{seq: seq, draft: run.Draft{Payload: make([]byte, size)}}}, size: size}
	}
	ms := newSchedule(time.Second, 10, 1000)
	for i := range maxPendingEvents + 1 {
		ms.wake(epoch, "many", tell(run.Seq(i+1), 1))
		if read := ms.runs["many"].pending.mustRead; read != (i == maxPendingEvents) {
			t.Errorf("with %d events mustRead is %v", i+1, read)
		}
	}
	for i := range 20 {
		ms.wake(epoch, fmt.Sprint("large", i), tell(1, 1<<20))
		if ms.size > maxPendingBytes {
			t.Fatalf("%d bytes are pending, above the limit", ms.size)
		}
	}
	if n := ms.runs["large19"].pending; !n.mustRead || n.events != nil {
		t.Errorf("beyond the limit the pending events are %+v, want only mustRead", n)
	}
	if taken, _ := ms.next(epoch, 1000); len(taken) != 21 || ms.size != 0 {
		t.Errorf("%d runs taken and %d bytes still counted, want 21 and 0", len(taken), ms.size)
	}
}
