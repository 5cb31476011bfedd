package destination

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Entry is what may be shown of a destination's entry in the file: no path, no query, no secret and no recipient.
type Entry struct {
	Kind    Kind   `json:"kind"`
	Address string `json:"address"` // scheme and host
	Route   Route  `json:"route"`
}

// Entry returns what may be shown of a configuration.
func (c Config) Entry() Entry {
	e := Entry{Kind: c.Kind, Route: c.Route}
	if u, err := url.Parse(c.URL); err == nil && u.Host != "" {
		e.Address = u.Scheme + "://" + u.Host
	} else if err == nil && c.Kind == File {
		e.Address = "file://" + u.Path
	}
	return e
}

// Selects reports whether a message goes to the destination of the entry.
func (e Entry) Selects(m Message) bool { return Config{Kind: e.Kind, Route: e.Route}.Selects(m) }

// Replay asks for the messages of a range of time again.
type Replay struct {
	Since  time.Time `json:"since"`          // of the first message
	Until  time.Time `json:"until,omitzero"` // messages before it; zero: before the order
	Filter Route     `json:"filter,omitzero"`
}

// Selects reports whether a replay covers a message that the destination selects.
func (r Replay) Selects(m Message) bool {
	return !m.At.Before(r.Since) && m.At.Before(r.Until) && (r.Filter.isEmpty() || r.Filter.selects(m))
}

// ReplayCount is what a replay would send.
type ReplayCount struct {
	Messages    int
	More        bool // there are more than Messages
	First, Last time.Time
}

// MaxReplayCount is the number of messages up to which a preview of a replay counts.
const MaxReplayCount = 100_000

// Redrive asks for dead letters again.
type Redrive struct {
	IDs []int64 `json:"ids,omitempty"` // empty: all that there are when the order is taken up
}

// Words says which messages the destination selects, as a sentence.
func (e Entry) Words() string {
	r := e.Route
	if r.isEmpty() {
		switch e.Kind {
		case PagerDuty:
			return "Alerts with the level HIGH."
		case Slack, Email:
			return "Alerts with the level MEDIUM or HIGH."
		case Webhook, Syslog, File:
		}
		return "All events and alerts."
	}
	what := "Events and alerts"
	switch {
	case e.Kind == PagerDuty, e.Kind == Slack, e.Kind == Email, slices.Equal(r.Topics, []Topic{Alerts}):
		what = "Alerts"
	case slices.Equal(r.Topics, []Topic{Events}):
		what = "Events"
	case slices.Contains(r.Topics, Audit):
		what = auditWords(r.Topics)
	case slices.Contains(r.Topics, Lineage):
		what = "Lineage"
	}
	add := func(name string, list []string) {
		if len(list) > 0 {
			what += fmt.Sprintf("; %s: %s", name, strings.Join(list, ", "))
		}
	}
	add("tenants", r.Tenants)
	add("projects", r.Projects)
	add("types", r.Types)
	add("levels of alerts", r.Levels)
	add("codes of alerts", r.Codes)
	if r.Installation && len(r.Tenants)+len(r.Projects) > 0 {
		about := "alerts"
		if slices.Equal(r.Topics, []Topic{Audit}) {
			about = "records"
		}
		what += "; and " + about + " about the installation"
	}
	return what + "."
}

// auditWords names topics that include the audit.
func auditWords(topics []Topic) string {
	const records = "ecords of the audit"
	events, alerts := slices.Contains(topics, Events), slices.Contains(topics, Alerts)
	switch {
	case events && alerts:
		return "Events, alerts and r" + records
	case events:
		return "Events and r" + records
	case alerts:
		return "Alerts and r" + records
	}
	return "R" + records
}
