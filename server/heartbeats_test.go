package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// A server that has no duty but the API says within a minute that the processes with the duties hang, and that they are
// back.
func TestHeartbeats_AnotherServerNoticesProcessesThatHang(t *testing.T) {
	t.Parallel()
	d := startQueueServers(t, `{tiers: {default: {startRunPerMinute: 1000}}}`)
	watcher := d.startWatcher()
	sam := client.New(watcher, samToken)
	codes := func(stage client.AlertStage) string {
		t.Helper()
		first := 50
		out, err := client.ListAlerts(t.Context(), sam, &client.AlertFilter{Stages: []client.AlertStage{stage}}, &first, nil)
		if err != nil {
			t.Fatal(client.AsAPIError(err))
		}
		var codes []string
		for _, e := range out.Alerts.Edges {
			if strings.HasSuffix(*e.Node.Code, "_ABSENT") { // not the lag of the projector that hung
				codes = append(codes, *e.Node.Code)
			}
		}
		slices.Sort(codes)
		return strings.Join(codes, " ")
	}
	waitUntil(t, "each duty has a heartbeat", time.Minute, func() bool {
		beats, err := d.store.Heartbeats(t.Context())
		return err == nil && len(beats) == 4 // dispatch, the breaker of starts, project, control-worker
	})
	open := d.startRun(t, d.urlA, adaToken, "acme", "open", napStep).Run.RunId
	waitUntil(t, "the run executes", time.Minute, func() bool {
		_, n, _ := d.readEvents(t, open)
		return n[run.RunStarted] == 1
	})
	hung := []*process{d.a, d.worker}
	for _, one := range hung {
		must(t, one.cmd.Process.Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = one.cmd.Process.Signal(syscall.SIGCONT) })
	}
	stopped := time.Now()
	waiting := d.startRun(t, watcher, adaToken, "acme", "waiting", noopStep).Run.RunId
	want := []run.Code{run.CodeDispatcherAbsent, run.CodeProjectorAbsent, run.CodeWorkerAbsent, run.CodeReconcilerAbsent}
	waitUntil(t, "the watcher raises the alerts", 2*time.Minute, func() bool {
		got := codes(client.AlertStageOpen)
		return !slices.ContainsFunc(want, func(c run.Code) bool { return !strings.Contains(got, string(c)) })
	})
	if took := time.Since(stopped); took > testtime.Of(time.Minute) {
		t.Errorf("the alerts came after %s, want a minute or less", took)
	} else {
		t.Logf("the alerts came after %s", took.Round(time.Second))
	}
	for _, one := range hung {
		must(t, one.cmd.Process.Signal(syscall.SIGCONT))
	}
	waitUntil(t, "both runs complete", 2*time.Minute, func() bool {
		_, a, _ := d.readEvents(t, open)
		_, b, _ := d.readEvents(t, waiting)
		return a[run.RunCompleted]+b[run.RunCompleted] == 2
	})
	waitUntil(t, "only the missing reconciler is left", 2*time.Minute,
		func() bool { return codes(client.AlertStageOpen) == string(run.CodeReconcilerAbsent) })
	resolved := "DISPATCHER_ABSENT PROJECTOR_ABSENT WORKER_ABSENT"
	if got := codes(client.AlertStageResolved); got != resolved {
		t.Errorf("resolved alerts are %q, want %q, each once", got, resolved)
	}
	all, err := d.store.ListAlerts(t.Context(), store.AlertFilter{Installation: true, TenantID: "nobody"})
	must(t, err)
	_, err = client.AcknowledgeAlert(t.Context(), client.New(watcher, malloryToken), client.AcknowledgeAlertInput{
		Id: all[0].ID, RequestId: "a"})
	if err == nil || !strings.Contains(client.AsAPIError(err).Error(), "no such alert") {
		t.Errorf("another tenant's acknowledgement is answered %v, want NOT_FOUND", err)
	}
}

// A server that hangs closes no connection. Its viewers notice that by its silence, because a server that works is
// never silent for long, and continue on another server where they were.
func TestHeartbeats_ViewersNoticeAServerThatHangs(t *testing.T) {
	t.Parallel()
	d := startQueueServers(t, `{tiers: {default: {startRunPerMinute: 1000}}}`)
	d.startB()
	id := d.startRun(t, d.urlA, adaToken, "acme", "watched", `{"stepId":"s1","type":"SLEEP","inputs":{"ms":600000},
		"timeout":"20m"}`).Run.RunId
	waitUntil(t, "the step runs", time.Minute, func() bool {
		_, n, _ := d.readEvents(t, id)
		return n[run.StepStartedEvent] == 1
	})
	if gap := longestSilence(t, d.urlA, id, 13*time.Second); gap > 11*time.Second {
		t.Errorf("a stream of a server that works was silent for %s, want less than the 12 s after which viewers leave", gap)
	}
	v := watch(t, client.New(d.urlA, adaToken), id)
	v.waitForLive(3, 30*time.Second)
	must(t, d.a.cmd.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = d.a.cmd.Process.Signal(syscall.SIGCONT) })
	stopped := time.Now()
	select {
	case err := <-v.done:
		if took := time.Since(stopped); !errors.Is(err, client.ErrSilent) || took > testtime.Of(16*time.Second) {
			t.Errorf("the stream of the frozen server ended with %v after %s, want ErrSilent within 15 s", err, took)
		}
	case <-time.After(testtime.Of(time.Minute)):
		t.Fatal("the viewer has not noticed a frozen server for a minute")
	}
	frames := v.receivedFrames()
	last := frames[len(frames)-1]
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(30*time.Second))
	defer cancel()
	enough := errors.New("enough")
	err := client.New(d.urlB, adaToken).Watch(ctx, id, client.Position{Seq: last.RunSeq, Epoch: last.StoreEpoch},
		func(f frame) error {
			if f.Reset || f.RunSeq < last.RunSeq {
				t.Errorf("the other server begins with %+v, want what follows seq %d", f, last.RunSeq)
			}
			return enough
		})
	if !errors.Is(err, enough) {
		t.Errorf("the other server answers %v, want a frame", err)
	}
}

// longestSilence watches a run over an event stream and returns the longest time between two frames or comments.
func longestSilence(t *testing.T, base, runID string, within time.Duration) (longest time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/graphql", strings.NewReader(
		`{"query":"subscription { runUpdates(runId: \"`+runID+`\") { runSeq } }"}`))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+adaToken)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	buf, last := make([]byte, 64<<10), time.Now()
	for {
		_, err := res.Body.Read(buf)
		longest, last = max(longest, time.Since(last)), time.Now()
		if err != nil {
			return longest
		}
	}
}
