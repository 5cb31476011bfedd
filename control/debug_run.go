package control

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// RunDebug is a run as those see it who look for a fault: its place in the log, the
// engine's side of it, and the signals that are not applied yet.
type RunDebug struct {
	RunID  string      `json:"runId"`
	Status run.Status  `json:"status"`
	Seq    run.Seq     `json:"runSeq"`
	Engine *RunEngine  `json:"engine,omitempty"` // nil: the engine knows nothing of it
	Open   []OpenOrder `json:"signals"`          // at most store.MaxPage, oldest first
}

// RunEngine is what the engine says.
type RunEngine struct {
	Ref run.EngineRunRef `json:"ref"`
	engine.Debug
}

// OpenOrder is a signal that was accepted and is not applied.
type OpenOrder struct {
	No          int64           `json:"no"`
	ID          string          `json:"signalId"`
	Type        run.SignalType  `json:"signalType"`
	StepID      string          `json:"stepId,omitempty"`
	Application run.Application `json:"application"`
	Delivered   bool            `json:"delivered"`
}

// DebugRun looks into a run. It needs the action Debug.
func (s *Service) DebugRun(ctx context.Context, p authz.Principal, runID string) (RunDebug, error) {
	r, err := s.visible(ctx, p, authz.Debug, runID)
	if err != nil {
		return RunDebug{}, err
	}
	at := objectOf(r.Identity)
	switch d, err := s.cfg.Authz.Decide(p, authz.Debug, at); {
	case err != nil:
		return RunDebug{}, translate(err)
	case !d.Allowed:
		return RunDebug{}, s.denied(p, authz.Debug, at, d)
	}
	l, err := s.cfg.Store.Load(ctx, runID)
	if err != nil {
		return RunDebug{}, translate(err)
	}
	out := RunDebug{RunID: runID, Status: l.State.Status, Seq: l.State.Seq, Open: []OpenOrder{}}
	signals, err := s.cfg.Store.After(ctx, runID, 0)
	if err != nil {
		return RunDebug{}, translate(err)
	}
	for _, o := range signals {
		if !o.Application.Final() {
			out.Open = append(out.Open, OpenOrder{
				No: o.No, ID: o.Signal.ID, Type: o.Signal.Type, StepID: o.Signal.StepID, Application: o.Application, Delivered: o.DeliveredAt != nil,
			})
		}
	}
	looking, ok := s.cfg.Engine.(engine.Debugger)
	if !ok {
		return RunDebug{}, refuse(run.CodeNotSupported, "This engine cannot be looked into.")
	}
	found, err := looking.Debug(ctx, r.Identity)
	switch {
	case errors.Is(err, engine.ErrNotStarted):
		return out, nil
	case err != nil:
		return RunDebug{}, translate(err)
	}
	out.Engine = &RunEngine{Debug: found}
	if l.State.Engine != nil {
		out.Engine.Ref = *l.State.Engine
	}
	return out, nil
}
