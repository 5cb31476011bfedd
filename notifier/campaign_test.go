package notifier_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// The size of the campaign. That of a release is make campaign MESSAGES=1000000 FOR=8m, which takes less than 20
// minutes of a quiet machine with two cores.
var (
	campaignMessages = flag.Int("campaign.messages", 1500,
		"messages to the healthy destinations in each pass of the campaign")
	campaignFor  = flag.Duration("campaign.for", 5*time.Second, "how long a pass of the campaign writes them")
	campaignKill = flag.Duration("campaign.kill", 4*time.Second, "time between two kills of the campaign")
)

// Variables of a process of the campaign: its file of destinations, its database and the time of its leases.
const (
	campaignFile  = "NOTIFIER_CAMPAIGN_FILE"
	campaignDSN   = "NOTIFIER_CAMPAIGN_DSN"
	campaignLease = "NOTIFIER_CAMPAIGN_LEASE"
)

// Kinds of destinations of the campaign, in this order.
const (
	hanging, failing, redirecting, inside = 10, 5, 5, 1
	bad                                   = hanging + failing + redirecting + inside
	healthy                               = 50 - bad
)

// runCampaignProcess delivers as a server does, until it is killed.
func runCampaignProcess() {
	fail := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	s, err := postgres.Open(context.Background(), os.Getenv(campaignDSN), postgres.Options{})
	fail(err)
	lease, err := time.ParseDuration(os.Getenv(campaignLease))
	fail(err)
	fail(notifier.New(notifier.Config{
		Store: s, Alerts: raiser{s}, Owner: fmt.Sprint(os.Getpid()), Timing: notifier.Timing{Lease: lease},
		Load: func() ([]destination.Config, error) {
			doc, err := os.ReadFile(os.Getenv(campaignFile))
			if err != nil {
				return nil, err
			}
			return destination.Parse(doc)
		},
		NewSender: func(c destination.Config) (destination.Sender, error) { return send.New(c, send.Options{}) },
	}).Run(context.Background()))
}

// ledger is what the healthy receivers of a campaign got.
type ledger struct {
	mu       sync.Mutex
	written  map[string]time.Time // by run and seq
	ids      map[string]string    // by run and seq
	delays   []time.Duration      // of first arrivals
	sentAt   []time.Time          // when the events of delays were written
	last     [healthy]map[string]uint64
	got      [healthy]int
	repeated int // with the id of the first
	others   int // with another id
	gaps     int
}

// receive records a message to a receiver.
func (l *ledger) receive(receiver int, r *http.Request) error {
	var m struct{ RunID, Sequence string }
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return err
	}
	seq, err := strconv.ParseUint(m.Sequence, 10, 64)
	if err != nil {
		return err
	}
	now, key := time.Now(), m.RunID+"/"+strconv.FormatUint(seq, 10)
	l.mu.Lock()
	defer l.mu.Unlock()
	id := r.Header.Get("Webhook-Id")
	if l.ids[key] == "" {
		l.ids[key] = id
	}
	if l.ids[key] != id {
		l.others++
	}
	last := l.last[receiver][m.RunID]
	switch {
	case seq <= last:
		l.repeated++
		return nil
	case seq > last+1:
		l.gaps++
	}
	l.last[receiver][m.RunID] = seq
	l.got[receiver]++
	// An event whose writing has not returned yet has no delay.
	if at, found := l.written[key]; found {
		l.delays, l.sentAt = append(l.delays, now.Sub(at)), append(l.sentAt, at)
	}
	return nil
}

// total returns the number of different messages, and whether every receiver has want.
func (l *ledger) total(want int) (n int, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = true
	for _, got := range l.got {
		n += got
		all = all && got >= want
	}
	return n, all
}

// campaign is one pass: an installation of two processes that deliver, its destinations and what they got.
type campaign struct {
	*fixture
	ledger   *ledger
	env      []string
	names    []string
	kills    []time.Time
	cpu      time.Duration // of the processes
	followed atomic.Int64  // redirects, and calls of the destination inside
	events   int
	started  int // runs
	took     time.Duration
	dead     int64
}

