package runs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func compact(t *testing.T, doc json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("%s is not JSON: %v", doc, err)
	}
	return string(runtest.JSON(v))
}

// contract: T197, G25
func TestStartAttempt_HasTheOverlaysUpToItsStepStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateStepsWith("t197", json.RawMessage(`{"day":"mon","n":1}`), "COMMAND s1", "DBT_RUN s2", "COMMAND s3")
	first := w.BeginAttempt(id, "s1", 1, 1)
	if first.ParamsSeq != 0 || compact(t, first.Params) != `{"day":"mon","n":1}` ||
		compact(t, first.Step.Inputs) != `{"argv":["true"],"env":{"KEPT":"1"}}` {
		t.Fatalf("before any overlay the attempt is %+v with %s and %s, want the inputs of the plan",
			first, first.Params, first.Step.Inputs)
	}
	w.SendOverlay(controltest.OverrideOf(id, "o1", "s1", controltest.M{"env": controltest.M{"MODE": "safe"}}))
	w.SendOverlay(controltest.NewParamsOf(id, "p1", "", controltest.M{"day": "tue", "n": nil}))
	w.SendOverlay(controltest.NewParamsOf(id, "p2", "s2", controltest.M{"only": "s2"}))
	target := w.SendOverlay(
		signalAbout(controltest.SignalOf(id, "t1", run.UpdateTarget), "s2",
			controltest.M{"newTarget": controltest.M{"destinationDb": "wh",
				"schema": "restored"}}))

	// A started attempt keeps its inputs, also when the platform retries it.
	again := w.BeginAttempt(id, "s1", 1, 2)
	if diff := cmp.Diff([]any{first.StartedSeq, first.ParamsSeq, string(first.Params), string(first.Step.Inputs)},
		[]any{again.StartedSeq, again.ParamsSeq, string(again.Params), string(again.Step.Inputs)}); diff != "" {
		t.Errorf("a platform retry sees other inputs:\n%s", diff)
	}
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "s1", 1))

	second := w.BeginAttempt(id, "s1", 2, 1)
	if second.Verdict != store.StartGranted || compact(t,
		second.Step.Inputs) != `{"argv":["true"],"env":{"KEPT":"1","MODE":"safe"}}` ||
		compact(t, second.Params) != `{"day":"tue"}` {
		t.Errorf("attempt 2 is %s with inputs %s and params %s, want the overlays",
			second.Verdict, second.Step.Inputs, second.Params)
	}
	dbt := w.BeginAttempt(id, "s2", 1, 1)
	if want := `{"projectDir":"shop","vars":{"dvt_target_database":"wh","dvt_target_schema":"restored","own":true}}`; compact(t, dbt.Step.Inputs) != want || compact(t, dbt.Params) != `{"day":"tue","only":"s2"}` {
		t.Errorf("s2 has inputs %s and params %s, want the target and the params", dbt.Step.Inputs, dbt.Params)
	}
	other := w.BeginAttempt(id, "s3", 1, 1)
	if compact(t, other.Step.Inputs) != `{"argv":["true"],"env":{"KEPT":"1"}}` || compact(t,
		other.Params) != `{"day":"tue"}` {
		t.Errorf("s3 has inputs %s and params %s, want only the params", other.Step.Inputs, other.Params)
	}
	// Overlays that are accepted later do not reach started attempts.
	w.SendOverlay(controltest.NewParamsOf(id, "p3", "", controltest.M{"day": "wed"}))
	if late := w.BeginAttempt(id, "s2", 1, 2); string(late.Params) != string(dbt.Params) ||
		late.ParamsSeq != target.AcceptedSeq {
		t.Errorf("the repeated s2 has params %s at %d, want those of its first start", late.Params, late.ParamsSeq)
	}

	stamped := map[string]run.Seq{}
	for _, e := range controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 0, store.MaxPage)) {
		if e.Type == run.StepStartedEvent {
			stamped[fmt.Sprintf("%s/%d", e.StepID, e.LogicalAttempt)] = controltest.Must[run.StepStartedPayload](t)(
				run.PayloadOf[run.StepStartedPayload](e.Payload)).ParamsSeq
		}
	}
	if diff := cmp.Diff(map[string]run.Seq{"s1/1": 0, "s1/2": second.ParamsSeq, "s2/1": dbt.ParamsSeq,
		"s3/1": other.ParamsSeq}, stamped); diff != "" || second.ParamsSeq == 0 {
		t.Errorf("paramsSeq in the log (-want +got):\n%s", diff)
	}
	if n := len(w.Engine.SignalsTo(id)); n != 0 {
		t.Errorf("the engine got %d of the overlays, want none", n)
	}
	v := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Engineer(), id, nil))
	if v.State.PlanVersion != "1.0" {
		t.Errorf("the planVersion is %s, want that of the plan", v.State.PlanVersion)
	}
}

