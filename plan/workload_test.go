package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func TestWorkload_HasATaskQueueOfItsOwn(t *testing.T) {
	t.Parallel()
	got := map[string]map[plan.StepType]string{}
	for _, queue := range []string{"tq-data-dev", "tq-control-dev"} {
		got[queue] = map[plan.StepType]string{}
		for _, kind := range []plan.StepType{
			plan.Command, plan.Noop, plan.DBTCompile, plan.DBTRun, plan.DBTTest, plan.HTTPNotify, plan.Sleep, plan.Manual,
		} {
			got[queue][kind] = kind.WorkloadOn(queue).TaskQueue(queue)
		}
	}
	onData := func(suffix string) string { return "tq-data-dev" + suffix }
	want := map[string]map[plan.StepType]string{
		"tq-data-dev": {
			plan.Command: onData(""), plan.Noop: onData(""), plan.Sleep: onData(""), plan.Manual: onData(""),
			plan.DBTCompile: onData(":dbt"), plan.DBTRun: onData(":dbt"), plan.DBTTest: onData(":dbt"),
			plan.HTTPNotify: onData(":http"),
		},
		"tq-control-dev": {},
	}
	for kind := range got["tq-control-dev"] {
		want["tq-control-dev"][kind] = "tq-control-dev"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("task queues by queue and type (-want +got):\n%s", diff)
	}
}

func TestWorkload_AWorkerServesAllWorkloadsOfItsQueue(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string][]plan.Workload{
		"tq-control-dev": {plan.NoopWorkload}, "tq-data-dev": {plan.CommandWorkload, plan.DBTWorkload, plan.HTTPWorkload},
		"tq-isolation-acme-dev": {plan.CommandWorkload, plan.DBTWorkload, plan.HTTPWorkload},
	} {
		if diff := cmp.Diff(want, plan.WorkloadsOf(queue)); diff != "" {
			t.Errorf("workloads of %s (-want +got):\n%s", queue, diff)
		}
	}
}
