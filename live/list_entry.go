package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// lookCause is why a list looks at what changed.
type lookCause string

const (
	lookWake  lookCause = "wake"  // the bus said that something changed
	lookNet   lookCause = "net"   // the bus was silent for long
	lookPoll  lookCause = "poll"  // the bus is down, or the store was
	lookReset lookCause = "reset" // the first look, and one at another history
)

// maxChanged bounds the reads of one look. With more to read than that, pages are
// read anew instead.
const maxChanged = 16

// listEntry follows the runs of one project, or of a whole tenant. Its goroutine
// makes all reads, one phase after the other, so that what it read later is never older.
type listEntry struct {
	hub    *Lists
	of     List
	stop   context.CancelFunc
	pages  map[string]*listPage // guarded by hub.mu
	joined chan struct{}
	checks chan listCheck // the newest one not yet looked at

	mu    sync.Mutex
	abort context.CancelFunc // of the reads in hand, or of some that are over
	out   bool               // the last check of the store failed: reads are not tried

	// Of the goroutine alone.
	confirmed bool // the channel was subscribed at least once
	epoch     string
	cursor    string
	asOf      time.Time
	looked    time.Time // when the last look began
	wanted    lookCause // a look that waits for its time, "" for none
	down      bool      // the last look failed
	retry     bool      // a page could not be read
	degraded  bool      // as the last look saw it
}

func newListEntry(l *Lists, of List) (*listEntry, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &listEntry{
		hub: l, of: of, stop: stop, pages: map[string]*listPage{}, joined: make(chan struct{}, 1),
		checks: make(chan listCheck, 1),
		wanted: lookReset,
	}, ctx
}

// ring says that there is a page to read.
func (e *listEntry) ring() {
	select {
	case e.joined <- struct{}{}:
	default:
	}
}

// tell hands a check over; one that was not looked at yet gives way. Nobody waits
// for a store that does not answer. The hub alone tells, one at a time.
func (e *listEntry) tell(c listCheck) {
	e.mu.Lock()
	e.out = c.err != nil
	if e.out && e.abort != nil {
		e.abort()
	}
	e.mu.Unlock()
	select {
	case <-e.checks:
	default:
	}
	e.checks <- c
}

func (e *listEntry) run(ctx context.Context) {
	sub := e.hub.bus.SubscribeList(e.of.TenantID, e.of.ProjectID)
	defer sub.Close()
	if e.hub.bus.Up() {
		e.confirmed = awaitConfirmation(ctx, sub)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(e.wait())
		select {
		case <-ctx.Done():
		case d := <-sub.C():
			e.confirmed = e.confirmed || d.Confirmed
			e.want(lookWake)
		case c := <-e.checks:
			e.checked(ctx, c)
		case <-e.joined:
			if e.epoch != "" { // else a look is due
				e.load(ctx)
			}
		case <-timer.C:
			e.look(ctx)
		}
	}
}

// want asks for a look as soon as may be. One at a store that does not answer is not hurried.
func (e *listEntry) want(c lookCause) {
	if !e.down && e.wanted == "" {
		e.wanted = c
	}
}

// wait is how long until the next look.
func (e *listEntry) wait() time.Duration {
	interval := e.hub.cfg.NetInterval
	switch {
	case e.wanted != "":
		interval = e.hub.cfg.MinInterval
	case e.down, e.retry, e.isDegraded():
		interval = e.hub.cfg.CheckInterval
	}
	if e.looked.IsZero() {
		return 0
	}
	return interval - time.Since(e.looked)
}

func (e *listEntry) isDegraded() bool { return !e.confirmed || !e.hub.bus.Up() }

// calm is the reason of an otherwise healthy frame.
func (e *listEntry) calm() Reason {
	if e.degraded {
		return BusDegraded
	}
	return ""
}

// checked compares the list with what a check of the store says.
func (e *listEntry) checked(ctx context.Context, c listCheck) {
	switch {
	case c.err != nil:
		e.failed(ctx, c.err)
	case c.epoch != e.epoch:
		e.want(lookReset)
	case e.degraded != e.isDegraded():
		e.want(lookNet)
	}
}

func (e *listEntry) look(ctx context.Context) {
	cause := e.wanted
	if cause == "" {
		cause = lookNet
		if e.down || e.retry || e.isDegraded() {
			cause = lookPoll
		}
	}
	clock := e.hub.checked()
	if e.epoch == "" || clock.epoch != "" && clock.epoch != e.epoch {
		cause = lookReset
	}
	e.hub.looks.WithLabelValues(string(cause)).Inc()
	e.looked, e.wanted, e.degraded = time.Now(), "", e.isDegraded()
	var err error
	if cause == lookReset {
		err = e.begin(ctx)
	} else {
		err = e.follow(ctx, clock)
	}
	if err != nil {
		e.failed(ctx, err)
		return
	}
	e.down = false
	e.load(ctx)
}