func signalAbout(in runs.SignalRun, stepID string, members controltest.M) runs.SignalRun {
	members["stepId"] = stepID
	in.Signal.StepID, in.Payload = stepID, runtest.JSON(members)
	return in
}

// A gate that is closed for another reason still parks the attempt. When it opens, the attempt gets the overlays that
// were accepted in the meantime.
// contract: T185
func TestStartAttempt_OverlaysPassOnlyTheirOwnGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateSteps("t185", "COMMAND s1")
	w.SendOverlay(controltest.OverrideOf(id, "o1", "s1", controltest.M{"dir": "a"}))
	controltest.Must[store.Appended](t)(
		w.Journal.Append(t.Context(), store.Append{RunID: id, SetGate: run.GatePaused,
			Events: []run.Draft{runtest.Draft(run.RunPaused, "", 1)}}))
	if b := w.BeginAttempt(id, "s1", 1, 1); b.Verdict != store.StartParked || w.CountEvents(id,
		run.StepStartedEvent) != 0 {
		t.Fatalf("the attempt is %s in a pause, want PARKED", b.Verdict)
	}
	w.SendOverlay(controltest.OverrideOf(id, "o2", "s1", controltest.M{"dir": "b"}))
	controltest.Must[store.Appended](t)(
		w.Journal.Append(t.Context(), store.Append{RunID: id, ClearGate: run.GatePaused,
			Events: []run.Draft{runtest.Draft(run.RunResumed, "", 1)}}))
	if b := w.BeginAttempt(id, "s1", 1, 1); b.Verdict != store.StartGranted ||
		compact(t, b.Step.Inputs) != `{"argv":["true"],"dir":"b","env":{"KEPT":"1"}}` {
		t.Errorf("the attempt is %s with the inputs %s, want RUN with the overlay", b.Verdict, b.Step.Inputs)
	}
	w.AppendEvents(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	if b := w.BeginAttempt(id, "s1", 1, 2); b.Verdict != store.StartDone || b.Terminal == nil {
		t.Errorf("after its end the attempt is %s, want DONE with its end", b.Verdict)
	}
}

// Starts of attempts and overlays race. Each StepStarted names the newest overlay before it, and its attempt gets
// exactly the overlays up to that one.
// contract: T197
func TestStartAttempt_RacingWithOverlaysNamesTheNewestOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 30
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("COMMAND s%d", i))
	}
	id := w.CreateSteps("race", list...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			w.SendOverlay(controltest.NewParamsOf(id, fmt.Sprintf("p%d", i), "", controltest.M{"n": i, fmt.Sprintf("k%d",
				i): true}))
		}
	})
	begun := make([]engine.AttemptStarted, n)
	for part := range 3 {
		wg.Go(func() {
			for i := part; i < n; i += 3 {
				begun[i] = w.BeginAttempt(id, fmt.Sprintf("s%d", i), 1, 1)
			}
		})
	}
	wg.Wait()
	overlays, members := run.Seq(0), 0
	for _, e := range controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 0, store.MaxPage)) {
		switch e.Type {
		case run.SignalAccepted:
			overlays, members = e.Seq, members+1
		case run.StepStartedEvent:
			p := controltest.Must[run.StepStartedPayload](t)(run.PayloadOf[run.StepStartedPayload](e.Payload))
			var i int
			_, _ = fmt.Sscanf(e.StepID, "s%d", &i)
			var params map[string]any
			if overlays > 0 {
				if err := json.Unmarshal(begun[i].Params, &params); err != nil {
					t.Fatal(err)
				}
			}
			if p.ParamsSeq != overlays || begun[i].ParamsSeq != overlays || len(params) != min(members, 1)+members {
				t.Errorf("%d StepStarted(%s): paramsSeq %d, begun with %d and %d members; the newest overlay is at %d, %d in all",
					e.Seq, e.StepID, p.ParamsSeq, begun[i].ParamsSeq, len(params), overlays, members)
			}
		}
	}
}

