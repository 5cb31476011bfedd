package control_test

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
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// inputsOf returns valid inputs for a step of the type.
func inputsOf(stepType string) M {
	switch stepType {
	case "COMMAND":
		return M{"argv": []string{"true"}, "env": M{"KEPT": "1"}}
	case "DBT_RUN":
		return M{"projectDir": "shop", "vars": M{"own": true}}
	}
	return M{}
}

// steps makes a started run of independent steps, written "TYPE id".
func (w *world) steps(requestID string, steps ...string) string {
	w.t.Helper()
	return w.stepsWith(requestID, nil, steps...)
}

func (w *world) stepsWith(requestID string, params json.RawMessage, steps ...string) string {
	w.t.Helper()
	var list []M
	var outlines []M
	for _, s := range steps {
		stepType, id, _ := strings.Cut(s, " ")
		list = append(list, M{"stepId": id, "type": stepType, "inputs": inputsOf(stepType), "timeout": "1m",
			"dependsOn": []string{}})
		outlines = append(outlines, M{"stepId": id, "type": stepType})
	}
	in := startOf(requestID, document(M{"steps": list}))
	in.Params = params
	id := must[runs.StartedRun](w.t)(w.StartRun(w.t.Context(), w.eng(), in)).View.Run.RunID
	w.handOver()
	w.append(id, runtest.Draft(run.RunStarted, "", 1, M{"steps": outlines}))
	return id
}

// overlaid sends a signal of an admin that is applied when it is accepted.
func (w *world) overlaid(in runs.SignalRun) runs.SignalReceipt {
	w.t.Helper()
	r := w.send(w.who("dev-admin"), in)
	if r.Rejected || r.Application != run.SignalApplied || r.AppliedSeq != r.AcceptedSeq || r.AppliedAt == nil {
		w.t.Fatalf("%s is answered %+v, want APPLIED at its acceptance", in.Signal.Type, r)
	}
	return r
}

func override(runID, id, stepID string, patch M) runs.SignalRun {
	in := signal(runID, id, run.InjectOverride)
	in.Signal.StepID, in.Payload = stepID, runtest.JSON(M{"stepId": stepID, "override": patch, "reason": "runaway"})
	return in
}

func newParams(runID, id, stepID string, patch M) runs.SignalRun {
	in := signal(runID, id, run.UpdateParams)
	in.Signal.StepID, in.Payload = stepID, runtest.JSON(M{"newParams": patch})
	return in
}

