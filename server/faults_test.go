package server_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// machine is what a busy machine may add to the times of the contract.
const machine = 500 * time.Millisecond

// TestTwoServers_ScenariosOfFreshness plays what acceptance.md tells of streams, on two
// servers at once, over real sockets. B's clock is a minute ahead all the time.
func TestTwoServers_ScenariosOfFreshness(t *testing.T) {
	p := startPair(t)
	t.Run("messages", func(t *testing.T) {
		t.Run("S01 T206 nothing between subscribe and snapshot is lost or doubled", onPair(p, subscribing))
		t.Run("S02 W-4 T23 a message in the middle is lost", onPair(p, lostInTheMiddle))
		t.Run("S03 W-3 T23 T188 messages out of order", onPair(p, outOfOrder))
		t.Run("S04 W-2 T24 T188 a message comes three times", onPair(p, repeated))
		t.Run("S05 W-4 T22 T187 the last message is lost", onPair(p, lostAtTheEnd))
		t.Run("S06 W-17 T21 reconnecting to a quiet run", onPair(p, quietReconnect))
		t.Run("S07 T213 a message about what is not", onPair(p, phantom))
		t.Run("S09 T33 a gap in one run delays no other", onPair(p, isolation))
		t.Run("S10 O9 T26 T187 resuming after any seq", onPair(p, resuming))
		t.Run("T187 O8 a busy run is not called stale", onPair(p, busy))
		t.Run("S14 T31 a viewer that does not read", onPair(p, slowViewer))
		t.Run("S15 T40 a status of the future", onPair(p, drift))
		t.Run("S16 T178 T202 rights", onPair(p, rights))
	})
	t.Run("S08 T21 T29 never LIVE before the store is read", onPairAlone(p, criterion))
	t.Run("S11 T125 T206 the subscribing connections are killed", onPairAlone(p, killedSubscribers))
	t.Run("S12 T127 T169 T226 Redis is down", onPairAlone(p, redisDown))
	t.Run("S13 W-17 T30 T194 the store is restored", onPairAlone(p, restored))
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
		v.judge(o.name, o.seen(), h, &replay{}, judgement{slack: machine, until: time.Now()})
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

func subscribing(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 120 {
			h.noise(1)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	var os []*onlooker
	for i := range 24 {
		mode := []string{"SNAPSHOT", "DELTA"}[i/2%2]
		os = append(os, look(t, p.nodes()[i%2], watching{runID: h.id.RunID, mode: mode, events: i%8 == 0}))
		time.Sleep(50 * time.Millisecond)
	}
	<-over
	for _, o := range os {
		o.liveAt(h.head(), 5*time.Second)
		if first := o.seen()[0]; !fresh(first) || first.shows == "" {
			t.Errorf("%s: the first frame is %s %q", o.name, first, first.shows)
		}
	}
	honest(t, h, os...)
}

func lostInTheMiddle(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	h.upTo(10)
	os := p.both(t, h, "SNAPSHOT")
	onBoth(p, h, lose(11))
	h.noise(1)
	time.Sleep(100 * time.Millisecond)
	h.noise(1)
	for _, o := range os {
		o.liveAt(12, tailLossWithin+machine)
		if got, want := words(o.seen()), "[LIVE 10] [STALE(GAP) 10<12] [RESYNCING(GAP) 10<12] [LIVE 12]"; got != want {
			t.Errorf("%s: %s, want %s", o.name, got, want)
		}
	}
	for _, n := range p.nodes() {
		if got := strings.Count(n.said(), fmt.Sprintf("PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED runId=%s ", h.id.RunID)) +
			strings.Count(n.said(), fmt.Sprintf(`"PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED","runId":"%s"`, h.id.RunID)); got != 1 {
			t.Errorf("%s said %d times that a message is missing", n.name, got)
		}
	}
	honest(t, h, os...)
}

func outOfOrder(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	h.upTo(10)
	os := p.both(t, h, "DELTA")
	onBoth(p, h, func(m live.Message) testserver.Fate {
		if m.To == 11 {
			return testserver.Fate{Delay: 400 * time.Millisecond}
		}
		return testserver.Fate{}
	})
	h.noise(1)
	time.Sleep(100 * time.Millisecond)
	h.noise(1)
	time.Sleep(time.Second) // the late one has come
	for _, o := range os {
		o.liveAt(12, tailLossWithin+machine)
		if got, want := words(o.seen()), "[LIVE 10] [STALE(GAP) 10<12] [RESYNCING(GAP) 10<12] [LIVE 12]"; got != want {
			t.Errorf("%s: %s, want %s", o.name, got, want)
		}
	}
	honest(t, h, os...)
}

func repeated(t *testing.T, p *pair) {
	h := p.newRun(t, 3)
	h.upTo(5)
	os := p.both(t, h, "SNAPSHOT")
	onBoth(p, h, func(live.Message) testserver.Fate { return testserver.Fate{Copies: 2} })
	h.add(step(run.StepStartedEvent, 0, 1))
	for _, o := range os {
		o.liveAt(6, tailLossWithin)
	}
	h.add(step(run.StepCompletedEvent, 0, 1))
	time.Sleep(300 * time.Millisecond)
	for _, o := range os {
		o.liveAt(7, tailLossWithin)
		var got []string
		for _, u := range o.seen() {
			if u.RunSeq > 5 {
				got = append(got, u.String())
			}
		}
		if strings.Join(got, " ") != "[LIVE 6] [LIVE 7]" {
			t.Errorf("%s: %s", o.name, got)
		}
	}
	honest(t, h, os...)
}

func lostAtTheEnd(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.add(step(run.StepStartedEvent, 0, 1))
	h.add(step(run.StepCompletedEvent, 0, 1))
	h.upTo(8)
	os := p.both(t, h, "DELTA")
	onBoth(p, h, loseAll)
	h.add(runtest.Draft(run.RunCompleted, "", 1))
	for _, o := range os {
		last := o.shownAt(9, tailLossWithin+machine)
		if got, want := words(o.seen()), "[LIVE 8] [STALE(TAIL_LOSS) 8<9] [RESYNCING(TAIL_LOSS) 8<9] [LIVE 9]"; got != want || !strings.HasPrefix(last.shows, "COMPLETED ") {
			t.Errorf("%s: %s, want %s; it shows %s", o.name, got, want, last.shows)
		}
		select {
		case <-o.over:
			t.Errorf("%s: the stream of a finished run ended (T226)", o.name)
		default:
		}
	}
	honest(t, h, os...)
}

func quietReconnect(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.upTo(8)
	h.add(runtest.Draft(run.RunCompleted, "", 1))
	epoch := p.both(t, h, "SNAPSHOT")[0].seen()[0].StoreEpoch
	for i, n := range []*node{p.a, p.b, p.a, p.b} {
		mode := []string{"SNAPSHOT", "DELTA"}[i/2]
		nine, twelve := run.Seq(9), run.Seq(12)
		began := time.Now()
		o := look(t, n, watching{runID: h.id.RunID, after: &nine, epoch: epoch, mode: mode})
		o.liveAt(9, 2*time.Second)
		if took := o.seen()[0].at.Sub(began); words(o.seen()) != "[LIVE 9]" || took > time.Second+machine {
			t.Errorf("%s, %s: after 9: %s, after %s", n.name, mode, words(o.seen()), took)
		}
		ahead := look(t, n, watching{runID: h.id.RunID, after: &twelve, epoch: epoch, mode: mode})
		ahead.liveAt(9, 2*time.Second)
		if got := words(ahead.seen()); got != "[RESYNCING 9 reset] [LIVE 9]" || ahead.seen()[0].shows == "" {
			t.Errorf("%s, %s: after 12: %s", n.name, mode, got)
		}
	}
}

func phantom(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	h.upTo(9)
	os := p.both(t, h, "SNAPSHOT")
	seen := os[0].seen()[0]
	must(t, p.bus.Publish(t.Context(), live.Message{
		V: live.MessageVersion, TenantID: "acme", ProjectID: "shop", RunID: h.id.RunID, Epoch: seen.StoreEpoch, Rev: run.ReducerRev,
		From: 98, To: 99, At: time.Now(), Delta: &run.Delta{From: 98, To: 99, Header: run.Header{Identity: h.id, Seq: 99, Status: run.Running}},
	}))
	for _, o := range os {
		stale := o.until(0, causeWithin, "STALE", func(u update) bool { return u.Sync == "STALE" })
		o.until(stale, repairedWithin, "LIVE again", fresh)
		if got, want := words(o.seen()), "[LIVE 9] [STALE(GAP) 9<99] [RESYNCING(GAP) 9<99] [LIVE 9]"; got != want {
			t.Errorf("%s: %s, want %s", o.name, got, want)
		}
	}
	h.noise(1)
	for _, o := range os {
		o.liveAt(10, causeWithin)
	}
	honest(t, h, os...)
}

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
			if int(u.RunSeq) > 2 && u.at.Sub(good.at(u.RunSeq)) > time.Second+machine {
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
		wake chan struct{}
		head run.Seq // when it woke
	}
	var slow []*asleep
	for _, n := range p.nodes() {
		for _, nap := range []time.Duration{5 * time.Second, 10 * time.Second} {
			o, ctx := newOnlooker(t, fmt.Sprintf("%s, asleep for %s", n.name, nap))
			w := watching{url: n.url, token: viewerToken(3), runID: h.id.RunID, narrow: true}
			s := &asleep{onlooker: o, wake: make(chan struct{})}
			time.AfterFunc(nap, func() { s.head = h.head(); close(s.wake) })
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
	for _, o := range others {
		for _, u := range o.seen() {
			if int(u.RunSeq) > 2 && u.at.Sub(h.at(u.RunSeq)) > time.Second+machine {
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
			again := look(t, p.nodes()[i/2], watching{runID: h.id.RunID, after: &last.RunSeq, epoch: last.StoreEpoch, mode: "DELTA"})
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
		a := ask(t, n.url, `query($id:String!){run(runId:$id){status statusRaw}}`, map[string]any{"id": h.id.RunID}, "Authorization: Bearer "+viewerToken(0))
		if !strings.Contains(a.body, `"status":"UNKNOWN","statusRaw":"ARCHIVED"`) {
			t.Errorf("%s: %s", n.name, a.body)
		}
	}
}

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
	if late := us[len(us)-1].at.Sub(revoked); late > time.Second {
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
	time.Sleep(5 * time.Second)
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

func killedSubscribers(t *testing.T, p *pair) {
	h := p.newRun(t, 1)
	os := p.both(t, h, "DELTA")
	c, err := net.Dial("tcp", p.redis.Addr)
	must(t, err)
	defer c.Close()
	_, err = fmt.Fprint(c, "CLIENT KILL TYPE pubsub\r\n")
	must(t, err)
	killed, err := bufio.NewReader(c).ReadString('\n')
	must(t, err)
	if killed == ":0\r\n" {
		t.Fatal("nothing was killed")
	}
	h.noise(3)
	for _, o := range os {
		o.liveAt(h.head(), repairedWithin)
		o.until(0, repairedWithin, "VERIFYING", func(u update) bool { return u.Sync == "VERIFYING" && u.Reason == "RECONNECTED" })
	}
	honest(t, h, os...)
}

func redisDown(t *testing.T, p *pair) {
	h := p.newRun(t, 6)
	os := p.both(t, h, "SNAPSHOT")
	p.redis.Stop()
	down := time.Now()
	for _, o := range os {
		i := o.until(0, causeWithin+machine, "BUS_DEGRADED", func(u update) bool { return u.Reason == "BUS_DEGRADED" })
		if took := o.seen()[i].at.Sub(down); took > causeWithin+machine {
			t.Errorf("%s: BUS_DEGRADED after %s", o.name, took)
		}
	}
	for i := range 6 {
		h.add(step(run.StepStartedEvent, i, 1))
		for _, o := range os {
			u := o.shownAt(h.head(), causeWithin+machine)
			if u.Reason != "BUS_DEGRADED" {
				t.Errorf("%s: %s", o.name, u)
			}
		}
		h.add(step(run.StepCompletedEvent, i, 1))
	}
	began := time.Now()
	id := start(t, client.New(p.a.url, viewerToken(0)), "in-the-dark", stepsPlan("dark", `{"stepId":"s","type":"NOOP","inputs":{},"dependsOn":[],"timeout":"1m"}`))
	if took := time.Since(began); took > causeWithin {
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
		if time.Since(waited) > 15*time.Second {
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
		i := o.until(0, repairedWithin, "LIVE at 100", func(u update) bool { return fresh(u) && u.StoreEpoch != old && u.RunSeq == 100 })
		us := o.seen()[:i+1]
		if !slices.ContainsFunc(us, func(u update) bool {
			return u.Reset && u.Reason == "EPOCH_CHANGED" && u.StoreEpoch != old && u.RunSeq == 100
		}) {
			t.Errorf("%s: no reset: %s", o.name, said(us))
		}
		if took := us[i].at.Sub(back); took > causeWithin+machine {
			t.Errorf("%s: the restored log was shown after %s", o.name, took)
		}
	}
	h.noise(1)
	after := run.Seq(120)
	for i, o := range os {
		o.until(0, causeWithin, "LIVE at the new 101", func(u update) bool { return fresh(u) && u.StoreEpoch != old && u.RunSeq == 101 })
		again := look(t, p.nodes()[i], watching{runID: h.id.RunID, after: &after, epoch: old, mode: "DELTA"})
		again.liveAt(101, causeWithin)
		if first := again.seen()[0]; !first.Reset || first.shows == "" || first.Reason != "EPOCH_CHANGED" {
			t.Errorf("%s: who comes back from the past is told %s", o.name, said(again.seen()))
		}
	}
}
