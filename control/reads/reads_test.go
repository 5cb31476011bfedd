package reads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

func TestRun_ShowsPastStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("at", "s1")
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunCompleted, "", 1))
	want := []run.Status{run.Pending, run.Approved, run.Running, run.Running, run.Running, run.Completed}
	for seq, status := range want {
		at := run.Seq(seq)
		v := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Principal("dev-viewer"), id, &at))
		if v.State.Seq != at || v.State.RunStatus() != status || !v.Past || v.State.PlanRef == nil ||
			v.State.TriggeredBy != "dev-engineer" || v.State.CreatedAt.IsZero() {
			t.Errorf("the state at %d is %+v, want that seq with requester and time", seq, v.State.Header)
		}
	}
	for _, at := range []run.Seq{-1, 6} {
		_, err := w.Run(t.Context(), w.Engineer(), id, &at)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}

func TestEvents_PagesBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("events", "s1", "b", "c", "d")
	for _, s := range []string{"s1", "b", "c", "d"} { // 3..10
		w.FinishStep(id, s, 1, run.StepCompletedEvent)
	}
	started := []string{string(run.StepStartedEvent)}
	for _, c := range []struct {
		page       reads.EventPage
		want       []run.Seq
		next, prev bool
	}{
		{reads.EventPage{First: 3}, []run.Seq{1, 2, 3}, true, false},
		{reads.EventPage{First: 3, After: 7}, []run.Seq{8, 9, 10}, false, true},
		{reads.EventPage{First: 4, After: 7}, []run.Seq{8, 9, 10}, false, true},
		{reads.EventPage{Last: 3}, []run.Seq{8, 9, 10}, false, true},
		{reads.EventPage{Last: 3, Before: 4}, []run.Seq{1, 2, 3}, true, false},
		{reads.EventPage{Last: 2, Before: 4, After: 1}, []run.Seq{2, 3}, true, false},
		{reads.EventPage{First: 9, Before: 4}, []run.Seq{1, 2, 3}, false, false},
		{reads.EventPage{First: 2, Types: started}, []run.Seq{3, 5}, true, false},
		{reads.EventPage{First: 2, After: 5, Types: started}, []run.Seq{7, 9}, false, true},
		{reads.EventPage{Last: 3, Types: started}, []run.Seq{5, 7, 9}, false, true},
		{reads.EventPage{Last: 3, Before: 9, Types: started}, []run.Seq{3, 5, 7}, true, false},
		{reads.EventPage{First: 2, Types: []string{"Nothing"}}, nil, false, false},
		{reads.EventPage{First: 2, After: 99}, nil, false, true},
	} {
		p := controltest.Must[reads.EventsPage](t)(w.Events(t.Context(), w.Principal("dev-viewer"), id, c.page))
		var got []run.Seq
		for _, e := range p.Events {
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || p.HasNext != c.next || p.HasPrev != c.prev {
			t.Errorf("page %+v has %v, next %t, prev %t; want those of the case", c.page, got, p.HasNext, p.HasPrev)
		}
	}
	for _, bad := range []reads.EventPage{{First: 201}, {Last: -1}, {First: 1, Last: 1}} {
		_, err := w.Events(t.Context(), w.Engineer(), id, bad)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}

func ids(p control.RunsPage) (out []string) {
	for _, r := range p.Runs {
		out = append(out, r.State.RunID)
	}
	return out
}

func TestRuns_PagesBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []string // newest first
	for i := range 5 {
		all = append([]string{w.CreateQueued(fmt.Sprintf("list-%d", i), "s1")}, all...)
		w.Clock.Advance(time.Second)
	}
	viewer := w.Principal("dev-viewer")
	page := func(q control.RunsQuery) control.RunsPage {
		t.Helper()
		return controltest.Must[control.RunsPage](t)(w.Runs(t.Context(), viewer, q))
	}
	var forward []string
	q := control.RunsQuery{First: 2}
	for {
		p := page(q)
		forward = append(forward, ids(p)...)
		if p.HasPrev != (q.After != "") || len(p.Cursors) != len(p.Runs) {
			t.Errorf("page %+v has HasPrev %t, want it after the first page only", q, p.HasPrev)
		}
		if !p.HasNext {
			break
		}
		q.After = p.Cursors[len(p.Cursors)-1]
	}
	if diff := cmp.Diff(all, forward); diff != "" {
		t.Errorf("the pages forward differ (-want +got):\n%s", diff)
	}
	var backward []string
	q = control.RunsQuery{Last: 2}
	for {
		p := page(q)
		backward = append(ids(p), backward...)
		if p.HasNext != (q.Before != "") {
			t.Errorf("page %+v has HasNext %t, want it before the last page only", q, p.HasNext)
		}
		if !p.HasPrev {
			break
		}
		q.Before = p.Cursors[0]
	}
	if diff := cmp.Diff(all, backward); diff != "" {
		t.Errorf("the pages backward differ (-want +got):\n%s", diff)
	}
	asc := page(control.RunsQuery{Last: 2, Filter: control.RunFilter{Ascending: true}})
	if diff := cmp.Diff([]string{all[1], all[0]}, ids(asc)); diff != "" {
		t.Errorf("the last two of the oldest first differ (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"x", "!!", "bm8", strings.Repeat("a", 500)} {
		_, err := w.Runs(t.Context(), viewer, control.RunsQuery{First: 1, After: bad})
		controltest.Refusal(t, err, run.CodeCursorInvalid)
		_, err = w.Runs(t.Context(), viewer, control.RunsQuery{Last: 1, Before: bad})
		controltest.Refusal(t, err, run.CodeCursorInvalid)
	}
	c := asc.Cursors[0]
	for _, bad := range []control.RunsQuery{{First: 201}, {First: 1, Before: c}, {Last: 1, After: c}, {Before: c}} {
		_, err := w.Runs(t.Context(), viewer, bad)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}

func TestRuns_OnlyWhatTheViewerMayRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shop, store, prod := w.CreateInProject("a", "shop", "dev"), w.CreateInProject("b", "store", "dev"),
		w.CreateInProject("c", "bank", "prod")
	for who, want := range map[string][]string{
		"dev-viewer": {prod, store, shop}, "dev-sre": {prod, store, shop}, "shop-viewer": {shop}, "two-viewer": {store,
			shop},
		"env-viewer": {store, shop}, "nobody": nil, "dev-mallory": nil,
	} {
		p := controltest.Must[control.RunsPage](t)(
			w.Runs(t.Context(), w.Principal(who), control.RunsQuery{Filter: control.RunFilter{TenantID: "acme"}}))
		if diff := cmp.Diff(want, ids(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", who, diff)
		}
		p = controltest.Must[control.RunsPage](t)(
			w.Runs(t.Context(), w.Principal(who), control.RunsQuery{
				Filter: control.RunFilter{ProjectIDs: []string{"bank", "store", "store"}}}))
		for _, id := range ids(p) {
			if id == shop || !strings.Contains(strings.Join(want, " "), id) {
				t.Errorf("%s asked for bank and store and sees %v", who, ids(p))
			}
		}
	}
	p := controltest.Must[control.RunsPage](t)(
		w.Runs(t.Context(), w.Principal("dev-viewer"), control.RunsQuery{Filter: control.RunFilter{ProjectIDs: []string{}}}))
	if len(p.Runs) != 3 {
		t.Errorf("without a project in the filter the page has %v", ids(p))
	}
}

func TestReceipts_ArePagedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("receipts", "s1")
	for i, sig := range []run.SignalType{run.Pause, run.Resume, run.Pause} {
		w.Send(w.Engineer(), controltest.SignalOf(id, fmt.Sprintf("u%d", i), sig))
	}
	p := controltest.Must[runs.ReceiptsPage](t)(w.Receipts(t.Context(), w.Principal("dev-viewer"), id, "", 2))
	if len(p.Receipts) != 2 || !p.HasNext || p.Receipts[1].Signal.ID != "u1" {
		t.Errorf("the first page is %+v, want 2 receipts up to u1", p)
	}
	p = controltest.Must[runs.ReceiptsPage](t)(w.Receipts(t.Context(), w.Engineer(), id, "u1", 2))
	if len(p.Receipts) != 1 || p.HasNext || p.Receipts[0].Signal.ID != "u2" {
		t.Errorf("the last page is %+v, want u2 alone", p)
	}
	_, err := w.Receipts(t.Context(), w.Engineer(), id, "nothing", 2)
	controltest.Refusal(t, err, run.CodeCursorInvalid)
	if mine := controltest.Must[[]runs.SignalReceipt](t)(w.MySignals(t.Context(), w.Engineer(), false,
		99)); len(mine) != 3 ||
		mine[0].Signal.ID != "u2" {
		t.Errorf("MySignals is %+v, want u2 first", mine)
	}
	mallory := w.Principal("dev-mallory")
	if theirs := controltest.Must[[]runs.SignalReceipt](t)(w.MySignals(t.Context(), mallory, false,
		99)); len(theirs) != 0 {
		t.Errorf("another principal sees %+v, want nothing", theirs)
	}
}

// Only failed attempts have an error line, and it is that of the execution that failed.
func TestStepLog_ErrorLineOfTheFailedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("error-line", "s1")
	log := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}
	if err := w.Artifacts.Append(t.Context(), log, 1, 1, []artifact.Line{{Stream: "stdout", Text: "a"},
		{Stream: "stderr", Text: "Error: b"}}); err != nil {
		t.Fatal(err)
	}
	line := func(q reads.StepLogQuery) int64 {
		q.RunID, q.StepID = id, "s1"
		return controltest.Must[reads.StepLog](t)(w.StepLog(t.Context(), w.Principal("dev-viewer"), q)).ErrorLine
	}
	w.BeginStep(id, "s1", 1)
	if no := line(reads.StepLogQuery{ErrorLine: true}); no != 0 {
		t.Errorf("a running attempt has the error line %d, want none", no)
	}
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "s1", 1))
	if asked, not := line(reads.StepLogQuery{ErrorLine: true}), line(reads.StepLogQuery{}); asked != 2 || not != 0 {
		t.Errorf("line %d when asked for, %d when not; want 2 and 0", asked, not)
	}
	if no := line(reads.StepLogQuery{ErrorLine: true, Attempt: 2}); no != 0 {
		t.Errorf("line %d of an attempt that did not begin", no)
	}
}

