package mapping

import (
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// SyncReason maps the reason why a stream is STALE or RESYNCING; the empty reason maps to nil.
func SyncReason(r live.Reason) *model.SyncReason {
	return Optional(model.SyncReason(r))
}

// RunUpdates returns a function that maps the frames of one stream, in their order, in the mode that its viewer chose.
// The function is for one goroutine.
func RunUpdates(mode model.UpdateMode, resumed bool) func(live.Frame) *model.RunUpdate {
	whole := WholeAtFirst(mode, resumed)
	return func(f live.Frame) *model.RunUpdate {
		u := Update(GraphOf(FrameView(f), nil, AllCostlyParts()), f, mode, whole)
		whole = false
		return u
	}
}

// WholeAtFirst reports whether the first frame carries the whole run. It does unless a viewer of deltas resumed from a
// state that it still has.
func WholeAtFirst(mode model.UpdateMode, resumed bool) bool {
	return mode == model.UpdateModeSnapshot || !resumed
}

// FrameView returns the view of the run that f shows.
func FrameView(f live.Frame) control.RunView {
	return control.RunView{State: f.State, Epoch: f.Epoch, OpsRev: f.OpsRev, AsOf: f.AsOf}
}

// Update maps f, whose state is that of g. A frame that resets carries the whole run. In the mode SNAPSHOT each frame
// that changes the state carries it too. whole forces it.
func Update(g *Graph, f live.Frame, mode model.UpdateMode, whole bool) *model.RunUpdate {
	u := &model.RunUpdate{
		Sync: model.SyncState(f.Sync), Reason: SyncReason(f.Reason), RunSeq: f.State.Seq, HeadSeq: Optional(f.HeadSeq),
		StoreEpoch: f.Epoch, OpsRev: run.Seq(f.OpsRev), AsOf: f.AsOf, CommittedAt: Optional(f.CommittedAt), LagMs: f.Lag,
		Reset: f.Reset,
	}
	switch {
	case whole || f.Reset || f.Changed && mode == model.UpdateModeSnapshot:
		u.Snapshot = g.Run()
	case f.Changed:
		u.Delta = g.delta(f.From)
	}
	return u
}

func (g *Graph) delta(from run.Seq) *model.RunDelta {
	d := g.deltaSince(from)
	return &model.RunDelta{FromSeq: d.From, ToSeq: d.To, Header: g.header(), Steps: g.steps(d.Steps)}
}

// RunsFrame maps a frame of the stream of the list of runs.
func RunsFrame(f watch.RunsFrame, w CostlyParts) *model.RunListUpdate {
	return &model.RunListUpdate{
		Sync: model.SyncState(f.Sync), Reason: SyncReason(f.Reason), AsOf: f.AsOf, Reset: f.Reset,
		Runs: MapSlice(f.Runs, func(v control.RunView) model.Run { return *mapRow(v, nil, w) }), Removed: List(f.Removed),
	}
}
