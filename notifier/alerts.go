package notifier

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	feedPage = 200 // changes of one read
	// maxPages bounds the reads of one look, so that tries that end meanwhile are handled. Thousands of alerts that open
	// at once must not hold up the one behind them.
	maxPages = 20
)

// readAlerts reads the next changes of alerts while there is room, and the open alerts that are due again. more says
// that changes are left which could be read at once.
func (s *session) readAlerts(ctx context.Context) (more bool, err error) {
	for range maxPages {
		if more, err = s.readChanges(ctx); err != nil {
			return false, err
		}
		if !more || !s.hasRoom() {
			break
		}
	}
	return more, s.repeatAlerts(ctx)
}

// readChanges reads one page of the changes of alerts.
func (s *session) readChanges(ctx context.Context) (more bool, err error) {
	changes, err := s.cfg.Store.AlertChanges(ctx, s.change, feedPage)
	if err != nil || len(changes) == 0 {
		return false, err
	}
	part := s.openBatch()
	s.change = changes[len(changes)-1].N
	for _, c := range changes {
		if c.At.Before(s.at.Since) {
			continue
		}
		if err := s.addChange(part, c); err != nil {
			return false, err
		}
	}
	return len(changes) == feedPage, nil
}

// isOwn reports whether an alert says that this destination fails. Its message would fail too, and raise the next one.
func (s *session) isOwn(a store.AlertState) bool {
	return a.Code == run.CodeDestinationFailing && a.Subject == s.dest.Name
}

// addChange adds the message about a change. A silenced alert is not sent; when the silence ends and it is still open,
// it is.
func (s *session) addChange(part *batch, c store.AlertChange) error {
	a := c.Alert
	if s.isOwn(a) {
		return nil
	}
	switch {
	case c.Kind == store.AlertChangeAcknowledged, c.Kind == store.AlertChangeResolved:
		delete(s.at.Repeat, a.ID)
	case a.Stage() == store.AlertOpen && len(s.at.Repeat) < maxOpenAlerts:
		due := c.At.Add(s.cfg.Timing.RepeatAlerts)
		if a.SilencedUntil != nil {
			due = *a.SilencedUntil
		}
		s.at.Repeat[a.ID] = due.UTC()
	}
	if a.SilencedUntil != nil {
		return nil
	}
	m, err := changeMessage(s.cfg.Link, c)
	if err != nil {
		return err
	}
	s.add(part, "alert/"+a.ID, m)
	return nil
}

// repeatAlerts sends open alerts again that nobody has acknowledged since they were sent last.
func (s *session) repeatAlerts(ctx context.Context) error {
	now := s.storeNow()
	if now.Before(s.nextRepeat) {
		return nil
	}
	s.nextRepeat = now.Add(min(time.Minute, s.cfg.Timing.RepeatAlerts/4))
	var part *batch
	for id, due := range s.at.Repeat {
		if now.Before(due) {
			continue
		}
		a, err := s.cfg.Store.GetAlert(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		switch {
		case err != nil || a.Stage() != store.AlertOpen:
			delete(s.at.Repeat, id)
			continue
		case a.SilencedUntil != nil:
			s.at.Repeat[id] = a.SilencedUntil.UTC()
			continue
		}
		s.at.Repeat[id] = now.Add(s.cfg.Timing.RepeatAlerts)
		// The number of the repetition is the same in every process and for every destination.
		number := now.Sub(a.At) / s.cfg.Timing.RepeatAlerts
		m, err := alertMessage(s.cfg.Link, a, typeRepeated, "repeat"+strconv.FormatInt(int64(number), 10), now)
		if err != nil {
			return err
		}
		if part == nil {
			part = s.openBatch()
		}
		s.add(part, "alert/"+id, m)
	}
	return nil
}
