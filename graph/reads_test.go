package graph_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// The number of reads of a query must not grow with the number of rows and steps.
func TestReads_TheirNumberDoesNotGrowWithRows(t *testing.T) {
	t.Parallel()
	small, big := newWorld(t), newWorld(t)
	small.fill(2, 3)
	big.fill(40, 30)
	stream := costly("Run.actions", "Step.actions")
	plan := `projectId: "shop", environmentId: "dev", planId: "` + runIdentity("r0", "acme", "shop", "dev").PlanID + `"`
	for name, query := range map[string]string{
		"runs":            `{ runs(first: 200) ` + selectAll(t, "RunConnection", costly("Run.steps")...) + ` }`,
		"runs with steps": `{ runs(first: 200) ` + selectAll(t, "RunConnection", costly()...) + ` }`,
		"a run page": `{ run(runId: "r0") { ... on Run ` + selectAll(t, "Run", stream...) + `
			actions { action outcome } steps { stepId actions { action } } one: step(stepId: "s0") { actions { action } }
			events(last: 200) ` + selectAll(t, "EventConnection") + ` signals(first: 50) ` + selectAll(t, "SignalConnection") +
			` } }`,
		"plans":  `{ plans ` + selectAll(t, "PlanConnection") + ` }`,
		"a plan": `{ plan(` + plan + `, runs: 50) ` + selectAll(t, "PlanHistory") + ` }`,
		"a step": `{ planStep(` + plan + `, stepId: "s0", runs: 100) ` + selectAll(t, "PlanStepHistory") + ` }`,
		"a comparison": `{ compareRuns(a: "r0", b: "r1") { params { path } a { runId } b { runId } steps ` +
			selectAll(t, "StepComparison") + ` } }`,
		"viewer":      `{ viewer { principal grants { role } inboxCount signals(first: 50) { signalId runId } } }`,
		"manualTasks": `{ manualTasks(first: 200) { edges { node { runId stepId since } } } }`,
	} {
		few, many := small.reads(t, query), big.reads(t, query)
		if diff := cmp.Diff(few.calls, many.calls); diff != "" || len(many.calls) == 0 {
			t.Errorf("%s: reads of a small and of a big world differ (-small +big):\n%s", name, diff)
		}
		if name != "viewer" && few.bytes*3 > many.bytes {
			t.Errorf("%s: answered %d bytes in a small and %d in a big world, want at least 3 times as many", name, few.bytes,
				many.bytes)
		}
		t.Logf("%s: %v", name, many.calls)
	}
}

type readCounts struct {
	calls map[string]int
	bytes int
}

func (w *world) reads(t *testing.T, query string) readCounts {
	t.Helper()
	w.counted.reset()
	ctx := graph.WithPrincipal(t.Context(), w.who("ada"))
	op, errs := w.Parse(ctx, query, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got := responses(w.Handler, ctx, op)[0]
	if strings.Contains(got, `"errors"`) {
		t.Fatalf("answered %.500s, want no errors", got)
	}
	return readCounts{maps.Clone(w.counted.calls), len(got)}
}

// fill stores runs whose steps all wait for a person, with one receipt for each step.
func (w *world) fill(runs, steps int) {
	w.t.Helper()
	w.grant("ada", authz.Grant{Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"})
	var names []string
	for i := range steps {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	for i := range runs {
		drafts := []run.Draft{runtest.Start(names...)}
		var receipts []run.SignalReceipt
		runID := fmt.Sprintf("r%d", i)
		for k, s := range names {
			drafts = append(drafts, runtest.Draft(run.StepStartedEvent, s, 1), runtest.Draft(run.StepAwaitingManualCompletion,
				s,
				1))
			receipts = append(receipts, run.SignalReceipt{
				RunID: runID, No: int64(k + 1), Signal: run.Signal{ID: fmt.Sprintf("%s-%d", runID, k), Type: run.EscalateAlert},
				Actor:       "ada",
				Application: run.SignalApplied, ReceivedAt: runtest.Epoch.Add(time.Hour),
			})
		}
		w.add(runIdentity(runID, "acme", "shop", "dev"), runtest.Log(drafts...), receipts...)
	}
}