func (w *world) startAttempt(runID, stepID string, logicalAttempt, engineAttempt int) engine.AttemptStarted {
	w.t.Helper()
	b := w.beginOf(runID, stepID, logicalAttempt, engineAttempt)
	return must[engine.AttemptStarted](w.t)(w.journal.StartAttempt(w.t.Context(), b))
}

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
	id := w.stepsWith("t197", json.RawMessage(`{"day":"mon","n":1}`), "COMMAND s1", "DBT_RUN s2", "COMMAND s3")
	first := w.startAttempt(id, "s1", 1, 1)
	if first.ParamsSeq != 0 || compact(t, first.Params) != `{"day":"mon","n":1}` ||
		compact(t, first.Step.Inputs) != `{"argv":["true"],"env":{"KEPT":"1"}}` {
		t.Fatalf("before any overlay the attempt is %+v with %s and %s, want the inputs of the plan",
			first, first.Params, first.Step.Inputs)
	}
	w.overlaid(override(id, "o1", "s1", M{"env": M{"MODE": "safe"}}))
	w.overlaid(newParams(id, "p1", "", M{"day": "tue", "n": nil}))
	w.overlaid(newParams(id, "p2", "s2", M{"only": "s2"}))
	target := w.overlaid(
		signalAbout(signal(id, "t1", run.UpdateTarget), "s2", M{"newTarget": M{"destinationDb": "wh",
			"schema": "restored"}}))

	// A started attempt keeps its inputs, also when the platform retries it.
	again := w.startAttempt(id, "s1", 1, 2)
	if diff := cmp.Diff([]any{first.StartedSeq, first.ParamsSeq, string(first.Params), string(first.Step.Inputs)},
		[]any{again.StartedSeq, again.ParamsSeq, string(again.Params), string(again.Step.Inputs)}); diff != "" {
		t.Errorf("a platform retry sees other inputs:\n%s", diff)
	}
	w.append(id, runtest.Draft(run.StepFailedEvent, "s1", 1))

	second := w.startAttempt(id, "s1", 2, 1)
	if second.Verdict != store.StartGranted || compact(t,
		second.Step.Inputs) != `{"argv":["true"],"env":{"KEPT":"1","MODE":"safe"}}` ||
		compact(t, second.Params) != `{"day":"tue"}` {
		t.Errorf("attempt 2 is %s with inputs %s and params %s, want the overlays",
			second.Verdict, second.Step.Inputs, second.Params)
	}
	dbt := w.startAttempt(id, "s2", 1, 1)
	if want := `{"projectDir":"shop","vars":{"dvt_target_database":"wh","dvt_target_schema":"restored","own":true}}`; compact(t, dbt.Step.Inputs) != want || compact(t, dbt.Params) != `{"day":"tue","only":"s2"}` {
		t.Errorf("s2 has inputs %s and params %s, want the target and the params", dbt.Step.Inputs, dbt.Params)
	}
	other := w.startAttempt(id, "s3", 1, 1)
	if compact(t, other.Step.Inputs) != `{"argv":["true"],"env":{"KEPT":"1"}}` || compact(t,
		other.Params) != `{"day":"tue"}` {
		t.Errorf("s3 has inputs %s and params %s, want only the params", other.Step.Inputs, other.Params)
	}
	// Overlays that are accepted later do not reach started attempts.
	w.overlaid(newParams(id, "p3", "", M{"day": "wed"}))
	if late := w.startAttempt(id, "s2", 1, 2); string(late.Params) != string(dbt.Params) ||
		late.ParamsSeq != target.AcceptedSeq {
		t.Errorf("the repeated s2 has params %s at %d, want those of its first start", late.Params, late.ParamsSeq)
	}

	stamped := map[string]run.Seq{}
	for _, e := range must[[]run.Event](t)(w.raw.Events(t.Context(), id, 0, store.MaxPage)) {
		if e.Type == run.StepStartedEvent {
			stamped[fmt.Sprintf("%s/%d", e.StepID, e.LogicalAttempt)] = must[run.StepStartedPayload](t)(
				run.PayloadOf[run.StepStartedPayload](e.Payload)).ParamsSeq
		}
	}
	if diff := cmp.Diff(map[string]run.Seq{"s1/1": 0, "s1/2": second.ParamsSeq, "s2/1": dbt.ParamsSeq,
		"s3/1": other.ParamsSeq}, stamped); diff != "" || second.ParamsSeq == 0 {
		t.Errorf("paramsSeq in the log (-want +got):\n%s", diff)
	}
	if n := len(w.engine.delivered(id)); n != 0 {
		t.Errorf("the engine got %d of the overlays, want none", n)
	}
	v := must[control.RunView](t)(w.Run(t.Context(), w.eng(), id, nil))
	if v.State.PlanVersion != "1.0" {
		t.Errorf("the planVersion is %s, want that of the plan", v.State.PlanVersion)
	}
}

