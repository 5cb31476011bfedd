package graph

import (
	"cmp"
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

// ServiceModes reads and sets the modes of the engine and of tenants, and lists the workers.
type ServiceModes interface {
	ServiceState(ctx context.Context, p authz.Principal) (admission.ServiceState, error)
	WatchService(ctx context.Context, p authz.Principal) (Stream[admission.ServiceState], error)
	SetEngineMode(ctx context.Context, p authz.Principal, in admission.SetEngineMode) (admission.ModeChange, error)
	FreezeTenant(ctx context.Context, p authz.Principal, in admission.FreezeTenant) (admission.ModeChange, error)
	Workers(ctx context.Context, p authz.Principal) ([]health.WorkerState, error)
	DrainWorker(ctx context.Context, p authz.Principal, in health.DrainWorker) (health.DrainedWorker, error)
}

func (q queries) Service(ctx context.Context) (*model.ServiceState, error) {
	s, err := q.control.ServiceState(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapService(s), nil
}

func (q queries) Workers(ctx context.Context) ([]model.WorkerReport, error) {
	list, err := q.control.Workers(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapping.MapSlice(list, mapWorker), nil
}

func mapWorker(w health.WorkerState) model.WorkerReport {
	out := model.WorkerReport{
		Account: w.Account, Worker: w.Worker, Queue: w.Queue, Runtime: w.Runtime, Digest: w.Digest, UID: w.UID, Ok: w.OK,
		Problem:    mapping.Text(w.Problem),
		ReportedAt: w.ReportedAt, Live: w.Live, Overdue: w.Overdue, Parts: mapping.MapSlice(w.Parts,
			func(p plan.SandboxPart) string { return string(p) }),
		Missing: []model.MissingSandboxPart{},
		Version: mapping.Text(w.Version), StartedAt: mapping.Optional(w.StartedAt), Slots: w.Slots, InUse: w.InUse,
		Drained: w.Drained, Last: w.Last,
		Steps: mapping.MapSlice(w.Steps, func(s health.WorkerStep) model.WorkerStep {
			return model.WorkerStep{TenantID: s.TenantID, RunID: s.RunID, StepID: s.StepID, Since: s.Since}
		}),
	}
	if d := w.Drain; d != nil {
		out.Drain = &model.WorkerDrain{Actor: d.Actor, Reason: d.Reason, At: d.At}
	}
	for _, part := range plan.SandboxParts() {
		if reason, missing := w.Missing[part]; missing {
			out.Missing = append(out.Missing, model.MissingSandboxPart{Part: string(part), Reason: reason})
		}
	}
	return out
}

func (m mutations) DrainWorker(ctx context.Context, in model.DrainWorkerInput) (*model.DrainWorkerPayload, error) {
	out, err := m.control.DrainWorker(ctx, principal(ctx), health.DrainWorker{
		Account: in.Account, Worker: in.Worker, End: !in.Drain, RequestID: in.RequestID, Reason: in.Reason,
	})
	if err != nil {
		return nil, err
	}
	workers := mapping.MapSlice(out.Workers, mapWorker)
	return &model.DrainWorkerPayload{Workers: workers, Change: mapping.Change(out.Change)}, nil
}

func (m mutations) FreezeTenant(ctx context.Context, in model.FreezeTenantInput) (*model.ServicePayload, error) {
	s, err := m.control.FreezeTenant(ctx, principal(ctx), admission.FreezeTenant{
		RequestID: in.RequestID, TenantID: mapping.OrZero(in.TenantID), Frozen: in.Frozen, Reason: in.Reason,
	})
	return servicePayload(s, err)
}

func (m mutations) SetEngineMode(ctx context.Context, in model.SetEngineModeInput) (*model.ServicePayload, error) {
	s, err := m.control.SetEngineMode(ctx, principal(ctx), admission.SetEngineMode{
		RequestID: in.RequestID, Mode: admission.EngineMode(in.Mode), Reason: in.Reason,
	})
	return servicePayload(s, err)
}

func servicePayload(s admission.ModeChange, err error) (*model.ServicePayload, error) {
	if err != nil {
		return nil, err
	}
	return &model.ServicePayload{Service: mapService(s.ServiceState), Change: mapping.Change(s.Change)}, nil
}

func (s subscriptions) ServiceUpdates(ctx context.Context) (<-chan *model.ServiceState, error) {
	states, err := s.control.WatchService(ctx, principal(ctx))
	return pump(ctx, states, err, mapService)
}

func mapService(s admission.ServiceState) *model.ServiceState {
	out := &model.ServiceState{
		Mode: model.EngineMode(s.Mode), ModeReason: mapping.Text(s.ModeReason), ModeSince: mapping.Optional(s.ModeSince),
		Frozen: s.Frozen, FrozenReason: mapping.Text(s.FrozenReason), FrozenSince: mapping.Optional(s.FrozenSince),
		Degraded: s.Degraded, RetryAfterMs: mapping.Optional(s.RetryAfter), ShareLinkHours: s.ShareHours,
		Recovery: model.RecoveryMode(cmp.Or(s.Recovery, admission.RecoveryOff)),
	}
	if s.ActiveRuns != nil {
		out.ActiveRuns = new(int(*s.ActiveRuns))
	}
	return out
}
