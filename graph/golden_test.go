package graph_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

var update = flag.Bool("update", false, "overwrite the golden answers")

// selectAll selects all fields of a type except without, so that golden answers also cover a field that is added later.
func selectAll(t *testing.T, typeName string, without ...string) string {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: dvt.Schema})
	if err != nil {
		t.Fatal(err)
	}
	skip := map[string]bool{"Run.step": true, "Step.dbtNodes": true, "Step.nodes": true, "Step.inputs": true,
		"Step.evidence": true, "Step.secrets": true, "Step.output": true}
	for _, w := range without {
		skip[w] = true
	}
	var expand func(def *ast.Definition, inside map[string]bool) string
	expand = func(def *ast.Definition, inside map[string]bool) string {
		var b strings.Builder
		b.WriteString("{ __typename")
		for _, f := range def.Fields {
			of := schema.Types[f.Type.Name()]
			if strings.HasPrefix(f.Name, "__") || skip[def.Name+"."+f.Name] || inside[of.Name] {
				continue
			}
			b.WriteString(" " + f.Name)
			if of.Kind == ast.Object {
				inside[of.Name] = true
				b.WriteString(expand(of, inside))
				delete(inside, of.Name)
			}
		}
		return b.String() + "}"
	}
	return expand(schema.Types[typeName], map[string]bool{typeName: true})
}

