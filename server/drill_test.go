package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

var (
	drillMoments = flag.Int("drill-moments", 3, "moments to which TestDrill restores the store")
	drillTime    = flag.Duration("drill-time", 15*time.Second, "how long TestDrill loads the installation")
	drillEvents  = flag.Int("drill-events", 0, "events of ended runs that TestDrill adds to the store")
)

// drill is an installation whose database is destroyed under load and restored.
type drill struct {
	*deployment
	dsn    string
	backup *testserver.Backup

	mu   sync.Mutex
	acks []acknowledged
}

// acknowledged is a start or a signal that the API confirmed.
type acknowledged struct {
	asked, answered time.Time
	runID, signalID string // signalID is empty for a start
}

// An operator loses the database under load, restores it to a moment from a base backup and the archived log, repairs
// it from Temporal and verifies it. Everything that the API confirmed before the moment is there. At last the newest
// state is restored, servers and workers start again, open runs end, and viewers are LIVE after a reset.
// contract: Z05, T30
func TestDrill_ARestoreLosesNothingConfirmedBeforeItsMoment(t *testing.T) {
	t.Parallel()
	backup := testserver.NewBackup(t)
	primary, err := testserver.StartPostgres(testserver.PostgresOptions{
		Settings: append(backup.Archiving(), "archive_timeout=3")})
	must(t, err)
	t.Cleanup(func() { _ = primary.Close() })
	d := &drill{dsn: primary.Database(t, "dvt"), backup: backup}
	d.deployment = startDeploymentOn(t, d.dsn)
	d.addEvents(t, *drillEvents)
	backup.Take(t, primary)

	slow := start(t, client.New(d.urlB, adaToken), "slow", stepsPlan("slow", drillSteps(20, time.Second)...))
	viewer := watch(t, client.New(d.urlB, adaToken), slow)
	stop := d.load(t)
	time.Sleep(*drillTime)
	ended, archived := d.endedRuns(t), lastArchived(t, primary.DSN)
	must(t, primary.Close()) // under load, with its files
	destroyed := time.Now()
	stop()
	for _, p := range []*process{d.serverA, d.serverB, d.control, d.data} {
		p.kill()
	}
	frames := viewer.receivedFrames()
	last := frames[len(frames)-1]

	first := d.acks[0].answered
	for range *drillMoments {
		// The archive must have a commit after the moment, or PostgreSQL cannot know that it reached it.
		d.restoreTo(t, first.Add(rand.N(archived.Add(-2*time.Second).Sub(first))), ended)
	}
	d.restoreNewest(t, destroyed, slow, client.Position{Seq: last.RunSeq, Epoch: last.StoreEpoch})
}

func drillSteps(n int, each time.Duration) (steps []string) {
	for i := range n {
		after := "[]"
		if i > 0 {
			after = fmt.Sprintf(`["s%d"]`, i-1)
		}
		steps = append(steps, fmt.Sprintf(`{"stepId":"s%d","type":"SLEEP","inputs":{"ms":%d},"dependsOn":%s,"timeout":"1m"}`,
			i, each.Milliseconds(), after))
	}
	return steps
}

// load starts runs, and pauses and resumes every second one, until stop is called.
func (d *drill) load(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	for w := range 2 {
		g.Go(func() {
			c := client.New([]string{d.urlA, d.urlB}[w], adaToken)
			for i := 0; ctx.Err() == nil; i++ {
				d.oneRun(ctx, c, fmt.Sprintf("load-%d-%d", w, i), i%2 == 0)
			}
		})
	}
	return func() { cancel(); g.Wait() }
}

func (d *drill) oneRun(ctx context.Context, c *client.Client, name string, signals bool) {
	raw := json.RawMessage(stepsPlan(name, drillSteps(3, 300*time.Millisecond)...))
	asked := time.Now()
	out, err := client.StartRun(ctx, c, client.StartRunInput{Plan: client.PlanInput{Inline: &raw}, RunRequestId: name,
		ProjectId: "shop", EnvironmentId: "dev"})
	if err != nil {
		time.Sleep(50 * time.Millisecond) // a refusal, or the end
		return
	}
	id := out.StartRun.Run.RunId
	d.confirm(asked, id, "")
	time.Sleep(200 * time.Millisecond)
	if !signals {
		return
	}
	why := "drill"
	for signal, in := range map[string]client.SignalInput{
		"pause": {Pause: &client.PauseInput{Reason: &why}}, "resume": {Resume: &client.ResumeInput{Reason: &why}},
	} {
		asked := time.Now()
		_, err := client.SignalRun(ctx, c, client.SignalRunInput{RunId: id, SignalId: id + signal, Signal: in})
		if err == nil {
			d.confirm(asked, id, id+signal)
		}
	}
}

