package run_test

import (
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// The mirror that gave the plan is a fact of RunStarted; a run whose first address answered has none.
func TestFold_KeepsTheMirrorThatGaveThePlan(t *testing.T) {
	t.Parallel()
	const mirror = "https://mirror.example/p.json"
	for _, want := range []string{mirror, ""} {
		context := runtest.M{"triggerSource": "api"}
		if want != "" {
			context["planMirror"] = want
		}
		s, anomalies := project(t, ofRun(run.RunApproved),
			runtest.Draft(run.RunStarted, "", 1, runtest.M{"context": context}))
		if s.PlanMirror != want || len(anomalies) > 0 {
			t.Errorf("the mirror is %q with anomalies %v, want %q and none", s.PlanMirror, anomalies, want)
		}
	}
}
