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

// The duties that work through runs, as dvt_panics_total names them.
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

// Pauses of a run that was put aside: they double from the first to the longest.
const (
	firstAside   = 10 * time.Second
	longestAside = 10 * time.Minute
	maxAside     = 10_000 // runs, the one that was tried last stays longest
)

// errAside says that a run is not worked on now, because it made a duty panic before.
var errAside = errors.New("control: the run is put aside, because work on it panicked")

// aside is until when a duty leaves a run alone, and for how long after the next panic.
type aside struct {
	until time.Time
	next  time.Duration
}

// ofRun does work of one run for a duty. An error names the run. A panic puts the run aside for this duty of this server,
// and people are told of it once by an alert: a fault that the log of one run brings to light stops no other run.
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
		err = errors.Join(err, s.tellOfPanic(ctx, duty, runID))
	case known && err == nil:
		s.asides.Remove(key)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", runID, err)
	}
	return nil
}

// tellOfPanic raises the alert of a run that was put aside. Repeating it changes nothing.
func (s *Service) tellOfPanic(ctx context.Context, duty, runID string) error {
	r, err := s.cfg.Store.Get(ctx, runID)
	if err != nil {
		return err
	}
	return s.raise(ctx, store.Alert{
		ID:       uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt panic|%s|%s", duty, runID)).String(),
		TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: runID, Level: store.AlertHigh, Code: run.CodeInternal, Actor: sweepActor,
		Note: fmt.Sprintf("dvt has a fault: its duty %q panicked at this run and leaves the run alone, for 10 seconds at first and up to "+
			"10 minutes, then tries again. Other runs go on. The log of the server has the stack: report it.", duty),
	})
}
