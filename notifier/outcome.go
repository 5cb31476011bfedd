package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// send tries a message once. A sender that panics has not accepted it.
func (s *session) send(ctx context.Context, m destination.Message) error {
	timeout := s.dest.Timeout
	if timeout <= 0 {
		timeout = s.cfg.Timing.SendTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return contain.Call(func() error { return s.sender.Send(ctx, m) })
}

// finish handles the outcome of a try.
func (s *session) finish(ctx context.Context, r result) error {
	l := s.lanes[r.d.lane]
	l.busy = false
	s.busy--
	if r.d.part != nil {
		s.busyOrders--
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the try was cut off
	}
	now, at := time.Now(), s.storeNow()
	s.changed = true
	if r.err == nil {
		s.metrics.sent.WithLabelValues(s.dest.Name).Inc()
		s.report.Sent++
		s.report.LastSent = &at
		if err := s.acceptedOfOrder(ctx, r.d); err != nil {
			return err
		}
		s.remove(r.d, l)
		s.noteAccepted(now)
		return nil
	}
	if r.d.tries++; r.d.tries == 1 {
		r.d.failed = now
	}
	s.metrics.failed.WithLabelValues(s.dest.Name).Inc()
	s.report.Failed++
	s.report.LastError = short(r.err.Error())
	first := s.failingSince == nil
	if first {
		s.failingSince = &at
	}
	var rejected *destination.RejectedError
	if errors.As(r.err, &rejected) && s.mayBury(r.d) {
		// One that refuses everything, by a wrong key for example, must be noticed like one that does not answer.
		return s.bury(ctx, r, l)
	}
	if first {
		s.log.WarnContext(ctx, "a destination does not accept a message; it is sent again",
			slog.String("destination", s.dest.Name), slog.String("messageId", r.d.message.ID), slog.Any("error", r.err))
	}
	if errors.Is(r.err, destination.ErrGone) {
		return s.disable(ctx)
	}
	// While the destination accepts nothing at all, the fault is not the message's: it waits, as long as that takes.
	if r.d.tries >= s.cfg.Timing.Tries && s.accepted.After(r.d.failed) && !isAudit(r.d) {
		return s.bury(ctx, r, l)
	}
	l.next = now.Add(s.backoff(r.d.tries))
	var retry *destination.RetryError
	if errors.As(r.err, &retry) {
		s.pause = now.Add(min(retry.After, destination.MaxRetryAfter))
	}
	return nil
}

// noteAccepted records that the destination accepted a message. It is back, so nothing waits for its next try.
func (s *session) noteAccepted(now time.Time) {
	s.accepted, s.audit.buried = now, false
	if s.failingSince == nil {
		return
	}
	s.failingSince = nil
	for _, waiting := range s.lanes {
		waiting.next = time.Time{}
	}
}

// backoff returns the pause after a number of tries: doubled each time up to a limit, less up to a half at random, so
// that servers that came back are not hit by all at once.
func (s *session) backoff(tries int) time.Duration {
	wait := s.cfg.Timing.FirstRetry
	for range tries - 1 {
		wait = min(2*wait, s.cfg.Timing.LastRetry)
	}
	return wait/2 + rand.N(wait/2+1)
}

// remove takes the first delivery from its lane.
func (s *session) remove(d *delivery, l *lane) {
	l.queue[0] = nil
	l.queue, l.next = l.queue[1:], time.Time{}
	if len(l.queue) == 0 {
		delete(s.lanes, d.lane)
	}
	if d.part != nil {
		s.work.waiting--
		s.work.bytes -= d.bytes
		d.part.left--
		if s.work.forgetDone(); s.work.at.Done {
			s.nextSave = time.Time{}
		}
	} else {
		d.batch.left--
	}
	s.waiting--
	s.bytes -= d.bytes
}

// bury makes a message a dead letter, so that later messages of its run no longer wait.
func (s *session) bury(ctx context.Context, r result, l *lane) error {
	doc, err := json.Marshal(withoutRecord(r.d.message))
	if err != nil {
		return err
	}
	m := r.d.message
	s.audit.buried = s.audit.buried || isAudit(r.d)
	dead := store.DeadDelivery{Destination: s.dest.Name, MessageID: m.ID, TenantID: m.TenantID, RunID: m.RunID,
		Tries: r.d.tries, Error: short(r.err.Error()), Message: doc}
	if err := s.cfg.Store.BuryDelivery(ctx, dead, keepDead); err != nil {
		return err
	}
	s.metrics.dead.WithLabelValues(s.dest.Name).Inc()
	s.log.WarnContext(ctx, "a message became a dead letter", slog.String("destination", s.dest.Name),
		slog.String("messageId", m.ID), slog.Int("tries", r.d.tries), slog.Any("error", r.err))
	if r.d.part != nil {
		r.d.part.failed++
	}
	s.remove(r.d, l)
	return nil
}

// disable stops the destination, which wants no more messages, until its entry in the file changes or somebody enables
// it. The position stays before the messages that wait, so that none is lost when the destination is enabled.
func (s *session) disable(ctx context.Context) error {
	const why = "The destination answered that it wants no more messages (410)"
	if err := s.cfg.Store.SwitchDestination(ctx, store.DestinationSwitch{Name: s.dest.Name, For: digest(s.dest),
		Why: why}); err != nil {
		return err
	}
	s.disabled, s.changed = true, true
	s.log.WarnContext(ctx, "a destination wants no more messages and is disabled",
		slog.String("destination", s.dest.Name))
	return nil
}

// failingAlert is the alert that the destination fails or is disabled.
func (s *session) failingAlert() store.Alert {
	a := store.Alert{Code: run.CodeDestinationFailing, Level: store.AlertMedium, Subject: s.dest.Name}
	switch {
	case s.disabled:
		a.Note = fmt.Sprintf("The destination %s answered that it wants no more messages, and is disabled until somebody "+
			"enables it or its entry in the file of destinations changes.", s.dest.Name)
	case s.failingSince == nil && s.isBehind():
		a.Note = fmt.Sprintf("The destination %s accepts records of the audit, but slower than they come: the oldest that "+
			"waits is older than %s. None is lost.", s.dest.Name, plan.DurationWords(s.cfg.Timing.FailingAfter))
	default:
		a.Note = fmt.Sprintf("The destination %s has accepted nothing for %s or longer. Messages that it refused are dead "+
			"letters; the others wait until it accepts them.", s.dest.Name, plan.DurationWords(s.cfg.Timing.FailingAfter))
	}
	if s.missed > 0 {
		a.Note += fmt.Sprintf(" Runs that the retention deleted before it took all their messages: %d. These messages are "+
			"lost to it.", s.missed)
	}
	return a
}

// checkFailing raises an alert while the destination fails, and resolves it by the first success.
func (s *session) checkFailing(ctx context.Context) {
	var err error
	switch {
	case s.byPerson && s.alerted:
		err = s.cfg.Alerts.Resolve(ctx, "A person disabled the destination.", s.failingAlert())
		s.alerted = err != nil
	case s.byPerson:
	case s.disabled, s.failingSince != nil && s.ageOf(*s.failingSince) > s.cfg.Timing.FailingAfter, s.isBehind():
		s.alerted = true
		_, err = s.cfg.Alerts.Raise(ctx, s.failingAlert())
	case s.failingSince == nil && s.alerted:
		err = s.cfg.Alerts.Resolve(ctx, "The destination accepts messages again.", s.failingAlert())
		s.alerted = err != nil
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "the alert about a destination was not changed", slog.String("destination", s.dest.Name),
			slog.Any("error", err))
	}
}

// short bounds the text of an error for people, and leaves out the name of the package.
func short(text string) string {
	const most = 300
	text = strings.TrimPrefix(text, "destination: ")
	if len(text) > most { // a store refuses half a character, and the destination would stand still
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}
