package notifier

import (
	"time"

	"github.com/dvt-engine/dvt/destination"
)

// group is the changes of alerts of one code about one thing of the installation. The first one goes to people at once.
// Those of the next minutes become one message, which says how the last one left things and how many there were. A
// worse level does not wait.
type group struct {
	until   time.Time
	level   string
	pending *delivery // the message of the group that waits for the end, or waited; nil before the first one
}

// joinGroup adds a change of an alert about the installation to its group, when people read the messages. It returns
// true when d is part of a message that waits already; then d is not sent by itself.
func (s *session) joinGroup(d *delivery) bool {
	m := d.message
	isForPeople := s.dest.Kind == destination.Slack || s.dest.Kind == destination.Email
	if !isForPeople || m.Topic != destination.Alerts || m.TenantID != "" || m.Alert.Subject == "" {
		return false
	}
	now := time.Now()
	d.lane = "group/" + m.Alert.Code + "/" + m.Alert.Subject
	g := s.groups[d.lane]
	if g == nil || now.After(g.until) {
		s.forgetGroups(now)
		s.groups[d.lane] = &group{until: now.Add(s.cfg.Timing.Group), level: m.Level}
		return false
	}
	isWorse := rank(m.Level) > rank(g.level)
	joins := g.pending != nil && g.pending.notBefore.After(now)
	text := *m.Alert
	m.Alert, text.Changes = &text, 1
	if joins {
		text.Changes += g.pending.message.Alert.Changes
	} else {
		g.pending, d.notBefore = d, g.until
	}
	g.pending.message = m
	if isWorse {
		g.level, g.pending.notBefore = m.Level, time.Time{}
	}
	return joins
}

// forgetGroups drops groups whose time is over, so that their number stays small.
func (s *session) forgetGroups(now time.Time) {
	for key, g := range s.groups {
		if now.After(g.until) {
			delete(s.groups, key)
		}
	}
}

// rank orders the levels of alerts.
func rank(level string) int {
	switch level {
	case "HIGH":
		return 3
	case "MEDIUM":
		return 2
	case "LOW":
		return 1
	}
	return 0
}