func TestStepLog_BoundsAndFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("log", "s1")
	log := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}
	if l := controltest.Must[reads.StepLog](t)(
		w.StepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "s1"})); l.Attempt != 1 || l.Total != 0 {
		t.Errorf("before its start the attempt has %+v, want attempt 1 without lines", l)
	}
	if err := w.Artifacts.Append(t.Context(), log, 1, 1, controltest.LogLines(1, 1200)); err != nil {
		t.Fatal(err)
	}
	l := controltest.Must[reads.StepLog](t)(
		w.StepLog(t.Context(), w.Principal("dev-viewer"), reads.StepLogQuery{RunID: id, StepID: "s1", FromLine: 1100,
			First: 1000,
			Find:  "line 119"}))
	if len(l.Lines) != 101 || l.Lines[0].No != 1100 || l.Total != 1200 || l.TotalMatches != 11 || l.Matches[0] != 119 {
		t.Errorf("there are %d lines of %d and the matches %v of %d, want 101 of 1200 and 11 matches",
			len(l.Lines), l.Total, l.Matches, l.TotalMatches)
	}
	if l := controltest.Must[reads.StepLog](t)(w.StepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id,
		StepID: "s1"})); len(
		l.Lines) != 200 {
		t.Errorf("there are %d lines by default, want 200", len(l.Lines))
	}
	_, err := w.StepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "s1", FromLine: -1, First: 1001,
		Attempt: -1, Find: strings.Repeat("x", 201)})
	if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 4 {
		t.Errorf("the violations are %+v, want 4", e.Violations)
	}
	_, err = w.StepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "zz"})
	controltest.Refusal(t, err, run.CodeNotFound)
}