// startCampaign starts the receivers and writes the file of destinations.
func startCampaign(t *testing.T, lease time.Duration, withBad bool) *campaign {
	t.Helper()
	dsn, dir := testserver.Postgres(t), t.TempDir()
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &campaign{fixture: &fixture{T: t, store: s}, ledger: &ledger{written: map[string]time.Time{},
		ids: map[string]string{}}}
	secret := filepath.Join(dir, "secret")
	write := func(file string, doc []byte) {
		if err := os.WriteFile(file, doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, []byte("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))))
	var entries []map[string]any
	var certificate []byte
	serve := func(name string, allowPrivate bool, h http.HandlerFunc) string {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		t.Cleanup(srv.Close)
		certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
		if name != "" {
			c.names = append(c.names, name)
			entries = append(entries, map[string]any{"name": name, "kind": "webhook", "url": srv.URL,
				"secrets": []map[string]string{{"file": secret}}, "allowPrivate": allowPrivate})
		}
		return srv.URL
	}
	for i := range healthy {
		c.ledger.last[i] = map[string]uint64{}
		serve(fmt.Sprint("healthy-", i), true, func(w http.ResponseWriter, r *http.Request) {
			if c.ledger.receive(i, r) != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
		})
	}
	if withBad {
		c.serveBad(serve)
	}
	doc, err := json.Marshal(map[string]any{"destinations": entries})
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, "destinations.yaml"), doc)
	write(filepath.Join(dir, "authority.pem"), certificate)
	c.env = []string{campaignDSN + "=" + dsn, campaignFile + "=" + filepath.Join(dir, "destinations.yaml"),
		campaignLease + "=" + lease.String(), "SSL_CERT_FILE=" + filepath.Join(dir, "authority.pem")}
	return c
}

// serveBad serves the destinations that hang, answer 500, redirect and point inside.
func (c *campaign) serveBad(serve func(name string, allowPrivate bool, h http.HandlerFunc) string) {
	release := make(chan struct{})
	follow := func(http.ResponseWriter, *http.Request) { c.followed.Add(1) }
	for i := range hanging {
		serve(fmt.Sprint("hanging-", i), true, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
	}
	for i := range failing {
		serve(fmt.Sprint("failing-", i), true, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		})
	}
	target := serve("", true, follow)
	for i := range redirecting {
		serve(fmt.Sprint("redirecting-", i), true, http.RedirectHandler(target, http.StatusTemporaryRedirect).ServeHTTP)
	}
	serve("inside", false, follow)
	c.Cleanup(func() { close(release) })
}

// spawn starts a process that delivers. env replaces variables of the campaign.
func (c *campaign) spawn(env ...string) *exec.Cmd {
	c.Helper()
	p := exec.CommandContext(c.Context(), os.Args[0])
	p.Env, p.Stderr = slices.Concat(os.Environ(), c.env, env), os.Stderr
	if err := p.Start(); err != nil {
		c.Fatal(err)
	}
	return p
}

// kill ends a process as kill -9 does, and adds its CPU time.
func (c *campaign) kill(p *exec.Cmd) {
	_ = p.Process.Kill()
	_ = p.Wait()
	c.cpu += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
}

// write writes events of runs of 20 events, evenly over the time.
func (c *campaign) write(events int, d time.Duration) {
	const length, open = 20, 16
	var ids []string
	began := time.Now()
	for c.events < events {
		time.Sleep(time.Until(began.Add(d * time.Duration(c.events) / time.Duration(events))))
		if len(ids) < open {
			id := fmt.Sprintf("5f0c3b1e-6a7d-4c52-9b1e-%012d", c.started)
			ids = append(ids, id)
			c.started++
			c.startRun(id, "acme", 1)
			c.note(id, 1, 3)
			continue
		}
		i := rand.N(open)
		id, seq := ids[i], c.head(ids[i])+1
		draft := runtest.Draft(run.StepStartedEvent, "s1", int(seq))
		if seq == length {
			draft = runtest.Draft(run.RunCancelled, "", 1)
			ids = slices.Delete(ids, i, i+1)
		}
		if _, err := c.store.Append(c.Context(), store.Append{RunID: id, Events: []run.Draft{draft}}); err != nil {
			c.Fatal(err)
		}
		c.save(id)
		c.note(id, seq, seq)
	}
}

// note records when events were written.
func (c *campaign) note(runID string, from, to uint64) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for seq := from; seq <= to; seq++ {
		c.ledger.written[fmt.Sprint(runID, "/", seq)] = time.Now()
		c.events++
	}
}

// waitForLeases waits until a process works on each destination, because only later events are sent.
func (c *campaign) waitForLeases() {
	c.Helper()
	for _, name := range c.names {
		c.waitFor("the lease of "+name, func() bool {
			_, err := c.store.LeaseCursor(c.Context(), "notify/"+name, "stranger", time.Millisecond)
			return errors.Is(err, store.ErrConflict)
		})
	}
	time.Sleep(100 * time.Millisecond)
}

