package server_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func testSubscribeDuringWrites(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 120 {
			h.addNoise(1)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	var os []*frameWatcher
	for i := range 24 {
		mode := []string{"SNAPSHOT", "DELTA"}[i/2%2]
		os = append(os, startWatcher(t, p.nodes()[i%2], watchOptions{runID: h.id.RunID, mode: mode, events: i%8 == 0}))
		time.Sleep(50 * time.Millisecond)
	}
	<-over
	for _, o := range os {
		o.waitForLive(h.head(), 5*time.Second)
		if first := o.receivedUpdates()[0]; !isLive(first) || first.shows == "" {
			t.Errorf("%s: the first frame is %s %q, want LIVE with content", o.name, first, first.shows)
		}
	}
	checkUpdates(t, h, os...)
}

func testMessageLostInTheMiddle(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	h.addNoiseUpTo(10)
	os := p.watchOnBoth(t, h, "SNAPSHOT")
	setRuleOnBoth(p, h, dropMessages(11))
	h.addNoise(1)
	h.waitUntilSent(p)
	h.addNoise(1)
	for _, o := range os {
		o.waitForLive(12, tailLossWithin+machineSlack())
		if got, want := summariseUpdates(o.receivedUpdates()),
			"[LIVE 10] [STALE(GAP) 10<12] [RESYNCING(GAP) 10<12] [LIVE 12]"; got != want {
			t.Errorf("%s: %s, want %s", o.name, got, want)
		}
	}
	for _, n := range p.nodes() {
		got := 0
		// the test reads the log of a process later than its stream
		waitUntil(t, n.name+" logs that a message is missing", 10*time.Second, func() bool {
			got = strings.Count(n.logText(), fmt.Sprintf("PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED runId=%s ", h.id.RunID)) +
				strings.Count(n.logText(), fmt.Sprintf(`"PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED","runId":"%s"`, h.id.RunID))
			return got > 0
		})
		if got != 1 {
			t.Errorf("%s logged %d times that a message is missing, want once", n.name, got)
		}
	}
	checkUpdates(t, h, os...)
}

func testMessagesOutOfOrder(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	h.addNoiseUpTo(10)
	os := p.watchOnBoth(t, h, "DELTA")
	const late = 2 * time.Second // so that the next message overtakes it also on a slow machine
	setRuleOnBoth(p, h, func(m live.Message) testserver.Fate {
		if m.To == 11 {
			return testserver.Fate{Delay: late}
		}
		return testserver.Fate{}
	})
	h.addNoise(1)
	h.waitUntilSent(p)
	h.addNoise(1)
	time.Sleep(late + 500*time.Millisecond) // the late message has arrived
	for _, o := range os {
		o.waitForLive(12, tailLossWithin+machineSlack())
		if got, want := summariseUpdates(o.receivedUpdates()),
			"[LIVE 10] [STALE(GAP) 10<12] [RESYNCING(GAP) 10<12] [LIVE 12]"; got != want {
			t.Errorf("%s: %s, want %s", o.name, got, want)
		}
	}
	checkUpdates(t, h, os...)
}

func testMessageRepeated(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	h.addNoiseUpTo(5)
	os := p.watchOnBoth(t, h, "SNAPSHOT")
	setRuleOnBoth(p, h, func(live.Message) testserver.Fate { return testserver.Fate{Copies: 2} })
	h.add(step(run.StepStartedEvent, 0, 1))
	for _, o := range os {
		o.waitForLive(6, tailLossWithin)
	}
	h.add(step(run.StepCompletedEvent, 0, 1))
	time.Sleep(300 * time.Millisecond)
	for _, o := range os {
		o.waitForLive(7, tailLossWithin)
		var got []string
		for _, u := range o.receivedUpdates() {
			if u.RunSeq > 5 {
				got = append(got, u.String())
			}
		}
		if strings.Join(got, " ") != "[LIVE 6] [LIVE 7]" {
			t.Errorf("%s: the frames are %s, want [LIVE 6] [LIVE 7]", o.name, got)
		}
	}
	checkUpdates(t, h, os...)
}

func testLastMessageLost(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.add(step(run.StepStartedEvent, 0, 1))
	h.add(step(run.StepCompletedEvent, 0, 1))
	h.addNoiseUpTo(8)
	os := p.watchOnBoth(t, h, "DELTA")
	setRuleOnBoth(p, h, dropAll)
	h.add(runtest.Draft(run.RunCompleted, "", 1))
	for _, o := range os {
		last := o.waitForLiveUpdate(9, tailLossWithin+machineSlack())
		if got, want := summariseUpdates(o.receivedUpdates()),
			"[LIVE 8] [STALE(TAIL_LOSS) 8<9] [RESYNCING(TAIL_LOSS) 8<9] [LIVE 9]"; got != want ||
			!strings.HasPrefix(last.shows, "COMPLETED ") {
			t.Errorf("%s: the frames are %s, want %s; the last shows %s, want COMPLETED", o.name, got, want, last.shows)
		}
		select {
		case <-o.over:
			t.Errorf("%s: the stream ended, want it open although the run is over", o.name)
		default:
		}
	}
	checkUpdates(t, h, os...)
}

func testReconnectToQuietRun(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.addNoiseUpTo(8)
	h.add(runtest.Draft(run.RunCompleted, "", 1))
	epoch := p.watchOnBoth(t, h, "SNAPSHOT")[0].receivedUpdates()[0].StoreEpoch
	for i, n := range []*node{p.a, p.b, p.a, p.b} {
		mode := []string{"SNAPSHOT", "DELTA"}[i/2]
		nine, twelve := run.Seq(9), run.Seq(12)
		began := time.Now()
		o := startWatcher(t, n, watchOptions{runID: h.id.RunID, after: &nine, epoch: epoch, mode: mode})
		o.waitForLive(9, 2*time.Second)
		if took := o.receivedUpdates()[0].at.Sub(began); summariseUpdates(o.receivedUpdates()) != "[LIVE 9]" ||
			took > time.Second+machineSlack() {
			t.Errorf("%s, %s: resumed after 9 the frames are %s within %s, want [LIVE 9] within a second", n.name, mode,
				summariseUpdates(o.receivedUpdates()), took)
		}
		ahead := startWatcher(t, n, watchOptions{runID: h.id.RunID, after: &twelve, epoch: epoch, mode: mode})
		ahead.waitForLive(9, 2*time.Second)
		if got := summariseUpdates(ahead.receivedUpdates()); got != "[RESYNCING 9 reset] [LIVE 9]" ||
			ahead.receivedUpdates()[0].shows == "" {
			t.Errorf("%s, %s: resumed after 12 the frames are %s, want a reset to 9 with content", n.name, mode, got)
		}
	}
}

func testMessageAheadOfTheLog(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.addNoiseUpTo(9)
	os := p.watchOnBoth(t, h, "SNAPSHOT")
	seen := os[0].receivedUpdates()[0]
	must(t, p.bus.Publish(t.Context(), live.Message{
		V: live.MessageVersion, TenantID: "acme", ProjectID: "shop", RunID: h.id.RunID, Epoch: seen.StoreEpoch,
		Rev:  run.ReducerRev,
		From: 98, To: 99, At: time.Now(), Delta: &run.Delta{From: 98, To: 99, Header: run.Header{Identity: h.id, Seq: 99,
			Status: run.Running}},
	}))
	for _, o := range os {
		stale := o.waitForUpdate(0, causeWithin, "STALE", func(u update) bool { return u.Sync == "STALE" })
		o.waitForUpdate(stale, repairedWithin, "LIVE again", isLive)
		if got, want := summariseUpdates(o.receivedUpdates()),
			"[LIVE 9] [STALE(GAP) 9<99] [RESYNCING(GAP) 9<99] [LIVE 9]"; got != want {
			t.Errorf("%s: %s, want %s", o.name, got, want)
		}
	}
	h.addNoise(1)
	for _, o := range os {
		o.waitForLive(10, causeWithin)
	}
	checkUpdates(t, h, os...)
}

func testSubscribersKilled(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	os := p.watchOnBoth(t, h, "DELTA")
	c, err := net.Dial("tcp", p.redis.Addr)
	must(t, err)
	defer c.Close()
	_, err = fmt.Fprint(c, "CLIENT KILL TYPE pubsub\r\n")
	must(t, err)
	killed, err := bufio.NewReader(c).ReadString('\n')
	must(t, err)
	if killed == ":0\r\n" {
		t.Fatal("Redis has no subscribers to kill, want those of both servers")
	}
	h.addNoise(3)
	for _, o := range os {
		o.waitForLive(h.head(), repairedWithin)
		o.waitForUpdate(0, repairedWithin, "VERIFYING", func(u update) bool {
			return u.Sync == "VERIFYING" &&
				u.Reason == "RECONNECTED"
		})
	}
	checkUpdates(t, h, os...)
}
