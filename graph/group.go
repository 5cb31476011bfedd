package graph

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/dvt-engine/dvt/graph/ws"
)

// maxJoinPayloads bounds the cache of payloads for joining viewers. A group clears it with each frame. The cache lets a
// mass reconnect render each position once.
const maxJoinPayloads = 64

// position folds the frames F of a group's stream into the current position and returns the messages M for viewers.
type position[F, M any] interface {
	// next applies f and returns the message for viewers who have the previous frame.
	next(f F) *M
	// first returns the message that brings a viewer from since (nil: from nothing) to the current position, or
	// ws.ErrAlone when only an unshared stream can. slow says that the viewer missed frames.
	first(since *ws.Position, slow bool) (*M, error)
	at() ws.Position
}

// renderer renders the selection of one operation on an M as a complete response.
type renderer[M any] interface {
	// render appends the response to b and does not keep b.
	render(b []byte, m *M) ([]byte, error)
	close()
}

// group is the ws.Source of the viewers who share one subscription. It has one stream, one position and one renderer.
// Wait may run concurrently with Next and First; the ws package never calls Next and First concurrently.
type group[F, M any] struct {
	frames   Stream[F]
	pos      position[F, M]
	renderer renderer[M]

	mu     sync.Mutex
	pulled F    // the frame that Wait read and Next has not applied
	ready  bool // pulled is set

	joinPayloads map[joinKey]ws.Payload // cache for joining viewers, cleared by Next
}

// joinKey is the state of a joining viewer: viewers with equal values get the same payload.
type joinKey struct {
	since ws.Position
	whole bool // the viewer has no position and needs the whole state
	slow  bool // the viewer missed frames because it did not read
}

// openGroup reads the first frame of a stream, so that the group has a payload for its first viewer. It closes frames
// and d when it fails.
func openGroup[F, M any](ctx context.Context, frames Stream[F], err error, pos position[F, M],
	d renderer[M]) (ws.Source, error) {
	if err != nil {
		d.close()
		return nil, err
	}
	f, err := frames.Next(ctx)
	if err != nil {
		d.close()
		frames.Close()
		return nil, err
	}
	pos.next(f)
	return &group[F, M]{frames: frames, pos: pos, renderer: d, joinPayloads: map[joinKey]ws.Payload{}}, nil
}

func (g *group[F, M]) Wait(ctx context.Context) error {
	g.mu.Lock()
	ready := g.ready
	g.mu.Unlock()
	if ready {
		return nil
	}
	f, err := g.frames.Next(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.pulled, g.ready = f, true
	g.mu.Unlock()
	return nil
}

func (g *group[F, M]) Next(b []byte) (_ []byte, at ws.Position, err error) {
	defer panicToError(&err)
	g.mu.Lock()
	var none F
	f, ready := g.pulled, g.ready
	g.pulled, g.ready = none, false
	g.mu.Unlock()
	if !ready {
		return nil, at, errors.New("graph: Next was called before Wait had read a frame")
	}
	clear(g.joinPayloads)
	b, err = g.renderer.render(b, g.pos.next(f))
	return b, g.pos.at(), err
}

func (g *group[F, M]) First(since *ws.Position, slow bool) (p ws.Payload, err error) {
	defer panicToError(&err)
	key := joinKey{whole: since == nil, slow: slow}
	if since != nil {
		key.since = *since
	}
	if p, ok := g.joinPayloads[key]; ok {
		return p, nil
	}
	m, err := g.pos.first(since, slow)
	if err != nil {
		return ws.Payload{}, err
	}
	p.Data, err = g.renderer.render(nil, m)
	p.At = g.pos.at()
	if err == nil && len(g.joinPayloads) < maxJoinPayloads {
		g.joinPayloads[key] = p
	}
	return p, err
}

func (g *group[F, M]) Close() {
	g.frames.Close()
	g.renderer.close()
}

// panicToError recovers a panic and sets err, which ends the group instead of the process.
func panicToError(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("graph: panic in a stream: %v\n%s", v, debug.Stack())
	}
}
