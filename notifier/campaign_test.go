package notifier_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var campaignFor = flag.Duration("campaign.for", 2*time.Second, "how long runs are written in the campaign")

// Of 50 destinations 10 hang, 5 answer 500, 5 redirect and 1 cannot be reached. The others get everything in the order
// of each run, and without delay.
func TestCampaign_SickDestinationsTakeNoTimeOfHealthyOnes(t *testing.T) {
	const all, hanging, failing, redirecting = 50, 10, 5, 5
	const sick = hanging + failing + redirecting + 1
	release := make(chan struct{})
	var followed atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	accepters := make([]*accepter, all)
	configs := make([]destination.Config, all)
	for i := range all {
		accepters[i] = &accepter{}
		var h http.Handler = accepters[i]
		switch {
		case i < hanging:
			h = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
		case i < hanging+failing:
			h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		case i < hanging+failing+redirecting:
			h = http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect)
		}
		srv := httptest.NewServer(h)
		configs[i] = hook(fmt.Sprintf("d%02d", i))
		configs[i].URL = srv.URL
		if i == sick-1 {
			configs[i].URL = "http://127.0.0.1:1"
		}
		t.Cleanup(srv.Close)
	}
	t.Cleanup(inside.Close)
	t.Cleanup(func() { close(release) })
	f := newFixture(t, configs...)
	f.timing.Idle, f.timing.Lease = 100*time.Millisecond, 12*time.Second
	f.timing.SendTimeout, f.timing.FailingAfter = 2*time.Second, time.Hour
	f.newSender = func(c destination.Config) (destination.Sender, error) { return newPoster(c), nil }
	f.start(f.store, "p")

	written := map[string]time.Time{}
	for end, i := time.Now().Add(*campaignFor), 0; time.Now().Before(end); i++ {
		id := fmt.Sprint("run", i/4)
		if i%4 == 0 {
			f.startRun(id, "acme", 1)
		} else {
			f.append(id, runtest.Draft(run.StepStartedEvent, "s1", 100+i))
		}
		written[fmt.Sprint(id, "/", f.head(id))] = time.Now()
		time.Sleep(50 * time.Millisecond)
	}
	var delays []time.Duration
	for i := sick; i < all; i++ {
		a := accepters[i]
		f.waitFor("all messages at "+configs[i].Name, func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			found := 0
			for _, m := range a.got {
				if _, ok := written[fmt.Sprint(m.RunID, "/", m.Seq)]; ok {
					found++
				}
			}
			return found >= len(written)
		})
		last := map[string]uint64{}
		for j, m := range a.got {
			if m.Seq != last[m.RunID]+1 {
				t.Errorf("%s got event %d of %s after %d", configs[i].Name, m.Seq, m.RunID, last[m.RunID])
			}
			last[m.RunID] = m.Seq
			if at, ok := written[fmt.Sprint(m.RunID, "/", m.Seq)]; ok {
				delays = append(delays, a.at[j].Sub(at))
			}
		}
	}
	slices.Sort(delays)
	p95 := delays[len(delays)*95/100]
	t.Logf("%d messages to %d healthy destinations: p50 %s, p95 %s, most %s", len(delays), all-sick,
		delays[len(delays)/2], p95, delays[len(delays)-1])
	if p95 > 2*time.Second { // the floor is the look at the feed every 100 ms, by 50 destinations on one machine
		t.Errorf("95 %% of the messages arrived within %s; want 2 s", p95)
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed; want none", n)
	}
}

// append appends events to a run and saves its checkpoint.
func (f *fixture) append(runID string, drafts ...run.Draft) {
	f.Helper()
	_, err := f.store.Append(f.Context(), store.Append{RunID: runID, Events: drafts})
	if err != nil {
		f.Fatal(err)
	}
	f.save(runID)
}
