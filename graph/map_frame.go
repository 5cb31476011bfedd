package graph

import (
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

func syncReason(r live.Reason) *model.SyncReason {
	return optional(model.SyncReason(r))
}

// runUpdates maps the frames of one stream in the mode that its viewer chose
// (api.md §5). The first frame carries the whole run, unless a viewer of deltas
// resumed from a state that it still has; so does every frame that resets.
func runUpdates(mode model.UpdateMode, resumed bool) func(live.Frame) *model.RunUpdate {
	whole := mode == model.UpdateModeSnapshot || !resumed
	return func(f live.Frame) *model.RunUpdate {
		u := &model.RunUpdate{
			Sync: model.SyncState(f.Sync), Reason: syncReason(f.Reason), RunSeq: f.State.Seq, HeadSeq: optional(f.HeadSeq),
			StoreEpoch: f.Epoch, OpsRev: run.Seq(f.OpsRev), AsOf: f.AsOf, CommittedAt: optional(f.CommittedAt), LagMs: f.Lag, Reset: f.Reset,
		}
		view := control.RunView{State: f.State, Epoch: f.Epoch, OpsRev: f.OpsRev, AsOf: f.AsOf}
		switch {
		case whole || f.Reset || f.Changed && mode == model.UpdateModeSnapshot:
			u.Snapshot = mapRun(view, nil)
		case f.Changed:
			u.Delta = mapDelta(view, f.State.Since(f.From))
		}
		whole = false
		return u
	}
}

func mapDelta(v control.RunView, d run.Delta) *model.RunDelta {
	g := graphOf(v)
	return &model.RunDelta{FromSeq: d.From, ToSeq: d.To, Header: g.header(nil), Steps: g.steps(d.Steps, nil)}
}

func mapRunsFrame(f control.RunsFrame) *model.RunListUpdate {
	return &model.RunListUpdate{
		Sync: model.SyncState(f.Sync), Reason: syncReason(f.Reason), AsOf: f.AsOf, Reset: f.Reset,
		Runs: each(f.Runs, func(v control.RunView) model.Run { return *mapRow(v, nil) }), Removed: list(f.Removed),
	}
}
