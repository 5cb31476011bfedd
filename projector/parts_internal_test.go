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

func sometimes(x float64) func() float64 { return func() float64 { return x } }

func inSeconds(ns ...int) (out []time.Duration) {
	for _, n := range ns {
		out = append(out, time.Duration(n)*time.Second)
	}
	return out
}

// contract: O06, R101
func TestBackoff_GrowsToAMinuteWithFullJitter(t *testing.T) {
	t.Parallel()
	b := backoff{base: time.Second, most: time.Minute, random: sometimes(0)}
	var limits []time.Duration
	for n := range 9 {
		limits = append(limits, b.after(n+1))
	}
	want := inSeconds(1, 2, 4, 8, 16, 32, 60, 60, 60)
	if !slices.Equal(limits, want) {
		t.Errorf("limits %v", limits)
	}
	if d := b.after(1 << 40); d != time.Minute {
		t.Errorf("after very many %v", d)
	}
	b.random = rand.New(rand.NewPCG(1, 1)).Float64
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := b.after(5)
		least, most = min(least, d), max(most, d)
	}
	if least <= 0 || least > time.Second || most > 16*time.Second || most < 15*time.Second {
		t.Errorf("jitter from %v to %v", least, most)
	}
}

// contract: O06, T124
func TestBreaker_OpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	b := newBreaker(backoff{base: time.Second, most: time.Minute, random: sometimes(0)})
	now, up := epoch, true
	if !b.allow(now, up) || !b.fail(now, up) || b.current() != Open {
		t.Fatal("the first failure did not open it")
	}
	if b.fail(now, up) { // another worker's message was under way
		t.Error("opened twice")
	}
	for n, wait := range inSeconds(1, 2, 4, 8, 16, 32, 60, 60) { // probes of a bus that stays away
		if now = now.Add(wait - 1); b.allow(now, up) {
			t.Fatalf("probe %d before %v", n, wait)
		}
		if now = now.Add(1); !b.ready(now, up) || !b.allow(now, up) {
			t.Fatalf("no probe %d after %v", n, wait)
		}
		if b.current() != HalfOpen || b.allow(now, up) || b.ready(now, up) {
			t.Fatal("two probes at once")
		}
		b.fail(now, up)
	}
	now = now.Add(time.Minute)
	if !b.allow(now, up) || !b.succeed() || b.current() != Closed {
		t.Fatal("an answer did not close it")
	}
	if b.succeed() || !b.allow(now, up) || !b.allow(now, up) {
		t.Error("closed it lets everything through")
	}
	b.fail(now, up)
	if !b.allow(now.Add(time.Second), up) {
		t.Error("the delays did not begin anew")
	}
	b.abandon(now)
	if b.current() != Open || !b.allow(now, up) {
		t.Error("an abandoned probe is not made up for")
	}
}

// contract: T124
func TestBreaker_ABusThatComesBackIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBreaker(backoff{base: time.Hour, most: time.Hour, random: sometimes(0)})
	b.fail(epoch, true) // the fault was seen before the bus was
	now := epoch.Add(time.Second)
	if b.ready(now, true) || b.ready(now, false) || b.ready(now, false) {
		t.Fatal("ready before the bus is back")
	}
	if !b.ready(now, true) || !b.allow(now, true) {
		t.Fatal("not ready when the bus is back")
	}
	b.fail(now, false) // it was seen down at once
	if !b.allow(now, true) {
		t.Fatal("not ready when the bus is back again")
	}
	b.fail(now, true) // it is up and cannot be used, such as a replica
	if b.allow(now, true) {
		t.Error("a bus that is up is probed at once for ever")
	}
}

