package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func manual(id, more string) string {
	return `{"stepId":"` + id + `","type":"MANUAL","inputs":{},"timeout":"1m"` + more + `}`
}

// contract: T83, T87
func TestParse_ReadsTheWaitOfAManualStep(t *testing.T) {
	t.Parallel()
	p := mustParse(t, withSteps(
		manual("a", ""), manual("b", `,"manual":{}`), manual("c", `,"manual":{"sod":false,"timeout":"1s"}`),
		manual("d", `,"manual":{"timeout":90000}`), noop("e", ""),
	))
	for i, want := range []*plan.Wait{
		{SOD: true}, {SOD: true}, {Timeout: time.Second}, {SOD: true, Timeout: 90 * time.Second}, nil,
	} {
		if diff := cmp.Diff(want, p.Steps[i].Wait); diff != "" {
			t.Errorf("wait of step %s (-want +got):\n%s", p.Steps[i].StepID, diff)
		}
		timeout := time.Duration(0)
		if want != nil {
			timeout = want.Timeout
		}
		if got := p.Skeleton(queues).Steps[i].WaitTimeout; got != timeout {
			t.Errorf("%s has the wait timeout %s in the skeleton, want %s", p.Steps[i].StepID, got, timeout)
		}
	}
	for raw, want := range map[string][]string{
		`{"timeout":"999ms"}`: {"RANGE steps[0].manual.timeout"},
		`{"timeout":"169h"}`:  {"RANGE steps[0].manual.timeout"},
		`{"timeout":"soon"}`:  {"INVALID steps[0].manual.timeout"},
		`{"sod":1,"timeout":null,"token":1}`: {"INVALID steps[0].manual.sod", "INVALID steps[0].manual.timeout",
			"UNKNOWN steps[0].manual.token"},
		`{"sod":true,"sod":false}`: {"DUPLICATE steps[0].manual.sod"},
		`null`:                     {"INVALID steps[0].manual"},
	} {
		if diff := cmp.Diff(want, violations(t, withSteps(manual("a", `,"manual":`+raw)))); diff != "" {
			t.Errorf("violations of the wait %s (-want +got):\n%s", raw, diff)
		}
	}
	_, err := plan.Parse(withSteps(noop("a", `,"manual":{"sod":7}`)), queues)
	if diff := cmp.Diff([]string{"INVALID steps[0].manual"}, violationsOf(t, err)); diff != "" {
		t.Errorf("violations of a NOOP step with a wait (-want +got):\n%s", diff)
	}
	if hint := invalid(t, err)[0].Message; !strings.Contains(hint, "MANUAL") {
		t.Errorf("message %q, want it to name MANUAL", hint)
	}
	unknown := `{"stepId":"a","type":"HUMAN","inputs":{},"timeout":"1m","manual":{}}`
	if diff := cmp.Diff([]string{"UNKNOWN steps[0].type"}, violations(t, withSteps(unknown))); diff != "" {
		t.Errorf("violations of a step of an unknown type with a wait (-want +got):\n%s", diff)
	}
}