func (d *drill) confirm(asked time.Time, runID, signalID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acks = append(d.acks, acknowledged{asked: asked, answered: time.Now(), runID: runID, signalID: signalID})
}

// endedRuns returns the runs that have ended.
func (d *drill) endedRuns(t *testing.T) map[string]bool {
	t.Helper()
	d.mu.Lock()
	acks := slices.Clone(d.acks)
	d.mu.Unlock()
	var ids []string
	for _, a := range acks {
		ids = append(ids, a.runID)
	}
	ended := map[string]bool{}
	heads, err := d.store.Heads(t.Context(), ids)
	must(t, err)
	for id, h := range heads.ByRun {
		if h.Terminal {
			ended[id] = true
		}
	}
	return ended
}

// lastArchived returns the time at which the last file of the log was archived.
func lastArchived(t *testing.T, dsn string) (at time.Time) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	err = conn.QueryRow(t.Context(), `SELECT last_archived_time FROM pg_stat_archiver`).Scan(&at)
	must(t, errors.Join(err, conn.Close(t.Context())))
	return at
}

// missing returns the confirmed starts and signals that the store lacks, and how many it has.
func (d *drill) missing(t *testing.T, s store.Store) (lost []acknowledged, found []acknowledged) {
	t.Helper()
	for _, a := range d.acks {
		_, err := s.Get(t.Context(), a.runID)
		if err == nil && a.signalID != "" {
			_, err = s.Receipt(t.Context(), a.runID, a.signalID)
		}
		switch {
		case err == nil:
			found = append(found, a)
		case errors.Is(err, store.ErrNotFound):
			lost = append(lost, a)
		default:
			t.Fatal(err)
		}
	}
	return lost, found
}

// restoreTo restores the store as it was at a moment, checks it, repairs it and verifies it.
func (d *drill) restoreTo(t *testing.T, moment time.Time, ended map[string]bool) {
	t.Helper()
	began := time.Now()
	server := d.backup.Restore(t, moment)
	defer func() { must(t, server.Close()) }()
	dsn := server.Database(t, "dvt")
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	lost, found := d.missing(t, s)
	for _, a := range lost {
		if a.answered.Before(moment) {
			t.Errorf("%s %s was confirmed %s before the moment, and is not restored", a.runID, a.signalID,
				moment.Sub(a.answered))
		}
	}
	for _, a := range found {
		if a.asked.After(moment) {
			t.Errorf("%s %s was asked for %s after the moment, and is restored", a.runID, a.signalID, a.asked.Sub(moment))
		}
	}
	repaired := d.repair(t, dsn)
	for _, a := range found {
		l, err := s.Load(t.Context(), a.runID)
		must(t, err)
		if ended[a.runID] && !l.Head.Terminal {
			t.Errorf("%s had ended before the loss, and is %s after the repair", a.runID, l.State.Status)
		}
	}
	must(t, s.Close())
	expectCommand(t, 0, []string{"store", "verify", "--store", dsn}, " 0 differences")
	t.Logf("moment %s: %d of %d confirmed starts and signals are restored; %s; %s", moment.UTC().Format("15:04:05.000"),
		len(found), len(d.acks), repaired, time.Since(began).Round(time.Millisecond))
}

// repair runs dvt store repair. Its status is 1 when Temporal has runs that the store never saw.
func (d *drill) repair(t *testing.T, dsn string) string {
	t.Helper()
	status, out, errs := runCommand(t, "", "store", "repair", "--from-engine", "--config", d.config, "--store", dsn)
	if status != 0 && !strings.Contains(out, "LOST") {
		t.Errorf("dvt store repair: exit status %d:\n%s%s", status, out, errs)
	}
	return fmt.Sprintf("%d refilled, %d lost", strings.Count(out, "REFILLED"), strings.Count(out, "LOST"))
}

