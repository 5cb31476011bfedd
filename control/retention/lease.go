package retention

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/store"
)

// cursorName is the lease of the pass: one process at a time works.
const cursorName = "retain"

const (
	leaseTTL   = time.Minute
	renewEvery = 15 * time.Second
	// busyAge is the age of an unpublished change from which on the projector counts as late.
	busyAge = 5 * time.Second
)

// errLeaseLost says that another process works now.
var errLeaseLost = errors.New("retention: the lease was lost")

// position is what the cursor keeps.
type position struct {
	Tenant  string    `json:"tenant"`            // finished last in the pass
	EndedAt time.Time `json:"endedAt,omitempty"` // of the last complete pass
	// LateSince is since when something was late at the end of the last complete pass.
	LateSince time.Time `json:"lateSince,omitzero"`
}

// lease takes the lease and reports whether a pass is due.
func (w *Worker) lease(ctx context.Context) (due bool, err error) {
	if w.cursor, err = w.cfg.Store.LeaseCursor(ctx, cursorName, w.cfg.Owner, leaseTTL); err != nil {
		return false, err
	}
	w.saved = time.Now()
	p := w.position()
	since := w.cfg.Now().Sub(p.EndedAt)
	// A clock that was ahead during a pass must not keep the duty from working until that time comes.
	return p.Tenant != "" || since >= w.cfg.Installed.Every || since < 0, nil
}

func (w *Worker) position() (p position) {
	if w.cursor.Position != "" && json.Unmarshal([]byte(w.cursor.Position), &p) != nil {
		return position{}
	}
	return p
}

func (w *Worker) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = w.cfg.Store.ReleaseCursor(ctx, w.cursor) // else the lease expires
}

// save stores the position and extends the lease.
func (w *Worker) save(ctx context.Context, p position) error {
	doc, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.cursor.Position = string(doc)
	return w.renew(ctx)
}

func (w *Worker) renew(ctx context.Context) error {
	err := w.cfg.Store.SaveCursor(ctx, w.cursor, leaseTTL)
	if errors.Is(err, store.ErrConflict) {
		return errLeaseLost
	}
	w.saved = time.Now()
	return err
}

// keepLease extends the lease when it is time.
func (w *Worker) keepLease(ctx context.Context) error {
	if time.Since(w.saved) <= renewEvery {
		return nil
	}
	if err := w.renew(ctx); err != nil {
		return err
	}
	w.tellLate()
	return nil
}

// turn waits until the next run may be worked on: for the pace, and while the projector is late. It extends the lease.
func (w *Worker) turn(ctx context.Context) error {
	if wait := time.Until(w.next); wait > 0 {
		sleep(ctx, wait)
	}
	w.next = time.Now().Add(w.pace)
	defer dutycycle.Begin(ctx)
	for {
		if err := w.keepLease(ctx); err != nil {
			return err
		}
		late, err := w.isLate(ctx)
		if err != nil || !late || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		w.metrics.paused.Inc()
		sleep(ctx, time.Second)
	}
}

// isLate reports whether changes wait to be published for so long that the store has too much to do.
func (w *Worker) isLate(ctx context.Context) (bool, error) {
	late, err := w.cfg.Store.Dirty(ctx, busyAge, 1)
	return len(late) > 0, err
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
