package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
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
	store  RunStore
	Alerts *Alerts
	Panics *contain.Guard
	asides *lru.Cache[string, aside] // by duty and run
	Now    func() time.Time
	Log    *slog.Logger
}

// NewBackground makes Background.
func NewBackground(s RunStore, alerts *Alerts, panics *contain.Guard, now func() time.Time,
	log *slog.Logger) *Background {
	return &Background{store: s, Alerts: alerts, Panics: panics, asides: NewLRU[aside](maxAside), Now: now, Log: log}
}

// Background duties that process runs; dvt_panics_total has them as labels.
const (
	DutyStart     = "start"
	DutyDeliver   = "deliver"
	DutyBulk      = "bulk"
	DutySweep     = "sweep"
	DutyApprovals = "approvals"
	DutyHealth    = "health"
	DutyInbox     = "inbox"
	DutyNotify    = "notify"
)

// A run that made a duty panic is put aside for a pause. The pause doubles from the first to the longest.
const (
	firstAside   = 10 * time.Second
	longestAside = 10 * time.Minute
	maxAside     = 10_000 // entries; the least recently used one is dropped first
)

// ErrSetAside means that a run is skipped for now, because work on it panicked before.
var ErrSetAside = errors.New("control: the run is put aside, because work on it panicked")

// aside says until when a duty skips a run, and how long the pause after the next panic is.
type aside struct {
	until time.Time
	next  time.Duration
}

// DoForRun calls f, which does the work of a duty on one run, and adds the run to its error. A panic in f puts the run
// aside for this duty in this process and raises one alert. So a fault that one run triggers does not stop other runs.
// ofRun returns errAside without calling f while the run is put aside.
func (s *Background) DoForRun(ctx context.Context, duty, runID string, f func() error) error {
	key := duty + "/" + runID
	was, known := s.asides.Get(key)
	if known && s.Now().Before(was.until) {
		return fmt.Errorf("run %s: %w", runID, ErrSetAside)
	}
	err := contain.Call(f)
	switch {
	case s.Panics.Tell(duty, runID, err):
		pause := max(was.next, firstAside)
		s.asides.Add(key, aside{until: s.Now().Add(pause), next: min(2*pause, longestAside)})
		err = errors.Join(err, s.alertPanic(ctx, duty, runID))
	case known && err == nil:
		s.asides.Remove(key)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", runID, err)
	}
	return nil
}

// alertPanic raises the alert about a run that was put aside. It is idempotent.
func (s *Background) alertPanic(ctx context.Context, duty, runID string) error {
	r, err := s.store.Get(ctx, runID)
	if err != nil {
		return err
	}
	return s.Alerts.Raise(ctx, store.Alert{
		ID:       uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt panic|%s|%s", duty, runID)).String(),
		TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: runID, Level: store.AlertHigh, Code: run.CodeInternal,
		Actor: EngineActor,
		Note: fmt.Sprintf(
			"dvt has a fault: its duty %q panicked at this run and leaves the run alone, for 10 seconds at first and up to "+
				"10 minutes, then tries again. Other runs go on. The log of the server has the stack: report it.", duty),
	})
}

// Sleep waits for d or a wake-up; false: ctx ended.
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

// DoConcurrently does a leased batch side by side, so that one run whose engine is slow
// does not let the leases of the others expire. A batch has at most LeaseBatch.
func DoConcurrently[T any](batch []T, f func(T)) {
	var wg sync.WaitGroup
	for _, item := range batch {
		wg.Go(func() { f(item) })
	}
	wg.Wait()
}

// ForEach does f for one after the other, also behind one that fails: what is wrong with a run, and stays so,
// keeps no other waiting. It ends early only when ctx does, or when the store or the engine does not
// answer. The error is the first one, and how many there were; errAside only when there is no other.
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

// IsOutage reports whether an error is of all runs, not of one.
func IsOutage(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, engine.ErrUnavailable)
}

// Loop calls work when woken and every 500 ms until ctx ends, at once again
// while it says that there is more.
func (s *Background) Loop(ctx context.Context, wake <-chan struct{}, work func(context.Context) (more bool,
	err error)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		more, err := work(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.Log.WarnContext(ctx, "duty", slog.Any("error", err))
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

// Wake wakes a duty without blocking.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
