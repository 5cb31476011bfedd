package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// pagesAtOnce is the number of pages that one list reads concurrently.
const pagesAtOnce = 4

// load reads the rows that pages lack and shows them. A page that cannot be read in time does not delay the others;
// it is tried again later.
func (e *listEntry) load(ctx context.Context) {
	var lacking []*listPage
	e.retry = false
	for _, p := range e.watchedPages() {
		switch {
		case !p.isIncomplete():
		case e.down:
			p.setSync(Stale, StoreDown)
		case time.Since(p.failedAt) < e.hub.cfg.ReadTimeout:
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
	err := e.withTimeout(ctx, func(ctx context.Context) error {
		var group sync.WaitGroup
		turns := make(chan struct{}, pagesAtOnce)
		for i, p := range lacking {
			turns <- struct{}{}
			group.Go(func() {
				defer func() { <-turns }()
				panicked := e.hub.panics.Call("lists", e.of.TenantID, func() error {
					answers[i] = e.query(ctx, p.query())
					return nil
				})
				if panicked != nil {
					answers[i] = listAnswer{asked: 1, err: panicked}
				}
			})
		}
		group.Wait()
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return err // not one slow page: a check found the store unavailable
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
		e.readFailed(ctx, err)
	}
}

// listAnswer is the result of the query of a page. asked is the limit of the query, or 0 if no time was left.
type listAnswer struct {
	asked int // 0: there was no time left
	rows  []store.RunRow
	err   error
}

func (e *listEntry) query(ctx context.Context, q store.RunFilter) listAnswer {
	if ctx.Err() != nil {
		return listAnswer{}
	}
	rows, err := e.hub.src.List(ctx, q)
	return listAnswer{asked: q.Limit, rows: rows, err: err}
}

// take shows the rows read. A filter that the store refuses ends its streams.
func (e *listEntry) take(ctx context.Context, pages []*listPage, answers []listAnswer, asOf time.Time) {
	for i, p := range pages {
		switch a := answers[i]; {
		case a.asked == 0:
			e.ring()
		case a.err == nil:
			first := p.extend(a.asked, a.rows, asOf)
			p.show(e.epoch, e.healthyReason(), first)
		case ctx.Err() != nil:
		case errors.Is(a.err, store.ErrUnavailable), errors.Is(a.err, context.DeadlineExceeded),
			errors.Is(a.err, context.Canceled):
			p.failedAt, e.retry = time.Now(), true
			p.setSync(Stale, StoreDown)
		default:
			e.hub.mu.Lock()
			e.hub.drop(e, p)
			e.hub.mu.Unlock()
			p.fail(a.err)
		}
	}
}
