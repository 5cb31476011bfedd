package projector

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/run"
)

// valuesOf returns the values of counters with their labels, and the counts of histograms, that are not 0.
func valuesOf(t *testing.T, all ...prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(all...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if v := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()); v > 0 {
				out[name] = v
			}
		}
	}
	return out
}

// Only what ended within the delta is counted: not the end before it, a running attempt, or an output that a rerun
// took over.
func TestRecordMeter_CountsTheEndsOfADelta(t *testing.T) {
	t.Parallel()
	m := newRecordMeter()
	ended := func(seq run.Seq, status run.StepStatus, category run.Category) run.Attempt {
		a := run.Attempt{Status: status, EndedSeq: seq}
		if status == run.StepFailed {
			a.Error = &run.StepError{Category: category}
		}
		return a
	}
	step := func(kind string, attempts ...run.Attempt) *run.Step {
		return &run.Step{StepOutline: run.StepOutline{StepID: strings.ToLower(kind), Type: kind}, Attempts: attempts}
	}
	reused := ended(7, run.StepSuccess, "")
	reused.Reused = &run.Reused{}
	at := time.Unix(1000, 0)
	end := at.Add(90 * time.Second)
	d := run.Delta{From: 4, To: 9, Header: run.Header{Identity: run.Identity{RunID: "r1"}, Status: run.Failed,
		StatusSeq: 9, CreatedAt: at, CompletedAt: &end, Failure: &run.RunFailure{Category: run.CategorySystem},
		RootCause: &run.StepRef{}}, Steps: []*run.Step{
		step("DBT_RUN", ended(4, run.StepFailed, run.CategoryUser), ended(6, run.StepFailed, run.CategoryTimeout),
			run.Attempt{Status: run.StepRunning}),
		step("COMMAND", ended(8, run.StepSuccess, ""), ended(5, run.StepFailed, "strange")),
		step("NOOP", reused), step("MANUAL", ended(9, run.StepSkipped, "")),
	}}
	m.observe(d)
	want := map[string]float64{
		"engine_steps_executed_total FAILED DBT_RUN": 1, "engine_steps_executed_total SUCCESS COMMAND": 1,
		"engine_steps_executed_total FAILED COMMAND": 1, "engine_steps_executed_total SKIPPED MANUAL": 1,
		"engine_errors_total TIMEOUT": 1, "engine_errors_total OTHER": 1, "engine_run_duration_seconds": 1,
	}
	check := func(when string) {
		t.Helper()
		got := valuesOf(t, m.collectors()...)
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%s %s is %v, want %v", when, name, got[name], n)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s the metrics are %v, want %v", when, got, want)
		}
	}
	check("after the delta")
	d.From, d.To, d.Header.RootCause = 9, 9, nil
	if m.observe(d); len(valuesOf(t, m.collectors()...)) != len(want) {
		check("after a delta without an end")
	}
	d.From = 8
	d.Steps = nil
	m.observe(d)
	want["engine_errors_total SYSTEM"], want["engine_run_duration_seconds"] = 1, 2
	check("after the failure of a run without a failed step")
}
