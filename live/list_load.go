package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// pagesAtOnce are read beside each other.
const pagesAtOnce = 4

// load reads what pages lack and shows them. A page that cannot be read in time does
// not hold the others up: it is tried again later.
func (e *listEntry) load(ctx context.Context) {
	var lacking []*listPage
	e.retry = false
	for _, p := range e.each() {
		switch {
		case !p.lacks():
		case e.down:
			p.say(Stale, StoreDown)
		case time.Since(p.tried) < e.hub.cfg.ReadTimeout:
			e.retry = true
		default:
			lacking = append(lacking, p)
		}
	}
	if len(lacking) == 0 || e.down {
		return
	}
	began := time.Now()
	answers := make([]listAnswer, len(lacking))
	err := e.reading(ctx, func(ctx context.Context) error {
		var group sync.WaitGroup
		turns := make(chan struct{}, pagesAtOnce)
		for i, p := range lacking {
			turns <- struct{}{}
			group.Go(func() {
				defer func() { <-turns }()
				panicked := e.hub.panics.Call("lists", e.of.TenantID, func() error {
					answers[i] = e.ask(ctx, p.query())
					return nil
				})
				if panicked != nil {
					answers[i] = listAnswer{asked: 1, err: panicked}
				}
			})
		}
		group.Wait()
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return err // not a page is slow: the store is out
		}
		return nil
	})
	if err == nil {
		var asOf time.Time
		if asOf, err = e.verify(ctx, began); err == nil {
			e.take(ctx, lacking, answers, asOf)
		}
	}
	if err != nil {
		e.failed(ctx, err)
	}
}

// listAnswer is what became of the query of a page.
type listAnswer struct {
	asked int // 0: there was no time left
	rows  []store.RunRow
	err   error
}

func (e *listEntry) ask(ctx context.Context, q store.RunFilter) listAnswer {
	if ctx.Err() != nil {
		return listAnswer{}
	}
	rows, err := e.hub.src.List(ctx, q)
	return listAnswer{asked: q.Limit, rows: rows, err: err}
}

// take shows what was read. A filter that the store refuses ends its streams.
func (e *listEntry) take(ctx context.Context, pages []*listPage, answers []listAnswer, asOf time.Time) {
	for i, p := range pages {
		switch a := answers[i]; {
		case a.asked == 0:
			e.ring()
		case a.err == nil:
			anew := p.extend(a.asked, a.rows, asOf)
			p.show(e.epoch, e.calm(), anew)
		case ctx.Err() != nil:
		case errors.Is(a.err, store.ErrUnavailable), errors.Is(a.err, context.DeadlineExceeded),
			errors.Is(a.err, context.Canceled):
			p.tried, e.retry = time.Now(), true
			p.say(Stale, StoreDown)
		default:
			e.hub.mu.Lock()
			e.hub.drop(e, p)
			e.hub.mu.Unlock()
			p.fail(a.err)
		}
	}
}
