package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RunStore reads the immutable facts of runs.
type RunStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
}

// Background contains the panics of work that no request waits for. It is safe for concurrent use.
type Background struct {
	panicked
	Alerts *Alerts
	Beats  *Heartbeats // nil: this process sends no heartbeats
	Panics *contain.Guard
	Now    func() time.Time
	Log    *slog.Logger
}

// panicked are the runs that duties skip because they panicked there.
type panicked struct {
	store  RunStore
	asides *lru.Cache[string, aside] // by duty and run
}

// NewBackground makes Background.
func NewBackground(s RunStore, alerts *Alerts, beats *Heartbeats, panics *contain.Guard, now func() time.Time,
	log *slog.Logger) *Background {
	return &Background{panicked: panicked{store: s, asides: NewLRU[aside](maxAside)}, Alerts: alerts, Beats: beats,
		Panics: panics, Now: now, Log: log}
}

// Background duties that process runs; dvt_panics_total has them as labels.
const (
	DutyProject   = "project"
	DutyDispatch  = "dispatch"
	DutyDeliver   = "deliver"
	DutyBulk      = "bulk"
	DutyReconcile = "reconcile"
	DutyApprovals = "approvals"
	DutyHealth    = "health"
	DutyInbox     = "inbox"
	DutyNotify    = "notify"
)

// A run on which a duty panicked is set aside for a pause. The pause doubles from firstAside to longestAside.
const (
	firstAside   = 10 * time.Second
	longestAside = 10 * time.Minute
	maxAside     = 10_000 // entries; the least recently used one is dropped first
)

// ErrSetAside means that a duty skips the run for now, because work on it panicked before.
var ErrSetAside = errors.New("control: the run is set aside, because work on it panicked")

// aside says until when a duty skips a run, and how long the pause after the next panic will be.
type aside struct {
	until time.Time
	next  time.Duration
	alert store.Alert // the alert about the panic; zero when it was not raised
}

// DoForRun calls f, which does the work of a duty on one run, and adds the run to its error. A panic in f sets the run
// aside for this duty in this process and raises one alert, so that a fault that one run triggers does not stop the
// others. DoForRun returns ErrSetAside without calling f while the run is set aside.
func (s *Background) DoForRun(ctx context.Context, duty, runID string, f func() error) error {
	key := duty + "/" + runID
	was, known := s.asides.Get(key)
	if known && s.Now().Before(was.until) {
		return fmt.Errorf("run %s: %w", runID, ErrSetAside)
	}
	err := contain.Call(f)
	switch {
	case s.Panics.Report(duty, runID, err):
		pause := max(was.next, firstAside)
		alert, raiseErr := s.alertPanic(ctx, duty, runID)
		s.asides.Add(key, aside{until: s.Now().Add(pause), next: min(2*pause, longestAside), alert: alert})
		err = errors.Join(err, raiseErr)
	case known && err == nil:
		s.asides.Remove(key)
		if was.alert.Code != "" {
			err = s.Alerts.Resolve(ctx, "The duty worked on the run without a panic.", was.alert)
		}
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", runID, err)
	}
	return nil
}

// alertPanic raises the alert about a run that was set aside. It is idempotent.
func (s *Background) alertPanic(ctx context.Context, duty, runID string) (store.Alert, error) {
	r, err := s.store.Get(ctx, runID)
	if err != nil {
		return store.Alert{}, err
	}
	a := store.Alert{
		TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: runID, Level: store.AlertHigh, Code: run.CodeInternal,
		Subject: duty, Actor: EngineActor,
		Note: fmt.Sprintf(
			"dvt has a fault: its duty %q panicked at this run and leaves the run alone, for 10 seconds at first and up to "+
				"10 minutes, then tries again. Other runs go on. The log of the server has the stack: report it.", duty),
	}
	_, err = s.Alerts.Raise(ctx, a)
	return a, err
}

// Sleep waits for d or a wake-up. It returns false when ctx ended.
func Sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

// DoConcurrently calls f for each item of a leased batch concurrently and waits for all. One run with a slow engine
// then does not let the leases of the others expire. A batch has at most Leases.Batch items.
func DoConcurrently[T any](batch []T, f func(T)) {
	var wg sync.WaitGroup
	for _, item := range batch {
		wg.Go(func() { f(item) })
	}
	wg.Wait()
}

// ForEach calls f for one item after the other and goes on after an error, so that a run with a lasting fault does not
// block the others. It ends early only when ctx ends, or when the store or the engine is unavailable; then it returns
// that error. Otherwise it returns the first error with the number of failures. It returns ErrSetAside only when there
// is no other error.
func ForEach[T any](ctx context.Context, list []T, f func(T) error) (first error) {
	failed := 0
	var put error // aside
	for _, item := range list {
		err := f(item)
		if err == nil {
			continue
		}
		if errors.Is(err, ErrSetAside) {
			put = err
			continue
		}
		failed++
		if IsOutage(ctx, err) {
			return err
		}
		first = cmp.Or(first, err)
	}
	if failed > 1 {
		return fmt.Errorf("%w (and %d more of %d)", first, failed-1, len(list))
	}
	return cmp.Or(first, put)
}

// IsOutage reports whether an error concerns all runs rather than one: ctx ended, or the store or the engine is
// unavailable.
func IsOutage(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, engine.ErrUnavailable)
}

// Loop calls work when wake receives and every 500 ms until ctx ends, and again at once while work returns more without
// an error. It logs errors of work, except those of an unavailable store. It returns nil.
func (s *Background) Loop(ctx context.Context, wake <-chan struct{}, work func(context.Context) (more bool,
	err error)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		more, err := work(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.Log.WarnContext(ctx, "a background duty failed; it tries again", slog.Any("error", err))
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}

// Wake sends to c without blocking. c must have a buffer of 1, so that a wake-up during work is not lost.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
