package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BeatSettings has the intervals of heartbeats. A zero field takes the default that its comment names.
type BeatSettings struct {
	Every time.Duration // time between two heartbeats; 10 s
	// AbsentAfter is the age of the newest heartbeat of a duty after which the duty counts as absent; 30 s.
	AbsentAfter time.Duration
	// Seen takes the heartbeats of all processes after each reading, and the age up to which one counts; may be nil.
	Seen func(beats []store.Heartbeat, fresh time.Duration)
}

// Heartbeats tells the store which duties of this process make progress, and raises an alert about a duty that makes
// progress in no process. A process that hangs cannot notice that itself, so every process watches the duties of all.
// It is safe for concurrent use.
type Heartbeats struct {
	store  store.Heartbeats
	alerts *Alerts
	cfg    BeatSettings

	mu     sync.Mutex
	marked map[string]bool // duties that made progress since the last heartbeat
}

// NewHeartbeats makes Heartbeats.
func NewHeartbeats(s store.Heartbeats, alerts *Alerts, cfg BeatSettings) *Heartbeats {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.AbsentAfter <= 0 {
		cfg.AbsentAfter = 30 * time.Second
	}
	return &Heartbeats{store: s, alerts: alerts, cfg: cfg, marked: map[string]bool{}}
}

// Mark records that a duty of this process made progress. The loop of a duty calls it in each round, so that a loop
// that hangs counts as absent. It may be called on nil.
func (s *Heartbeats) Mark(duty string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked[duty] = true
}

// Beat tells the store about the duties that Mark named, and watches the duties of all processes, until ctx ends.
// always names duties of this process that have no loop here. process is unique for the process.
func (s *Heartbeats) Beat(ctx context.Context, process string, always ...string) error {
	watching := s.alerts.now() // since when the store has answered without a break
	last, failing := watching, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.cfg.Every):
		}
		now := s.alerts.now()
		judgeUntil := last.Add(2 * s.cfg.Every)
		last = now
		err := s.beat(ctx, process, always)
		if err == nil {
			err = s.checkAbsent(ctx, now.Sub(watching), judgeUntil)
		}
		if errors.Is(err, store.ErrUnavailable) {
			watching = s.alerts.now()
		}
		if err != nil && ctx.Err() == nil && !failing && !errors.Is(err, store.ErrUnavailable) {
			s.alerts.log.WarnContext(ctx, "heartbeats of duties were not written or read; it is tried again",
				slog.Any("error", err))
		}
		failing = err != nil
	}
}

func (s *Heartbeats) beat(ctx context.Context, process string, always []string) error {
	s.mu.Lock()
	duties := slices.Collect(maps.Keys(s.marked))
	clear(s.marked)
	s.mu.Unlock()
	duties = append(duties, always...)
	if len(duties) == 0 {
		return nil
	}
	slices.Sort(duties)
	return s.store.Beat(ctx, process, slices.Compact(duties))
}

// DutyControlWorker is the kind of heartbeat of workers of control queues.
const DutyControlWorker = "control-worker"

// minWorkAge is how long work must have waited before its duty can count as absent. It keeps work that has just come
// from raising an alert in an installation that was idle.
const minWorkAge = 10 * time.Second

// watchedDuty is a duty whose absence raises an alert.
type watchedDuty struct {
	duty string
	code run.Code
	// waits reports whether work waits for the duty.
	waits func(w store.OverdueWork) bool
	// onlyAfter says that the duty counts as absent only after a process has had it: a version without heartbeats may
	// still carry it.
	onlyAfter bool
}

func watchedDuties() []watchedDuty {
	return []watchedDuty{
		{duty: DutyProject, code: run.CodeProjectorAbsent,
			waits: func(w store.OverdueWork) bool { return w.Project >= minWorkAge }},
		{duty: DutyDispatch, code: run.CodeDispatcherAbsent,
			waits: func(w store.OverdueWork) bool { return w.Dispatch >= minWorkAge }},
		{duty: DutyDeliver, code: run.CodeDelivererAbsent,
			waits: func(w store.OverdueWork) bool { return w.Deliver >= minWorkAge }},
		{duty: DutyReconcile, code: run.CodeReconcilerAbsent,
			waits: func(store.OverdueWork) bool { return true }},
		{duty: DutyControlWorker, code: run.CodeWorkerAbsent, onlyAfter: true,
			waits: func(w store.OverdueWork) bool { return w.OpenRuns }},
	}
}

// absentAlert returns the alert about a duty that no process carries out.
func absentAlert(d watchedDuty) store.Alert {
	return store.Alert{Level: store.AlertHigh, Code: d.code, Subject: d.duty, Actor: EngineActor}
}

// checkAbsent raises an alert for each absent duty for which work waits, and resolves those of the others. watched is
// how long this process has watched a store that answered; a duty is absent only after that time. After an outage of
// the store all heartbeats are old, because no process could write one. After judgeUntil it does nothing: this process
// was frozen, and others that were frozen with it may not have reported yet. An alert about them would come after they
// are back.
func (s *Heartbeats) checkAbsent(ctx context.Context, watched time.Duration, judgeUntil time.Time) error {
	beats, err := s.store.Heartbeats(ctx)
	if err != nil {
		return err
	}
	if s.cfg.Seen != nil {
		s.cfg.Seen(beats, s.cfg.AbsentAfter)
	}
	work, err := s.store.OverdueWork(ctx)
	if err != nil {
		return err
	}
	if s.alerts.now().After(judgeUntil) {
		return nil
	}
	newest := make(map[string]store.Heartbeat, len(beats))
	for _, b := range beats {
		newest[b.Duty] = b
	}
	var present []store.Alert
	for _, d := range watchedDuties() {
		b, known := newest[d.duty]
		absent := watched > s.cfg.AbsentAfter && (known && b.Age > s.cfg.AbsentAfter || !known && !d.onlyAfter)
		a := absentAlert(d)
		if !absent || !d.waits(work) {
			present = append(present, a)
			continue
		}
		a.Note = "No process has ever been seen with the duty " + d.duty + ", and work waits for it."
		if known {
			a.Note = fmt.Sprintf("The last process with the duty %s was %s, at %s, and work waits for it.", d.duty, b.Process,
				b.At.UTC().Format(time.RFC3339))
		}
		if _, err := s.alerts.Raise(ctx, a); err != nil {
			return err
		}
	}
	return s.alerts.Resolve(ctx, "A process carries out the duty again, or no work waits for it.", present...)
}
