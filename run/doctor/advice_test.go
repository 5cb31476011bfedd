package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/slo"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
	"github.com/dvt-engine/dvt/run/runtest"
)

// metricsTable has every metric of dvt by its name.
func metricsTable() map[string]bool {
	out := map[string]bool{}
	for _, metric := range slo.Metrics() {
		out[metric.Name] = true
	}
	return out
}

// TestDiagnose_OffersOnlySignalsThatTheRunAccepts judges each offered signal in the state for which it is offered. A
// retry that the policy refuses is offered with force, and none to a run that is ending.
func TestDiagnose_OffersOnlySignalsThatTheRunAccepts(t *testing.T) {
	t.Parallel()
	spent := append(open("EXIT_STATUS", "boom"), runtest.Draft(run.StepStartedEvent, "a", 2),
		runtest.Draft(run.StepFailedEvent, "a", 2, m{"errorCode": "EXIT_STATUS", "errorMessage": "boom"}))
	cases := append(faults(), fault{"attempts spent", spent, func(f *doctor.Facts) {
		f.State.Policy = &run.Policy{MaxLogicalAttemptsManual: 2}
	}, "EXIT_STATUS", run.RetryStep}, fault{"compensating", open("EXIT_STATUS", "boom"), func(f *doctor.Facts) {
		f.State.Compensating = true
	}, "EXIT_STATUS", ""})
	offered := map[string]bool{}
	for _, c := range cases {
		f := facts(t, c.log...)
		c.with(&f)
		for _, cause := range doctor.Diagnose(f) {
			for _, n := range cause.Next {
				if n.Signal == "" {
					continue
				}
				offered[fmt.Sprintf("%s force=%t", n.Signal, n.Force)] = true
				sig := run.Signal{Type: n.Signal, StepID: n.StepID, Force: n.Force}
				if got := run.Judge(f.State, sig); got.Outcome != run.Accept {
					t.Errorf("%s: %s offers %s with force %t, which the run answers %d: %s", c.name, cause.Code, n.Signal, n.Force,
						int(got.Outcome), got.Message)
				}
				if sig.Force = false; n.Force && run.Judge(f.State, sig).Outcome == run.Accept {
					t.Errorf("%s: %s offers %s by force, which the run accepts without", c.name, cause.Code, n.Signal)
				}
				if n.Force && n.Safe {
					t.Errorf("%s: %s calls a forced %s safe", c.name, cause.Code, n.Signal)
				}
			}
		}
	}
	want := map[string]bool{"RETRY_STEP force=false": true, "RETRY_STEP force=true": true, "RESUME force=false": true}
	if diff := cmp.Diff(want, offered); diff != "" {
		t.Errorf("offered signals (-want +got):\n%s", diff)
	}
}

// TestDiagnose_ARetryThatRemovesNoCauseComesLast: a tired person pastes the first command.
func TestDiagnose_ARetryThatRemovesNoCauseComesLast(t *testing.T) {
	t.Parallel()
	for _, c := range faults() {
		f := facts(t, c.log...)
		c.with(&f)
		for _, cause := range doctor.Diagnose(f) {
			i := slices.IndexFunc(cause.Next, func(n doctor.Next) bool { return n.Signal == run.RetryStep })
			if i < 0 || cause.Code == doctor.CodeContention {
				continue
			}
			if text := cause.Next[i].Text; i == 0 || !strings.HasPrefix(text, "After that, ") {
				t.Errorf("%s: %s offers the retry as step %d, %q; want it after what removes the cause", c.name, cause.Code, i+1,
					text)
			}
		}
	}
}

