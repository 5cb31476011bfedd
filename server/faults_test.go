package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// machine is what a busy machine may add to the times of the contract.
func machineSlack() time.Duration {
	return 500*time.Millisecond + testtime.Of(tailLossWithin) - tailLossWithin
}

// TestTwoServers_ScenariosOfFreshness plays what acceptance.md tells of streams, on two
// servers at once, over real sockets. B's clock is a minute ahead all the time.
func TestTwoServers_ViewersAreNeverMisled(t *testing.T) {
	p := startPair(t)
	t.Run("messages", func(t *testing.T) {
		// contract: S01, T206
		t.Run("nothing between subscribe and snapshot is lost or doubled", onPair(p, testSubscribeDuringWrites))
		// contract: S02, W-4, T23
		t.Run("a message in the middle is lost", onPair(p, testMessageLostInTheMiddle))
		// contract: S03, W-3, T23, T188
		t.Run("messages out of order", onPair(p, testMessagesOutOfOrder))
		// contract: S04, W-2, T24, T188
		t.Run("a message comes three times", onPair(p, testMessageRepeated))
		// contract: S05, W-4, T22, T187
		t.Run("the last message is lost", onPair(p, testLastMessageLost))
		// contract: S06, W-17, T21
		t.Run("reconnecting to a quiet run", onPair(p, testReconnectToQuietRun))
		// contract: S07, T213
		t.Run("a message about what is not", onPair(p, testMessageAheadOfTheLog))
		// contract: S09, T33
		t.Run("a gap in one run delays no other", onPair(p, testGapDelaysNoOtherRun))
		// contract: S10, O9, T26, T187
		t.Run("resuming after any seq", onPair(p, testResumeAfterAnySeq))
		// contract: T187, O8
		t.Run("a busy run is not called stale", onPair(p, testBusyRunStaysLive))
		// contract: S14, T31
		t.Run("a viewer that does not read", onPair(p, testSlowViewer))
		// contract: S15, T40
		t.Run("a status of the future", onPair(p, testUnknownStatus))
		// contract: S16, T178, T202
		t.Run("rights", onPair(p, testRights))
	})
	// contract: S08, T21, T29
	t.Run("never LIVE before the store is read", onPairSerially(p, testNoLiveWhileStoreIsDown))
	// contract: S11, T125, T206
	t.Run("the subscribing connections are killed", onPairSerially(p, testSubscribersKilled))
	// contract: S12, T127, T169, T226
	t.Run("Redis is down", onPairSerially(p, testRedisDown))
	// contract: S13, W-17, T30, T194
	t.Run("the store is restored", onPairSerially(p, testStoreRestored))
}

func onPair(p *pair, scenario func(*testing.T, *pair)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		scenario(t, p)
	}
}

func onPairSerially(p *pair, scenario func(*testing.T, *pair)) func(*testing.T) {
	return func(t *testing.T) { scenario(t, p) }
}

// both watches a run on both servers and waits until its head is shown.
func (p *pair) watchOnBoth(t *testing.T, h *history, mode string) []*frameWatcher {
	t.Helper()
	var out []*frameWatcher
	for _, n := range p.nodes() {
		out = append(out, startWatcher(t, n, watchOptions{runID: h.id.RunID, mode: mode}))
	}
	for _, o := range out {
		o.waitForLive(h.head(), 5*time.Second)
	}
	return out
}

// honest judges everything that onlookers saw of a run.
func checkUpdates(t *testing.T, h *history, os ...*frameWatcher) {
	t.Helper()
	var v verdict
	for _, o := range os {
		v.judge(o.name, o.receivedUpdates(), h, &replay{}, judgeOptions{slack: machineSlack(), until: time.Now()})
	}
	if len(v.faults) > 0 {
		t.Errorf("%v", &v)
	}
}

// words are frames as people write them, without what only moves on while LIVE.
func summariseUpdates(us []update) string {
	var out []string
	for i, u := range us {
		if i > 0 && isLive(u) && isLive(us[i-1]) && u.Reason == us[i-1].Reason && !u.Reset {
			out[len(out)-1] = u.String()
			continue
		}
		out = append(out, u.String())
	}
	return strings.Join(out, " ")
}

