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
func machine() time.Duration {
	return 500*time.Millisecond + testtime.Of(tailLossWithin) - tailLossWithin
}

// TestTwoServers_ScenariosOfFreshness plays what acceptance.md tells of streams, on two
// servers at once, over real sockets. B's clock is a minute ahead all the time.
func TestTwoServers_ScenariosOfFreshness(t *testing.T) {
	p := startPair(t)
	t.Run("messages", func(t *testing.T) {
		// contract: S01, T206
		t.Run("nothing between subscribe and snapshot is lost or doubled", onPair(p, subscribing))
		// contract: S02, W-4, T23
		t.Run("a message in the middle is lost", onPair(p, lostInTheMiddle))
		// contract: S03, W-3, T23, T188
		t.Run("messages out of order", onPair(p, outOfOrder))
		// contract: S04, W-2, T24, T188
		t.Run("a message comes three times", onPair(p, repeated))
		// contract: S05, W-4, T22, T187
		t.Run("the last message is lost", onPair(p, lostAtTheEnd))
		// contract: S06, W-17, T21
		t.Run("reconnecting to a quiet run", onPair(p, quietReconnect))
		// contract: S07, T213
		t.Run("a message about what is not", onPair(p, phantom))
		// contract: S09, T33
		t.Run("a gap in one run delays no other", onPair(p, isolation))
		// contract: S10, O9, T26, T187
		t.Run("resuming after any seq", onPair(p, resuming))
		// contract: T187, O8
		t.Run("a busy run is not called stale", onPair(p, busy))
		// contract: S14, T31
		t.Run("a viewer that does not read", onPair(p, slowViewer))
		// contract: S15, T40
		t.Run("a status of the future", onPair(p, drift))
		// contract: S16, T178, T202
		t.Run("rights", onPair(p, rights))
	})
	// contract: S08, T21, T29
	t.Run("never LIVE before the store is read", onPairAlone(p, criterion))
	// contract: S11, T125, T206
	t.Run("the subscribing connections are killed", onPairAlone(p, killedSubscribers))
	// contract: S12, T127, T169, T226
	t.Run("Redis is down", onPairAlone(p, redisDown))
	// contract: S13, W-17, T30, T194
	t.Run("the store is restored", onPairAlone(p, restored))
}

func onPair(p *pair, scenario func(*testing.T, *pair)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		scenario(t, p)
	}
}

func onPairAlone(p *pair, scenario func(*testing.T, *pair)) func(*testing.T) {
	return func(t *testing.T) { scenario(t, p) }
}

// both watches a run on both servers and waits until its head is shown.
func (p *pair) both(t *testing.T, h *history, mode string) []*onlooker {
	t.Helper()
	var out []*onlooker
	for _, n := range p.nodes() {
		out = append(out, look(t, n, watching{runID: h.id.RunID, mode: mode}))
	}
	for _, o := range out {
		o.liveAt(h.head(), 5*time.Second)
	}
	return out
}

// honest judges everything that onlookers saw of a run.
func honest(t *testing.T, h *history, os ...*onlooker) {
	t.Helper()
	var v verdict
	for _, o := range os {
		v.judge(o.name, o.seen(), h, &replay{}, judgement{slack: machine(), until: time.Now()})
	}
	if len(v.faults) > 0 {
		t.Errorf("%v", &v)
	}
}

// words are frames as people write them, without what only moves on while LIVE.
func words(us []update) string {
	var out []string
	for i, u := range us {
		if i > 0 && fresh(u) && fresh(us[i-1]) && u.Reason == us[i-1].Reason && !u.Reset {
			out[len(out)-1] = u.String()
			continue
		}
		out = append(out, u.String())
	}
	return strings.Join(out, " ")
}

func onBoth(p *pair, h *history, fate func(live.Message) testserver.Fate) {
	for _, n := range p.nodes() {
		n.rule(h.id.RunID, fate)
	}
}

func lose(seqs ...run.Seq) func(live.Message) testserver.Fate {
	return func(m live.Message) testserver.Fate { return testserver.Fate{Drop: slices.Contains(seqs, m.To)} }
}

func loseAll(live.Message) testserver.Fate { return testserver.Fate{Drop: true} }

// sql changes the database behind the servers' back.
func (p *pair) sql(t *testing.T, statement string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.dsn)
	must(t, err)
	defer func() { must(t, c.Close(t.Context())) }()
	_, err = c.Exec(t.Context(), `SET session_replication_role = replica`) // no triggers: the log is insert-only
	must(t, err)
	_, err = c.Exec(t.Context(), statement, args...)
	must(t, err)
}