// begin starts anew: the first look, and the first one at another history.
func (e *listEntry) begin(ctx context.Context) error {
	for _, p := range e.each() {
		if p.read {
			p.say(Resyncing, EpochChanged)
		}
		p.forget()
	}
	return e.reading(ctx, func(ctx context.Context) error {
		heads, err := e.hub.src.Heads(ctx, nil)
		if err != nil {
			return err
		}
		_, cursor, err := e.changed(ctx, "")
		if err != nil {
			return err
		}
		e.epoch, e.cursor, e.asOf = heads.Epoch, cursor, heads.Now
		return nil
	})
}

// follow reads what changed and shows the pages that lack nothing. A look that
// brings nothing new costs that read alone.
func (e *listEntry) follow(ctx context.Context, clock listCheck) error {
	began, pages := time.Now(), e.each()
	moved, regressed := false, false
	err := e.reading(ctx, func(ctx context.Context) error {
		for range maxChanged {
			rows, next, err := e.changed(ctx, e.cursor)
			if err != nil {
				return err
			}
			for _, row := range rows { // each row is kept by itself
				for _, p := range pages {
					m, r := p.apply(&row)
					moved, regressed = moved || m, regressed || r
				}
			}
			e.cursor = next
			if len(rows) < store.MaxPage {
				return nil
			}
		}
		_, next, err := e.changed(ctx, "")
		if err != nil {
			return err
		}
		for _, p := range pages {
			p.forget()
		}
		e.cursor = next
		return nil
	})
	switch {
	case err != nil:
		return err
	case regressed:
		e.hub.cfg.Logger.WarnContext(ctx, "the position of a list decreased within an epoch; the list is read again",
			slog.String("tenantId", e.of.TenantID))
		return e.begin(ctx)
	case !moved:
		e.asOf = later(e.asOf, clock.now)
	default:
		asOf, err := e.verify(ctx, began)
		if err != nil {
			return err
		}
		e.asOf = later(e.asOf, asOf)
	}
	for _, p := range pages {
		if p.read {
			p.asOf = e.asOf
		}
		if !p.lacks() {
			p.show(e.epoch, e.calm(), false)
		}
	}
	return nil
}

// errEpoch says that what was read may be of two histories.
var errEpoch = errors.New("live: the store's epoch changed")

// verify asks whether all reads since began were of the epoch in hand, and what the
// store's clock said at began or before.
func (e *listEntry) verify(ctx context.Context, began time.Time) (asOf time.Time, err error) {
	err = e.reading(ctx, func(ctx context.Context) error {
		heads, err := e.hub.src.Heads(ctx, nil)
		if err != nil {
			return err
		}
		if heads.Epoch != e.epoch {
			return errEpoch
		}
		asOf = heads.Now.Add(-time.Since(began))
		return nil
	})
	return asOf, err
}

func (e *listEntry) changed(ctx context.Context, cursor string) ([]store.RunRow, string, error) {
	f := store.RunFilter{TenantID: e.of.TenantID, Limit: store.MaxPage}
	if e.of.ProjectID != everyProject {
		f.ProjectIDs = []string{e.of.ProjectID}
	}
	return e.hub.src.Changed(ctx, f, cursor)
}

// reading bounds reads, and ends them when a check finds the store out.
func (e *listEntry) reading(ctx context.Context, read func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, e.hub.cfg.ReadTimeout)
	defer cancel()
	e.mu.Lock()
	out := e.out
	e.abort = cancel
	e.mu.Unlock()
	if out {
		return fmt.Errorf("%w: it did not answer the last check", store.ErrUnavailable)
	}
	return read(bounded)
}

// failed says on every page that the store does not answer, and keeps the rows.
func (e *listEntry) failed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, errEpoch):
		e.want(lookReset)
		e.epoch = ""
		return
	}
	e.down, e.wanted = true, ""
	for _, p := range e.each() {
		p.say(Stale, StoreDown)
	}
}

// each is the pages that have viewers now.
func (e *listEntry) each() []*listPage {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	pages := make([]*listPage, 0, len(e.pages))
	for _, p := range e.pages {
		pages = append(pages, p)
	}
	return pages
}
