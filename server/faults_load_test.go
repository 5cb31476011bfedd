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

func testGapDelaysNoOtherRun(t *testing.T, p *pair) {
	bad, good := p.newRun(t, 1), p.newRun(t, 1)
	badly, well := p.watchOnBoth(t, bad, "SNAPSHOT"), p.watchOnBoth(t, good, "DELTA")
	setRuleOnBoth(p, bad, func(m live.Message) testserver.Fate { return testserver.Fate{Drop: m.To%2 == 1} })
	for range 20 {
		bad.addNoise(1)
		good.addNoise(1)
		time.Sleep(100 * time.Millisecond)
	}
	setRuleOnBoth(p, bad, nil)
	bad.addNoise(1)
	for _, o := range well {
		o.waitForLive(good.head(), causeWithin)
		for _, u := range o.receivedUpdates() {
			if !isLive(u) {
				t.Errorf("%s: a frame of the other run is %s, want LIVE", o.name, u)
			}
			if int(u.RunSeq) > 2 && u.at.Sub(good.commitTime(u.RunSeq)) > time.Second+machineSlack() {
				t.Errorf("%s: %s came %s after its commit, want a second or less", o.name, u, u.at.Sub(good.commitTime(u.RunSeq)))
			}
		}
	}
	for _, o := range badly {
		o.waitForLive(bad.head(), repairedWithin)
	}
	checkUpdates(t, bad, badly...)
	checkUpdates(t, good, well...)
}

// testBusyRunStaysLive appends events in bursts, which the projector batches.
func testBusyRunStaysLive(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	os := p.watchOnBoth(t, h, "DELTA")
	for i := range 8 {
		for range 14 {
			h.addNoise(1)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Duration(600+150*i) * time.Millisecond)
	}
	for _, o := range os {
		o.waitForLive(h.head(), causeWithin)
		for _, u := range o.receivedUpdates() {
			if !isLive(u) {
				t.Errorf("%s: the frames are %s, want only LIVE because no message was lost", o.name,
					summariseUpdates(o.receivedUpdates()))
				break
			}
		}
	}
	checkUpdates(t, h, os...)
}

func testResumeAfterAnySeq(t *testing.T, p *pair) {
	h := p.newRun(t, 4)
	for i := range 4 {
		h.add(step(run.StepStartedEvent, i, 1), step(run.StepFailedEvent, i, 1))
		h.add(step(run.StepStartedEvent, i, 2))
	}
	h.add(step(run.StepCompletedEvent, 0, 2))
	epoch := p.watchOnBoth(t, h, "DELTA")[0].receivedUpdates()[0].StoreEpoch
	r, log := &replay{}, h.log()
	for after := run.Seq(0); after <= h.head(); after++ {
		for i, n := range p.nodes() {
			for _, mode := range []string{"SNAPSHOT", "DELTA"} {
				w := watchOptions{runID: h.id.RunID, after: &after, epoch: epoch, mode: mode, token: viewerToken(i)}
				if mode == "DELTA" && after > 0 {
					w.shows = pictureAt(log, after)
				}
				o := startWatcher(t, n, w)
				got := o.waitForLiveUpdate(h.head(), causeWithin)
				if want := r.stateAt(log, h.head()); got.shows != want ||
					summariseUpdates(o.receivedUpdates()) != fmt.Sprintf("[LIVE %d]", h.head()) {
					t.Errorf("%s, %s, after %d: %s shows %s\nwant %s", n.name, mode, after, summariseUpdates(o.receivedUpdates()),
						got.shows, want)
				}
				o.leave()
			}
		}
	}
}

// pictureAt returns the picture of a viewer who saw the run at seq.
func pictureAt(log []commit, seq run.Seq) picture {
	r := &replay{}
	text := r.stateAt(log, seq)
	return picture{header: r.run, steps: r.steps, text: text}
}

