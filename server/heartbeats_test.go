package server_test

import (
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
