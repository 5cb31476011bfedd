package reads

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Debugger returns what the engine knows about runs. It is safe for concurrent use.
type Debugger struct {
	rights   *control.Rights
	store    StateStore
	engine   engine.Engine
	receipts *runs.ReceiptReader
	logs     artifact.Logs
}

// NewDebugger makes a Debugger.
func NewDebugger(rights *control.Rights, store StateStore, engine engine.Engine,
	receipts *runs.ReceiptReader, logs artifact.Logs) *Debugger {
	return &Debugger{rights: rights, store: store, engine: engine, receipts: receipts, logs: logs}
}

// RunDebug helps to find a fault in a run: the position of its log, the state in the engine, and the signals that are
// not applied yet.
type RunDebug struct {
	RunID  string      `json:"runId"`
	Status run.Status  `json:"status"`
	Seq    run.Seq     `json:"runSeq"`
	Engine *RunEngine  `json:"engine,omitempty"` // nil when the engine does not know the run
	Open   []OpenOrder `json:"signals"`          // at most store.MaxPage, oldest first
}

// RunEngine is the engine's view of a run.
type RunEngine struct {
	Ref run.EngineRunRef `json:"ref"`
	engine.Debug
}

// OpenOrder is a signal that was accepted but is not applied yet.
type OpenOrder struct {
	No          int64           `json:"no"`
	ID          string          `json:"signalId"`
	Type        run.SignalType  `json:"signalType"`
	StepID      string          `json:"stepId,omitempty"`
	Application run.Application `json:"application"`
	Delivered   bool            `json:"delivered"`
}

// DebugRun returns the state of a run in the log and in the engine. Errors: NOT_FOUND, FORBIDDEN without DEBUG on the
// scope of the run, NOT_SUPPORTED when the engine does not implement engine.Debugger.
func (s *Debugger) DebugRun(ctx context.Context, p authz.Principal, runID string) (RunDebug, error) {
	r, l, err := s.loadRun(ctx, p, runID)
	if err != nil {
		return RunDebug{}, err
	}
	out, err := s.debug(ctx, r, l)
	if err != nil {
		return RunDebug{}, err
	}
	return out, nil
}

// loadRun loads a run that p may DEBUG. Errors: NOT_FOUND, FORBIDDEN.
func (s *Debugger) loadRun(ctx context.Context, p authz.Principal, runID string) (store.Run, store.Loaded, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Debug, runID)
	if err != nil {
		return store.Run{}, store.Loaded{}, err
	}
	if err := s.rights.MayOperateOn(ctx, p, store.AuditRow{Action: string(authz.Debug), RunID: runID},
		control.ObjectOf(r.Identity)); err != nil {
		return store.Run{}, store.Loaded{}, err
	}
	l, err := s.store.Load(ctx, runID)
	return r, l, control.Translate(err)
}

// debug returns what it found with an error for what it did not find.
func (s *Debugger) debug(ctx context.Context, r store.Run, l store.Loaded) (RunDebug, error) {
	runID := r.RunID
	out := RunDebug{RunID: runID, Status: l.State.Status, Seq: l.State.Seq, Open: []OpenOrder{}}
	for o, err := range s.receipts.SignalsOf(ctx, runID) {
		if err != nil {
			return out, control.Translate(err)
		}
		if !o.Application.Final() && len(out.Open) < store.MaxPage {
			out.Open = append(out.Open, OpenOrder{
				No: o.No, ID: o.Signal.ID, Type: o.Signal.Type, StepID: o.Signal.StepID, Application: o.Application,
				Delivered: o.DeliveredAt != nil,
			})
		}
	}
	looking, ok := s.engine.(engine.Debugger)
	if !ok {
		return out, control.Refuse(run.CodeNotSupported, "This engine gives no debugging information.")
	}
	found, err := looking.Debug(ctx, r.Identity)
	switch {
	case errors.Is(err, engine.ErrNotStarted):
		return out, nil
	case err != nil:
		return out, control.Translate(err)
	}
	out.Engine = &RunEngine{Debug: found}
	if l.State.Engine != nil {
		out.Engine.Ref = *l.State.Engine
	}
	return out, nil
}
