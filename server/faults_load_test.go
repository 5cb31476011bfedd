package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

func isolation(t *testing.T, p *pair) {
	bad, good := p.newRun(t, 1), p.newRun(t, 1)
	badly, well := p.both(t, bad, "SNAPSHOT"), p.both(t, good, "DELTA")
	onBoth(p, bad, func(m live.Message) testserver.Fate { return testserver.Fate{Drop: m.To%2 == 1} })
	for range 20 {
		bad.noise(1)
		good.noise(1)
		time.Sleep(100 * time.Millisecond)
	}
	onBoth(p, bad, nil)
	bad.noise(1)
	for _, o := range well {
		o.liveAt(good.head(), causeWithin)
		for _, u := range o.seen() {
			if !fresh(u) {
				t.Errorf("%s: the other run is %s", o.name, u)
			}
			if int(u.RunSeq) > 2 && u.at.Sub(good.at(u.RunSeq)) > time.Second+machine() {
				t.Errorf("%s: %s came %s after its commit", o.name, u, u.at.Sub(good.at(u.RunSeq)))
			}
		}
	}
	for _, o := range badly {
		o.liveAt(bad.head(), repairedWithin)
	}
	honest(t, bad, badly...)
	honest(t, good, well...)
}

// busy appends in bursts, which the projector paces.
func busy(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	os := p.both(t, h, "DELTA")
	for i := range 8 {
		for range 14 {
			h.noise(1)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Duration(600+150*i) * time.Millisecond)
	}
	for _, o := range os {
		o.liveAt(h.head(), causeWithin)
		for _, u := range o.seen() {
			if !fresh(u) {
				t.Errorf("%s: nothing was lost, and it says %s", o.name, words(o.seen()))
				break
			}
		}
	}
	honest(t, h, os...)
}

func resuming(t *testing.T, p *pair) {
	h := p.newRun(t, 4)
	for i := range 4 {
		h.add(step(run.StepStartedEvent, i, 1), step(run.StepFailedEvent, i, 1))
		h.add(step(run.StepStartedEvent, i, 2))
	}
	h.add(step(run.StepCompletedEvent, 0, 2))
	epoch := p.both(t, h, "DELTA")[0].seen()[0].StoreEpoch
	r, log := &replay{}, h.log()
	for after := run.Seq(0); after <= h.head(); after++ {
		for i, n := range p.nodes() {
			for _, mode := range []string{"SNAPSHOT", "DELTA"} {
				o := look(t, n, watching{runID: h.id.RunID, after: &after, epoch: epoch, mode: mode, token: viewerToken(i)})
				if mode == "DELTA" && after > 0 { // what such a viewer has
					o.mu.Lock()
					o.picture = pictureAt(log, after)
					o.mu.Unlock()
				}
				got := o.shownAt(h.head(), causeWithin)
				if want := r.at(log, h.head()); got.shows != want || words(o.seen()) != fmt.Sprintf("[LIVE %d]", h.head()) {
					t.Errorf("%s, %s, after %d: %s shows %s\nwant %s", n.name, mode, after, words(o.seen()), got.shows, want)
				}
				o.leave()
			}
		}
	}
}

// pictureAt is what somebody has who saw the run at seq.
func pictureAt(log []commit, seq run.Seq) picture {
	fresh := &replay{}
	text := fresh.at(log, seq)
	return picture{header: fresh.run, steps: fresh.seen, text: text}
}

func slowViewer(t *testing.T, p *pair) {
	const steps, events = 600, 400 // the kernel holds few frames of this size
	h := p.newRun(t, steps)
	others := p.both(t, h, "DELTA")
	type asleep struct {
		*onlooker
		wake  chan struct{}
		head  run.Seq // when it woke
		rises func()
	}
	var slow []*asleep
	for _, n := range p.nodes() {
		for _, long := range []bool{false, true} {
			o, ctx := newOnlooker(t, fmt.Sprintf("%s, asleep for long: %t", n.name, long))
			w := watching{url: n.url, token: viewerToken(3), runID: h.id.RunID, narrow: true}
			s := &asleep{onlooker: o, wake: make(chan struct{})}
			s.rises = func() { s.head = h.head(); close(s.wake) }
			if !long {
				time.AfterFunc(3*time.Second, s.rises)
			}
			go func() {
				defer close(o.over)
				o.ended(w.stream(ctx, func(u update) error {
					o.take(u)
					select {
					case <-s.wake:
					case <-ctx.Done():
					}
					return nil
				}))
			}()
			slow = append(slow, s)
		}
	}
	for i := range events / 2 {
		h.add(step(run.StepStartedEvent, i, 1))
		h.add(step(run.StepCompletedEvent, i, 1))
		time.Sleep(15 * time.Millisecond)
	}
	for i, s := range slow {
		if i%2 == 1 { // what it was sent is more than anybody holds for it
			time.AfterFunc(10*time.Second, s.rises)
		}
	}
	for _, o := range others {
		for _, u := range o.seen() {
			if int(u.RunSeq) > 2 && u.at.Sub(h.at(u.RunSeq)) > time.Second+machine() {
				t.Errorf("%s: beside a slow viewer %s came %s after its commit", o.name, u, u.at.Sub(h.at(u.RunSeq)))
			}
		}
	}
	for i, s := range slow {
		<-s.wake
		if i%2 == 1 { // longer than a write may take: it is told nothing, and comes back
			s.ends(10 * time.Second)
			us := s.seen()
			last := us[len(us)-1]
			again := look(t, p.nodes()[i/2], watching{runID: h.id.RunID, after: &last.RunSeq, epoch: last.StoreEpoch,
				mode: "DELTA"})
			again.liveAt(h.head(), causeWithin)
			continue
		}
		s.liveAt(h.head(), repairedWithin)
		old := 0
		for _, u := range s.seen() {
			if u.RunSeq < s.head {
				old++
			}
		}
		if old > 35 {
			t.Errorf("%s: when it woke at %d it was shown %d frames of the past", s.name, s.head, old)
		}
	}
	honest(t, h, others...)
}

func drift(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	onBoth(p, h, loseAll)
	for done := false; !done; time.Sleep(50 * time.Millisecond) { // until the checkpoint is written
		l, err := p.store.Load(t.Context(), h.id.RunID)
		must(t, err)
		done = l.CheckpointAt == l.Head.LastSeq
	}
	p.sql(t, `UPDATE run_state SET status = 'ARCHIVED', header = jsonb_set(header::jsonb, '{status}', '"ARCHIVED"')::json WHERE run_id = $1`, h.id.RunID)
	for _, n := range p.nodes() {
		o := look(t, n, watching{runID: h.id.RunID})
		if u := o.shownAt(2, causeWithin); !strings.HasPrefix(u.shows, "UNKNOWN ") {
			t.Errorf("%s: %s", n.name, u.shows)
		}
		a := ask(t, n.url, `query($id:String!){run(runId:$id){status statusRaw}}`, map[string]any{"id": h.id.RunID},
			"Authorization: Bearer "+viewerToken(0))
		if !strings.Contains(a.body, `"status":"UNKNOWN","statusRaw":"ARCHIVED"`) {
			t.Errorf("%s: %s", n.name, a.body)
		}
	}
}
