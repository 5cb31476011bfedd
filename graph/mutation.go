package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func (m mutations) StartRun(ctx context.Context, in model.StartRunInput) (*model.StartRunPayload, error) {
	started, err := m.control.StartRun(ctx, principal(ctx), startOf(in))
	return m.startRunPayload(ctx, started, err)
}

func (m mutations) Rerun(ctx context.Context, in model.RerunInput) (*model.StartRunPayload, error) {
	started, err := m.control.Rerun(ctx, principal(ctx), rerunOf(in))
	return m.startRunPayload(ctx, started, err)
}

func (m mutations) startRunPayload(ctx context.Context, started runs.StartedRun, err error) (*model.StartRunPayload,
	error) {
	if err != nil {
		return nil, err
	}
	v := started.View
	return &model.StartRunPayload{
		Run:          mapping.GraphOf(v, availability(m.control, principal(ctx), v), mapping.AllCostlyParts()).Run(),
		Queue:        mapping.Queue(v),
		Deduplicated: started.Deduplicated,
	}, nil
}

func (m mutations) SignalRun(ctx context.Context, in model.SignalRunInput) (*model.SignalRunPayload, error) {
	command, err := signalOf(in.RunID, in.SignalID, *in.Signal)
	if err != nil {
		return nil, err
	}
	command.ExpectedRunSeq = in.ExpectedRunSeq
	return m.signal(ctx, command)
}

func (m mutations) CancelRun(ctx context.Context, in model.CancelRunInput) (*model.SignalRunPayload, error) {
	command, err := cancelOf(in)
	if err != nil {
		return nil, err
	}
	return m.signal(ctx, command)
}

func (m mutations) CompleteManualStep(ctx context.Context, in model.CompleteManualStepInput) (*model.SignalRunPayload,
	error) {
	r, err := m.control.CompleteManualStep(ctx, principal(ctx), completionOf(in))
	if err != nil {
		return nil, err
	}
	return &model.SignalRunPayload{Signal: new(mapping.Receipt(r))}, nil
}

func (m mutations) signal(ctx context.Context, command runs.SignalRun) (*model.SignalRunPayload, error) {
	r, err := m.control.SignalRun(ctx, principal(ctx), command)
	if err != nil {
		return nil, err
	}
	return &model.SignalRunPayload{Signal: new(mapping.Receipt(r))}, nil
}

func (m mutations) RedriveDeadLetters(ctx context.Context, in model.RedriveDeadLettersInput) (
	*model.RedriveDeadLettersPayload, error) {
	command := reads.RedriveDeadLetters{RequestID: in.RequestID, RunID: mapping.OrZero(in.Letters.RunID),
		AllOpen: mapping.OrZero(in.Letters.AllOpen)}
	if in.Letters.Ids != nil {
		command.IDs = mapping.MapSlice(in.Letters.Ids, mapping.DeadLetterID)
	}
	out, err := m.control.RedriveDeadLetters(ctx, principal(ctx), command)
	if err != nil {
		return nil, err
	}
	return mapping.RedrivePayload(out, in.Letters.Ids), nil
}