// A real process sees the override in attempt 2 only.
// contract: G25
func TestOverlay_ARealCommandSeesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateStepsWith("real", json.RawMessage(`{"day":"mon"}`), "COMMAND s1")
	r := &executor.Runner{
		Journal: w.Journal, Executors: executor.New(executor.Config{AllowAnyDir: true}), WorkspaceRoot: t.TempDir(),
		ProjectRoot: t.TempDir(),
	}
	script := controltest.M{"argv": []string{"sh", "-c", `echo "mode=$MODE params=$(cat "$DVT_PARAMS_FILE")"; exit 3`}}
	w.SendOverlay(controltest.OverrideOf(id, "script", "s1", script))
	attempt := func(logicalAttempt, engineAttempt, last int) string {
		t.Helper()
		b := w.BeginOf(id, "s1", logicalAttempt, engineAttempt)
		end, err := r.Run(t.Context(), executor.Dispatch{RunID: id, StepID: "s1", LogicalAttempt: logicalAttempt, N: b.N,
			EngineAttempt: engineAttempt, Ticket: b.Ticket, MaxEngineAttempts: last}, func(executor.Heartbeat) {})
		if ended := err == nil && end.Kind == engine.ReturnEnded; ended != (engineAttempt == last) {
			t.Fatalf("attempt %d.%d of %d returned %+v, %v", logicalAttempt, engineAttempt, last, end, err)
		}
		l := controltest.Must[reads.StepLog](t)(
			w.StepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "s1", Attempt: logicalAttempt}))
		for _, line := range slices.Backward(l.Lines) {
			if line.Stream == "output" {
				return line.Text
			}
		}
		return ""
	}
	if got := attempt(1, 1, 2); got != `mode= params={"day":"mon"}` {
		t.Errorf("attempt 1 printed %s, want the inputs of the plan", got)
	}
	w.SendOverlay(controltest.OverrideOf(id, "mode", "s1", controltest.M{"env": controltest.M{"MODE": "safe"}}))
	w.SendOverlay(controltest.NewParamsOf(id, "day", "s1", controltest.M{"day": "tue"}))
	if got := attempt(1, 2, 2); got != `mode= params={"day":"mon"}` {
		t.Errorf("the retry of attempt 1 printed %s, want the inputs of the plan", got)
	}
	if got := attempt(2, 1, 1); got != `mode=safe params={"day":"tue"}` {
		t.Errorf("attempt 2 printed %s, want the override", got)
	}
}

// contract: G25
func TestSignalRun_RejectsOverridesOfAFinishedStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateSteps("g25", "COMMAND s1", "DBT_RUN s2")
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.FinishStep(id, "s2", 1, run.StepCompletedEvent)
	for i, in := range []runs.SignalRun{
		controltest.OverrideOf(id, "", "s1", controltest.M{"dir": "x"}), controltest.NewParamsOf(id, "", "s1",
			controltest.M{"a": 1}),
		signalAbout(controltest.SignalOf(id, "", run.UpdateTarget), "s2",
			controltest.M{"newTarget": controltest.M{"schema": "x"}}),
	} {
		in.Signal.ID = fmt.Sprintf("late-%d", i)
		r := w.Send(w.Principal("dev-admin"), in)
		if !r.Rejected || r.Rejection != run.CodeStepTerminal || w.CountEvents(id, run.SignalRejected) != i+1 {
			t.Errorf("%s is answered %+v, want STEP_TERMINAL", in.Signal.Type, r)
		}
	}
	r := w.Send(w.Principal("dev-admin"), controltest.OverrideOf(id, "nobody", "s9", controltest.M{"dir": "x"}))
	if r.Rejection != run.CodeStepNotFound {
		t.Errorf("the receipt is %+v, want STEP_NOT_FOUND", r)
	}
	if heads := controltest.Must[store.Heads](t)(w.Raw.Heads(t.Context(), []string{id})); heads.ByRun[id].Gate != 0 {
		t.Errorf("the gate is %b after refusals, want open", heads.ByRun[id].Gate)
	}
}