// contract: R183
func TestParse_ReadsCompensations(t *testing.T) {
	t.Parallel()
	p := mustParse(t, withSteps(
		noop("a", `,"compensation":{"operation":"COMMAND","input":{ "argv": ["undo", "<a>"] }}`),
		noop("b", `,"dispatch":{"taskQueue":"tq-data-dev"},"compensation":{"operation":"HTTP_NOTIFY","input":{"url":"http://h"},"timeout":"5s"}`),
		manual("c", `,"compensation":{"operation":"NOOP","input":{},"timeout":1500}`), noop("d", ""),
	))
	for i, want := range []*plan.Compensation{
		{Operation: plan.Command, Input: json.RawMessage(`{"argv":["undo","\u003ca\u003e"]}`), Timeout: p.Steps[0].Timeout},
		{Operation: plan.HTTPNotify, Input: json.RawMessage(`{"url":"http://h"}`), Timeout: 5 * time.Second},
		{Operation: plan.Noop, Input: json.RawMessage(`{}`), Timeout: 1500 * time.Millisecond},
		nil,
	} {
		if diff := cmp.Diff(want, p.Steps[i].Compensation); diff != "" {
			t.Errorf("compensation of step %s (-want +got):\n%s", p.Steps[i].StepID, diff)
		}
	}
	sk := p.Skeleton(queues)
	for i, want := range []string{"tq-data-dev", "tq-data-dev", "tq-control-dev", ""} {
		if got := sk.Steps[i].CompensationQueue; got != want {
			t.Errorf("the hook of %s runs on %q, want %q", sk.Steps[i].StepID, got, want)
		}
	}
	for i, want := range []plan.StepType{plan.Command, plan.HTTPNotify, plan.Noop, ""} {
		if got := sk.Steps[i].CompensationType; got != want {
			t.Errorf("the hook of %s has the type %q in the skeleton, want %q", sk.Steps[i].StepID, got, want)
		}
	}
	if got := sk.Steps[1].CompensationTimeout; got != 5*time.Second {
		t.Errorf("the hook has the timeout %s in the skeleton, want 5s", got)
	}
	for raw, want := range map[string][]string{
		`{}`: {"MISSING steps[0].compensation.operation",
			"MISSING steps[0].compensation.input"},
		`{"operation":"MANUAL","input":{}}`:  {"INVALID steps[0].compensation.operation"},
		`{"operation":"UNDO","input":{}}`:    {"UNKNOWN steps[0].compensation.operation"},
		`{"operation":"COMMAND","input":{}}`: {"MISSING steps[0].compensation.input.argv"},
		`{"operation":"NOOP","input":null}`:  {"INVALID steps[0].compensation.input"},
		`[]`:                                 {"INVALID steps[0].compensation"},
		`{"operation":7,"input":{},"retry":{},"timeout":"0s"}`: {
			"INVALID steps[0].compensation.operation", "RANGE steps[0].compensation.timeout",
			"UNKNOWN steps[0].compensation.retry"},
		`{"operation":"SLEEP","input":{"ms":-1,"s":1},"timeout":"169h"}`: {
			"RANGE steps[0].compensation.input.ms", "UNKNOWN steps[0].compensation.input.s",
			"RANGE steps[0].compensation.timeout"},
	} {
		if diff := cmp.Diff(want, violations(t, withSteps(noop("a", `,"compensation":`+raw)))); diff != "" {
			t.Errorf("violations of the compensation %s (-want +got):\n%s", raw, diff)
		}
	}
}

// contract: R183
func TestParse_ChecksInputsOfAHookLikeThoseOfAStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, inputs string }{
		{"COMMAND", `{"argv":["a",1],"env":{"A=B":"x"}}`}, {"HTTP_NOTIFY", `{"url":"file:///x","method":"BREW"}`},
		{"DBT_RUN", `{"models":"x"}`}, {"SLEEP", `{}`}, {"NOOP", `{"x":1}`},
	} {
		asStep := violations(t, withSteps(`{"stepId":"a","type":"`+c.typ+`","timeout":"1m","inputs":`+c.inputs+`}`))
		asHook := violations(t, withSteps(noop("a", `,"compensation":{"operation":"`+c.typ+`","input":`+c.inputs+`}`)))
		for i := range asHook {
			asHook[i] = strings.Replace(asHook[i], "compensation.input.", "inputs.", 1)
		}
		if diff := cmp.Diff(asStep, asHook); diff != "" {
			t.Errorf("violations of the inputs %s of %s (-step +hook):\n%s", c.inputs, c.typ, diff)
		}
	}
}

// contract: T195
func TestSkeleton_WithHooksHasAtMost32BytesPerStep(t *testing.T) {
	t.Parallel()
	const n = 5000
	sk := mustParse(t, realisticPlan(n)).Skeleton(queues)
	for i := range sk.Steps {
		sk.Steps[i].CompensationQueue = []string{"", "tq-data-dev", "tq-control-dev"}[i%3]
		if i%3 > 0 {
			sk.Steps[i].CompensationTimeout = time.Duration(1+i%5) * time.Minute
			sk.Steps[i].CompensationType = []plan.StepType{1: plan.HTTPNotify, 2: ""}[i%3] // older versions wrote no type
		}
		if i%10 == 0 {
			sk.Steps[i].Type, sk.Steps[i].WaitTimeout = plan.Manual, time.Duration(i%4)*time.Hour
		}
	}
	data, err := sk.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if per := float64(len(data)) / n; per > 32 {
		t.Errorf("the skeleton has %.1f bytes per step, want at most 32", per)
	} else {
		t.Logf("%.1f bytes per step", per)
	}
	if diff := cmp.Diff(sk, roundTrip(t, sk)); diff != "" {
		t.Errorf("skeleton after a round trip (-want +got):\n%s", diff)
	}
}
