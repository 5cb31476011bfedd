package reads_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/store"
)

// "me" is the caller: two callers with the same filter get their own runs and never share a stream.
// contract: T101
func TestRuns_MineAreThoseThatTheCallerStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	started := func(token, requestID string) string {
		t.Helper()
		return controltest.Must[runs.StartedRun](t)(
			w.StartRun(t.Context(), w.Principal(token), controltest.StartOf(requestID, controltest.Document(nil,
				"s1")))).View.Run.RunID
	}
	engineer, admin := started("dev-engineer", "a"), started("dev-admin", "b")
	mine := control.RunsQuery{Filter: control.RunFilter{TriggeredBy: control.Me}}
	streams := map[string]control.Stream[watch.RunsFrame]{}
	for who, want := range map[string][]string{"dev-engineer": {engineer}, "dev-admin": {admin}, "dev-viewer": nil,
		"dev-mallory": nil} {
		p := w.Principal(who)
		if diff := cmp.Diff(want, ids(controltest.Must[control.RunsPage](t)(w.Runs(t.Context(), p, mine)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", who, diff)
		}
		now := w.Clock.Now()
		counts := controltest.Must[[]reads.RunCount](t)(
			w.RunHistogram(t.Context(), p, reads.RunHistogram{Filter: mine.Filter, From: now.Add(-time.Hour),
				To: now.Add(time.Hour), Buckets: 1}))
		if diff := cmp.Diff([]store.RunCount{{Total: int64(len(want))}}, counts); diff != "" {
			t.Errorf("%s counts (-want +got):\n%s", who, diff)
		}
		streams[who] = controltest.OpenStream[watch.RunsFrame](t)(w.WatchRuns(t.Context(), p, mine))
		f := controltest.TakeFrame(t, streams[who], "the page", func(watch.RunsFrame) bool { return true })
		if diff := cmp.Diff(want, controltest.RunIDs(f)); diff != "" {
			t.Errorf("%s watches (-want +got):\n%s", who, diff)
		}
	}
	one, two := controltest.Must[*watch.Ticket](t)(w.AdmitRuns(t.Context(), w.Principal("dev-engineer"), mine)),
		controltest.Must[*watch.Ticket](t)(w.AdmitRuns(t.Context(), w.Principal("dev-admin"), mine))
	if one.Class() == two.Class() {
		t.Errorf("both callers have the class %s, want different ones", one.Class())
	}
	next := started("dev-engineer", "c")
	controltest.TakeFrame(t, streams["dev-engineer"], "another of mine",
		func(f watch.RunsFrame) bool { return cmp.Equal(controltest.RunIDs(f), []string{next}) })
	if diff := cmp.Diff(
		[]string{admin}, ids(
			controltest.Must[control.RunsPage](t)(
				w.Runs(t.Context(), w.Principal("dev-engineer"), control.RunsQuery{Filter: control.RunFilter{
					TriggeredBy: "dev-admin"}})))); diff != "" {
		t.Errorf("what another started (-want +got):\n%s", diff)
	}
}
