package plan_test

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

// realisticPlan returns a plan of n steps like that of a dbt project: names of several words, a few types of steps, and
// up to four dependencies of a step on near or distant steps.
func realisticPlan(n int) []byte {
	dice := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(`customers orders payments inventory shipping marketing finance support daily weekly latest snapshot
		sessions events refunds invoices ledger accounts regions stores products categories pricing campaigns clicks leads churn
		cohort revenue margin forecast budget employees payroll tickets surveys returns warehouse suppliers contracts web mobile`)
	ids, list := make([]string, n), make([]string, n)
	for i := range list {
		name := []string{[]string{"stg", "int", "fct", "dim", "test.not_null"}[dice.IntN(5)]}
		for range 2 + dice.IntN(3) {
			name = append(name, words[dice.IntN(len(words))])
		}
		ids[i] = fmt.Sprintf("%s.%x", strings.Join(name, "_"), i*2654435761%65536)
		on := []string{}
		for range dice.IntN(5) {
			if far := min(i, 1+dice.IntN(400)); far > 0 && !slices.Contains(on, ids[i-far]) {
				on = append(on, ids[i-far])
			}
		}
		deps, _ := json.Marshal(on)
		kind := []string{"DBT_RUN", "DBT_RUN", "DBT_TEST"}[dice.IntN(3)]
		list[i] = fmt.Sprintf(
			`{"stepId":%q,"type":%q,"name":"build","dependsOn":%s,"inputs":{"projectDir":"examples/shop","select":%q},"timeout":"%dm",`+
				`"retry":{"maxAttempts":%d},"dispatch":{"resourceClass":"heavy","cancellable":%t}}`,
			ids[i], kind, deps, ids[i], 5*(1+dice.IntN(4)), 2+dice.IntN(3), dice.IntN(2) == 0)
	}
	return withSteps(list...)
}

// contract: T110, T218
func TestSkeleton_HasTheGraphAndThePolicy(t *testing.T) {
	t.Parallel()
	window := 600
	retry := plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2, MaxBackoffMS: 30000}
	classes := retry
	classes.RetryableErrors = []string{"timeout", "transport"}
	want := plan.Skeleton{
		PlanID: "nightly", PlanVersion: "1.0", FailurePolicy: plan.FailurePolicy{RetryWindowSeconds: &window},
		Steps: []plan.SkeletonStep{
			{StepID: "compile", Type: plan.DBTCompile, Timeout: 2 * time.Minute, Retry: retry, TaskQueue: "tq-data-dev"},
			{StepID: "run", Type: plan.DBTRun, Deps: []int{0}, Timeout: 10 * time.Minute, Retry: classes,
				TaskQueue: "tq-data-dev", Heavy: true, Cancellable: true},
		},
	}
	sk := mustParse(t, []byte(apiPlan)).Skeleton(queues)
	if diff := cmp.Diff(want, sk); diff != "" {
		t.Errorf("skeleton (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, roundTrip(t, sk)); diff != "" {
		t.Errorf("skeleton after a round trip (-want +got):\n%s", diff)
	}
}

// roundTrip returns sk after it was marshalled and unmarshalled.
func roundTrip(t testing.TB, sk plan.Skeleton) plan.Skeleton {
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

// contract: T218
func TestSkeleton_ResolvesTheQueueByType(t *testing.T) {
	t.Parallel()
	step := func(id, typ, inputs, more string) string {
		return fmt.Sprintf(`{"stepId":%q,"type":%q,"timeout":"1m","inputs":%s%s}`, id, typ, inputs, more)
	}
	sk := mustParse(t, withSteps(
		step("a", "COMMAND", `{"argv":["true"]}`, ""), step("b", "DBT_TEST", `{"projectDir":"p"}`, ""),
		step("c", "HTTP_NOTIFY", `{"url":"http://h"}`, ""), step("d", "SLEEP", `{"ms":1}`, ""), step("e", "NOOP", `{}`, ""),
		step("f", "MANUAL", `{}`, ""),
		step("g", "NOOP", `{}`, `,"dispatch":{"taskQueue":"tq-data-dev"}`),
	)).Skeleton(queues)
	for i, want := range []string{"tq-data-dev", "tq-data-dev", "tq-data-dev", "tq-control-dev", "tq-control-dev",
		"tq-control-dev", "tq-data-dev"} {
		if got := sk.Steps[i].TaskQueue; got != want {
			t.Errorf("task queue of step %s is %s, want %s", sk.Steps[i].StepID, got, want)
		}
	}
}

// contract: T195
func TestSkeleton_HasAtMost32BytesPerStep(t *testing.T) {
	t.Parallel()
	const n = 5000
	sk := mustParse(t, realisticPlan(n)).Skeleton(queues)
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

func TestSkeleton_RefusesDamagedBytes(t *testing.T) {
	t.Parallel()
	good, err := mustParse(t, realisticPlan(50)).Skeleton(queues).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	bomb := bytes.NewBuffer([]byte{1})
	w, _ := flate.NewWriter(bomb, flate.BestCompression)
	_, _ = w.Write(make([]byte, 20<<20))
	_ = w.Close()
	for name, data := range map[string][]byte{
		"empty": nil, "another version": append([]byte{2}, good[1:]...), "cut": good[:len(good)/2], "bomb": bomb.Bytes(),
	} {
		var sk plan.Skeleton
		if err := sk.UnmarshalBinary(data); err == nil {
			t.Errorf("%s: UnmarshalBinary() accepted it, want an error", name)
		}
	}
	if _, err := (plan.Skeleton{Steps: []plan.SkeletonStep{{StepID: "a", Deps: []int{1}}}}).MarshalBinary(); err == nil {
		t.Error("MarshalBinary() accepted a dependency on a step that does not exist, want an error")
	}
}

func TestSkeleton_FindsChildrenAndOrdinals(t *testing.T) {
	t.Parallel()
	sk := mustParse(t, withSteps(
		noop("join", `,"order":4,"dependsOn":["z","b"]`), noop("z", `,"order":1`), noop("b", `,"order":2,"dependsOn":["z"]`),
		noop("a", `,"order":3`),
	)).Skeleton(queues)
	if diff := cmp.Diff([][]int{{1, 3}, {3}, {}, {}}, sk.Children()); diff != "" {
		t.Errorf("Children() (-want +got):\n%s", diff)
	}
	for id, want := range map[string]int{"z": 0, "b": 1, "a": 2, "join": 3} {
		if got, ok := sk.Ordinal(id); !ok || got != want {
			t.Errorf("Ordinal(%s) = %d, %t; want %d", id, got, ok, want)
		}
	}
	if _, ok := sk.Ordinal("ghost"); ok {
		t.Error("Ordinal() found a step that does not exist")
	}
}
