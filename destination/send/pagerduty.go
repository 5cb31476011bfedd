package send

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/dvt-engine/dvt/destination"
)

const pagerDutyURL = "https://events.pagerduty.com/v2/enqueue"

// Limits of PagerDuty's Events API v2.
const (
	maxDedupKey = 255
	maxSummary  = 1024
	maxDetail   = 4 << 10 // ours: an event is refused above 512 KiB
)

// pagerDuty keeps one incident for each alert: the key of the alert is the deduplication key.
type pagerDuty struct {
	poster
	to      *url.URL
	routing secrets
	opt     Options
}

func newPagerDuty(cfg destination.Config, opt Options) (*pagerDuty, error) {
	to, err := parseAddress(cmp.Or(cfg.URL, pagerDutyURL), httpSchemes(opt)...)
	if err != nil {
		return nil, err
	}
	routing, err := newSecrets(cfg, opt, 1, 1)
	if err != nil {
		return nil, err
	}
	return &pagerDuty{poster: newPoster(cfg, opt), to: to, routing: routing, opt: opt}, nil
}

// pagerDutyEvent is a request of the Events API v2. Payload is for triggers only.
type pagerDutyEvent struct {
	RoutingKey  string            `json:"routing_key"`
	EventAction string            `json:"event_action"`
	DedupKey    string            `json:"dedup_key"`
	Client      string            `json:"client,omitempty"`
	ClientURL   string            `json:"client_url,omitempty"`
	Links       []pagerDutyLink   `json:"links,omitempty"`
	Payload     *pagerDutyPayload `json:"payload,omitempty"`
}

type pagerDutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

type pagerDutyPayload struct {
	Summary       string         `json:"summary"`
	Source        string         `json:"source"`
	Severity      string         `json:"severity"`
	Timestamp     string         `json:"timestamp,omitempty"`
	Class         string         `json:"class,omitempty"`
	Group         string         `json:"group,omitempty"`
	CustomDetails map[string]any `json:"custom_details,omitempty"`
}

func (p *pagerDuty) Send(ctx context.Context, m destination.Message) error {
	if m.Alert == nil {
		return alertsOnly(destination.PagerDuty)
	}
	keys, err := p.routing.read()
	if err != nil {
		return err
	}
	body, err := json.Marshal(p.event(keys[0], m))
	if err != nil {
		return rejected("the message is not valid JSON")
	}
	return p.post(ctx, p.to, http.Header{"Content-Type": {"application/json"}}, body, keys...)
}

func (p *pagerDuty) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

func (p *pagerDuty) event(key string, m destination.Message) pagerDutyEvent {
	a := m.Alert
	e := pagerDutyEvent{RoutingKey: key, EventAction: "trigger", DedupKey: a.Key}
	if len(e.DedupKey) > maxDedupKey {
		e.DedupKey = digest(a.Key)
	}
	switch stateOf(m) {
	case stateResolved:
		e.EventAction = "resolve"
		return e
	case stateAcknowledged:
		e.EventAction = "acknowledge"
		return e
	}
	e.Client = "dvt"
	if link := p.opt.linkOf(a); link != "" {
		e.ClientURL, e.Links = link, []pagerDutyLink{{Href: link, Text: "Open in dvt"}}
	}
	e.Payload = &pagerDutyPayload{
		Summary: titleOf(m, maxSummary),
		Source:  sourceOf(p.opt), Severity: pagerDutySeverity(m.Level), Class: printable(a.Code, maxDedupKey),
		Group: printable(cmp.Or(m.PlanID, m.TenantID), maxDedupKey), CustomDetails: map[string]any{"count": a.Count},
	}
	if !m.At.IsZero() {
		e.Payload.Timestamp = m.At.UTC().Format(time.RFC3339Nano)
	}
	e.Payload.CustomDetails["detail"] = cut(a.Detail, maxDetail)
	for _, f := range factsOf(m) {
		e.Payload.CustomDetails[f.name] = f.value
	}
	return e
}

func pagerDutySeverity(level string) string {
	switch level {
	case "HIGH":
		return "critical"
	case "MEDIUM":
		return "error"
	}
	return "warning"
}