// atMostIn is the most of times that any window has.
func atMostIn(window time.Duration, times []time.Time) (most int) {
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

// In any second at most ten messages are due. What is on the wire follows what is
// due: never a tenth of a second before, and late only when the work is (O8).
// contract: O8
func TestMotions_AtMostTenAreDueInAnySecond(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 60 * time.Millisecond,
		99 * time.Millisecond} {
		for _, hiccup := range []time.Duration{0, 350 * time.Millisecond} { // of the workers, in the second second
			ms := newMotions(time.Second, 10, 100)
			var due, sent []time.Time
			newest, shown := time.Time{}, time.Time{}
			for now := epoch; now.Before(epoch.Add(7 * time.Second)); now = now.Add(time.Millisecond) {
				if now.Sub(epoch)%every == 0 && now.Before(epoch.Add(4*time.Second)) {
					ms.wake(now, "r", news{read: true})
					newest = now
				}
				if begun := now.Sub(epoch) - time.Second; begun >= 0 && begun < hiccup {
					continue
				}
				taken, _ := ms.next(now, 10)
				for _, w := range taken {
					due, sent, shown = append(due, ms.runs[w.runID].due), append(sent, now), newest
					ms.finished(now, w.runID, true)
				}
			}
			if n := atMostIn(time.Second, due); n > 10 {
				t.Errorf("every %v: %d messages are due within a second", every, n)
			}
			most := 10
			if every >= 50*time.Millisecond || hiccup > 0 {
				most = 11 + int(hiccup/(100*time.Millisecond))
			}
			if n := atMostIn(time.Second, sent); n > most {
				t.Errorf("every %v, hiccup %v: %d messages went within a second", every, hiccup, n)
			}
			for i := range sent {
				if early := due[i].Sub(sent[i]); early > 100*time.Millisecond {
					t.Errorf("every %v: message %d went %v before it was due", every, i, early)
				}
				if late := sent[i].Sub(due[i]); late > hiccup {
					t.Errorf("every %v: message %d went %v after it was due", every, i, late)
				}
			}
			if len(sent) < 38 || !shown.Equal(newest) {
				t.Errorf("every %v: %d messages, the last shows what was there at %v of %v", every, len(sent), shown, newest)
			}
			if len(ms.runs) != 0 {
				t.Errorf("every %v: an idle run is remembered", every)
			}
		}
	}
}

// A run that emits as often as it may goes on as before when messages were late.
// contract: O8
func TestMotions_AHiccupDelaysNothingAfterIt(t *testing.T) {
	t.Parallel()
	ms := newMotions(time.Second, 10, 100)
	last := epoch
	for i := range 100 {
		now := epoch.Add(time.Duration(i) * 100 * time.Millisecond)
		switch i {
		case 0, 24:
			now = now.Add(90 * time.Millisecond) // its append took so long
		case 13, 57:
			now = now.Add(250 * time.Millisecond) // and the next ones waited for it
		}
		now = later(now, last)
		last = now
		ms.wake(now, "r", news{read: true})
		if i == 40 {
			now = now.Add(80 * time.Millisecond) // nobody had time for it
		}
		if taken, _ := ms.next(now, 10); len(taken) != 1 {
			t.Fatalf("message %d waits", i)
		}
		ms.finished(now, "r", true)
	}
}

// contract: O8
func TestMotions_WhateverWakes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		ms := newMotions(time.Second, 10, 100)
		var due, sent []time.Time
		wake, step := epoch, 10+r.IntN(300)
		for now := epoch; now.Before(epoch.Add(12 * time.Second)); now = now.Add(time.Millisecond) {
			for !wake.After(now) && now.Before(epoch.Add(10*time.Second)) {
				ms.wake(now, "r", news{read: true})
				wake = wake.Add(time.Duration(r.IntN(step)) * time.Millisecond)
				if r.IntN(20) == 0 { // a pause, or another pace
					wake, step = wake.Add(time.Duration(r.IntN(1500))*time.Millisecond), 10+r.IntN(300)
				}
			}
			taken, _ := ms.next(now, 10)
			for _, w := range taken {
				due, sent = append(due, ms.runs[w.runID].due), append(sent, now)
				ms.finished(now, w.runID, true)
			}
		}
		if !slices.IsSortedFunc(due, time.Time.Compare) {
			t.Errorf("seed %d: not in order", seed)
		}
		if n := atMostIn(time.Second, due); n > 10 {
			t.Errorf("seed %d: %d messages are due within a second", seed, n)
		}
		if n := atMostIn(time.Second, sent); n > 13 {
			t.Errorf("seed %d: %d messages went within a second", seed, n)
		}
	}
}