// contract: T104
func TestSignalRun_AllViolationsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateSteps("t104", "COMMAND s1", "DBT_RUN s2", "NOOP s3")
	with := func(t run.SignalType, stepID, reason, payload string) runs.SignalRun {
		return runs.SignalRun{RunID: id, Signal: run.Signal{ID: "u", Type: t, StepID: stepID}, Reason: reason,
			Payload: json.RawMessage(payload)}
	}
	before := w.EventLog(id)
	for name, c := range map[string]struct {
		in   runs.SignalRun
		want []string
	}{
		"no object": {with(run.UpdateParams, "", "", `{"newParams":[1]}`),
			[]string{"INVALID signal.updateParams.newParams"}},
		"null": {with(run.UpdateParams, "", "", `{"newParams":null}`),
			[]string{"INVALID signal.updateParams.newParams"}},
		"empty": {with(run.UpdateParams, "", "", `{"newParams":{}}`),
			[]string{"MISSING signal.updateParams.newParams"}},
		"step id": {with(run.UpdateParams, "a b", "", `{"newParams":{"a":1}}`),
			[]string{"INVALID signal.updateParams.stepId"}},
		"secrets": {
			with(run.UpdateParams, "", "",
				`{"newParams":{"dbPassword":"x","API_KEY":5,"list":[{"auth":{"accessToken":"y"}}],"maxTokens":"7","token":null,"secretRefs":[{"provider":"env","key":"PW"},{"provider":"env","key":"PW","value":"z"}]}}`), []string{"LITERAL signal.updateParams.newParams.API_KEY", "LITERAL signal.updateParams.newParams.dbPassword", "LITERAL signal.updateParams.newParams.list[0].auth.accessToken", "LITERAL signal.updateParams.newParams.secretRefs[1].value"}},
		"override": {
			with(run.InjectOverride, "s1", " ", `{"override":{"argv":"x","env":{"A B":"1","PASSWORD":"x"},"shell":true}}`),
			[]string{"MISSING signal.injectOverride.reason", "LITERAL signal.injectOverride.override.env.PASSWORD",
				"INVALID signal.injectOverride.override.argv", `INVALID signal.injectOverride.override.env["A B"]`,
				"UNKNOWN signal.injectOverride.override.shell"}},
		"override away": {with(run.InjectOverride, "s1", "r", `{"override":{"argv":null}}`),
			[]string{"MISSING signal.injectOverride.override.argv"}},
		"override noop": {with(run.InjectOverride, "s3", "r", `{"override":{"ms":1}}`),
			[]string{"UNKNOWN signal.injectOverride.override.ms"}},
		"no target": {with(run.UpdateTarget, "s2", "", `{"newTarget":{}}`),
			[]string{"MISSING signal.updateTarget.reason", "MISSING signal.updateTarget.newTarget"}},
		"blank target": {with(run.UpdateTarget, "s2", "r", `{"newTarget":{"schema":" ","destinationDb":"a\nb"}}`),
			[]string{"INVALID signal.updateTarget.newTarget.destinationDb",
				"INVALID signal.updateTarget.newTarget.schema"}},
		"target of other": {with(run.UpdateTarget, "s1", "r", `{"newTarget":{"schema":"x"}}`),
			[]string{"INVALID signal.updateTarget.stepId"}},
		"level": {with(run.EscalateAlert, "", "", `{"level":"URGENT"}`),
			[]string{"INVALID signal.escalateAlert.level"}},
		"no reason": {with(run.EmergencyStop, "", "", `{}`), []string{"MISSING signal.emergencyStop.reason"}},
		"skip":      {with(run.SkipStep, "", "", `{}`), []string{"INVALID signal.skipStep.stepId"}},
	} {
		_, err := w.SignalRun(t.Context(), w.Principal("dev-admin"), c.in)
		var got []string
		for _, v := range controltest.Refusal(t, err, run.CodeBadInput).Violations {
			got = append(got, v.Code+" "+v.Path)
			if v.Message == "" || strings.Contains(v.Message, "accessToken") {
				t.Errorf("%s: the violation is %+v, want a message without the name of the secret", name, v)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	in := with(run.EmergencyStop, "", "", `{}`)
	in.Signal.ID = "a b"
	_, err := w.SignalRun(t.Context(), w.Principal("dev-admin"), in)
	if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 2 {
		t.Errorf("the violations are %+v, want 2", e.Violations)
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
}

// contract: W-12
func TestSignalRun_AHugeOverlayIsStoredAsAnArtifact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateSteps("w12", "COMMAND s1")
	text := strings.Repeat("x", 200<<10)
	in := controltest.NewParamsOf(id, "huge", "", controltest.M{"text": text})
	r := w.SendOverlay(in)
	var kept struct {
		Artifact run.ArtifactRef `json:"artifact"`
	}
	sum := sha256.Sum256(in.Payload)
	if err := json.Unmarshal(r.Payload, &kept); err != nil || len(r.Payload) > 1024 ||
		kept.Artifact.SHA256 != hex.EncodeToString(sum[:]) || kept.Artifact.SizeBytes != int64(len(in.Payload)) {
		t.Fatalf("the receipt has a payload of %d bytes, %.200s, with the error %v; want the reference of an artifact",
			len(r.Payload), r.Payload, err)
	}
	body := controltest.Must[io.ReadCloser](t)(w.Artifacts.Open(t.Context(), kept.Artifact.URI))
	defer body.Close()
	if got := controltest.Must[[]byte](t)(io.ReadAll(body)); string(got) != string(in.Payload) {
		t.Errorf("the artifact has %d bytes that differ from the payload", len(got))
	}
	if again := w.Send(w.Principal("dev-admin"), in); !again.Duplicate || again.AcceptedSeq != r.AcceptedSeq {
		t.Errorf("the repeated overlay is answered %+v, want a duplicate", again.SignalReceipt)
	}
	in.Payload = controltest.NewParamsOf(id, "huge", "", controltest.M{"text": "y" + text[1:]}).Payload
	_, err := w.SignalRun(t.Context(), w.Principal("dev-admin"), in)
	controltest.Refusal(t, err, run.CodeSignalConflict)

	b := w.BeginAttempt(id, "s1", 1, 1)
	var params struct{ Text string }
	if err := json.Unmarshal(b.Params, &params); err != nil || params.Text != text {
		t.Errorf("the attempt has params of %d bytes with the error %v, want the whole overlay", len(b.Params), err)
	}
	// A refused overlay leaves no trace, and only overlays may have a megabyte.
	before := w.EventLog(id)
	for _, c := range []struct {
		in    runs.SignalRun
		limit int64
	}{
		{controltest.NewParamsOf(id, "mega", "", controltest.M{"text": strings.Repeat("x", 1<<20)}), 1 << 20},
		{signalAbout(controltest.SignalOf(id, "target", run.UpdateTarget), "s1",
			controltest.M{"newTarget": controltest.M{"schema": strings.Repeat("x",
				65536)}}),
			65536},
		{runs.SignalRun{RunID: id, Signal: run.Signal{ID: "alert", Type: run.EscalateAlert},
			Payload: runtest.JSON(controltest.M{"level": "LOW", "note": strings.Repeat("x", 65536)})}, 65536},
	} {
		_, err := w.SignalRun(t.Context(), w.Principal("dev-admin"), c.in)
		if e := controltest.Refusal(t, err, run.CodeSignalTooLarge); e.Limit != c.limit {
			t.Errorf("%s is refused with the limit %d, want that of its type", c.in.Signal.Type, e.Limit)
		}
		_, err = w.Receipt(t.Context(), w.Engineer(), id, c.in.Signal.ID)
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
}

// contract: T104
func TestSignalRun_AnOverrideMayReferToASecretAndNotContainOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateSteps("refs", "HTTP_NOTIFY s1")
	headers := func(value string) runs.SignalRun {
		return controltest.OverrideOf(id, "refs", "s1", controltest.M{"headers": controltest.M{"Authorization": value}})
	}
	_, err := w.SignalRun(t.Context(), w.Principal("dev-admin"), headers("Bearer hunter2"))
	if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 || e.Violations[0].Code != "LITERAL" ||
		strings.Contains(e.Violations[0].Message, "hunter2") {
		t.Errorf("the violations are %+v, want LITERAL", e.Violations)
	}
	if r := w.Send(w.Principal("dev-admin"), headers("Bearer ${secret:HOOK}")); r.Rejected {
		t.Errorf("a reference is answered %+v, want accepted", r)
	}
}