func testSlowViewer(t *testing.T, p *pair) {
	const steps, events = 600, 400 // the kernel buffers few frames of this size
	h := p.newRun(t, steps)
	others := p.watchOnBoth(t, h, "DELTA")
	type asleep struct {
		*frameWatcher
		wake  chan struct{}
		head  run.Seq // of the log when it woke
		rises func()
	}
	var slow []*asleep
	for _, n := range p.nodes() {
		for _, long := range []bool{false, true} {
			o, ctx := newFrameWatcher(t, fmt.Sprintf("%s, asleep longer than a write may take: %t", n.name, long))
			w := watchOptions{url: n.url, token: viewerToken(3), runID: h.id.RunID, narrow: true}
			s := &asleep{frameWatcher: o, wake: make(chan struct{})}
			s.rises = func() { s.head = h.head(); close(s.wake) }
			if !long {
				time.AfterFunc(3*time.Second, s.rises)
			}
			go func() {
				defer close(o.over)
				o.setEnd(w.stream(ctx, func(u update) error {
					o.addUpdate(u)
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
		if i%2 == 1 { // longer than a write may take, with more data than the server buffers
			time.AfterFunc(10*time.Second, s.rises)
		}
	}
	for _, o := range others {
		for _, u := range o.receivedUpdates() {
			if int(u.RunSeq) > 2 && u.at.Sub(h.commitTime(u.RunSeq)) > time.Second+machineSlack() {
				t.Errorf("%s: beside a slow viewer %s came %s after its commit, want a second or less", o.name, u,
					u.at.Sub(h.commitTime(u.RunSeq)))
			}
		}
	}
	for i, s := range slow {
		<-s.wake
		if i%2 == 1 { // the write timed out: the server ends the stream without a frame, and the viewer resumes
			s.waitForEnd(10 * time.Second)
			us := s.receivedUpdates()
			last := us[len(us)-1]
			again := startWatcher(t, p.nodes()[i/2], watchOptions{runID: h.id.RunID, after: &last.RunSeq, epoch: last.StoreEpoch,
				mode: "DELTA"})
			again.waitForLive(h.head(), causeWithin)
			continue
		}
		s.waitForLive(h.head(), repairedWithin)
		old := 0
		for _, u := range s.receivedUpdates() {
			if u.RunSeq < s.head {
				old++
			}
		}
		if old > 35 {
			t.Errorf("%s: after it woke at %d it got %d old frames, want 35 or fewer", s.name, s.head, old)
		}
	}
	checkUpdates(t, h, others...)
}

func testUnknownStatus(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	setRuleOnBoth(p, h, dropAll)
	for done := false; !done; time.Sleep(50 * time.Millisecond) { // until the checkpoint is written
		l, err := p.store.Load(t.Context(), h.id.RunID)
		must(t, err)
		done = l.CheckpointAt == l.Head.LastSeq
	}
	p.execSQL(t, `UPDATE run_state SET status = 'ARCHIVED', header = jsonb_set(header::jsonb, '{status}', '"ARCHIVED"')::json WHERE run_id = $1`, h.id.RunID)
	for _, n := range p.nodes() {
		o := startWatcher(t, n, watchOptions{runID: h.id.RunID})
		if u := o.waitForLiveUpdate(2, causeWithin); !strings.HasPrefix(u.shows, "UNKNOWN ") {
			t.Errorf("%s: the frame shows %s, want the status UNKNOWN", n.name, u.shows)
		}
		a := ask(t, n.url, `query($id:String!){run(runId:$id){status statusRaw}}`, map[string]any{"id": h.id.RunID},
			"Authorization: Bearer "+viewerToken(0))
		if !strings.Contains(a.body, `"status":"UNKNOWN","statusRaw":"ARCHIVED"`) {
			t.Errorf("%s: the API answers %s, want UNKNOWN with statusRaw ARCHIVED", n.name, a.body)
		}
	}
}
