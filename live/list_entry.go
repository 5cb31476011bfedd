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

// lookCause is the reason for a read of changes.
type lookCause string

const (
	lookWake  lookCause = "wake"  // the bus reported a change
	lookNet   lookCause = "net"   // the bus was silent for NetInterval
	lookPoll  lookCause = "poll"  // the bus is down, or the store was
	lookReset lookCause = "reset" // the first read, and the first one in another history
)

// maxChanged bounds the reads of one look. When more has changed, the pages are read again instead.
const maxChanged = 16

// listEntry follows the runs of one project, or of a whole tenant. Its goroutine makes all reads one after the other,
// so that a later read is never older.
type listEntry struct {
	hub    *Lists
	of     List
	stop   context.CancelFunc
	pages  map[string]*listPage // guarded by hub.mu
	joined chan struct{}
	checks chan listCheck // holds the newest check that was not processed

	mu          sync.Mutex
	cancelReads context.CancelFunc // cancels the current reads; a no-op after they have ended
	storeOut    bool               // the last check of the store failed, so reads are not tried

	// Used only by the goroutine.
	confirmed bool // the bus has confirmed the subscription at least once
	epoch     string
	cursor    string
	asOf      time.Time
	looked    time.Time // when the last look began
	wanted    lookCause // cause of the next look if it is requested early, else ""
	down      bool      // the last look failed
	retry     bool      // a page could not be read
	degraded  bool      // at the time of the last look
}

func newListEntry(l *Lists, of List) (*listEntry, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &listEntry{
		hub: l, of: of, stop: stop, pages: map[string]*listPage{}, joined: make(chan struct{}, 1),
		checks: make(chan listCheck, 1),
		wanted: lookReset,
	}, ctx
}

// ring signals that a page must be read.
func (e *listEntry) ring() {
	select {
	case e.joined <- struct{}{}:
	default:
	}
}

// offerCheck hands a check to the goroutine and replaces one that is still unprocessed. A failed check also cancels
// the current reads. Only the hub calls it, one call at a time.
func (e *listEntry) offerCheck(c listCheck) {
	e.mu.Lock()
	e.storeOut = c.err != nil
	if e.storeOut && e.cancelReads != nil {
		e.cancelReads()
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
			e.handleCheck(ctx, c)
		case <-e.joined:
			if e.epoch != "" { // else a look is due
				e.load(ctx)
			}
		case <-timer.C:
			e.look(ctx)
		}
	}
}

// want requests a look after MinInterval. While the store does not answer, the next look stays at CheckInterval.
func (e *listEntry) want(c lookCause) {
	if !e.down && e.wanted == "" {
		e.wanted = c
	}
}

// wait returns the time until the next look.
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

// healthyReason returns the reason of a frame that is LIVE.
func (e *listEntry) healthyReason() Reason {
	if e.degraded {
		return BusDegraded
	}
	return ""
}

// handleCheck compares the list with a check of the store.
func (e *listEntry) handleCheck(ctx context.Context, c listCheck) {
	switch {
	case c.err != nil:
		e.readFailed(ctx, c.err)
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
	clock := e.hub.lastCheck()
	if e.epoch == "" || clock.epoch != "" && clock.epoch != e.epoch {
		cause = lookReset
	}
	e.hub.looks.WithLabelValues(string(cause)).Inc()
	e.looked, e.wanted, e.degraded = time.Now(), "", e.isDegraded()
	var err error
	if cause == lookReset {
		err = e.restart(ctx)
	} else {
		err = e.follow(ctx, clock)
	}
	if err != nil {
		e.readFailed(ctx, err)
		return
	}
	e.down = false
	e.load(ctx)
}

// restart discards all pages and reads epoch and cursor again: on the first look and on the first one in another
// history.
func (e *listEntry) restart(ctx context.Context) error {
	for _, p := range e.watchedPages() {
		if p.read {
			p.setSync(Resyncing, EpochChanged)
		}
		p.forget()
	}
	return e.withTimeout(ctx, func(ctx context.Context) error {
		heads, err := e.hub.src.Heads(ctx, nil)
		if err != nil {
			return err
		}
		_, cursor, err := e.readChanges(ctx, "")
		if err != nil {
			return err
		}
		e.epoch, e.cursor, e.asOf = heads.Epoch, cursor, heads.Now
		return nil
	})
}

// follow reads the changes and shows the pages that are complete. A look without changes costs only this read.
func (e *listEntry) follow(ctx context.Context, clock listCheck) error {
	began, pages := time.Now(), e.watchedPages()
	moved, regressed := false, false
	err := e.withTimeout(ctx, func(ctx context.Context) error {
		for range maxChanged {
			rows, next, err := e.readChanges(ctx, e.cursor)
			if err != nil {
				return err
			}
			for _, row := range rows { // each row is allocated separately, because pages keep pointers
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
		_, next, err := e.readChanges(ctx, "")
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
		e.hub.cfg.Logger.WarnContext(ctx, "the position of a run decreased within an epoch; the list is reloaded",
			slog.String("tenantId", e.of.TenantID))
		return e.restart(ctx)
	case !moved:
		e.asOf = latest(e.asOf, clock.now)
	default:
		asOf, err := e.verify(ctx, began)
		if err != nil {
			return err
		}
		e.asOf = latest(e.asOf, asOf)
	}
	for _, p := range pages {
		if p.read {
			p.asOf = e.asOf
		}
		if !p.isIncomplete() {
			p.show(e.epoch, e.healthyReason(), false)
		}
	}
	return nil
}

// errEpoch means that the rows read may belong to two histories.
var errEpoch = errors.New("live: the store's epoch changed")

// verify checks that all reads since began belong to the current epoch. It returns the store's time at began or
// shortly before.
func (e *listEntry) verify(ctx context.Context, began time.Time) (asOf time.Time, err error) {
	err = e.withTimeout(ctx, func(ctx context.Context) error {
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

func (e *listEntry) readChanges(ctx context.Context, cursor string) ([]store.RunRow, string, error) {
	f := store.RunFilter{TenantID: e.of.TenantID, Limit: store.MaxPage}
	if e.of.ProjectID != everyProject {
		f.ProjectIDs = []string{e.of.ProjectID}
	}
	return e.hub.src.ListChanged(ctx, f, cursor)
}

// withTimeout runs read with a timeout and cancels it when a check finds that the store does not answer.
func (e *listEntry) withTimeout(ctx context.Context, read func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, e.hub.cfg.ReadTimeout)
	defer cancel()
	e.mu.Lock()
	out := e.storeOut
	e.cancelReads = cancel
	e.mu.Unlock()
	if out {
		return fmt.Errorf("%w: the last check got no answer", store.ErrUnavailable)
	}
	return read(bounded)
}

// readFailed shows STALE on every page and keeps the rows.
func (e *listEntry) readFailed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, errEpoch):
		e.want(lookReset)
		e.epoch = ""
		return
	}
	e.down, e.wanted = true, ""
	for _, p := range e.watchedPages() {
		p.setSync(Stale, StoreDown)
	}
}

// watchedPages returns the pages that have viewers now.
func (e *listEntry) watchedPages() []*listPage {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	pages := make([]*listPage, 0, len(e.pages))
	for _, p := range e.pages {
		pages = append(pages, p)
	}
	return pages
}
