package reads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// MaxHistoryRuns is the most runs of a StepHistory.
const MaxHistoryRuns = 100

// maxHistoryAttempts is the most attempts of a StepHistory.
const maxHistoryAttempts = 200

// StepHistory is a step in the newest runs of its plan.
type StepHistory struct {
	store.PlanKey
	StepID string
	Runs   int // the number of runs that were read, the newest ones
	// Ran counts the runs in which an attempt started, Succeeded those in which the step succeeded at last, and Flaky
	// those in which it succeeded after a failed try, of a person or of the platform.
	Ran, Succeeded, Flaky int
	Attempts              []PastAttempt // newest first, at most maxHistoryAttempts
	Median, Slow          *time.Duration
	Failures              []FailureCount // the most frequent first
	LastGreen             *PastAttempt   // the newest successful attempt
}

// PastAttempt is an attempt of a step in one run.
type PastAttempt struct {
	RunID       string
	PlanVersion string
	run.Attempt
}

// FailureCount counts the failed attempts with one error code.
type FailureCount struct {
	Code    string
	Count   int
	Last    PastAttempt
	Message string // of the last one
}

// PlanStep reads the history of a step in the newest runs (1..MaxHistoryRuns) of its plan. NOT_FOUND when the step did
// nothing in them, or when p may not read them. QUERY_TOO_COMPLEX when the step has more than store.MaxStepEvents
// events in them. It makes two queries.
func (s *PlanHistories) PlanStep(ctx context.Context, p authz.Principal, k store.PlanKey, stepID string,
	runs int) (StepHistory, error) {
	if runs < 1 || runs > MaxHistoryRuns {
		return StepHistory{}, control.BadInput([]plan.Violation{control.OutOfRange("runs", MaxHistoryRuns)})
	}
	k.TenantID = p.TenantID
	if !s.rights.MayRead(p, k.ProjectID, k.EnvironmentID) {
		return StepHistory{}, planNotFound()
	}
	newest, err := s.store.PlanRuns(ctx, k, runs)
	if err != nil {
		return StepHistory{}, control.Translate(err)
	}
	ids := make([]string, len(newest))
	for i, r := range newest {
		ids[i] = r.RunID
	}
	evs, err := s.store.StepEvents(ctx, k.TenantID, stepID, ids)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return StepHistory{}, &control.Error{Code: run.CodeQueryTooComplex, Limit: store.MaxStepEvents,
			Message: "The step has too many events in these runs. Ask for fewer runs."}
	case err != nil:
		return StepHistory{}, control.Translate(err)
	case len(evs) == 0:
		return StepHistory{}, control.Refuse(run.CodeNotFound, "The step started no attempt in the newest runs of this plan.")
	}
	out := StepHistory{PlanKey: k, StepID: stepID, Runs: len(newest)}
	out.add(newest, evs)
	return out, nil
}

// add folds the events of the step, which are sorted by run.
func (h *StepHistory) add(newest []store.PlanRun, evs []run.Event) {
	byRun := map[string][]run.Event{}
	for from := 0; from < len(evs); {
		to := from
		for to < len(evs) && evs[to].RunID == evs[from].RunID {
			to++
		}
		byRun[evs[from].RunID] = evs[from:to]
		from = to
	}
	var took []time.Duration
	failures := map[string]*FailureCount{}
	for _, r := range newest {
		steps := run.Project(run.Identity{RunID: r.RunID}, byRun[r.RunID]).Steps
		if len(steps) == 0 {
			continue
		}
		step := steps[0]
		h.count(step)
		for _, a := range slices.Backward(step.Attempts) {
			past := PastAttempt{RunID: r.RunID, PlanVersion: r.PlanVersion, Attempt: a}
			if len(h.Attempts) < maxHistoryAttempts {
				h.Attempts = append(h.Attempts, past)
			}
			switch d := DurationOf(a); {
			case a.Status == run.StepSuccess && h.LastGreen == nil:
				h.LastGreen = &past
				fallthrough
			case a.Status == run.StepSuccess:
				if d != nil {
					took = append(took, *d)
				}
			case a.Status == run.StepFailed && a.Error != nil:
				f := failures[a.Error.Code]
				if f == nil { // attempts come newest first
					f = &FailureCount{Code: a.Error.Code, Last: past, Message: a.Error.Message}
					failures[a.Error.Code] = f
				}
				f.Count++
			}
		}
	}
	h.Median, h.Slow = quantile(took, 0.5), quantile(took, 0.9)
	for _, f := range failures {
		h.Failures = append(h.Failures, *f)
	}
	slices.SortFunc(h.Failures, func(a, b FailureCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
}

// count counts a run by its attempts of the step.
func (h *StepHistory) count(step *run.Step) {
	started := slices.ContainsFunc(step.Attempts, func(a run.Attempt) bool { return a.StartedAt != nil })
	if started {
		h.Ran++
	}
	last := step.Attempts[len(step.Attempts)-1]
	if last.Status != run.StepSuccess {
		return
	}
	h.Succeeded++
	failed := slices.ContainsFunc(step.Attempts, func(a run.Attempt) bool { return a.Status == run.StepFailed })
	if failed || last.EngineAttempt > 1 {
		h.Flaky++
	}
}
