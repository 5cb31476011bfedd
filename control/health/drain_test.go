package health_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// report sends a report of a worker of acme-worker and returns its order.
func report(t *testing.T, w *controltest.World, name string) engine.WorkerOrder {
	t.Helper()
	r := controltest.ReportOf(name, plan.SandboxMemory)
	r.Steps = []engine.WorkerStep{{TenantID: "acme", RunID: "r1", StepID: "s1"},
		{TenantID: "globex", RunID: "r2", StepID: "s1"}, {TenantID: "acme", RunID: "a\nb", StepID: "s1"}}
	return controltest.Must[engine.WorkerOrder](t)(w.ReporterOf("acme-worker").Report(t.Context(), r))
}

func last(t *testing.T, w *controltest.World) (names []string) {
	t.Helper()
	for _, one := range controltest.Must[[]health.WorkerState](t)(w.Workers(t.Context(), w.Principal("dev-sre"))) {
		if one.Last {
			names = append(names, one.Worker)
		}
		if len(one.Steps) != 1 || one.Steps[0].RunID != "r1" {
			t.Errorf("the steps of %s are %v, want only that of a tenant which the worker serves", one.Worker, one.Steps)
		}
	}
	return names
}

func TestDrain_TheWorkerHearsOfItAndTheOtherIsTheLastOfItsQueue(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	sre := w.Principal("dev-sre")
	for _, name := range []string{"w1", "w2"} {
		if report(t, w, name).Drain {
			t.Errorf("the new worker %s is drained", name)
		}
	}
	if names := last(t, w); len(names) > 0 {
		t.Errorf("%v are the last of their queue, want none of two", names)
	}
	in := health.DrainWorker{Account: "acme-worker", Worker: "w1", RequestID: "d1", Reason: "a new kernel"}
	first := controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre, in))
	again := controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre, in))
	if first.Change.Action != health.ActionDrainWorker || again.Change.Action != health.ActionDrainWorker {
		t.Errorf("the receipts are %+v and %+v, want those of one drain", first.Change, again.Change)
	}
	other := in
	other.RequestID = "d2"
	if got := controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre,
		other)); got.Change != (control.Change{}) || got.Workers[0].Drain.RequestID != "d1" {
		t.Errorf("draining a drained worker changed %+v, want nothing", got.Change)
	}
	drained := func() int {
		return len(controltest.Must[map[string][]health.WorkerDrain](t)(w.Drained(t.Context(), first.Workers[0].Queue)))
	}
	if drained() != 0 {
		t.Error("the queue counts as drained while w2 serves it")
	}
	if !report(t, w, "w1").Drain || report(t, w, "w2").Drain {
		t.Error("the order does not reach w1 alone")
	}
	if names := last(t, w); !slices.Equal(names, []string{"w2"}) {
		t.Errorf("%v are the last of their queue, want w2", names)
	}
	in.Worker, in.RequestID = "w2", "d3"
	controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre, in))
	if drained() != 1 {
		t.Error("the queue does not count as drained when both its workers are")
	}
	in.End = true
	controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre, in))
	in.Worker = "w1"
	controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre, in))
	if report(t, w, "w1").Drain {
		t.Error("the worker is drained after the end of its drain")
	}
	var rows []string
	controltest.Must[int](t)(w.Raw.LinkAudit(t.Context(), 100))
	for _, link := range controltest.Must[[]store.AuditLink](t)(w.Raw.AuditLinks(t.Context(), store.AuditFilter{
		TenantID: "acme", Limit: 50})) {
		if row := link.Row; row.Action == health.ActionDrainWorker || row.Action == health.ActionEndWorkerDrain {
			rows = append(rows, row.Action+" "+row.Outcome)
		}
	}
	if !slices.Equal(rows, []string{"DRAIN_WORKER ACCEPTED", "DRAIN_WORKER ACCEPTED",
		"END_WORKER_DRAIN ACCEPTED", "END_WORKER_DRAIN ACCEPTED"}) {
		t.Errorf("the audit has %v, want one row for each change", rows)
	}
}

func TestWorkers_AKilledProcessCountsAsGoneAfterTwoMissingReports(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	sre := w.Principal("dev-sre")
	report(t, w, "killed")
	w.Clock.Advance(20 * time.Second)
	report(t, w, "drained")
	in := health.DrainWorker{Account: "acme-worker", Worker: "drained", RequestID: "d1", Reason: "a new kernel"}
	controltest.Must[health.DrainedWorker](t)(w.DrainWorker(t.Context(), sre, in))
	overdue := func() (names []string) {
		for _, one := range controltest.Must[[]health.WorkerState](t)(w.Workers(t.Context(), sre)) {
			if !one.Live {
				t.Errorf("%s is silent, want two minutes before it", one.Worker)
			}
			if one.Overdue {
				names = append(names, one.Worker)
			}
		}
		return names
	}
	drained := func() map[string][]health.WorkerDrain {
		return controltest.Must[map[string][]health.WorkerDrain](t)(w.Drained(t.Context(), "tq-data-dev"))
	}
	w.Clock.Advance(20 * time.Second)
	report(t, w, "drained")
	if names, queues := overdue(), drained(); len(names) > 0 || len(queues) > 0 {
		t.Errorf("after one missing report %v are overdue and %v drained, want none of both", names, queues)
	}
	if names := last(t, w); !slices.Equal(names, []string{"killed"}) {
		t.Errorf("%v are the last of their queue, want the process that counts as running", names)
	}
	w.Clock.Advance(15 * time.Second)
	if names := overdue(); !slices.Equal(names, []string{"killed"}) {
		t.Errorf("after two missing reports %v are overdue, want the process that was killed", names)
	}
	if len(drained()) != 1 {
		t.Error("the queue does not count as drained while only a process that may be gone is not drained")
	}
	if names := last(t, w); len(names) > 0 {
		t.Errorf("%v are the last of their queue, want none: one is gone, the other is drained", names)
	}
}

func TestDrain_IsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	report(t, w, "w1")
	good := health.DrainWorker{Account: "acme-worker", Worker: "w1", RequestID: "d1", Reason: "why"}
	with := func(change func(*health.DrainWorker)) health.DrainWorker {
		in := good
		change(&in)
		return in
	}
	sre := w.Principal("dev-sre")
	unknown := with(func(in *health.DrainWorker) { in.Worker = "w9" })
	end := unknown
	end.End = true
	for name, c := range map[string]struct {
		who  authz.Principal
		in   health.DrainWorker
		want run.Code
	}{
		"an admin":                  {w.Principal("dev-admin"), good, run.CodeForbidden},
		"another tenant":            {w.ForeignPrincipal(), good, run.CodeForbidden},
		"an unknown worker":         {sre, unknown, run.CodeNotFound},
		"the end of an unknown one": {sre, end, run.CodeNotFound},
		"no reason":                 {sre, with(func(in *health.DrainWorker) { in.Reason = "" }), run.CodeBadInput},
		"a name that is no text":    {sre, with(func(in *health.DrainWorker) { in.Worker = "a\x00b" }), run.CodeBadInput},
	} {
		_, err := w.DrainWorker(t.Context(), c.who, c.in)
		if own := (*control.Error)(nil); !errors.As(err, &own) || own.Code != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if report(t, w, "w1").Drain {
		t.Error("a refused drain drained the worker")
	}
}