// TestDiagnose_NamesMetricsThatExist: a person looks for the metric that the evidence names.
func TestDiagnose_NamesMetricsThatExist(t *testing.T) {
	t.Parallel()
	known, named := metricsTable(), 0
	for _, c := range faults() {
		f := facts(t, c.log...)
		c.with(&f)
		for _, cause := range doctor.Diagnose(f) {
			for _, e := range cause.Evidence {
				if e.Metric != "" && !known[e.Metric] {
					t.Errorf("%s: %s names the metric %s, which does not exist", c.name, cause.Code, e.Metric)
				}
				if e.Metric != "" {
					named++
				}
				if unserved := cause.Code == run.CodeNoWorker; unserved && e.Metric == "" {
					t.Errorf("%s: the evidence %q names no metric", c.name, e.Text)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no evidence names a metric")
	}
}

func TestDiagnose_AMissingDirectoryOfDBTIsNamedAsThat(t *testing.T) {
	t.Parallel()
	log := open("DIR_NOT_FOUND", `directory "shop" does not exist`)
	log[1] = runtest.Draft(run.RunStarted, "", 1, m{"steps": []m{{"stepId": "a", "type": "DBT_RUN"}}})
	got := doctor.Diagnose(facts(t, log...))[0]
	if !strings.Contains(got.Title, "dbt project") || !strings.Contains(got.Next[0].Text, "projectDir") {
		t.Errorf("the cause is %q with the advice %q, want both about the dbt project", got.Title, got.Next[0].Text)
	}
}

// TestDiagnose_APauseDrainsAsLongAsThePolicySays: the alert about the pause follows the same setting.
func TestDiagnose_APauseDrainsAsLongAsThePolicySays(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]doctor.Code{time.Minute: run.CodePauseDrain, time.Hour: doctor.CodePaused} {
		f := facts(t, append(running(), runtest.Draft(run.SignalAccepted, "11111111-1111-4111-8111-111111111111", 1),
			runtest.Draft(run.RunPaused, "", 1))...)
		f.State.Policy = &run.Policy{DrainTimeoutMS: limit.Milliseconds()}
		if got := doctor.Diagnose(f)[0].Code; got != want {
			t.Errorf("a pause that drains for %s with the limit %s is %s, want %s", after, limit, got, want)
		}
	}
}

// TestDiagnose_ATaskThatNobodyCompletedIsNoLostWorker: the engine ends both, but a manual step has no program that can
// still be working.
func TestDiagnose_ATaskThatNobodyCompletedIsNoLostWorker(t *testing.T) {
	t.Parallel()
	log := open("TIMEOUT", "Nobody completed the step within 1s.", m{"failureSource": "engine"})
	log[1] = runtest.Draft(run.RunStarted, "", 1, m{"steps": []m{{"stepId": "a", "type": "MANUAL"}}})
	got := doctor.Diagnose(facts(t, log...))[0]
	if got.Code != run.CodeTimeout || got.Title != "Nobody completed the step in time." || !got.Next[1].Safe {
		t.Errorf("the cause is %+v, want TIMEOUT with a safe retry", got)
	}
}

// TestDiagnose_APartThatWorksIsNotCalledBroken: the health and the question about the run are two questions to one
// engine, and a slow engine holds up only starts.
func TestDiagnose_APartThatWorksIsNotCalledBroken(t *testing.T) {
	t.Parallel()
	answered, slow := facts(t, running()...), facts(t, running()...)
	answered.LastGreen, slow.LastGreen = nil, nil
	answered.Parts = []doctor.Part{{Name: "Temporal", Message: "no answer", Engine: true}}
	slow.Parts = []doctor.Part{{Name: "Temporal", Message: "slow", Engine: true, Slow: true}}
	for name, f := range map[string]doctor.Facts{"an engine that answers": answered, "a slow engine": slow} {
		if got := doctor.Diagnose(f); len(got) > 0 {
			t.Errorf("%s is called %s in a run that continues", name, codes(got))
		}
	}
	queued := facts(t, runtest.Draft(run.RunApproved, "", 1))
	queued.Parts, queued.Queue = slow.Parts, &doctor.Queue{Since: queued.Now.Add(-5 * time.Minute)}
	queued.Engine = &doctor.Engine{}
	got := doctor.Diagnose(queued)
	if len(got) != 1 || got[0].Title != "Temporal is slow, so the start waits." {
		t.Errorf("the causes of a start that is overdue are %s, want the slow engine", codes(got))
	}
}