func newAnsweringFake() *fake {
	v := failedRun()
	row := v
	row.State.Steps, row.Queue = nil, nil
	frame := live.Frame{Sync: live.Live, State: v.State, Changed: true, HeadSeq: 7, Epoch: "e1", OpsRev: 3, AsOf: instant}
	ended := &control.Error{Code: run.CodeForbidden, Message: "No longer.", Denial: &control.Denial{Action: authz.Read,
		Rule: "r"}}
	return &fake{
		run: func(_ authz.Principal, runID string, at *run.Seq) (control.RunView, error) {
			if runID != "r1" {
				return control.RunView{}, errNotFound
			}
			v := v
			v.Past = at != nil
			return v, nil
		},
		runs: func(q control.RunsQuery) (control.RunsPage, error) {
			row := row
			if q.Filter.Steps {
				row.State.Steps = v.State.Steps
			}
			return control.RunsPage{Runs: []control.RunView{row}, Cursors: []string{"c1"}, HasNext: true}, nil
		},
		events: func(string, reads.EventPage) (reads.EventsPage, error) {
			return reads.EventsPage{Events: []run.Event{event(1), event(2)}, HasPrev: true}, nil
		},
		receipt: func(string, string) (runs.SignalReceipt, error) { return receipt(run.Resume), nil },
		receipts: func(string, string, int) (runs.ReceiptsPage, error) {
			rejected := receipt("FUTURE_SIGNAL")
			rejected.Rejected, rejected.Rejection, rejected.RejectText = true, run.CodeRunTerminal, "The run has ended."
			return runs.ReceiptsPage{Receipts: []runs.SignalReceipt{receipt(run.Pause), rejected}, HasNext: true}, nil
		},
		letters: func(reads.DeadLettersQuery) (reads.DeadLettersPage, error) {
			done := deadLetter("d1")
			done.RedrivenAt = after(time.Hour)
			return reads.DeadLettersPage{Letters: []reads.DeadLetter{deadLetter("d2"), done}, HasNext: true}, nil
		},
		letter: func(id string) (reads.DeadLetter, error) { return deadLetter(id), nil },
		redrive: func(in reads.RedriveDeadLetters) (reads.RedrivenDeadLetters, error) {
			one, failed := deadLetter(in.IDs[0]), deadLetter(in.IDs[2])
			one.RedrivenAt = after(time.Hour)
			return reads.RedrivenDeadLetters{More: true, Results: []reads.RedriveResult{
				{ID: in.IDs[0], Letter: &one}, {ID: in.IDs[1], Failed: errNotFound},
				{ID: in.IDs[2], Letter: &failed, Failed: &control.Error{Code: run.CodeUnavailable,
					Message: "The bus does not answer."}},
				{ID: in.IDs[3], Letter: &one, Already: true},
			}}, nil
		},
		stepLog: func(q reads.StepLogQuery) (reads.StepLog, error) {
			l := reads.StepLog{RunID: q.RunID, StepID: q.StepID, Attempt: 1,
				Page:    artifact.Page{Lines: []artifact.Line{line(1)}, Total: 9, Missing: artifact.Missing{From: 3, To: 7}},
				Matches: []int64{1}, TotalMatches: 1}
			if q.ErrorLine && q.RunID == "r1" && q.StepID == "build" && q.Attempt < 2 {
				l.ErrorLine = 4
			}
			return l, nil
		},
		searchLogs: func(q reads.LogSearchQuery) (reads.LogSearchPage, error) {
			if q.RunID == "r9" {
				return reads.LogSearchPage{}, errNotFound
			}
			return reads.LogSearchPage{Searched: 3, HasNext: true, End: "end", Logs: []reads.FoundLog{{RunID: "r1",
				CreatedAt: instant, StepID: "build", StepName: q.Find, Attempt: q.Newest, Cursor: "c1",
				Found: artifact.Found{Lines: []artifact.Line{line(1)}, Total: 7}}}}, nil
		},
		startRun: func(authz.Principal, runs.StartRun) (runs.StartedRun, error) {
			return runs.StartedRun{View: v, Deduplicated: true}, nil
		},
		signalRun: func(authz.Principal, runs.SignalRun) (runs.SignalReceipt, error) { return receipt(run.Pause), nil },
		watchRun: func(watch.WatchRun) (graph.Stream[live.Frame], error) {
			stale := frame
			stale.Sync, stale.Reason, stale.Changed, stale.Lag, stale.HeadSeq = live.Stale, live.Gap, false, 1500, 9
			moved := frame
			moved.From = 6
			return stream[live.Frame](ended, frame, stale, moved)
		},
		watchEvent: func(watch.WatchRun) (graph.Stream[watch.EventsFrame], error) {
			return stream[watch.EventsFrame](ended, watch.EventsFrame{Sync: live.Live, Events: []run.Event{event(3)},
				HeadSeq: 3, Epoch: "e1", AsOf: instant},
				watch.EventsFrame{Sync: live.Stale, Reason: live.StoreDown, Epoch: "e1", AsOf: instant})
		},
		watchRuns: func(control.RunsQuery) (graph.Stream[watch.RunsFrame], error) {
			return stream[watch.RunsFrame](ended, watch.RunsFrame{Sync: live.Live, Runs: []control.RunView{row},
				AsOf: instant, Reset: true},
				watch.RunsFrame{Sync: live.Live, Removed: []string{"r1"}, AsOf: instant})
		},
		watchSigs: func(string, string) (graph.Stream[runs.SignalReceipt], error) {
			return stream[runs.SignalReceipt](ended, receipt(run.Cancel))
		},
		watchLog: func(reads.StepLogQuery) (graph.Stream[watch.StepLogFrame], error) {
			return stream[watch.StepLogFrame](
				ended, watch.StepLogFrame{Attempt: 1, Page: artifact.Page{Lines: []artifact.Line{line(1)}, Total: 1},
					Complete: true, AsOf: instant})
		},
	}
}

