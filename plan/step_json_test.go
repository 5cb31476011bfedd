package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func TestStep_SurvivesAJSONRoundTrip(t *testing.T) {
	t.Parallel()
	in := plan.Step{
		StepID: "a", Type: plan.Sleep, DependsOn: []string{"b"}, Inputs: json.RawMessage(`{"ms":5}`),
		Timeout:      90 * time.Second,
		Retry:        plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2, MaxBackoffMS: 30000},
		Wait:         &plan.Wait{Timeout: time.Hour},
		Compensation: &plan.Compensation{Operation: plan.Noop, Input: json.RawMessage(`{}`), Timeout: time.Second},
	}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out plan.Step
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out); d != "" {
		t.Fatalf("step after a round trip (-want +got):\n%s", d)
	}
}
