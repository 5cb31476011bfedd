// Package destination has the messages about events of runs and alerts, the file of the destinations that get them, and
// the port of senders. It sends nothing itself.
package destination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// Kind is the kind of system that a destination is.
type Kind string

// Kinds of destinations.
const (
	Webhook   Kind = "webhook"   // HTTPS POST of CloudEvents, signed by Standard Webhooks
	PagerDuty Kind = "pagerduty" // Events API v2; alerts only
	Slack     Kind = "slack"     // incoming webhook; alerts only
	Email     Kind = "email"     // SMTP; alerts only
	Syslog    Kind = "syslog"    // RFC 5424 over TCP, TLS or UDP
	File      Kind = "file"      // JSON lines in a file of this machine; records of the audit, or lineage
)

// Topic says what a message is about.
type Topic string

// Topics of messages.
const (
	Events Topic = "events" // events of runs, in the order of each run
	Alerts Topic = "alerts" // an alert was opened, grew, was acknowledged or was resolved
	Audit  Topic = "audit"  // records of the audit, in the order of each tenant's chain; only where a route names it
	// Lineage is OpenLineage events of runs, steps and dbt nodes, in the order of each run; only where a route names it.
	Lineage Topic = "lineage"
)

// Format is the form of the body of a webhook.
type Format string

// OpenLineage is the format whose body is the OpenLineage event itself, for the topic lineage. The default "" is a
// signed CloudEvent.
const OpenLineage Format = "openlineage"

// Message is an event or a change of an alert, for destinations. It has at most MaxMessage bytes as JSON.
type Message struct {
	// ID identifies the message: a repetition has the same one. It is the id of the event or of the record, or that of
	// the alert with the number of its change. That of lineage is the id of its run and whether it is START or end.
	ID    string
	Topic Topic
	// Type is the type of the event, such as StepFailed, or AlertOpened, AlertRepeated, AlertAcknowledged, AlertResolved,
	// or LineageSTART, LineageCOMPLETE, LineageFAIL, LineageABORT.
	Type     string
	At       time.Time // of the event or of the change
	TenantID string    // "" for an alert about the installation
	// ProjectID, EnvironmentID, PlanID and RunID are "" when the message is not about a run.
	ProjectID, EnvironmentID, PlanID, RunID string
	// Seq is the position in the log of the run, or in the audit of the tenant; 0 for an alert.
	Seq uint64
	// Level is that of the alert: LOW, MEDIUM or HIGH; "" for an event.
	Level string
	// Replayed says that somebody asked for this message again, or that the store was restored.
	Replayed bool
	// Data is the event or the alert as the API shows it, without secrets.
	Data json.RawMessage
	// Alert is set when Topic is Alerts: what people read.
	Alert *AlertText
}

// AlertText is an alert in words.
type AlertText struct {
	Key      string // the same for all messages about one alert
	Code     string
	Title    string // what happened, one line
	Detail   string // what to do and who can help
	Link     string // address of the page, "" when the public address is unknown
	Count    int64
	Resolved bool
	Subject  string // what is affected where run and step do not say it
	Changes  int    // that the message stands for; 0 is one
	Others   int    // further alerts with this code that these changes are about
}

// MaxMessage is the largest message in bytes. Larger data is replaced by a reference to the API.
const MaxMessage = 256 << 10

// Sender sends messages to one destination. It is safe for concurrent use.
type Sender interface {
	// Send sends one message, once, within the deadline of ctx. nil says that the destination has accepted it. After any
	// other error than a *RejectedError or ErrGone the message is sent again later. Errors never contain secrets nor
	// answers of the destination of more than 200 bytes.
	Send(ctx context.Context, m Message) error
	// Close ends idle connections.
	Close() error
}

// ErrGone says that the destination wants no more messages (HTTP 410). It is disabled until somebody enables it.
var ErrGone = errors.New("destination: no more messages are wanted")

// RejectedError says that the destination refuses this message for good: a repetition is of no use.
type RejectedError struct {
	Reason string
}

func (e *RejectedError) Error() string { return "destination: the message was refused: " + e.Reason }

// RetryError says that the destination asks for a pause of at least After before the next message (Retry-After).
type RetryError struct {
	After  time.Duration // at most MaxRetryAfter
	Reason string
}

// MaxRetryAfter bounds the pause that a destination may ask for.
const MaxRetryAfter = time.Hour

func (e *RetryError) Error() string {
	return fmt.Sprintf("destination: %s; the next try is in %s", e.Reason, plan.DurationWords(e.After))
}

// Config is one destination in the file of destinations. Senders are made from it; secrets are references.
type Config struct {
	Name string // [a-z0-9-]{1,63}, unique
	Kind Kind
	// URL is where messages go: https:// for webhook, pagerduty (its default is PagerDuty's own) and slack; smtp:// or
	// smtps:// for email; tcp://, tls:// or udp:// for syslog; file:///PATH for file.
	URL string
	// Format is the form of the body of a webhook.
	Format Format `json:",omitempty"`
	// Secrets are references to the keys that sign (webhook; each one signs, so that keys can be rotated), the API key
	// (webhook with the format openlineage), the routing key (pagerduty), the path of the webhook (slack) or the password
	// (email). At most 4.
	Secrets []SecretRef
	From    string   // email
	To      []string // email; at most 20
	User    string   // email
	Timeout time.Duration
	Route   Route
	// AllowPrivate permits private addresses. Only for tests and `dvt dev`, and for email and syslog, which usually
	// stand inside.
	AllowPrivate bool
}

// SecretRef says where a secret is read, each time it is needed. Exactly one field is set.
type SecretRef struct {
	File string
	Env  string
}

// Route selects messages. Empty fields do not restrict.
type Route struct {
	Topics   []Topic
	Tenants  []string
	Projects []string
	Types    []string // of events and changes of alerts
	Levels   []string // of alerts
	Codes    []string // of alerts
	// Installation adds alerts about the installation when Tenants restricts.
	Installation bool
}
