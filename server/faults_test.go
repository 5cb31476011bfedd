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

// machineSlack returns the time that a busy machine may add to the times of the contract.
func machineSlack() time.Duration {
	return 500*time.Millisecond + testtime.Of(tailLossWithin) - tailLossWithin
}

// The subtests are the acceptance scenarios of streams, on two servers and over real sockets. The clock of B is a
// minute ahead.
func TestTwoServers_ViewersAreNeverMisled(t *testing.T) {
	p := startPair(t)
	t.Run("messages", func(t *testing.T) {
		// contract: S01, T206
		t.Run("nothing between subscribe and snapshot is lost or doubled", onPair(p, testSubscribeDuringWrites))
		// contract: S02, W-4, T23
		t.Run("a message in the middle is lost", onPair(p, testMessageLostInTheMiddle))
		// contract: S03, W-3, T23, T188
		t.Run("messages arrive out of order", onPair(p, testMessagesOutOfOrder))
		// contract: S04, W-2, T24, T188
		t.Run("a message comes three times", onPair(p, testMessageRepeated))
		// contract: S05, W-4, T22, T187
		t.Run("the last message is lost", onPair(p, testLastMessageLost))
		// contract: S06, W-17, T21
		t.Run("a reconnect to a quiet run is LIVE at once", onPair(p, testReconnectToQuietRun))
		// contract: S07, T213
		t.Run("a message is ahead of the log", onPair(p, testMessageAheadOfTheLog))
		// contract: S09, T33
		t.Run("a gap in one run delays no other", onPair(p, testGapDelaysNoOtherRun))
		// contract: S10, O9, T26, T187
		t.Run("a viewer resumes after any seq", onPair(p, testResumeAfterAnySeq))
		// contract: T187, O8
		t.Run("a busy run is not called stale", onPair(p, testBusyRunStaysLive))
		// contract: S14, T31
		t.Run("a viewer that does not read delays no other", onPair(p, testSlowViewer))
		// contract: S15, T40
		t.Run("a status of a later version is UNKNOWN", onPair(p, testUnknownStatus))
		// contract: S16, T178, T202
		t.Run("a viewer who loses the right gets no more frames", onPair(p, testRights))
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

// watchOnBoth watches a run on both servers and waits until both show its head.
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

// checkUpdates judges all frames that the watchers of a run got.
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

// summariseUpdates formats frames. Of consecutive LIVE frames with the same reason it keeps only the last.
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

// execSQL runs a statement on the database directly, without the servers.
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
				t.Errorf("%s: mal watches %s and gets %q after the frames %s, want NOT_FOUND without a frame", n.name, id, code,
					formatUpdates(o.receivedUpdates()))
			}
		}
	}
	vic := startWatcher(t, p.b, watchOptions{runID: h.id.RunID, token: vicToken})
	other := startWatcher(t, p.b, watchOptions{runID: h.id.RunID})
	vic.waitForLive(2, causeWithin)
	other.waitForLive(2, causeWithin)
	p.directory.SetGrants("acme", "vic", nil)
	must(t, p.authorizer.Swap(authz.DefaultPolicy()))
	revoked := time.Now()
	for range 15 {
		h.addNoise(1)
		time.Sleep(100 * time.Millisecond)
	}
	if code := vic.waitForEnd(causeWithin); code != "FORBIDDEN" && code != "NOT_FOUND" {
		t.Errorf("the stream of vic ended with %q, want FORBIDDEN or NOT_FOUND", code)
	}
	us := vic.receivedUpdates()
	if late := us[len(us)-1].at.Sub(revoked); late > testtime.Of(time.Second) {
		t.Errorf("vic got a frame %s after the grant was removed, want a second or less", late)
	}
	other.waitForLive(h.head(), causeWithin)
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
	time.Sleep(3 * time.Second) // no frame follows while the store does not answer
	for _, o := range os {
		us := o.receivedUpdates()
		if last := us[len(us)-1]; last.Sync != "STALE" || last.Reason != "STORE_DOWN" || last.RunSeq != 2 {
			t.Errorf("%s: the frames are %s, want the last STALE(STORE_DOWN) at 2", o.name, formatUpdates(us))
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
		i := o.waitForUpdate(0, causeWithin+machineSlack(), "BUS_DEGRADED",
			func(u update) bool { return u.Reason == "BUS_DEGRADED" })
		if took := o.receivedUpdates()[i].at.Sub(down); took > causeWithin+machineSlack() {
			t.Errorf("%s: BUS_DEGRADED came %s after Redis stopped, want 2 s or less", o.name, took)
		}
	}
	for i := range 6 {
		h.add(step(run.StepStartedEvent, i, 1))
		for _, o := range os {
			u := o.waitForLiveUpdate(h.head(), causeWithin+machineSlack())
			if u.Reason != "BUS_DEGRADED" {
				t.Errorf("%s: the frame is %s, want LIVE(BUS_DEGRADED)", o.name, u)
			}
		}
		h.add(step(run.StepCompletedEvent, i, 1))
	}
	began := time.Now()
	id := start(t, client.New(p.a.url, viewerToken(0)), "in-the-dark", stepsPlan("dark",
		`{"stepId":"s","type":"NOOP","inputs":{},"dependsOn":[],"timeout":"1m"}`))
	if took := time.Since(began); took > testtime.Of(causeWithin) {
		t.Errorf("startRun took %s while Redis was down, want 2 s or less", took)
	}
	startWatcher(t, p.b, watchOptions{runID: id}).waitForLive(1, causeWithin)
	p.redis.Start()
	for _, o := range os {
		i := o.waitForLive(h.head(), repairedWithin)
		o.waitForUpdate(i, repairedWithin, "LIVE without a reason",
			func(u update) bool { return isLive(u) && u.Reason == "" })
	}
	for waited := time.Now(); ; time.Sleep(100 * time.Millisecond) { // the outbox drains
		dirty, err := p.store.Dirty(t.Context(), 0, 100)
		must(t, err)
		if len(dirty) == 0 {
			break
		}
		if time.Since(waited) > time.Minute {
			t.Fatalf("%s after Redis came back these runs are not published: %+v", time.Since(waited), dirty)
		}
	}
	for _, o := range os {
		var last run.Seq
		for _, u := range o.receivedUpdates() {
			if u.Sync == "STALE" {
				t.Errorf("%s: the frame is %s, want none that is STALE", o.name, u)
			}
			if u.RunSeq < last {
				t.Errorf("%s: the frame %s is behind the one before", o.name, u)
			}
			last = u.RunSeq
		}
	}
	checkUpdates(t, h, os...)
}

// testStoreRestored sets the run back to an older seq and raises the epoch, like the runbook for a restore.
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
			t.Errorf("%s: the frames %s have no reset with EPOCH_CHANGED at 100", o.name, formatUpdates(us))
		}
		if took := us[i].at.Sub(back); took > causeWithin+machineSlack() {
			t.Errorf("%s: the restored log was shown after %s, want 2 s or less", o.name, took)
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
			t.Errorf("%s: a viewer of the old epoch resumes with %s, want a reset with EPOCH_CHANGED", o.name,
				formatUpdates(again.receivedUpdates()))
		}
	}
}