// restoreNewest restores all that was archived, and starts the installation on it.
func (d *drill) restoreNewest(t *testing.T, destroyed time.Time, slow string, seen client.Position) {
	t.Helper()
	began := time.Now()
	server := d.backup.Restore(t, time.Time{})
	dsn := server.Database(t, "dvt")
	restored := time.Since(began)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	lost, found := d.missing(t, s)
	repaired := d.repair(t, dsn)
	settings, err := os.ReadFile(d.config)
	must(t, err)
	must(t, os.WriteFile(d.config, []byte(strings.Replace(string(settings), d.dsn, dsn, 1)), 0o600))
	for _, p := range []*process{d.serverA, d.serverB, d.control, d.data} {
		p.start()
	}
	waitUntilReady(t, d.urlA)
	waitUntilReady(t, d.urlB)
	ready := time.Since(began)
	c := client.New(d.urlB, adaToken)
	live := d.viewAgain(t, c, slow, seen)
	if r := waitForEnd(t, c, slow, 2*time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("the run that was open ended %s: %+v; want COMPLETED", r.StatusRaw, r.RootCause)
	}
	expectCommand(t, 0, []string{"store", "verify", "--store", dsn}, " 0 differences")
	age := time.Duration(0)
	if len(lost) > 0 {
		age = destroyed.Sub(slices.MinFunc(lost, func(a, b acknowledged) int {
			return cmp.Compare(a.answered.UnixNano(),
				b.answered.UnixNano())
		}).answered)
	}
	if most := testtime.Of(15 * time.Second); age > most {
		t.Errorf("the archive lacks the last %s before the loss, want at most %s", age, most)
	}
	t.Logf("newest: %d of %d are restored, the log that was not archived had the last %s; %s; restored after %s, servers "+
		"ready after %s, a viewer LIVE %s later", len(found), len(d.acks), age.Round(time.Millisecond), repaired,
		restored.Round(time.Millisecond), ready.Round(time.Millisecond), live.Round(time.Millisecond))
}

// viewAgain watches a run from a position of before the loss, and returns when the view was LIVE. The view must start
// over, because the store has a new epoch.
func (d *drill) viewAgain(t *testing.T, c *client.Client, runID string, seen client.Position) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(time.Minute))
	defer cancel()
	began, reset := time.Now(), false
	enough := errors.New("live")
	err := c.Watch(ctx, runID, seen, func(f frame) error {
		reset = reset || f.Reset
		if !reset || f.StoreEpoch == seen.Epoch {
			return fmt.Errorf("the first frame at %d of epoch %s does not start over", f.RunSeq, f.StoreEpoch)
		}
		if f.Sync == client.SyncStateLive {
			return enough
		}
		return nil
	})
	took := time.Since(began)
	if !errors.Is(err, enough) {
		t.Errorf("a viewer after the restore: %v, want LIVE", err)
	}
	if most := testtime.Of(5 * time.Second); took > most {
		t.Errorf("a viewer was LIVE after %s, want at most %s", took, most)
	}
	return took
}

// addEvents imports ended runs of a thousand events each.
func (d *drill) addEvents(t *testing.T, events int) {
	t.Helper()
	drafts := []run.Draft{runtest.Start(stepNames(99)...)}
	for _, name := range stepNames(99) {
		for attempt := 1; attempt <= 5; attempt++ {
			end := run.StepFailedEvent
			if attempt == 5 {
				end = run.StepCompletedEvent
			}
			drafts = append(drafts, runtest.Draft(run.StepStartedEvent, name, attempt), runtest.Draft(end, name, attempt))
		}
	}
	drafts = append(drafts, runtest.Draft(run.RunCompleted, "", 1))
	body := []byte(`{}`)
	for n := 0; n < events; n += len(drafts) {
		id := runtest.ID
		id.RunID = fmt.Sprintf("old-%06d", n)
		log := runtest.Log(drafts...)
		for i := range log {
			log[i].RunID, log[i].Key = id.RunID, drafts[i].Key(id)
			log[i].EventID = log[i].Key.EventID()
		}
		must(t, d.store.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestID: id.RunID, TriggeredBy: "ola",
			TriggerSource: "api", RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID,
				id.PlanVersion, id.RunID), PlanRef: plan.RefOf(body, plan.Plan{}, "file:///plan.json")}, Plan: body}, log))
	}
}

func stepNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	return names
}
