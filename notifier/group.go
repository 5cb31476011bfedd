package notifier

import (
	"strings"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
)

// group is the changes of alerts of one code about one thing of the installation, or in one environment of a project.
// The first one goes to people at once. Those of the next minutes become one message, which says how the last one left
// things, how many changes there were, and of how many alerts. A worse level does not wait. So a cause that raises
// thousands of alerts gives people two messages.
type group struct {
	until   time.Time
	level   string
	pending *delivery       // the message of the group that waits for the end, or waited; nil before the first one
	alerts  map[string]bool // ids of those that pending stands for, at most maxGrouped
}

// maxGrouped bounds the alerts that one message counts.
const maxGrouped = store.MaxOpenAlerts

// groupOf returns the lane of the group of a message; "" for one without a group. What a person says by an escalation
// has no code, and is never left out.
func groupOf(m destination.Message) string {
	switch {
	case m.Topic != destination.Alerts || m.Alert.Code == "":
		return ""
	case m.RunID == "" && m.Alert.Subject != "":
		return strings.Join([]string{"group", m.TenantID, m.ProjectID, m.Alert.Code, m.Alert.Subject}, "/")
	case m.TenantID == "":
		return ""
	}
	return strings.Join([]string{"group", m.TenantID, m.ProjectID, m.EnvironmentID, m.Alert.Code}, "/")
}

// joinGroup adds a change of an alert to its group, when people read the messages. It returns true when d is part of a
// message that waits already; then d is not sent by itself.
func (s *session) joinGroup(d *delivery) bool {
	m := d.message
	isForPeople := s.dest.Kind == destination.Slack || s.dest.Kind == destination.Email
	lane := groupOf(m)
	if !isForPeople || lane == "" {
		return false
	}
	now := time.Now()
	d.lane = lane
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
		g.pending, d.notBefore, g.alerts = d, g.until, map[string]bool{}
	}
	if len(g.alerts) < maxGrouped {
		g.alerts[m.Alert.Key] = true
	}
	if text.Others = len(g.alerts) - 1; text.Others > 0 {
		text.Link = s.cfg.Link("") // the list has all of them
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