func setRuleOnBoth(p *pair, h *history, fate func(live.Message) testserver.Fate) {
	for _, n := range p.nodes() {
		n.setRule(h.id.RunID, fate)
	}
}

func dropMessages(seqs ...run.Seq) func(live.Message) testserver.Fate {
	return func(m live.Message) testserver.Fate { return testserver.Fate{Drop: slices.Contains(seqs, m.To)} }
}

func dropAll(live.Message) testserver.Fate { return testserver.Fate{Drop: true} }

// sql changes the database behind the servers' back.
func (p *pair) execSQL(t *testing.T, statement string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.dsn)
	must(t, err)
	defer func() { must(t, c.Close(t.Context())) }()
	_, err = c.Exec(t.Context(), `SET session_replication_role = replica`) // no triggers: the log is insert-only
	must(t, err)
	_, err = c.Exec(t.Context(), statement, args...)
	must(t, err)
}

func testRights(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	for _, n := range p.nodes() {
		for _, id := range []string{h.id.RunID, "no-such-run"} {
			o := startWatcher(t, n, watchOptions{runID: id, token: malToken})
			if code := o.waitForEnd(causeWithin); code != "NOT_FOUND" || len(o.receivedUpdates()) > 0 {
				t.Errorf("%s: mal asked for %s: %q and %s", n.name, id, code, formatUpdates(o.receivedUpdates()))
			}
		}
	}
	vic := startWatcher(t, p.b, watchOptions{runID: h.id.RunID, token: vicToken})
	stays := startWatcher(t, p.b, watchOptions{runID: h.id.RunID})
	vic.waitForLive(2, causeWithin)
	stays.waitForLive(2, causeWithin)
	p.directory.SetGrants("acme", "vic", nil)
	must(t, p.authorizer.Swap(authz.DefaultPolicy()))
	revoked := time.Now()
	for range 15 {
		h.addNoise(1)
		time.Sleep(100 * time.Millisecond)
	}
	if code := vic.waitForEnd(causeWithin); code != "FORBIDDEN" && code != "NOT_FOUND" {
		t.Errorf("vic's stream ended with %q", code)
	}
	us := vic.receivedUpdates()
	if late := us[len(us)-1].at.Sub(revoked); late > testtime.Of(time.Second) {
		t.Errorf("vic got a frame %s after the role was taken away", late)
	}
	stays.waitForLive(h.head(), causeWithin)
}

func testNoLiveWhileStoreIsDown(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	os := p.watchOnBoth(t, h, "SNAPSHOT")
	setRuleOnBoth(p, h, dropMessages(h.head()+1))
	for _, n := range p.nodes() {
		n.db.Hold()
	}
	h.addNoise(1)
	time.Sleep(100 * time.Millisecond)
	h.addNoise(1)
	for _, o := range os {
		o.waitForUpdate(0, causeWithin+repairedWithin, "STALE", func(u update) bool {
			return u.Sync == "STALE" &&
				u.Reason == "STORE_DOWN"
		})
	}
	time.Sleep(3 * time.Second) // and nothing changes that while the store does not answer
	for _, o := range os {
		us := o.receivedUpdates()
		if last := us[len(us)-1]; last.Sync != "STALE" || last.Reason != "STORE_DOWN" || last.RunSeq != 2 {
			t.Errorf("%s: %s", o.name, formatUpdates(us))
		}
	}
	for _, n := range p.nodes() {
		n.db.Pass()
	}
	for _, o := range os {
		o.waitForLive(h.head(), repairedWithin)
	}
	checkUpdates(t, h, os...)
}