// contract: T136
func TestHealth_NamesWhatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	controltest.Eventually(t, "healthy", func() bool { return w.Health(t.Context()).Status == "HEALTHY" })
	w.Engine.Set(func(e *controltest.FakeEngine) { e.DescribeError = errors.New("connection refused") })
	controltest.Eventually(t, "the engine alone is down", func() bool { // the store of a busy machine may miss its 2 s
		h := w.Health(t.Context())
		if h.Checks[0].Status != "UNHEALTHY" || strings.Contains(h.Checks[0].Message, "refused") {
			t.Errorf("while the engine is down the health is %+v, want only the engine UNHEALTHY", h)
		}
		return h.Status == "DEGRADED"
	})
	w.Engine.Set(func(e *controltest.FakeEngine) { e.DescribeError = nil })
	w.Redis.Close()
	controltest.Eventually(t, "degraded", func() bool { return w.Health(t.Context()).Status == "DEGRADED" })
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	if h := w.Health(t.Context()); h.Status != "UNHEALTHY" || h.Checks[1].Status != "UNHEALTHY" {
		t.Errorf("while the store is down the health is %+v, want UNHEALTHY", h)
	}
	full := newWorld(t, func(c *usecases.Config) { c.Store = unwritable{c.Store} })
	controltest.Eventually(t, "the store can be read but not written", func() bool {
		h := full.Health(t.Context())
		if h.Status != "UNHEALTHY" {
			t.Errorf("while the store is read-only the health is %+v, want UNHEALTHY", h)
		}
		return strings.Contains(h.Checks[1].Message, "read but not written")
	})
}

type unwritable struct{ store.Store }

func (unwritable) CheckWritable(context.Context) error { return store.ErrUnavailable }