func rights(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	for _, n := range p.nodes() {
		for _, id := range []string{h.id.RunID, "no-such-run"} {
			o := look(t, n, watching{runID: id, token: malToken})
			if code := o.ends(causeWithin); code != "NOT_FOUND" || len(o.seen()) > 0 {
				t.Errorf("%s: mal asked for %s: %q and %s", n.name, id, code, said(o.seen()))
			}
		}
	}
	vic := look(t, p.b, watching{runID: h.id.RunID, token: vicToken})
	stays := look(t, p.b, watching{runID: h.id.RunID})
	vic.liveAt(2, causeWithin)
	stays.liveAt(2, causeWithin)
	p.says.SetGrants("acme", "vic", nil)
	must(t, p.obeys.Swap(authz.DefaultPolicy()))
	revoked := time.Now()
	for range 15 {
		h.noise(1)
		time.Sleep(100 * time.Millisecond)
	}
	if code := vic.ends(causeWithin); code != "FORBIDDEN" && code != "NOT_FOUND" {
		t.Errorf("vic's stream ended with %q", code)
	}
	us := vic.seen()
	if late := us[len(us)-1].at.Sub(revoked); late > testtime.Of(time.Second) {
		t.Errorf("vic got a frame %s after the role was taken away", late)
	}
	stays.liveAt(h.head(), causeWithin)
}

func criterion(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	os := p.both(t, h, "SNAPSHOT")
	onBoth(p, h, lose(h.head()+1))
	for _, n := range p.nodes() {
		n.db.Hold()
	}
	h.noise(1)
	time.Sleep(100 * time.Millisecond)
	h.noise(1)
	for _, o := range os {
		o.until(0, causeWithin+repairedWithin, "STALE", func(u update) bool {
			return u.Sync == "STALE" &&
				u.Reason == "STORE_DOWN"
		})
	}
	time.Sleep(3 * time.Second) // and nothing changes that while the store does not answer
	for _, o := range os {
		us := o.seen()
		if last := us[len(us)-1]; last.Sync != "STALE" || last.Reason != "STORE_DOWN" || last.RunSeq != 2 {
			t.Errorf("%s: %s", o.name, said(us))
		}
	}
	for _, n := range p.nodes() {
		n.db.Pass()
	}
	for _, o := range os {
		o.liveAt(h.head(), repairedWithin)
	}
	honest(t, h, os...)
}

func redisDown(t *testing.T, p *pair) {
	h := p.newRun(t, 6)
	os := p.both(t, h, "SNAPSHOT")
	p.redis.Stop()
	down := time.Now()
	for _, o := range os {
		i := o.until(0, causeWithin+machine(), "BUS_DEGRADED", func(u update) bool { return u.Reason == "BUS_DEGRADED" })
		if took := o.seen()[i].at.Sub(down); took > causeWithin+machine() {
			t.Errorf("%s: BUS_DEGRADED after %s", o.name, took)
		}
	}
	for i := range 6 {
		h.add(step(run.StepStartedEvent, i, 1))
		for _, o := range os {
			u := o.shownAt(h.head(), causeWithin+machine())
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
	look(t, p.b, watching{runID: id}).liveAt(1, causeWithin)
	p.redis.Start()
	for _, o := range os {
		i := o.liveAt(h.head(), repairedWithin)
		o.until(i, repairedWithin, "LIVE for no special cause", func(u update) bool { return fresh(u) && u.Reason == "" })
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
		for _, u := range o.seen() {
			if u.Sync == "STALE" {
				t.Errorf("%s: %s", o.name, u)
			}
			if u.RunSeq < last {
				t.Errorf("%s went back: %s", o.name, u)
			}
			last = u.RunSeq
		}
	}
	honest(t, h, os...)
}

// restored puts the run back to an older seq and raises the epoch, as the runbook says.
func restored(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.upTo(120)
	os := p.both(t, h, "SNAPSHOT")
	seen := os[0].seen()
	old := seen[len(seen)-1].StoreEpoch
	p.sql(t, `WITH e AS (DELETE FROM event WHERE run_id = $1 AND run_seq > 100), s AS (DELETE FROM step_state WHERE run_id = $1)
		UPDATE run_head SET last_seq = 100 WHERE run_id = $1`, h.id.RunID)
	must(t, p.store.DropCheckpoint(t.Context(), h.id.RunID))
	must(t, p.store.BumpEpoch(t.Context()))
	back := time.Now()
	h.mu.Lock()
	h.commits = h.commits[:100]
	h.mu.Unlock()
	for _, o := range os {
		i := o.until(0, repairedWithin, "LIVE at 100", func(u update) bool {
			return fresh(u) && u.StoreEpoch != old &&
				u.RunSeq == 100
		})
		us := o.seen()[:i+1]
		if !slices.ContainsFunc(us, func(u update) bool {
			return u.Reset && u.Reason == "EPOCH_CHANGED" && u.StoreEpoch != old && u.RunSeq == 100
		}) {
			t.Errorf("%s: no reset: %s", o.name, said(us))
		}
		if took := us[i].at.Sub(back); took > causeWithin+machine() {
			t.Errorf("%s: the restored log was shown after %s", o.name, took)
		}
	}
	h.noise(1)
	after := run.Seq(120)
	for i, o := range os {
		o.until(0, causeWithin, "LIVE at the new 101", func(u update) bool {
			return fresh(u) && u.StoreEpoch != old &&
				u.RunSeq == 101
		})
		again := look(t, p.nodes()[i], watching{runID: h.id.RunID, after: &after, epoch: old, mode: "DELTA"})
		again.liveAt(101, causeWithin)
		if first := again.seen()[0]; !first.Reset || first.shows == "" || first.Reason != "EPOCH_CHANGED" {
			t.Errorf("%s: who comes back from the past is told %s", o.name, said(again.seen()))
		}
	}
}
