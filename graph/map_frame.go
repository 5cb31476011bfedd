package graph

import (
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

func syncReason(r live.Reason) *model.SyncReason {
	return optional(model.SyncReason(r))
}

// runUpdates maps the frames of one stream in the mode that its viewer chose
// (api.md §5).
func runUpdates(mode model.UpdateMode, resumed bool) func(live.Frame) *model.RunUpdate {
	whole := wholeAtFirst(mode, resumed)
	return func(f live.Frame) *model.RunUpdate {
		u := mapUpdate(graphOf(frameView(f), nil, everything()), f, mode, whole)
		whole = false
		return u
	}
}

// wholeAtFirst says that a first frame carries the whole run: unless a viewer of
// deltas resumed from a state that it still has.
func wholeAtFirst(mode model.UpdateMode, resumed bool) bool {
	return mode == model.UpdateModeSnapshot || !resumed
}

func frameView(f live.Frame) control.RunView {
	return control.RunView{State: f.State, Epoch: f.Epoch, OpsRev: f.OpsRev, AsOf: f.AsOf}
}

// mapUpdate shows f, whose state is that of g. A frame that resets, and in the mode
// SNAPSHOT every one that changes state, carries the whole run.
func mapUpdate(g *stepGraph, f live.Frame, mode model.UpdateMode, whole bool) *model.RunUpdate {
	u := &model.RunUpdate{
		Sync: model.SyncState(f.Sync), Reason: syncReason(f.Reason), RunSeq: f.State.Seq, HeadSeq: optional(f.HeadSeq),
		StoreEpoch: f.Epoch, OpsRev: run.Seq(f.OpsRev), AsOf: f.AsOf, CommittedAt: optional(f.CommittedAt), LagMs: f.Lag,
		Reset: f.Reset,
	}
	switch {
	case whole || f.Reset || f.Changed && mode == model.UpdateModeSnapshot:
		u.Snapshot = g.run()
	case f.Changed:
		u.Delta = g.delta(f.From)
	}
	return u
}

func (g *stepGraph) delta(from run.Seq) *model.RunDelta {
	d := g.since(from)
	return &model.RunDelta{FromSeq: d.From, ToSeq: d.To, Header: g.header(), Steps: g.steps(d.Steps)}
}

func mapRunsFrame(f watch.RunsFrame, w wants) *model.RunListUpdate {
	return &model.RunListUpdate{
		Sync: model.SyncState(f.Sync), Reason: syncReason(f.Reason), AsOf: f.AsOf, Reset: f.Reset,
		Runs: each(f.Runs, func(v control.RunView) model.Run { return *mapRow(v, nil, w) }), Removed: list(f.Removed),
	}
}