// contract: O8
func TestMotions_TenASecondAreNeverDelayed(t *testing.T) {
	t.Parallel()
	ms := newMotions(time.Second, 10, 100)
	for i := range 100 {
		now := epoch.Add(time.Duration(i) * 100 * time.Millisecond)
		if i%10 == 0 { // all of this second at once, then nothing
			now = now.Add(0)
			for range 10 {
				ms.wake(now, "burst", news{read: true})
				if taken, _ := ms.next(now, 10); len(taken) != 1 {
					t.Fatalf("a message of a burst of ten waits at %v", now.Sub(epoch))
				}
				ms.finished(now.Add(50*time.Millisecond), "burst", true) // slow work is no reason
			}
		}
		ms.wake(now, "even", news{read: true})
		if taken, _ := ms.next(now, 10); len(taken) != 1 {
			t.Fatalf("message %d of ten a second waits", i)
		}
		ms.finished(now.Add(30*time.Millisecond), "even", true)
	}
}

func TestMotions_AWokenRunIsNotForgotten(t *testing.T) {
	t.Parallel()
	ms := newMotions(time.Second, 1, 2)
	now := epoch
	take := func(want ...string) {
		t.Helper()
		var got []string
		taken, _ := ms.next(now, 10)
		for _, w := range taken {
			got = append(got, w.runID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("taken %v, want %v", got, want)
		}
	}
	ms.wake(now, "a", news{read: true})
	ms.wake(now, "a", news{read: true})
	take("a")
	ms.wake(now, "a", news{read: true}) // while busy
	take()
	ms.finished(now, "a", false) // nothing was sent: at once
	take("a")
	ms.finished(now, "a", true)
	ms.wake(now, "a", news{read: true}) // out of pace
	ms.wake(now, "b", news{read: true})
	ms.wake(now, "c", news{read: true}) // one too many
	take("b")
	ms.finished(now, "b", false)
	if _, at := ms.next(now, 10); !at.Equal(epoch.Add(900 * time.Millisecond)) {
		t.Errorf("looks again at %v", at)
	}
	now = epoch.Add(time.Second)
	take("a")
	ms.finished(now, "a", false)
	take()
	if len(ms.runs) != 0 {
		t.Errorf("%d runs are remembered", len(ms.runs))
	}
}

func TestNews_InAnyOrderAndWithoutHoles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seqs []run.Seq
		want int // of the log behind 5, -1 when it is to be read
	}{
		{nil, 0}, {[]run.Seq{6}, 1}, {[]run.Seq{8, 6, 7}, 3}, {[]run.Seq{4, 6, 5}, 1}, {[]run.Seq{7}, -1},
		{[]run.Seq{6, 8}, -1},
	} {
		var n news
		for _, seq := range c.seqs {
			n.add(news{told: []told{{seq: seq}}})
		}
		evs, whole := n.after(run.State{Header: run.Header{Seq: 5}})
		if whole != (c.want >= 0) || whole && len(evs) != c.want {
			t.Errorf("%v: %d events, whole %v", c.seqs, len(evs), whole)
		}
	}
}

func TestNews_AreBounded(t *testing.T) {
	t.Parallel()
	tell := func(seq run.Seq, size int) news {
		return news{told: []told{{seq: seq, draft: run.Draft{Payload: make([]byte, size)}}}, size: size}
	}
	ms := newMotions(time.Second, 10, 1000)
	for i := range maxNews + 1 {
		ms.wake(epoch, "many", tell(run.Seq(i+1), 1))
		if read := ms.runs["many"].news.read; read != (i == maxNews) {
			t.Errorf("%d events: read %v", i+1, read)
		}
	}
	for i := range 20 {
		ms.wake(epoch, fmt.Sprint("large", i), tell(1, 1<<20))
		if ms.size > maxNewsSize {
			t.Fatalf("%d bytes wait", ms.size)
		}
	}
	if n := ms.runs["large19"].news; !n.read || n.told != nil {
		t.Errorf("beyond the limit: %+v", n)
	}
	if taken, _ := ms.next(epoch, 1000); len(taken) != 21 || ms.size != 0 {
		t.Errorf("%d runs taken, %d bytes are counted", len(taken), ms.size)
	}
}