func testRedisDown(t *testing.T, p *pair) {
	h := p.newRun(t, 6)
	os := p.watchOnBoth(t, h, "SNAPSHOT")
	p.redis.Stop()
	down := time.Now()
	for _, o := range os {
		i := o.waitForUpdate(0, causeWithin+machineSlack(), "BUS_DEGRADED", func(u update) bool { return u.Reason == "BUS_DEGRADED" })
		if took := o.receivedUpdates()[i].at.Sub(down); took > causeWithin+machineSlack() {
			t.Errorf("%s: BUS_DEGRADED after %s", o.name, took)
		}
	}
	for i := range 6 {
		h.add(step(run.StepStartedEvent, i, 1))
		for _, o := range os {
			u := o.waitForLiveUpdate(h.head(), causeWithin+machineSlack())
			if u.Reason != "BUS_DEGRADED" {
				t.Errorf("%s: %s", o.name, u)
			}
		}
		h.add(step(run.StepCompletedEvent, i, 1))
	}
	began := time.Now()
	id := start(t, client.New(p.a.url, viewerToken(0)), "in-the-dark", stepsPlan("dark",
		`{"stepId":"s","type":"NOOP","inputs":{},"dependsOn":[],"timeout":"1m"}`))
	if took := time.Since(began); took > testtime.Of(causeWithin) {
		t.Errorf("startRun took %s while Redis was down", took)
	}
	startWatcher(t, p.b, watchOptions{runID: id}).waitForLive(1, causeWithin)
	p.redis.Start()
	for _, o := range os {
		i := o.waitForLive(h.head(), repairedWithin)
		o.waitForUpdate(i, repairedWithin, "LIVE for no special cause", func(u update) bool { return isLive(u) && u.Reason == "" })
	}
	for waited := time.Now(); ; time.Sleep(100 * time.Millisecond) { // the outbox drains
		dirty, err := p.store.Dirty(t.Context(), 0, 100)
		must(t, err)
		if len(dirty) == 0 {
			break
		}
		if time.Since(waited) > time.Minute {
			t.Fatalf("not published %s after Redis is back: %+v", time.Since(waited), dirty)
		}
	}
	for _, o := range os {
		var last run.Seq
		for _, u := range o.receivedUpdates() {
			if u.Sync == "STALE" {
				t.Errorf("%s: %s", o.name, u)
			}
			if u.RunSeq < last {
				t.Errorf("%s went back: %s", o.name, u)
			}
			last = u.RunSeq
		}
	}
	checkUpdates(t, h, os...)
}

// restored puts the run back to an older seq and raises the epoch, as the runbook says.
func testStoreRestored(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.addNoiseUpTo(120)
	os := p.watchOnBoth(t, h, "SNAPSHOT")
	seen := os[0].receivedUpdates()
	old := seen[len(seen)-1].StoreEpoch
	p.execSQL(t, `WITH e AS (DELETE FROM event WHERE run_id = $1 AND run_seq > 100), s AS (DELETE FROM step_state WHERE run_id = $1)
		UPDATE run_head SET last_seq = 100 WHERE run_id = $1`, h.id.RunID)
	must(t, p.store.DropCheckpoint(t.Context(), h.id.RunID))
	must(t, p.store.BumpEpoch(t.Context()))
	back := time.Now()
	h.mu.Lock()
	h.commits = h.commits[:100]
	h.mu.Unlock()
	for _, o := range os {
		i := o.waitForUpdate(0, repairedWithin, "LIVE at 100", func(u update) bool {
			return isLive(u) && u.StoreEpoch != old &&
				u.RunSeq == 100
		})
		us := o.receivedUpdates()[:i+1]
		if !slices.ContainsFunc(us, func(u update) bool {
			return u.Reset && u.Reason == "EPOCH_CHANGED" && u.StoreEpoch != old && u.RunSeq == 100
		}) {
			t.Errorf("%s: no reset: %s", o.name, formatUpdates(us))
		}
		if took := us[i].at.Sub(back); took > causeWithin+machineSlack() {
			t.Errorf("%s: the restored log was shown after %s", o.name, took)
		}
	}
	h.addNoise(1)
	after := run.Seq(120)
	for i, o := range os {
		o.waitForUpdate(0, causeWithin, "LIVE at the new 101", func(u update) bool {
			return isLive(u) && u.StoreEpoch != old &&
				u.RunSeq == 101
		})
		again := startWatcher(t, p.nodes()[i], watchOptions{runID: h.id.RunID, after: &after, epoch: old, mode: "DELTA"})
		again.waitForLive(101, causeWithin)
		if first := again.receivedUpdates()[0]; !first.Reset || first.shows == "" || first.Reason != "EPOCH_CHANGED" {
			t.Errorf("%s: who comes back from the past is told %s", o.name, formatUpdates(again.receivedUpdates()))
		}
	}
}