// The outcome that Actions shows is the outcome of the signal, for every principal and every type of step.
// contract: T193
func TestActions_AgreeWithWhatIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Config.Limits.DenialsPerMinute, w.Config.Limits.SignalsPerMinute = 1000, -1
	w.UseCases = usecases.New(w.Config)
	n := 0
	for _, state := range []string{"running", "paused", "done"} {
		id := w.CreateSteps("actions-"+state, "COMMAND s1", "DBT_RUN s2", "NOOP s3")
		w.FinishStep(id, "s1", 1, run.StepFailedEvent)
		w.FinishStep(id, "s3", 1, run.StepCompletedEvent)
		switch state {
		case "paused":
			w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
		case "done":
			w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
		}
		for _, who := range []string{"dev-viewer", "dev-operator", "dev-engineer", "dev-admin", "dev-system",
			"dev-mallory"} {
			v := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Principal("dev-viewer"), id, nil))
			a := w.Actions(w.Principal(who), v)
			for about, list := range map[string][]runs.ActionAvailability{"": a.Run, "s1": a.Steps["s1"],
				"s2": a.Steps["s2"],
				"s3": a.Steps["s3"]} {
				for _, x := range list {
					sig := run.SignalType(x.Action)
					if x.Outcome == "REFUSED" && (x.Reason == "" || x.RequiredRole == "" || x.Code == run.CodeForbidden &&
						len(x.WhoCould) == 0) {
						t.Errorf("%s: %+v does not explain itself", who, x)
					}
					if who == "dev-mallory" || x.Outcome == "APPLY" && sig.Stops() {
						continue // skip another tenant, and signals that would end the run
					}
					n++
					in := controltest.SignalOf(id, fmt.Sprintf("a-%d", n), sig)
					if about != "" {
						in.Signal.StepID = about
					}
					if sig == run.InjectOverride && about == "s2" {
						in = controltest.OverrideOf(id, in.Signal.ID, about, controltest.M{"select": "x"})
					}
					if sig == run.InjectOverride && about == "s3" || sig == run.SkipStep && v.PendingRetry[about] {
						continue // skip steps without inputs, and outcomes that are decided at application
					}
					outcome, code := "APPLY", run.Code("")
					r, err := w.SignalRun(t.Context(), w.Principal(who), in)
					var e *control.Error
					switch {
					case errors.As(err, &e):
						outcome, code = "REFUSED", e.Code
					case err != nil:
						t.Fatal(err)
					case r.Rejected:
						outcome, code = "REFUSED", r.Rejection
					}
					if x.Outcome == "NOOP" { // NOOP means that the signal is accepted
						outcome, code = "NOOP", x.Code
						if r.Rejected {
							t.Errorf("%s: %s is shown as NOOP and rejected with %s", who, sig, r.Rejection)
						}
					}
					if x.Outcome != outcome || x.Code != code && outcome == "REFUSED" {
						t.Errorf("%s run, %s, %s of %q: shown %s %s, decided %s %s", state, who, sig, about, x.Outcome, x.Code,
							outcome,
							code)
					}
				}
			}
		}
	}
	v := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Engineer(), w.CreateSteps("actions-kinds",
		"COMMAND s1", "DBT_RUN s2"), nil))
	a := w.Actions(w.Principal("dev-admin"), v)
	var got []string
	for _, x := range append(a.Run, a.Steps["s2"]...) {
		got = append(got, fmt.Sprintf("%s %s %s %t", x.Action, x.Outcome, x.Strength, x.ReasonRequired))
	}
	want := []string{
		"PAUSE APPLY REVERSIBLE false", "RESUME NOOP REVERSIBLE false", "UPDATE_PARAMS APPLY STRONG false",
		"ESCALATE_ALERT REFUSED NORMAL false",
		"CANCEL APPLY STRONG false", "EMERGENCY_STOP APPLY STRONG true",
		"RETRY_STEP REFUSED NORMAL false", "SKIP_STEP APPLY NORMAL false", "UPDATE_PARAMS APPLY STRONG false",
		"INJECT_OVERRIDE APPLY STRONG true",
		"UPDATE_TARGET APPLY STRONG true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A page whose runs have too many steps is refused with a hint what to ask for instead.
func TestRuns_PagesOfTooManyStepsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Store = crowded{c.Store} })
	_, err := w.Runs(t.Context(), w.Engineer(), control.RunsQuery{Filter: control.RunFilter{Steps: true}})
	if e := controltest.Refusal(t, err, run.CodeQueryTooComplex); e.Limit != store.MaxListSteps ||
		!strings.Contains(e.Message, "smaller page") {
		t.Errorf("the refusal has the limit %d and says %s, want store.MaxListSteps and what to ask for",
			e.Limit, e.Message)
	}
	if _, err := w.Runs(t.Context(), w.Engineer(), control.RunsQuery{}); err != nil {
		t.Error(err)
	}
}

// crowded is a store in which every page has more steps than a list may read.
type crowded struct{ store.Store }

func (c crowded) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	if f.Steps {
		return nil, fmt.Errorf("sqlite: list: %w", store.ErrTooMany)
	}
	return c.Store.List(ctx, f)
}
