package graph

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
)

// PastReads reads earlier runs of the same plan, and the plans and inputs of a run.
type PastReads interface {
	// LastGreen returns the newest COMPLETED run before h, or nil when there is none.
	LastGreen(ctx context.Context, p authz.Principal, h run.Header) (*reads.RunBefore, error)
	// Forecast predicts the end of a run.
	Forecast(ctx context.Context, p authz.Principal, runID string) (forecast.Forecast, error)
	// PlanDocument returns nil when no worker has fetched the plan yet.
	PlanDocument(ctx context.Context, p authz.Principal, runID string) (json.RawMessage, error)
	// PlanDiff compares the plan of h with that of the newest earlier run. It returns nil when one of them is missing.
	PlanDiff(ctx context.Context, p authz.Principal, h run.Header) (*reads.PlanDiff, error)
	// StepInputs returns nil when no worker has fetched the plan yet.
	StepInputs(ctx context.Context, p authz.Principal, runID, stepID string, upTo run.Seq) (*runs.StepInputs, error)
	// StepMedians returns median durations by step id, without the steps that never succeeded in an earlier run.
	StepMedians(ctx context.Context, p authz.Principal, h run.Header) (map[string]time.Duration, error)
}

// headerOf returns the header of the run of the steps, or a zero header when steps is nil.
func headerOf(steps model.StepsOf) run.Header {
	g, ok := steps.(*mapping.Graph)
	if !ok {
		return run.Header{}
	}
	return g.View.State.Header
}

func (s stepFields) MedianMs(ctx context.Context, of *model.Step) (*time.Duration, error) {
	g, ok := of.Of.(*mapping.Graph)
	if !ok {
		return nil, nil //nolint:nilnil // the step has no run
	}
	return g.Median(of.StepID, func() (map[string]time.Duration, error) {
		return s.control.StepMedians(ctx, principal(ctx), g.View.State.Header)
	})
}

func (r runFields) PlanDocument(ctx context.Context, of *model.Run) (json.RawMessage, error) {
	return readHeavy(ctx, func() (json.RawMessage, int, error) {
		doc, err := r.control.PlanDocument(ctx, principal(ctx), of.RunID)
		return doc, len(doc), err
	})
}

func (r runFields) LastGreen(ctx context.Context, of *model.Run) (*model.RunRef, error) {
	green, err := r.control.LastGreen(ctx, principal(ctx), pastHeader(of))
	if err != nil || green == nil {
		return nil, err
	}
	return new(mapping.RunBefore(*green)), nil
}

func (r runFields) Forecast(ctx context.Context, of *model.Run) (*model.Forecast, error) {
	f, err := r.forecast(ctx, of)
	if err != nil || f.Gap != "" {
		return nil, err
	}
	return &model.Forecast{Low: f.Earliest, High: f.Latest, ExpectedEnd: f.Expected, Runs: f.Runs,
		Confidence: forecast.Confidence, Basis: model.ForecastBasis(f.Basis)}, nil
}

func (r runFields) ForecastGap(ctx context.Context, of *model.Run) (*model.ForecastGap, error) {
	f, err := r.forecast(ctx, of)
	if err != nil || f.Gap == "" {
		return nil, err
	}
	return &model.ForecastGap{Reason: model.ForecastGapReason(f.Gap), StepID: mapping.Text(f.StepID), Runs: f.Runs,
		Needed: forecast.MinRuns}, nil
}

// forecast predicts the end of a run. A past view has no forecast.
func (r runFields) forecast(ctx context.Context, of *model.Run) (forecast.Forecast, error) {
	past := false
	if g, ok := of.StepsOf.(*mapping.Graph); ok {
		past = g.View.Past
	}
	if past || of.StartedAt == nil || of.CompletedAt != nil {
		return forecast.Forecast{Gap: forecast.NotRunning}, nil
	}
	return r.control.Forecast(ctx, principal(ctx), of.RunID)
}

// Late compares the deadline with the clock when it is asked: the log says nothing when a deadline passes.
func (r runFields) Late(_ context.Context, of *model.Run) (*model.RunLateness, error) {
	h := run.Header{Status: run.Status(of.StatusRaw), CompletedAt: of.CompletedAt,
		Policy: &run.Policy{DueAt: of.Deadline}}
	late := h.Lateness(time.Now())
	if late == "" {
		return nil, nil //nolint:nilnil // no deadline
	}
	return new(model.RunLateness(late)), nil
}

func (r runFields) PlanDiff(ctx context.Context, of *model.Run) (*model.PlanDiff, error) {
	d, err := readHeavy(ctx, func() (*reads.PlanDiff, int, error) {
		d, err := r.control.PlanDiff(ctx, principal(ctx), pastHeader(of))
		return d, sizeOfDiff(d), err
	})
	if err != nil || d == nil {
		return nil, err
	}
	return mapping.PlanDiff(*d), nil
}

func sizeOfDiff(d *reads.PlanDiff) int {
	if d == nil {
		return 0
	}
	n := 0
	parts := func(list []reads.PlanPart) {
		for _, p := range list {
			n += sizeInJSON(p.Path) + sizeInJSON(p.From) + sizeInJSON(p.To)
		}
	}
	parts(d.Parts)
	for _, s := range d.Steps {
		parts(s.Parts)
	}
	return n
}

// pastHeader returns the fields of a header by which control finds the earlier runs of a run.
func pastHeader(of *model.Run) run.Header {
	return run.Header{CreatedAt: of.CreatedAt, Identity: run.Identity{
		RunID: of.RunID, TenantID: of.TenantID, ProjectID: of.ProjectID, EnvironmentID: of.EnvironmentID,
		PlanID: of.Plan.PlanID,
	}}
}

func (s stepFields) Inputs(ctx context.Context, of *model.Step, attempt *int) (*model.StepInputs, error) {
	g, ok := of.Of.(*mapping.Graph)
	if !ok {
		return nil, nil //nolint:nilnil // the step has no run
	}
	upTo, err := attemptStartSeq(of, g.View, attempt)
	if err != nil {
		return nil, err
	}
	in, err := readHeavy(ctx, func() (*runs.StepInputs, int, error) {
		in, err := s.control.StepInputs(ctx, principal(ctx), g.View.State.RunID, of.StepID, upTo)
		if in == nil {
			return nil, 0, err
		}
		return in, len(in.Inputs) + len(in.Params), err
	})
	if err != nil || in == nil {
		return nil, err
	}
	return mapping.StepInputs(*in), nil
}

// attemptStartSeq returns the seq of the event with which an attempt of the step started; nil stands for the latest
// attempt. An attempt that has not started has 0, or in a past state the seq of that state. Its error is BAD_USER_INPUT
// for an attempt that does not exist.
func attemptStartSeq(of *model.Step, v control.RunView, attempt *int) (run.Seq, error) {
	want := of.LogicalAttemptID
	if attempt != nil {
		want = *attempt
	}
	for _, a := range of.Attempts {
		if a.LogicalAttemptID == want && a.StartedSeq != nil {
			return *a.StartedSeq, nil
		}
	}
	if attempt != nil && *attempt != of.LogicalAttemptID {
		return 0, &control.Error{Code: run.CodeBadInput, Message: "The step has no such attempt."}
	}
	if v.Past {
		return v.State.Seq, nil
	}
	return 0, nil
}
