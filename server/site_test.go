package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/postgres"
)

// secondSite is a site on a streaming replica, with a server and workers of its own, on the Temporal of the first one.
type secondSite struct {
	*deployment
	dsn, url, configB string
}

// startSecondSite starts the processes of a site on the database dsn, which replicates that of p.
func (p *deployment) startSecondSite(t *testing.T, primary, dsn string) *secondSite {
	t.Helper()
	address := testserver.FreeAddress(t)
	s := &secondSite{deployment: p, dsn: dsn, url: "http://" + address, configB: filepath.Join(p.dir, "site-b.yaml")}
	settings, err := os.ReadFile(p.config)
	must(t, err)
	body := strings.Replace(string(settings), primary, dsn, 1)
	body = strings.Replace(body, p.redis, testserver.Redis(t).Addr, 1)
	must(t, os.WriteFile(s.configB, []byte(body), 0o600))
	spawn(t, "server of site B", nil, "server", "--config", s.configB, "--listen", address)
	spawn(t, "control worker of site B", nil, "worker", "--config", s.configB, "--queues", "tq-control-dev",
		"--workspace", filepath.Join(p.dir, "control-b"))
	spawn(t, "data worker of site B", []string{"DVT_WORKER_TOKEN=" + workerToken}, "worker", "--queues", "tq-data-dev",
		"--temporal", p.temporal.Addr, "--temporal-namespace", p.temporal.Namespace, "--server", s.url,
		"--workspace", filepath.Join(p.dir, "data-b"), "--project-root", root(t), "--dbt", findDBT(t), "--allow-private")
	waitUntilReady(t, s.url)
	return s
}

// get returns the status and the body of a page of the second site.
func (s *secondSite) get(t *testing.T, path string) (int, string) {
	t.Helper()
	res, err := http.Get(s.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(body)
}

// checkStandby checks that the second site answers reads and refuses changes.
func (s *secondSite) checkStandby(t *testing.T, runID string) {
	t.Helper()
	if status, body := s.get(t, "/readyz?role=primary"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz?role=primary of a standby answers %d %q, want 503", status, body)
	}
	if status, body := s.get(t, "/engine/health"); status != http.StatusOK || !strings.Contains(body,
		`"role":"standby"`) {
		t.Errorf("the health of a standby is %d %s, want 200 and its role", status, body)
	}
	c := client.New(s.url, adaToken)
	if out, err := client.ShowRun(t.Context(), c, runID, nil); err != nil || out.Run == nil {
		t.Errorf("a standby shows no run: %v", err)
	}
	why := "standby"
	_, err := client.SignalRun(t.Context(), c, client.SignalRunInput{RunId: runID, SignalId: "s",
		Signal: client.SignalInput{Pause: &client.PauseInput{Reason: &why}}})
	if e := client.AsAPIError(err); e == nil || !strings.Contains(e.Error(), "standby") {
		t.Errorf("a change on a standby: %v, want that it is refused with STANDBY", err)
	}
	stop := errors.New("seen")
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(20*time.Second))
	defer cancel()
	if err := c.Watch(ctx, runID, client.Position{}, func(f frame) error {
		if !strings.HasSuffix(f.StoreEpoch, "~") {
			t.Errorf("a frame of a standby has the epoch %q, want that of a standby", f.StoreEpoch)
		}
		return stop
	}); !errors.Is(err, stop) {
		t.Errorf("a subscription on a standby: %v, want a frame", err)
	}
}

// waitForProgress waits until the log of a run at the second site grows beyond a position.
func (s *secondSite) waitForProgress(t *testing.T, runID string, after int64) {
	t.Helper()
	c, last := client.New(s.url, adaToken), int64(0)
	for deadline := time.Now().Add(testtime.Of(5 * time.Minute)); time.Now().Before(deadline); time.Sleep(
		100 * time.Millisecond) {
		if out, err := client.ShowRun(t.Context(), c, runID, nil); err == nil && out.Run != nil {
			if last = out.Run.RunSeq; last > after {
				return
			}
		}
	}
	t.Fatalf("the log of %s at the second site ends at %d after five minutes, want more than %d", runID, last, after)
}