// deliver writes the events while processes are killed, and waits until the healthy receivers have all of them.
func (c *campaign) deliver(events int, d, between time.Duration) {
	c.Helper()
	processes := []*exec.Cmd{c.spawn(), c.spawn()}
	c.waitForLeases()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for k := 0; ; k++ {
			select {
			case <-stop:
				return
			case <-time.After(between):
			}
			c.kill(processes[k%2])
			processes[k%2] = c.spawn()
			c.ledger.mu.Lock()
			c.kills = append(c.kills, time.Now())
			c.ledger.mu.Unlock()
		}
	}()
	began := time.Now()
	c.write(events, d)
	progress, moved := 0, time.Now()
	for {
		n, all := c.ledger.total(c.events)
		if all {
			break
		}
		if n > progress {
			progress, moved = n, time.Now()
		}
		if time.Since(moved) > time.Minute {
			c.Errorf("%d of %d messages arrived, and none in the last minute", n, c.events*healthy)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.took = time.Since(began)
	close(stop)
	<-stopped
	for _, p := range processes {
		c.kill(p)
	}
	states, err := c.store.DestinationStates(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, s := range states {
		c.dead += s.Dead
	}
}

// quantile returns a quantile of sorted delays.
func quantile(delays []time.Duration, q float64) time.Duration {
	if len(delays) == 0 {
		return 0
	}
	return delays[min(int(q*float64(len(delays))), len(delays)-1)].Round(time.Millisecond)
}

// figures are those of a pass. calm are the delays of events that were written long after one kill and before the next.
func (c *campaign) figures(lease time.Duration) (delays, calm []time.Duration) {
	for i, at := range c.ledger.sentAt {
		isCalm := true
		for _, kill := range c.kills {
			after := at.Sub(kill)
			isCalm = isCalm && (after > lease*3/2 || after < -2*time.Second)
		}
		if isCalm {
			calm = append(calm, c.ledger.delays[i])
		}
	}
	delays = slices.Clone(c.ledger.delays)
	slices.Sort(delays)
	slices.Sort(calm)
	return delays, calm
}

// Of 50 destinations 10 hang, 5 answer 500, 5 redirect and 1 points inside, and a process is killed again and again.
// The others get everything, in the order of each run and as fast as without the bad ones.
func TestCampaign_BadDestinationsAndKillsTakeNothingFromHealthyOnes(t *testing.T) {
	lease := min(12*time.Second, *campaignKill*2/5)
	events := max(*campaignMessages/healthy, 50)
	var passes [2]*campaign
	var all, calm [2][]time.Duration
	for i, withBad := range []bool{false, true} {
		c := startCampaign(t, lease, withBad)
		c.deliver(events, *campaignFor, *campaignKill)
		passes[i] = c
		all[i], calm[i] = c.figures(lease)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	row := func(name string, value func(c *campaign, i int) any) {
		_, _ = fmt.Fprintf(w, "%s\t%v\t%v\n", name, value(passes[0], 0), value(passes[1], 1))
	}
	row("", func(_ *campaign, i int) any { return []string{"healthy ones alone", "with the bad ones"}[i] })
	row("messages to healthy ones", func(c *campaign, _ int) any { n, _ := c.ledger.total(0); return n })
	row("lost", func(c *campaign, _ int) any { n, _ := c.ledger.total(0); return c.events*healthy - n })
	row("out of order", func(c *campaign, _ int) any { return c.ledger.gaps })
	row("repeated with the same id", func(c *campaign, _ int) any { return c.ledger.repeated })
	row("repeated with another id", func(c *campaign, _ int) any { return c.ledger.others })
	row("redirects followed, calls inside", func(c *campaign, _ int) any { return c.followed.Load() })
	row("dead letters of the bad ones", func(c *campaign, _ int) any { return c.dead })
	row("kills", func(c *campaign, _ int) any { return len(c.kills) })
	row("time", func(c *campaign, _ int) any { return c.took.Round(time.Second) })
	row("messages a second", func(c *campaign, _ int) any {
		n, _ := c.ledger.total(0)
		return int(float64(n) / c.took.Seconds())
	})
	row("CPU of the processes a message", func(c *campaign, _ int) any {
		n, _ := c.ledger.total(0)
		return (c.cpu / time.Duration(max(n, 1))).Round(time.Microsecond)
	})
	for _, q := range []float64{0.5, 0.95, 0.99} {
		row(fmt.Sprintf("p%.0f", 100*q), func(_ *campaign, i int) any { return quantile(all[i], q) })
	}
	row("p95 between the kills", func(_ *campaign, i int) any { return quantile(calm[i], 0.95) })
	_ = w.Flush()
	t.Log("\n" + table.String())

	for i, c := range passes {
		if n, _ := c.ledger.total(0); n != c.events*healthy || c.ledger.gaps+c.ledger.others > 0 {
			t.Errorf("pass %d: %d messages arrived, %d after a gap and %d with another id; want %d, none and none", i, n,
				c.ledger.gaps, c.ledger.others, c.events*healthy)
		}
		if n := c.followed.Load(); n != 0 {
			t.Errorf("pass %d: %d redirects were followed or calls came inside; want none", i, n)
		}
	}
	if *campaignMessages < 100_000 {
		return // a short campaign has so few kills that its p95 is a matter of chance
	}
	alone, together := quantile(all[0], 0.95), quantile(all[1], 0.95)
	if together > alone*11/10 {
		t.Errorf("the p95 is %s with the bad ones and %s without them; want at most 10 %% more", together, alone)
	}
}
