package graph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// runPosition is the position of the viewers of one run in its stream.
type runPosition struct {
	mode        model.UpdateMode
	costlyParts mapping.CostlyParts
	frame       live.Frame
	graph       *mapping.Graph
}

func (p *runPosition) next(f live.Frame) *model.RunUpdate {
	p.frame, p.graph = f, p.graph.Next(mapping.FrameView(f), p.costlyParts)
	return mapping.Update(p.graph, f, p.mode, false)
}

// first returns the frame with which an unshared stream of the viewer would begin (contract T187). It returns
// ws.ErrAlone for a position of another epoch or ahead of this stream: an unshared stream can resume there or report
// the error.
func (p *runPosition) first(since *ws.Position, slow bool) (*model.RunUpdate, error) {
	f := p.frame
	f.From, f.Changed, f.Reset = 0, true, false
	if since != nil {
		f.From = run.Seq(since.Seq)
		if since.Epoch != "" && since.Epoch != f.Epoch || f.From > f.State.Seq {
			return nil, ws.ErrAlone
		}
	}
	f.Reason = slowReason(f.Sync, f.Reason, slow)
	return mapping.Update(p.graph, f, p.mode, mapping.WholeAtFirst(p.mode, since != nil)), nil
}

func (p *runPosition) at() ws.Position {
	return ws.Position{Epoch: p.frame.Epoch, Seq: int64(p.frame.State.Seq)}
}

func slowReason(s live.Sync, r live.Reason, slow bool) live.Reason {
	if slow && s == live.Live && r == "" {
		return live.SlowConsumer
	}
	return r
}

// listPosition is the position of the viewers of one page of runs in its stream.
type listPosition struct {
	costlyParts mapping.CostlyParts
	frame       watch.RunsFrame
	page        map[string]control.RunView
	known       bool // a frame with Reset has set the page
	moves       int64
}

func (p *listPosition) next(f watch.RunsFrame) *model.RunListUpdate {
	p.frame = f
	p.moves++
	if f.Reset {
		p.page, p.known = map[string]control.RunView{}, true
	}
	for _, v := range f.Runs {
		p.page[v.State.RunID] = v
	}
	for _, id := range f.Removed {
		delete(p.page, id)
	}
	return mapping.RunsFrame(f, p.costlyParts)
}

// first returns the whole page, newest run first. Viewers of lists cannot resume, so it ignores the position.
func (p *listPosition) first(_ *ws.Position, slow bool) (*model.RunListUpdate, error) {
	f := p.frame
	f.Reset, f.Runs, f.Removed = p.known, make([]control.RunView, 0, len(p.page)), nil
	for _, v := range p.page {
		f.Runs = append(f.Runs, v)
	}
	slices.SortFunc(f.Runs, func(a, b control.RunView) int {
		return cmp.Or(b.State.CreatedAt.Compare(a.State.CreatedAt), strings.Compare(b.State.RunID, a.State.RunID))
	})
	f.Reason = slowReason(f.Sync, f.Reason, slow)
	return mapping.RunsFrame(f, p.costlyParts), nil
}

func (p *listPosition) at() ws.Position { return ws.Position{Seq: p.moves} }
