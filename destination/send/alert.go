package send

import (
	"cmp"
	"fmt"

	"github.com/dvt-engine/dvt/destination"
)

// state is that of an alert after the change that a message is about.
type state string

const (
	stateOpen         state = "Open"
	stateAcknowledged state = "Acknowledged"
	stateResolved     state = "Resolved"
)

func stateOf(m destination.Message) state {
	switch {
	case m.Type == "AlertResolved" || m.Alert.Resolved:
		return stateResolved
	case m.Type == "AlertAcknowledged":
		return stateAcknowledged
	}
	return stateOpen
}

// alertsOnly is the answer of destinations for people to an event of a run.
func alertsOnly(kind destination.Kind) error {
	return rejected("a destination of the kind %s takes alerts only", kind)
}

// levelWord is the level in words: people read it in every theme and without colours.
func levelWord(level string) string {
	switch level {
	case "HIGH":
		return "High"
	case "MEDIUM":
		return "Medium"
	case "LOW":
		return "Low"
	}
	return "Alert"
}

// statusLine says the state of an alert in one line, such as "Open. Level: High.".
func statusLine(m destination.Message) string {
	line := fmt.Sprintf("%s. Level: %s.", stateOf(m), levelWord(m.Level))
	if m.Alert.Count > 1 {
		line += fmt.Sprintf(" Seen %d times.", m.Alert.Count)
	}
	switch {
	case m.Alert.Others > 0:
		line += fmt.Sprintf(" This is the newest of %d alerts with the same code that changed since the last message; see "+
			"the list of alerts.", m.Alert.Others+1)
	case m.Alert.Changes > 1:
		line += fmt.Sprintf(" Changed %d times since the last message.", m.Alert.Changes)
	}
	if m.Replayed {
		line += " Sent again on request."
	}
	return line
}

// titleOf is the first line of an alert for people. It is never empty.
func titleOf(m destination.Message, n int) string {
	return cmp.Or(printable(m.Alert.Title, n), printable(m.Alert.Code, n), "An alert of dvt")
}

type fact struct{ name, value string }

const maxFact = 255

// factsOf says what an alert is about: the facts that are known, each bounded.
func factsOf(m destination.Message) []fact {
	var facts []fact
	add := func(name, value string) {
		if value = printable(value, maxFact); value != "" {
			facts = append(facts, fact{name, value})
		}
	}
	if m.Alert != nil {
		add("code", m.Alert.Code)
	}
	add("tenant", m.TenantID)
	add("project", m.ProjectID)
	add("environment", m.EnvironmentID)
	add("plan", m.PlanID)
	add("run", m.RunID)
	return facts
}