// The test sends each operation once, with each field that it may select.
func TestGolden_EveryOperation(t *testing.T) {
	t.Parallel()
	stream := notInStreams()
	list := costly("Run.steps")
	plan := `plan: {inline: {steps: [{timeout: "<2m>"}]}}, runRequestId: "q1", projectId: "shop", environmentId: "dev"`
	operations := map[string]string{
		"viewer":        `{ viewer` + selectAll(t, "Viewer") + `}`,
		"run":           `{ run(runId: "r1")` + selectAll(t, "Run") + `}`,
		"run_past":      `{ run(runId: "r1", at: "5") { runSeq actions { action } one: step(stepId: "ship") { wait { kind } } none: step(stepId: "x") { stepId } } }`,
		"runDiff":       `{ runDiff(runId: "r1", a: 1, b: 5) { from { runSeq } to { runSeq } steps { stepId from { stepId } to { status } } decisions { runSeq } } none: runDiff(runId: "r9", a: 1, b: 5) { from { runSeq } } }`,
		"runs":          `{ runs(first: 1)` + selectAll(t, "RunConnection", list...) + `}`,
		"runsWithSteps": `{ runs(first: 1)` + selectAll(t, "RunConnection", costly()...) + `}`,
		"signal":        `{ signal(runId: "r1", signalId: "s1")` + selectAll(t, "Signal") + `}`,
		"stepLog":       `{ stepLog(runId: "r1", stepId: "build", find: "hello")` + selectAll(t, "StepLog") + `}`,
		"logSearch": `{ logSearch(in: {plan: {planId: "p", projectId: "shop", environmentId: "dev", newest: 3}}, find: "hello")` +
			selectAll(t, "LogSearchConnection") + ` none: logSearch(in: {runId: "r9"}, find: "x") { searchedLogs } }`,
		"capabilities":  `{ capabilities` + selectAll(t, "EngineCapability") + `}`,
		"health":        `{ health` + selectAll(t, "Health") + `}`,
		"healthHistory": `{ healthHistory(last: 2)` + selectAll(t, "HealthHistory") + `}`,
		"workers":       `{ workers` + selectAll(t, "WorkerReport") + `}`,
		"node": `{ run: node(id: "UnVuOnIx") { id __typename ... on Run { runId } } signal: node(id: "U2lnbmFsOnIxL3Mx") { id __typename }
			none: node(id: "UnVuOnI5") { id } nonsense: node(id: "?") { id }
			letter: node(id: "RGVhZExldHRlcjpkMQ") { id __typename ... on DeadLetter { runId } } }`,
		"deadLetters": `{ deadLetters(open: true, first: 2, after: "ZDM")` + selectAll(t, "DeadLetterConnection") + `}`,
		"redriveDeadLetters": `mutation { redriveDeadLetters(input: {requestId: "q1", letters: {ids: ["RGVhZExldHRlcjpkMQ", "UnVuOnIx", "RGVhZExldHRlcjpkMg", "RGVhZExldHRlcjpkMQ"]}})` +
			selectAll(t, "RedriveDeadLettersPayload") + `}`,
		"startRun": `mutation { startRun(input: {` + plan + `})` + selectAll(t, "StartRunPayload") + `}`,
		"signalRun": `mutation { signalRun(input: {runId: "r1", signalId: "s1", signal: {pause: {reason: "lunch"}}})` +
			selectAll(t, "SignalRunPayload") + `}`,
		"cancelRun": `mutation { cancelRun(input: {runId: "r1", signalId: "s1"})` + selectAll(t, "SignalRunPayload") +
			`}`,
		"runUpdates": `subscription { runUpdates(runId: "r1")` + selectAll(t, "RunUpdate", stream...) + `}`,
		"runDeltas":  `subscription { runUpdates(runId: "r1", mode: DELTA)` + selectAll(t, "RunUpdate", stream...) + `}`,
		"runEvents":  `subscription { runEvents(runId: "r1", after: 2)` + selectAll(t, "RunEventUpdate") + `}`,
		"runListUpdates": `subscription { runListUpdates(first: 10)` + selectAll(t, "RunListUpdate",
			append(stream, list...)...) + `}`,
		"signalUpdates": `subscription { signalUpdates(runId: "r1")` + selectAll(t, "Signal") + `}`,
		"stepLogUpdates": `subscription { stepLogUpdates(runId: "r1", stepId: "build")` + selectAll(t, "StepLogUpdate") +
			`}`,
	}
	a := serve(t, newAnsweringFake())
	a.Unshare()
	for name, operation := range operations {
		accept := "application/json"
		if strings.HasPrefix(operation, "subscription") {
			accept = "text/event-stream"
		}
		got := a.do(http.MethodPost, "/graphql", request(operation, nil), "Accept", accept)
		if got.status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", name, got.status, got.body)
		}
		golden(t, name, got.body)
	}
	if a.logs.Len() > 0 {
		t.Errorf("logged %s, want nothing", a.logs)
	}
}

var dataLine = regexp.MustCompile(`(?m)^data: (\{.*)$`)

// golden compares an answer with the file of that name in testdata, where JSON is indented. The flag -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if strings.HasPrefix(got, "{") {
		got = indent(t, got)
	} else {
		got = dataLine.ReplaceAllStringFunc(got, func(l string) string {
			return "data: " +
				indent(t, strings.TrimPrefix(l, "data: "))
		})
	}
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the tests with -update to write it", err)
	}
	if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func indent(t *testing.T, doc string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(doc), "", " "); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return b.String()
}
