package temporal_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// crowd holds executions and counts how many run at once.
type crowd struct {
	mu        sync.Mutex
	now, most int
	began     []time.Time
	open      chan struct{}
}

func (c *crowd) work(ctx context.Context, _ executor.Task) error {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.began = append(c.began, time.Now())
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	select {
	case <-c.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *crowd) inside() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most
}

func (c *crowd) begins() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.began)
}

// crowdOf returns n steps of one type whose work c holds until it is released.
func (h *harness) crowdOf(c *crowd, n int, extra map[string]any) []step {
	var out []step
	for i := range n {
		id := fmt.Sprintf("%v%02d", extra["type"], i)
		h.steps.on(id, c.work)
		out = append(out, step{id: id, extra: extra})
	}
	return out
}

var (
	commands = map[string]any{"type": "COMMAND"}
	https    = map[string]any{"type": "HTTP_NOTIFY", "inputs": map[string]any{"url": "http://h"}}
	dbts     = map[string]any{"type": "DBT_RUN", "inputs": map[string]any{"projectDir": "p"}}
)

// countingJournal counts the calls of StartAttempt by step.
type countingJournal struct {
	engine.Journal
	mu     sync.Mutex
	begins map[string]int
}

func (c *countingJournal) StartAttempt(ctx context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	c.mu.Lock()
	c.begins[b.StepID]++
	c.mu.Unlock()
	return c.Journal.StartAttempt(ctx, b)
}

// Steps of a workload without a free slot wait in the engine's queue, without another dispatch. They do not delay other
// workloads.
func TestSlots_AFullWorkloadDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][]map[string]any{
		"HTTP_NOTIFY": {https, commands, dbts}, "COMMAND": {commands, https, dbts}, "DBT_RUN": {dbts, https, commands},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, options{workers: -1})
			h.patience = 2 * time.Minute
			h.serve(temporal.WorkerConfig{
				Control: []string{h.queues.Control}, Data: []string{h.queues.Data}, DataConcurrency: 3,
				Limits: temporal.Limits{Slots: map[plan.Workload]int{plan.HTTPWorkload: 3}},
			})
			full := &crowd{open: make(chan struct{})}
			flood := h.start(document(0, h.crowdOf(full, 12, kinds[0])...))
			reaches(t, "three steps of the flood run", func() bool { now, _ := full.inside(); return now == 3 })
			var others []step
			for i, kind := range kinds[1:] {
				others = append(others, step{id: fmt.Sprintf("other%d", i), extra: kind})
			}
			if st := h.waitForEnd(h.start(document(0, others...))); st.Status != run.Completed {
				t.Errorf("the run beside the flood ended %s, want COMPLETED", st.Status)
			}
			if now, _ := full.inside(); now != 3 {
				t.Errorf("%d steps of the flood run while the other run has ended, want the 3 that hold all slots", now)
			}
			close(full.open)
			if st := h.waitForEnd(flood); st.Status != run.Completed {
				t.Errorf("the flood ended %s, want COMPLETED", st.Status)
			}
			if _, most := full.inside(); most != 3 {
				t.Errorf("%d steps of the flood ran at once, want 3", most)
			}
			if ids, _ := h.dispatches(flood); len(ids) != 12 {
				t.Errorf("%d dispatches of 12 steps: %v", len(ids), ids)
			}
		})
	}
}

