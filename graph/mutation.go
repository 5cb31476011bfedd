package graph

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func (m mutations) StartRun(ctx context.Context, in model.StartRunInput) (*model.StartRunPayload, error) {
	p := principal(ctx)
	started, err := m.control.StartRun(ctx, p, control.StartRun{
		RequestID: in.RunRequestID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID,
		Inline: in.Plan.Inline, Ref: planRef(in.Plan.Ref), Params: in.Params,
	})
	if err != nil {
		return nil, err
	}
	v := started.View
	return &model.StartRunPayload{Run: mapRun(v, availability(m.control, p, v)), Queue: mapQueue(v), Deduplicated: started.Deduplicated}, nil
}

func (m mutations) SignalRun(ctx context.Context, in model.SignalRunInput) (*model.SignalRunPayload, error) {
	command, err := signalOf(in)
	if err != nil {
		return nil, err
	}
	return m.signal(ctx, command)
}

func (m mutations) CancelRun(ctx context.Context, in model.CancelRunInput) (*model.SignalRunPayload, error) {
	command := control.SignalRun{RunID: in.RunID, ExpectedRunSeq: in.ExpectedRunSeq, Signal: run.Signal{ID: in.SignalID, Type: run.Cancel}}
	if err := describe(&command, in.Reason, model.PauseInput{Reason: in.Reason}); err != nil {
		return nil, err
	}
	return m.signal(ctx, command)
}

func (m mutations) signal(ctx context.Context, command control.SignalRun) (*model.SignalRunPayload, error) {
	r, err := m.control.SignalRun(ctx, principal(ctx), command)
	if err != nil {
		return nil, err
	}
	return &model.SignalRunPayload{Signal: new(mapReceipt(r))}, nil
}

func (m mutations) RedriveDeadLetters(ctx context.Context, in model.RedriveDeadLettersInput) (*model.RedriveDeadLettersPayload, error) {
	command := control.RedriveDeadLetters{RequestID: in.RequestID, RunID: orZero(in.Letters.RunID), AllOpen: orZero(in.Letters.AllOpen)}
	if in.Letters.Ids != nil {
		command.IDs = each(in.Letters.Ids, deadLetterID)
	}
	out, err := m.control.RedriveDeadLetters(ctx, principal(ctx), command)
	if err != nil {
		return nil, err
	}
	return mapRedriven(out, in.Letters.Ids), nil
}

// signalOf reads the one member of the @oneOf that is set.
func signalOf(in model.SignalRunInput) (control.SignalRun, error) {
	out := control.SignalRun{RunID: in.RunID, ExpectedRunSeq: in.ExpectedRunSeq, Signal: run.Signal{ID: in.SignalID}}
	switch s := in.Signal; {
	case s.Pause != nil:
		out.Signal.Type = run.Pause
		return out, describe(&out, s.Pause.Reason, s.Pause)
	case s.Resume != nil:
		out.Signal.Type = run.Resume
		return out, describe(&out, s.Resume.Reason, s.Resume)
	case s.RetryStep != nil:
		r := *s.RetryStep
		r.Force = new(orZero(r.Force)) // null means the same as the default, so it has the same bytes
		out.Signal.Type, out.Signal.StepID = run.RetryStep, r.StepID
		out.Signal.Force, out.Signal.ExpectedAttempt = *r.Force, orZero(r.ExpectedLogicalAttemptID)
		return out, describe(&out, r.Reason, r)
	}
	return out, badInput("signal", "MISSING", "choose what to do: pause, resume or retryStep")
}

// describe keeps the chosen member as compact JSON: its bytes are what a
// repeated signal is compared with and what size limits count (T228).
func describe(s *control.SignalRun, reason *string, member any) error {
	doc, err := json.Marshal(member)
	if err != nil {
		return fmt.Errorf("graph: signal payload: %w", err)
	}
	s.Reason, s.Payload = orZero(reason), doc
	return nil
}

func planRef(in *model.PlanRefInput) *plan.Ref {
	if in == nil {
		return nil
	}
	return &plan.Ref{
		URI: in.URI, SHA256: in.Sha256, SchemaVersion: in.SchemaVersion, PlanID: in.PlanID, PlanVersion: in.PlanVersion,
		SizeBytes: int64(orZero(in.SizeBytes)), Compression: orZero(in.Compression),
	}
}
