package smokecmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/plan"
)

// logOf returns a log with events of these types; "TYPE step" names a step.
func logOf(types ...string) (out []client.EventRow) {
	for i, t := range types {
		e := client.EventRow{RunSeq: int64(i + 1), EventId: fmt.Sprint("id", i), IdempotencyKey: fmt.Sprint("key", i)}
		var step string
		if e.EventType, step, _ = strings.Cut(t, " "); step != "" {
			e.StepId = &step
		}
		out = append(out, e)
	}
	return out
}

func TestVerify_NamesWhatIsWrongWithALog(t *testing.T) {
	t.Parallel()
	whole := []string{"RunStarted", "StepStarted a", "StepFailed a", "StepStarted a", "StepCompleted a", "RunCompleted"}
	hole, twice, key := logOf(whole...), logOf(whole...), logOf(whole...)
	hole[3].RunSeq, twice[3].EventId, key[3].IdempotencyKey = 5, "id1", "key1"
	for name, c := range map[string]struct {
		log  []client.EventRow
		open bool
		says string
	}{
		"a whole log":        {log: logOf(whole...)},
		"a hole":             {log: hole, says: "the event after 3 has the number 5"},
		"an event twice":     {log: twice, says: "the event 4 (StepStarted) is there twice"},
		"a key twice":        {log: key, says: "the event 4 (StepStarted) is there twice"},
		"no end":             {log: logOf(whole[:5]...), says: "the log has no end"},
		"a step without end": {log: logOf("RunStarted", "StepStarted a", "RunCompleted"), says: "1 steps began"},
		"an open run":        {log: logOf(whole[:2]...), open: true},
		"nothing":            {says: "the log is empty"},
	} {
		err := verify(c.log, !c.open)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.says)
		}
	}
}

func TestPlan_IsValidWithAllTypesAndWithFew(t *testing.T) {
	t.Parallel()
	all := options{project: "p", environment: "e", notify: "https://hooks.example/dvt", dbt: "shop"}
	for _, o := range []options{all, {project: "p", environment: "e", noCommand: true, noManual: true}} {
		for _, document := range []func(string, string) ([]byte, error){
			func(tenant, hello string) ([]byte, error) { return o.plan(tenant, hello, time.Now()) },
			func(tenant, hello string) ([]byte, error) { return o.drainPlan(tenant, hello) },
		} {
			doc, err := document("acme", "hello")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plan.Parse(doc, plan.DefaultQueues()); err != nil {
				t.Errorf("%+v: the plan is invalid: %v\n%s", o, err, doc)
			}
		}
	}
	doc, err := all.plan("acme", "hello", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range plan.StepTypes() {
		if !strings.Contains(string(doc), `"type":"`+string(kind)+`"`) {
			t.Errorf("the plan has no step of the type %s: %s", kind, doc)
		}
	}
}

func TestSpareWorker_LeavesNoQueueWithoutAWorker(t *testing.T) {
	t.Parallel()
	row := func(worker, queue string) client.WorkerRow {
		return client.WorkerRow{Account: "steps", Worker: worker, Queue: queue, Live: true}
	}
	if w, ok := spareWorker([]client.WorkerRow{row("a", "q1"), row("b", "q2")}); ok {
		t.Errorf("the worker %s may be drained, though its queue has no other one", w.Worker)
	}
	if w, ok := spareWorker([]client.WorkerRow{row("a", "q1"), row("a", "q2"), row("b", "q1")}); !ok || w.Worker != "b" {
		t.Errorf("the worker %q may be drained (%t), want b: a alone serves q2", w.Worker, ok)
	}
	drained := row("b", "q1")
	drained.Drained = true
	if w, ok := spareWorker([]client.WorkerRow{row("a", "q1"), drained}); ok {
		t.Errorf("the worker %s may be drained, though the other one of its queue is drained", w.Worker)
	}
	dead := row("b", "q1")
	dead.Live = false
	if w, ok := spareWorker([]client.WorkerRow{row("a", "q1"), dead}); ok {
		t.Errorf("the worker %s may be drained, though the other one of its queue is dead", w.Worker)
	}
}

func TestPathOf_IsThePathBelowTheRun(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{"artifact:acme/r1/load/1/1/a%20b.json": "load/1/1/a b.json",
		"s3://elsewhere/x": "", "artifact:acme/r1": ""} {
		if got, ok := pathOf(uri); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", uri, got, ok, want)
		}
	}
}
