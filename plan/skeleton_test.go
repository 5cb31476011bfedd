package plan_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

// realistic is a plan of n steps as a planner of a dbt project writes one:
// readable names, a few kinds of steps, each waiting for some before it.
func realistic(n int) []byte {
	areas := []string{"customers", "orders", "payments", "inventory", "shipping", "marketing", "finance", "support"}
	id := func(i int) string {
		return fmt.Sprintf("%s_%s_%05d", []string{"stg", "int", "fct", "dim"}[i%4], areas[i/4%len(areas)], i)
	}
	list := make([]string, n)
	for i := range list {
		on := ""
		for _, back := range []int{1 + i%7, 9 + i%13, 40 + i%101}[:i%4%3+1] {
			if i >= back {
				if on != "" {
					on += ","
				}
				on += fmt.Sprintf("%q", id(i-back))
			}
		}
		kind := []string{"DBT_RUN", "DBT_RUN", "DBT_TEST"}[i%3]
		list[i] = fmt.Sprintf(`{"stepId":%q,"type":%q,"name":"build","dependsOn":[%s],"inputs":{"projectDir":"examples/shop","select":%q},"timeout":"%dm",`+
			`"retry":{"maxAttempts":%d},"dispatch":{"resourceClass":"heavy","cancellable":%t}}`, id(i), kind, on, id(i), 5*(1+i%4), 2+i%3, i%2 == 0)
	}
	return withSteps(list...)
}

func TestSkeleton_T110_T218_CarriesTheGraphAndThePolicy(t *testing.T) {
	t.Parallel()
	window := 600
	retry := plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2, MaxBackoffMS: 30000}
	classes := retry
	classes.RetryableErrors = []string{"timeout", "transport"}
	want := plan.Skeleton{
		PlanID: "nightly", PlanVersion: "1.0", FailurePolicy: plan.FailurePolicy{RetryWindowSeconds: &window},
		Steps: []plan.SkeletonStep{
			{StepID: "compile", Type: plan.DBTCompile, Timeout: 2 * time.Minute, Retry: retry, TaskQueue: "tq-data-dev"},
			{StepID: "run", Type: plan.DBTRun, Deps: []int{0}, Timeout: 10 * time.Minute, Retry: classes, TaskQueue: "tq-data-dev", Heavy: true, Cancellable: true},
		},
	}
	sk := mustParse(t, []byte(apiPlan)).Skeleton(queues)
	if diff := cmp.Diff(want, sk); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, again(t, sk)); diff != "" {
		t.Error(diff)
	}
}

func again(t testing.TB, sk plan.Skeleton) plan.Skeleton {
	t.Helper()
	data, err := sk.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back plan.Skeleton
	if err := back.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestSkeleton_T218_QueueByType(t *testing.T) {
	t.Parallel()
	step := func(id, typ, inputs, more string) string {
		return fmt.Sprintf(`{"stepId":%q,"type":%q,"timeout":"1m","inputs":%s%s}`, id, typ, inputs, more)
	}
	sk := mustParse(t, withSteps(
		step("a", "COMMAND", `{"argv":["true"]}`, ""), step("b", "DBT_TEST", `{"projectDir":"p"}`, ""),
		step("c", "HTTP_NOTIFY", `{"url":"http://h"}`, ""), step("d", "SLEEP", `{"ms":1}`, ""), step("e", "NOOP", `{}`, ""), step("f", "MANUAL", `{}`, ""),
		step("g", "NOOP", `{}`, `,"dispatch":{"taskQueue":"tq-data-dev"}`),
	)).Skeleton(queues)
	for i, want := range []string{"tq-data-dev", "tq-data-dev", "tq-control-dev", "tq-control-dev", "tq-control-dev", "tq-control-dev", "tq-data-dev"} {
		if got := sk.Steps[i].TaskQueue; got != want {
			t.Errorf("%s goes to %s, want %s", sk.Steps[i].StepID, got, want)
		}
	}
}

func TestSkeleton_T195_AtMost32BytesAStep(t *testing.T) {
	t.Parallel()
	const n = 5000
	sk := mustParse(t, realistic(n)).Skeleton(queues)
	data, err := sk.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if per := float64(len(data)) / n; per > 32 {
		t.Errorf("%.1f bytes a step", per)
	} else {
		t.Logf("%.1f bytes a step", per)
	}
	if diff := cmp.Diff(sk, again(t, sk)); diff != "" {
		t.Error(diff)
	}
}

func TestSkeleton_RefusesDamagedBytes(t *testing.T) {
	t.Parallel()
	good, err := mustParse(t, realistic(50)).Skeleton(queues).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	bomb := bytes.NewBuffer([]byte{1})
	w, _ := flate.NewWriter(bomb, flate.BestCompression)
	_, _ = w.Write(make([]byte, 100<<20))
	_ = w.Close()
	for name, data := range map[string][]byte{
		"empty": nil, "another version": append([]byte{2}, good[1:]...), "cut": good[:len(good)/2], "bomb": bomb.Bytes(),
	} {
		var sk plan.Skeleton
		if err := sk.UnmarshalBinary(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := (plan.Skeleton{Steps: []plan.SkeletonStep{{StepID: "a", Deps: []int{1}}}}).MarshalBinary(); err == nil {
		t.Error("a dependency on no step: accepted")
	}
}

func TestSkeleton_ChildrenAndOrdinal(t *testing.T) {
	t.Parallel()
	sk := mustParse(t, withSteps(
		noop("join", `,"order":4,"dependsOn":["z","b"]`), noop("z", `,"order":1`), noop("b", `,"order":2,"dependsOn":["z"]`), noop("a", `,"order":3`),
	)).Skeleton(queues)
	if diff := cmp.Diff([][]int{{1, 3}, {3}, {}, {}}, sk.Children()); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]int{"z": 0, "b": 1, "a": 2, "join": 3} {
		if got, ok := sk.Ordinal(id); !ok || got != want {
			t.Errorf("Ordinal(%s) = %d, %t; want %d", id, got, ok, want)
		}
	}
	if _, ok := sk.Ordinal("ghost"); ok {
		t.Error("found a step that is not there")
	}
}
