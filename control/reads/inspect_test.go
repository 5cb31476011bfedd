package reads_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// secretText stands where a run has values that an inspection must not show.
const secretText = "s3cr3t-value"

// contract: R395
func TestInspectRun_ReportsWithoutOutputsAndLeavesOneRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, debuggable)
	id := w.CreateRunning("r1", "s1", "s2")
	w.BeginStep(id, "s1", 1)
	ref := run.ArtifactRef{URI: artifact.URI("acme/" + id + "/s1/1/1/a.json"), Kind: "JSON"}
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent, controltest.M{"result": controltest.M{"key": secretText},
		"artifactRefs": []controltest.M{{"uri": ref.URI, "kind": ref.Kind}}})
	before := len(w.AuditRows("acme"))
	got := controltest.Must[reads.RunInspection](t)(w.InspectRun(t.Context(), w.Principal("dev-sre"), id))
	if len(got.Snapshot.Steps) != 2 || got.Snapshot.Steps[0].Status != run.StepSuccess || got.Engine == nil ||
		len(got.Artifacts) != 1 || got.Artifacts[0].URI != ref.URI || got.Seq == 0 {
		t.Errorf("the inspection is %+v, want two steps, the first SUCCESS, its artifact and the engine", got)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), secretText) {
		t.Errorf("the inspection shows a value of the run (%v): %s", err, text)
	}
	if rows := w.AuditRows("acme"); len(rows) != before+1 || !strings.Contains(rows[len(rows)-1], "DEBUG ACCEPTED") {
		t.Errorf("an inspection left %d rows, want one DEBUG ACCEPTED: %q", len(rows)-before, rows)
	}
}

// silentEngine is an engine that does not answer.
type silentEngine struct{ *controltest.FakeEngine }

func (silentEngine) Debug(context.Context, run.Identity) (engine.Debug, error) {
	return engine.Debug{}, engine.ErrUnavailable
}

func TestInspectRun_ReportsWhileTheEngineDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Engine = silentEngine{c.Engine.(*controltest.FakeEngine)} })
	id := w.CreateRunning("r1", "s1")
	got, err := w.InspectRun(t.Context(), w.Principal("dev-sre"), id)
	if err != nil || got.EngineTrouble == "" || len(got.Snapshot.Steps) != 1 {
		t.Errorf("the inspection is %+v (%v), want the state with a sentence about the engine", got, err)
	}
}

// contract: R394
func TestDebugStepLogs_PointsToTheLogsWithTheLastLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, debuggable)
	id := w.CreateRunning("r1", "s1")
	w.BeginStep(id, "s1", 1)
	log := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}
	if err := w.Artifacts.Append(t.Context(), log, 1, 1, controltest.LogLines(1, 450)); err != nil {
		t.Fatal(err)
	}
	got := controltest.Must[reads.StepLogPointers](t)(w.DebugStepLogs(t.Context(), w.Principal("dev-sre"), id, "s1"))
	if len(got.Attempts) != 1 || got.Attempts[0].LogPath != "/logs/"+id+"/s1/1" || got.Total != 450 {
		t.Errorf("the logs are %+v, want one attempt with its path and 450 lines", got)
	}
	if n := len(got.Recent); n != 200 || got.Recent[0].No != 251 || got.Recent[n-1].No != 450 {
		t.Errorf("there are %d recent lines, want the lines 251 to 450", n)
	}
}

// contract: R394, R395, R396
func TestDebugAddresses_AreForTheSREOfTheRunsTenantOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, debuggable)
	id := w.CreateRunning("r1", "s1")
	for name, c := range map[string]struct {
		p    authz.Principal
		want run.Code
	}{
		"SRE": {w.Principal("dev-sre"), ""}, "admin": {w.Principal("dev-admin"), run.CodeForbidden},
		"engineer": {w.Engineer(), run.CodeForbidden}, "viewer": {w.Principal("dev-viewer"), run.CodeForbidden},
		"admin of another tenant": {w.ForeignPrincipal(), run.CodeNotFound},
	} {
		_, inspected := w.InspectRun(t.Context(), c.p, id)
		_, logs := w.DebugStepLogs(t.Context(), c.p, id, "s1")
		if a, b := controltest.CodeOf(inspected), controltest.CodeOf(logs); a != c.want || b != c.want {
			t.Errorf("%s gets %q and %q, want %q", name, a, b, c.want)
		}
	}
	_, err := w.DebugStepLogs(t.Context(), w.Principal("dev-sre"), id, "none")
	controltest.Refusal(t, err, run.CodeNotFound)
}