func signalAbout(in runs.SignalRun, stepID string, members M) runs.SignalRun {
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
	id := w.steps("t185", "COMMAND s1")
	w.overlaid(override(id, "o1", "s1", M{"dir": "a"}))
	must[store.Appended](t)(
		w.journal.Append(t.Context(), store.Append{RunID: id, SetGate: run.GatePaused,
			Events: []run.Draft{runtest.Draft(run.RunPaused, "", 1)}}))
	if b := w.startAttempt(id, "s1", 1, 1); b.Verdict != store.StartParked || w.count(id, run.StepStartedEvent) != 0 {
		t.Fatalf("the attempt is %s in a pause, want PARKED", b.Verdict)
	}
	w.overlaid(override(id, "o2", "s1", M{"dir": "b"}))
	must[store.Appended](t)(
		w.journal.Append(t.Context(), store.Append{RunID: id, ClearGate: run.GatePaused,
			Events: []run.Draft{runtest.Draft(run.RunResumed, "", 1)}}))
	if b := w.startAttempt(id, "s1", 1, 1); b.Verdict != store.StartGranted ||
		compact(t, b.Step.Inputs) != `{"argv":["true"],"dir":"b","env":{"KEPT":"1"}}` {
		t.Errorf("the attempt is %s with the inputs %s, want RUN with the overlay", b.Verdict, b.Step.Inputs)
	}
	w.append(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	if b := w.startAttempt(id, "s1", 1, 2); b.Verdict != store.StartDone || b.Terminal == nil {
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
	id := w.steps("race", list...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			w.overlaid(newParams(id, fmt.Sprintf("p%d", i), "", M{"n": i, fmt.Sprintf("k%d", i): true}))
		}
	})
	begun := make([]engine.AttemptStarted, n)
	for part := range 3 {
		wg.Go(func() {
			for i := part; i < n; i += 3 {
				begun[i] = w.startAttempt(id, fmt.Sprintf("s%d", i), 1, 1)
			}
		})
	}
	wg.Wait()
	overlays, members := run.Seq(0), 0
	for _, e := range must[[]run.Event](t)(w.raw.Events(t.Context(), id, 0, store.MaxPage)) {
		switch e.Type {
		case run.SignalAccepted:
			overlays, members = e.Seq, members+1
		case run.StepStartedEvent:
			p := must[run.StepStartedPayload](t)(run.PayloadOf[run.StepStartedPayload](e.Payload))
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
	id := w.stepsWith("real", json.RawMessage(`{"day":"mon"}`), "COMMAND s1")
	r := &executor.Runner{
		Journal: w.journal, Executors: executor.New(executor.Config{AllowAnyDir: true}), WorkspaceRoot: t.TempDir(),
		ProjectRoot: t.TempDir(),
	}
	script := M{"argv": []string{"sh", "-c", `echo "mode=$MODE params=$(cat "$DVT_PARAMS_FILE")"; exit 3`}}
	w.overlaid(override(id, "script", "s1", script))
	attempt := func(logicalAttempt, engineAttempt, last int) string {
		t.Helper()
		b := w.beginOf(id, "s1", logicalAttempt, engineAttempt)
		end, err := r.Run(t.Context(), executor.Dispatch{RunID: id, StepID: "s1", LogicalAttempt: logicalAttempt, N: b.N,
			EngineAttempt: engineAttempt, Ticket: b.Ticket, MaxEngineAttempts: last}, func(executor.Heartbeat) {})
		if ended := err == nil && end.Kind == engine.ReturnEnded; ended != (engineAttempt == last) {
			t.Fatalf("attempt %d.%d of %d returned %+v, %v", logicalAttempt, engineAttempt, last, end, err)
		}
		l := must[reads.StepLog](t)(
			w.StepLog(t.Context(), w.eng(), reads.StepLogQuery{RunID: id, StepID: "s1", Attempt: logicalAttempt}))
		for _, line := range slices.Backward(l.Lines) {
			if line.Stream == "stdout" {
				return line.Text
			}
		}
		return ""
	}
	if got := attempt(1, 1, 2); got != `mode= params={"day":"mon"}` {
		t.Errorf("attempt 1 printed %s, want the inputs of the plan", got)
	}
	w.overlaid(override(id, "mode", "s1", M{"env": M{"MODE": "safe"}}))
	w.overlaid(newParams(id, "day", "s1", M{"day": "tue"}))
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
	id := w.steps("g25", "COMMAND s1", "DBT_RUN s2")
	w.finish(id, "s1", 1, run.StepCompletedEvent)
	w.finish(id, "s2", 1, run.StepCompletedEvent)
	for i, in := range []runs.SignalRun{
		override(id, "", "s1", M{"dir": "x"}), newParams(id, "", "s1", M{"a": 1}),
		signalAbout(signal(id, "", run.UpdateTarget), "s2", M{"newTarget": M{"schema": "x"}}),
	} {
		in.Signal.ID = fmt.Sprintf("late-%d", i)
		r := w.send(w.who("dev-admin"), in)
		if !r.Rejected || r.Rejection != run.CodeStepTerminal || w.count(id, run.SignalRejected) != i+1 {
			t.Errorf("%s is answered %+v, want STEP_TERMINAL", in.Signal.Type, r)
		}
	}
	r := w.send(w.who("dev-admin"), override(id, "nobody", "s9", M{"dir": "x"}))
	if r.Rejection != run.CodeStepNotFound {
		t.Errorf("the receipt is %+v, want STEP_NOT_FOUND", r)
	}
	if heads := must[store.Heads](t)(w.raw.Heads(t.Context(), []string{id})); heads.ByRun[id].Gate != 0 {
		t.Errorf("the gate is %b after refusals, want open", heads.ByRun[id].Gate)
	}
}

// contract: T104
func TestSignalRun_AllViolationsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.steps("t104", "COMMAND s1", "DBT_RUN s2", "NOOP s3")
	with := func(t run.SignalType, stepID, reason, payload string) runs.SignalRun {
		return runs.SignalRun{RunID: id, Signal: run.Signal{ID: "u", Type: t, StepID: stepID}, Reason: reason,
			Payload: json.RawMessage(payload)}
	}
	before := w.log(id)
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
		_, err := w.SignalRun(t.Context(), w.who("dev-admin"), c.in)
		var got []string
		for _, v := range refusal(t, err, run.CodeBadInput).Violations {
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
	_, err := w.SignalRun(t.Context(), w.who("dev-admin"), in)
	if e := refusal(t, err, run.CodeBadInput); len(e.Violations) != 2 {
		t.Errorf("the violations are %+v, want 2", e.Violations)
	}
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
}

// contract: W-12
func TestSignalRun_AHugeOverlayIsStoredAsAnArtifact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.steps("w12", "COMMAND s1")
	text := strings.Repeat("x", 200<<10)
	in := newParams(id, "huge", "", M{"text": text})
	r := w.overlaid(in)
	var kept struct {
		Artifact run.ArtifactRef `json:"artifact"`
	}
	sum := sha256.Sum256(in.Payload)
	if err := json.Unmarshal(r.Payload, &kept); err != nil || len(r.Payload) > 1024 ||
		kept.Artifact.SHA256 != hex.EncodeToString(sum[:]) || kept.Artifact.SizeBytes != int64(len(in.Payload)) {
		t.Fatalf("the receipt has a payload of %d bytes, %.200s, with the error %v; want the reference of an artifact",
			len(r.Payload), r.Payload, err)
	}
	body := must[io.ReadCloser](t)(w.artifacts.Open(t.Context(), kept.Artifact.URI))
	defer body.Close()
	if got := must[[]byte](t)(io.ReadAll(body)); string(got) != string(in.Payload) {
		t.Errorf("the artifact has %d bytes that differ from the payload", len(got))
	}
	if again := w.send(w.who("dev-admin"), in); !again.Duplicate || again.AcceptedSeq != r.AcceptedSeq {
		t.Errorf("the repeated overlay is answered %+v, want a duplicate", again.SignalReceipt)
	}
	in.Payload = newParams(id, "huge", "", M{"text": "y" + text[1:]}).Payload
	_, err := w.SignalRun(t.Context(), w.who("dev-admin"), in)
	refusal(t, err, run.CodeSignalConflict)

	b := w.startAttempt(id, "s1", 1, 1)
	var params struct{ Text string }
	if err := json.Unmarshal(b.Params, &params); err != nil || params.Text != text {
		t.Errorf("the attempt has params of %d bytes with the error %v, want the whole overlay", len(b.Params), err)
	}
	// A refused overlay leaves no trace, and only overlays may have a megabyte.
	before := w.log(id)
	for _, c := range []struct {
		in    runs.SignalRun
		limit int64
	}{
		{newParams(id, "mega", "", M{"text": strings.Repeat("x", 1<<20)}), 1 << 20},
		{signalAbout(signal(id, "target", run.UpdateTarget), "s1", M{"newTarget": M{"schema": strings.Repeat("x",
			65536)}}),
			65536},
		{runs.SignalRun{RunID: id, Signal: run.Signal{ID: "alert", Type: run.EscalateAlert},
			Payload: runtest.JSON(M{"level": "LOW", "note": strings.Repeat("x", 65536)})}, 65536},
	} {
		_, err := w.SignalRun(t.Context(), w.who("dev-admin"), c.in)
		if e := refusal(t, err, run.CodeSignalTooLarge); e.Limit != c.limit {
			t.Errorf("%s is refused with the limit %d, want that of its type", c.in.Signal.Type, e.Limit)
		}
		_, err = w.Receipt(t.Context(), w.eng(), id, c.in.Signal.ID)
		refusal(t, err, run.CodeNotFound)
	}
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
}
