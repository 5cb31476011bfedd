package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Background duties that process runs; dvt_panics_total has them as labels.
const (
	dutyStart     = "start"
	dutyDeliver   = "deliver"
	dutyBulk      = "bulk"
	dutySweep     = "sweep"
	dutyApprovals = "approvals"
	dutyHealth    = "health"
	dutyInbox     = "inbox"
	dutyNotify    = "notify"
)

// A run that made a duty panic is put aside for a pause. The pause doubles from the first to the longest.
const (
	firstAside   = 10 * time.Second
	longestAside = 10 * time.Minute
	maxAside     = 10_000 // entries; the least recently used one is dropped first
)

// errAside means that a run is skipped for now, because work on it panicked before.
var errAside = errors.New("control: the run is put aside, because work on it panicked")

// aside says until when a duty skips a run, and how long the pause after the next panic is.
type aside struct {
	until time.Time
	next  time.Duration
}

// ofRun calls f, which does the work of a duty on one run, and adds the run to its error. A panic in f puts the run
// aside for this duty in this process and raises one alert. So a fault that one run triggers does not stop other runs.
// ofRun returns errAside without calling f while the run is put aside.
func (s *Service) ofRun(ctx context.Context, duty, runID string, f func() error) error {
	key := duty + "/" + runID
	was, known := s.asides.Get(key)
	if known && s.cfg.Now().Before(was.until) {
		return fmt.Errorf("run %s: %w", runID, errAside)
	}
	err := contain.Call(f)
	switch {
	case s.panics.Tell(duty, runID, err):
		pause := max(was.next, firstAside)
		s.asides.Add(key, aside{until: s.cfg.Now().Add(pause), next: min(2*pause, longestAside)})
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
func (s *Service) alertPanic(ctx context.Context, duty, runID string) error {
	r, err := s.cfg.Store.Get(ctx, runID)
	if err != nil {
		return err
	}
	return s.raise(ctx, store.Alert{
		ID:       uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt panic|%s|%s", duty, runID)).String(),
		TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: runID, Level: store.AlertHigh, Code: run.CodeInternal,
		Actor: sweepActor,
		Note: fmt.Sprintf(
			"dvt has a fault: its duty %q panicked at this run and leaves the run alone, for 10 seconds at first and up to "+
				"10 minutes, then tries again. Other runs go on. The log of the server has the stack: report it.", duty),
	})
}