// The worker declines steps of a tenant above its share before they start. The Journal gets one StartAttempt for each
// step, when it has a slot.
func TestSlots_ATenantKeepsItsShare(t *testing.T) {
	t.Parallel()
	journal := &countingJournal{begins: map[string]int{}}
	h := newHarness(t, options{workers: -1, wrap: func(j engine.Journal) engine.Journal {
		journal.Journal = j
		return journal
	}})
	h.patience = 3 * time.Minute
	registry := prometheus.NewRegistry()
	h.serve(temporal.WorkerConfig{
		Control: []string{h.queues.Control}, Data: []string{h.queues.Data}, DataConcurrency: 8, Metrics: registry,
		Limits: temporal.Limits{TenantShare: 100, TenantShares: map[string]int{"acme": 26, "globex": 99}},
	})
	full := &crowd{open: make(chan struct{})}
	steps := h.crowdOf(full, 8, commands)
	id := h.start(document(0, steps...))
	declined := func() float64 { return sampled(t, registry)[`worker_declined_total COMMAND tenant_share`] }
	reaches(t, "two steps run and the others are declined", func() bool {
		now, _ := full.inside()
		return now == 2 && declined() >= 6
	})
	got := sampled(t, registry)
	maps.DeleteFunc(got, func(name string, v float64) bool {
		return v == 0 || name == `worker_declined_total COMMAND tenant_share`
	})
	if diff := cmp.Diff(map[string]float64{
		"worker_slots NOOP": 50, "worker_slots COMMAND": 8, "worker_slots DBT": 8, "worker_slots HTTP_NOTIFY": 20,
		"worker_slots_in_use COMMAND": 2, "worker_executions_total COMMAND": 2, "worker_tenants_at_share": 1,
	}, got); diff != "" {
		t.Errorf("metrics while the tenant holds its share (-want +got):\n%s", diff)
	}
	close(full.open)
	st := h.waitForEnd(id)
	if _, most := full.inside(); most != 2 || st.Status != run.Completed {
		t.Errorf("%d steps of the tenant ran at once, want 2 of 8 slots, and the run ended %s", most, st.Status)
	}
	for _, s := range st.Steps {
		if n := journal.begins[s.StepID]; n != 1 {
			t.Errorf("the Journal got %d starts of %s, want 1", n, s.StepID)
		}
		if a := s.Attempts; len(a) != 1 || a[0].EngineAttempt != 1 {
			t.Errorf("%s has the attempts %+v, want one with engine attempt 1", s.StepID, a)
		}
	}
	h.waitFor(id, "without a tenant at its share", func(run.State) bool {
		return sampled(t, registry)["worker_tenants_at_share"] == 0
	})
}

// A hook runs although its tenant holds its whole share, because a run has one hook at a time and few tries for it.
func TestSlots_AHookIsNeverDeclined(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	h.serve(temporal.WorkerConfig{
		Control: []string{h.queues.Control}, Data: []string{h.queues.Data}, DataConcurrency: 2,
		Limits: temporal.Limits{TenantShare: 50},
	})
	fail := make(gate)
	h.steps.on("notify", func(ctx context.Context, of executor.Task) error {
		if err := fail.wait(ctx, of); err != nil {
			return err
		}
		return failure("BROKEN", false, "")
	})
	undo := map[string]any{
		"compensation": map[string]any{"operation": "COMMAND", "input": map[string]any{"argv": []string{"undo"}}},
	}
	id := h.start(document(0, step{id: "made", extra: undo}, step{id: "notify", deps: "made", extra: https}))
	h.waitUntilRunning(id, "notify")
	open := h.hold("holds")
	other := h.start(document(0, step{id: "holds"}))
	h.waitUntilRunning(other, "holds")
	close(fail)
	if st := h.waitForEnd(id); st.Status != run.Failed || !slices.Contains(h.log(id), "StepCompensated(made,1)") {
		t.Errorf("the run ended %s with the log %q, want a compensation", st.Status, h.log(id))
	}
	open()
	h.waitForEnd(other)
}

// sampled returns the values of a worker's own metrics, by name and labels.
func sampled(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := r.Gather()
	must(t, err)
	out := map[string]float64{}
	for _, f := range all {
		if len(f.GetName()) < 7 || f.GetName()[:7] != "worker_" {
			continue
		}
		for _, m := range f.GetMetric() {
			name, reason := f.GetName(), ""
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" {
					reason = " " + l.GetValue()
				} else {
					name += " " + l.GetValue()
				}
			}
			out[name+reason] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func TestSlots_RatesBoundTheStartsPerSecond(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]temporal.Limits{
		"of a worker": {Rates: map[plan.Workload]float64{plan.CommandWorkload: 5}},
		"of a queue":  {QueueRates: map[plan.Workload]float64{plan.CommandWorkload: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, options{workers: -1})
			h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}, Data: []string{h.queues.Data}, Limits: limits})
			free := &crowd{open: make(chan struct{})}
			close(free.open)
			h.waitForEnd(h.start(document(0, h.crowdOf(free, 40, commands)...)))
			// Without a rate all steps start within a second. Each of the four partitions of a queue lets a few tasks through
			// at first, so the steps take less than 8 s.
			if took := free.began[len(free.began)-1].Sub(free.began[0]); len(free.began) != 40 || took < 4*time.Second {
				t.Errorf("%d steps started within %v, want 40 in at least 4 s", len(free.began), took)
			}
		})
	}
}
