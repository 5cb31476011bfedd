package graph

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/dvt-engine/dvt/graph/ws"
)

// maxFirsts bounds the payloads for joiners that a group keeps until it moves on,
// so that a mass reconnect renders each place once.
const maxFirsts = 64

// placed folds the frames of a group's stream and says what viewers are shown.
type placed[F, M any] interface {
	// next moves to f and gives what whoever was shown the frame before is to be shown.
	next(f F) *M
	// first gives what brings a viewer from since to the place of the last next, or
	// ws.ErrAlone; slow says that it missed frames.
	first(since *ws.Place, slow bool) (*M, error)
	at() ws.Place
}

// drawer renders what one operation selects of an M, as a whole response.
type drawer[M any] interface {
	// draw appends to b, of which it keeps nothing.
	draw(b []byte, m *M) ([]byte, error)
	close()
}

// group is the ws.Source of all who share one subscription: one stream, one place
// and one rendering.
type group[F, M any] struct {
	frames Stream[F]
	place  placed[F, M]
	drawer drawer[M]

	mu     sync.Mutex
	pulled F    // by Wait, for Next
	ready  bool // there is such

	firsts map[from]ws.Payload // since the last Next
}

// from is who joins.
type from struct {
	since ws.Place
	whole bool // has nothing
	slow  bool
}

// openGroup takes the stream with its first frame.
func openGroup[F, M any](ctx context.Context, frames Stream[F], err error, place placed[F, M], d drawer[M]) (ws.Source,
	error) {
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
	place.next(f)
	return &group[F, M]{frames: frames, place: place, drawer: d, firsts: map[from]ws.Payload{}}, nil
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

func (g *group[F, M]) Next(b []byte) (_ []byte, at ws.Place, err error) {
	defer noted(&err)
	g.mu.Lock()
	var none F
	f, ready := g.pulled, g.ready
	g.pulled, g.ready = none, false
	g.mu.Unlock()
	if !ready {
		return nil, at, errors.New("graph: a group moved on before it had to")
	}
	clear(g.firsts)
	b, err = g.drawer.draw(b, g.place.next(f))
	return b, g.place.at(), err
}

func (g *group[F, M]) First(since *ws.Place, slow bool) (p ws.Payload, err error) {
	defer noted(&err)
	who := from{whole: since == nil, slow: slow}
	if since != nil {
		who.since = *since
	}
	if p, ok := g.firsts[who]; ok {
		return p, nil
	}
	m, err := g.place.first(since, slow)
	if err != nil {
		return ws.Payload{}, err
	}
	p.Data, err = g.drawer.draw(nil, m)
	p.At = g.place.at()
	if err == nil && len(g.firsts) < maxFirsts {
		g.firsts[who] = p
	}
	return p, err
}

func (g *group[F, M]) Close() {
	g.frames.Close()
	g.drawer.close()
}

// noted turns a panic into the error that ends the group.
func noted(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("graph: panic in a stream: %v\n%s", v, debug.Stack())
	}
}