// The database of a site is killed while a run is open. The other site is promoted and continues the run. Then the
// first site comes back alive with its database, servers and workers: it writes nothing more for the run, no step
// is executed twice, and a viewer gets no frame older than it has seen.
// contract: Z05, T30, T194
func TestSite_TheStandbyTakesOverAndTheFormerPrimaryIsFenced(t *testing.T) {
	t.Parallel()
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("two sites on one Temporal take minutes, and package store/postgres tests the fence: run make sites")
	}
	primary, err := testserver.StartPostgres(testserver.PostgresOptions{Settings: []string{"fsync=off"}})
	must(t, err)
	t.Cleanup(func() { _ = primary.Close() })
	dsn := primary.Database(t, "dvt")
	d := startDeploymentOn(t, dsn)
	standby := primary.Copy(t, true)
	copied := standby.Database(t, "dvt")
	b := d.startSecondSite(t, dsn, copied)

	var steps []string
	for i := range 4 {
		after := "[]"
		if i > 0 {
			after = fmt.Sprintf(`["call%d"]`, i-1)
		}
		steps = append(steps,
			fmt.Sprintf(`{"stepId":"wait%d","type":"SLEEP","inputs":{"ms":700},"dependsOn":%s,"timeout":"1m"}`, i, after),
			fmt.Sprintf(`{"stepId":"call%d","type":"HTTP_NOTIFY","inputs":{"url":%q},"dependsOn":["wait%d"],"timeout":"1m"}`,
				i, d.receiver.URL, i))
	}
	id := start(t, client.New(d.urlA, adaToken), "two-sites", stepsPlan("two-sites", steps...))
	viewer := watch(t, client.New(d.urlA, adaToken), id)
	standby.Await(t, copied, fmt.Sprintf("SELECT count(*) > 0 FROM run WHERE run_id = '%s'", id))
	b.checkStandby(t, id)
	promote := []string{"dr", "promote", "--config", b.configB, "--peer-store", dsn}
	expectCommand(t, 0, []string{"dr", "status", "--config", b.configB, "--peer-store", dsn}, "STANDBY",
		"the primary is connected")
	expectCommand(t, 3, append(slices.Clone(promote), "--yes"), "the primary still answers")

	standby.Await(t, copied, fmt.Sprintf("SELECT count(*) >= 2 FROM event WHERE run_id = '%s' AND type = 'StepCompleted'", id))
	primary.Kill(t)
	frames := viewer.receivedFrames()
	last := frames[len(frames)-1]
	expectCommand(t, 0, append(slices.Clone(promote), "--dry-run"), "does not answer", "nothing was changed")
	promote = append(promote, "--repair-from-engine", "--yes", "--reason", "site A is lost", "--temporal", d.temporal.Addr)
	expectCommand(t, 0, promote, "promoted: this site is the primary")
	expectCommand(t, 0, promote, "is the primary already")
	began := time.Now()
	for status := 0; status != http.StatusOK; time.Sleep(100 * time.Millisecond) {
		if status, _ = b.get(t, "/readyz?role=primary"); time.Since(began) > testtime.Of(30*time.Second) {
			t.Fatalf("/readyz?role=primary of the promoted site still answers %d", status)
		}
	}
	ready := time.Since(began)
	c := client.New(b.url, adaToken)
	live := (&drill{deployment: d}).viewAgain(t, c, id, client.Position{Seq: last.RunSeq, Epoch: last.StoreEpoch})
	taken, err := postgres.Open(t.Context(), copied, postgres.Options{MaxConns: 2})
	must(t, err)
	t.Cleanup(func() { must(t, taken.Close()) })
	heads, err := taken.Heads(t.Context(), []string{id})
	must(t, err)
	// The workflow knows the new epoch once it has dispatched a step after it read the end of another one here.
	b.waitForProgress(t, id, int64(heads.ByRun[id].LastSeq)+2)

	primary.Start(t) // servers and workers of the first site are alive
	waitUntilReady(t, d.urlA)
	former := d.lastOf(t, id)
	if r := waitForEnd(t, c, id, 5*time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("the run ended %s: %+v; want COMPLETED", r.StatusRaw, r.RootCause)
	}
	if now := d.lastOf(t, id); now != former {
		t.Errorf("the log of the run in the database of the former primary grew from %d to %d, want no write", former, now)
	}
	keys := d.receiver.receivedKeys()
	slices.Sort(keys)
	if n := len(slices.Compact(slices.Clone(keys))); n != len(keys) || n != 4 {
		t.Errorf("4 steps called with the keys %q, want one call each", keys)
	}
	expectCommand(t, 0, []string{"dr", "status", "--config", d.config, "--peer-store", copied}, "FORMER")
	expectCommand(t, 0, []string{"dr", "status", "--config", b.configB, "--peer-store", dsn}, "PRIMARY")
	expectCommand(t, 0, []string{"store", "verify", "--store", copied}, " 0 differences")
	t.Logf("the promoted site was ready %s after the promotion, a viewer LIVE %s later", ready.Round(time.Millisecond),
		live.Round(time.Millisecond))
}

// lastOf returns the position of a run in the database of the first site.
func (p *deployment) lastOf(t *testing.T, runID string) run.Seq {
	t.Helper()
	var err error
	for range 50 {
		heads, failed := p.store.Heads(t.Context(), []string{runID})
		if err = failed; err == nil {
			return heads.ByRun[runID].LastSeq
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(err)
	return 0
}
