package server_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/otlp/otlptest"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
)

// The size of TestTraces_KillsOfEveryProcessLoseNothing. `make test/long` sets 90 runs and 30 kills, and the campaign
// of a release 300 and 100.
var (
	campaignRuns  = flag.Int("trace-runs", 12, "runs of TestTraces_KillsOfEveryProcessLoseNothing")
	campaignKills = flag.Int("trace-campaign-kills", 5, "kills of TestTraces_KillsOfEveryProcessLoseNothing")
)

// The test kills one process of an installation at a time, while runs are in flight and while the receiver refuses a
// third of the requests: both servers, both workers and the server that only exports traces. At the end the receiver
// has one tree for each run, and the tree is that of the log.
// contract: R400, H05
func TestTraces_KillsOfEveryProcessLoseNothing(t *testing.T) {
	t.Parallel()
	p := startDeployment(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	r := otlptest.New(t)
	var down atomic.Bool
	r.Answer(func() int {
		switch {
		case down.Load():
			return http.StatusServiceUnavailable
		case rand.IntN(3) == 0:
			return http.StatusTooManyRequests
		}
		return http.StatusOK
	})
	exporter := p.exportTraces(t, r.URL)
	victims := []*process{p.serverA, p.serverB, p.control, p.data, exporter}
	kills := map[string]int{}
	var all []string
	startNext := func() {
		// The servers take turns, because one may be down; start repeats the call until it is back.
		url := []string{p.urlA, p.urlB}[len(all)%2]
		n := len(all)
		all = append(all, start(t, client.New(url, adaToken), fmt.Sprintf("campaign-%d", n), killPlan(n)))
	}
	for k := range *campaignKills {
		for len(all) < *campaignRuns*(k+1) / *campaignKills {
			startNext()
		}
		down.Store(k%4 == 3)
		time.Sleep(time.Duration(300+random.IntN(1700)) * time.Millisecond)
		victim := victims[k%len(victims)]
		if k >= len(victims) {
			victim = victims[random.IntN(len(victims))]
		}
		victim.kill()
		kills[victim.name]++
		victim.start()
	}
	down.Store(false)
	waitUntilReady(t, p.urlA)
	waitUntilReady(t, p.urlB)
	ends := map[client.RunStatus]int{}
	for _, id := range all {
		ends[waitForEnd(t, client.New(p.urlA, adaToken), id, 3*time.Minute).Status]++
	}
	for deadline := time.Now().Add(testtime.Of(time.Minute)); time.Now().Before(deadline); time.Sleep(
		200 * time.Millisecond) {
		missing := 0
		for _, id := range all {
			if !r.HasRoot(trace.IDOf(id).String()) {
				missing++
			}
		}
		if missing == 0 {
			break
		}
	}
	exporter.terminate()
	spans := 0
	for _, id := range all {
		spans += checkTrace(t, p.store, r, id)
	}
	if found := len(r.Traces()); found != len(all) {
		t.Errorf("the receiver has %d traces, want %d", found, len(all))
	}
	if twice := r.Contradictions(); len(twice) > 0 {
		t.Errorf("%d spans came twice with different contents, such as %s", len(twice), twice[0])
	}
	calls, repeats := r.Calls()
	t.Logf("%d kills %v, %d runs %v, %d spans in %d requests, %d spans came again", *campaignKills, kills, len(all), ends,
		spans, calls, repeats)
}

// exportTraces makes the servers leave the export to a process of its own, and returns that process.
func (p *deployment) exportTraces(t *testing.T, endpoint string) *process {
	t.Helper()
	config := p.serverA.args[2]
	for _, s := range []*process{p.serverA, p.serverB} {
		s.kill()
		s.args = append(s.args, "--duties", "api,project,dispatch,deliver,reconcile")
		s.start()
	}
	exporter := spawn(t, "exporter", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint}, "server", "--config", config,
		"--listen", testserver.FreeAddress(t), "--duties", "trace")
	waitUntilReady(t, p.urlA)
	waitUntilReady(t, p.urlB)
	waitUntil(t, "the export has begun", time.Minute, func() bool {
		_, err := p.store.LeaseCursor(t.Context(), "trace", "test", time.Millisecond)
		return errors.Is(err, store.ErrConflict)
	})
	return exporter
}
