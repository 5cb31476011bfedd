package send_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/destination"
)

func pagerDutyOf(t *testing.T, r *receiver) destination.Sender {
	t.Helper()
	return newSender(t, destination.Config{Kind: destination.PagerDuty, URL: r.url + "/v2/enqueue",
		Secrets: []destination.SecretRef{secretFile(t, "R0UT1NGKEY")}})
}

func TestPagerDuty_TriggersAcknowledgesAndResolvesOneIncident(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	s := pagerDutyOf(t, r)
	var actions []string
	for _, kind := range []string{"AlertOpened", "AlertRepeated", "AlertAcknowledged", "AlertResolved"} {
		m := alertMessage()
		m.Type, m.Alert.Resolved = kind, kind == "AlertResolved"
		wantKind(t, s.Send(t.Context(), m), "accepted")
	}
	for _, got := range r.got() {
		body := decode(t, got.body)
		actions = append(actions, fmt.Sprint(body["event_action"]))
		if body["dedup_key"] != "NO_WORKER/acme/tq-data-prod" || body["routing_key"] != "R0UT1NGKEY" {
			t.Errorf("the keys are %v and %v", body["dedup_key"], body["routing_key"])
		}
	}
	if diff := cmp.Diff([]string{"trigger", "trigger", "acknowledge", "resolve"}, actions); diff != "" {
		t.Errorf("the actions (-want +got):\n%s", diff)
	}
	body := decode(t, r.got()[0].body)
	want := map[string]any{
		"summary": "No worker takes steps of tq-data-prod", "source": "https://dvt.example.com", "severity": "critical",
		"timestamp": "2026-11-28T06:00:00.123Z", "class": "NO_WORKER", "group": "nightly",
		"custom_details": map[string]any{"code": "NO_WORKER", "count": 3.0, "tenant": "acme", "project": "sales",
			"environment": "prod", "plan": "nightly", "run": "run-1",
			"detail": "Start a worker for this queue.\nAsk the administrator of the installation."},
	}
	if diff := cmp.Diff(want, body["payload"]); diff != "" {
		t.Errorf("the payload (-want +got):\n%s", diff)
	}
	link := []any{map[string]any{"href": "https://dvt.example.com/alerts/NO_WORKER", "text": "Open in dvt"}}
	if diff := cmp.Diff(link, body["links"]); diff != "" {
		t.Errorf("the links (-want +got):\n%s", diff)
	}
}

func TestPagerDuty_MapsLevels(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	s := pagerDutyOf(t, r)
	for level, want := range map[string]string{"HIGH": "critical", "MEDIUM": "error", "LOW": "warning", "": "warning"} {
		m := alertMessage()
		m.Level = level
		wantKind(t, s.Send(t.Context(), m), "accepted")
		got := r.got()
		payload, _ := decode(t, got[len(got)-1].body)["payload"].(map[string]any)
		if payload["severity"] != want {
			t.Errorf("the level %q has the severity %v, want %s", level, payload["severity"], want)
		}
	}
}

// PagerDuty refuses events above 512 KiB, summaries above 1,024 and keys above 255 characters.
func TestPagerDuty_BoundsHostileText(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	m := hostileAlert()
	m.Alert.Key = strings.Repeat("k", 300)
	wantKind(t, pagerDutyOf(t, r).Send(t.Context(), m), "accepted")
	body := r.only(t).body
	payload, _ := decode(t, body)["payload"].(map[string]any)
	summary, key := fmt.Sprint(payload["summary"]), fmt.Sprint(decode(t, body)["dedup_key"])
	if len(body) > 16<<10 || len(summary) > 1024 || !utf8.ValidString(summary) || len(key) > 255 {
		t.Errorf("the body has %d bytes, the summary %d, the key %d", len(body), len(summary), len(key))
	}
}

func TestPeople_GetAlertsOnly(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	slack, _ := slackOf(t, r, "/services/T/B/x")
	wantKind(t, slack.Send(t.Context(), eventMessage()), "rejected")
	wantKind(t, pagerDutyOf(t, r).Send(t.Context(), eventMessage()), "rejected")
	if n := len(r.got()); n > 0 {
		t.Errorf("the receiver got %d requests, want 0", n)
	}
}

func slackOf(t *testing.T, r *receiver, secret string) (destination.Sender, *receiver) {
	t.Helper()
	return newSender(t, destination.Config{Kind: destination.Slack, URL: r.url,
		Secrets: []destination.SecretRef{secretFile(t, secret)}}), r
}

func TestSlack_PostsBlocksWithALinkAndTheLevelInWords(t *testing.T) {
	t.Parallel()
	s, r := slackOf(t, newReceiver(t, nil), "/services/T/B/x")
	wantKind(t, s.Send(t.Context(), alertMessage()), "accepted")
	got := r.only(t)
	if got.path != "/services/T/B/x" {
		t.Errorf("the path is %s, want that of the secret", got.path)
	}
	body := decode(t, got.body)
	if want := "High: No worker takes steps of tq-data-prod"; body["text"] != want || body["mrkdwn"] != false {
		t.Errorf("the text is %v with mrkdwn %v, want %q without", body["text"], body["mrkdwn"], want)
	}
	var texts []string
	eachText(body["blocks"], func(kind, text string) { texts = append(texts, kind+" "+text) })
	want := []string{
		"plain_text High: No worker takes steps of tq-data-prod",
		"plain_text Open. Level: High. Seen 3 times.",
		"plain_text Start a worker for this queue.\nAsk the administrator of the installation.",
		"plain_text code: NO_WORKER", "plain_text tenant: acme", "plain_text project: sales",
		"plain_text environment: prod", "plain_text plan: nightly", "plain_text run: run-1",
		"mrkdwn <https://dvt.example.com/alerts/NO_WORKER|Open in dvt>",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("the texts of the blocks (-want +got):\n%s", diff)
	}
}

// A message that stands for many changes says so, so that people know that it flaps.
func TestSlack_SaysHowManyChangesAMessageStandsFor(t *testing.T) {
	t.Parallel()
	s, r := slackOf(t, newReceiver(t, nil), "/services/T/B/x")
	m := alertMessage()
	text := *m.Alert
	text.Changes, m.Alert = 5, &text
	wantKind(t, s.Send(t.Context(), m), "accepted")
	var texts []string
	eachText(decode(t, r.only(t).body)["blocks"], func(_, text string) { texts = append(texts, text) })
	want := "Open. Level: High. Seen 3 times. Changed 5 times since the last message."
	if texts[1] != want {
		t.Errorf("the status is %q, want %q", texts[1], want)
	}
}

// A message that stands for many alerts says so, so that people do not look at one run only.
func TestSlack_SaysHowManyAlertsAMessageStandsFor(t *testing.T) {
	t.Parallel()
	s, r := slackOf(t, newReceiver(t, nil), "/services/T/B/x")
	m := alertMessage()
	text := *m.Alert
	text.Changes, text.Others, m.Alert = 1499, 1498, &text
	wantKind(t, s.Send(t.Context(), m), "accepted")
	var texts []string
	eachText(decode(t, r.only(t).body)["blocks"], func(_, text string) { texts = append(texts, text) })
	want := "Open. Level: High. Seen 3 times. This is the newest of 1499 alerts with the same code that changed since the " +
		"last message; see the list of alerts."
	if texts[1] != want {
		t.Errorf("the status is %q, want %q", texts[1], want)
	}
}

// eachText calls f with the type and the text of each text object, in order.
func eachText(v any, f func(kind, text string)) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			eachText(one, f)
		}
	case map[string]any:
		if text, ok := v["text"].(string); ok {
			f(fmt.Sprint(v["type"]), text)
			return
		}
		eachText(v["text"], f)
		eachText(v["fields"], f)
	}
}

// A tenant cannot mention people, format, or show a link of its own.
func TestSlack_HostileTextIsPlain(t *testing.T) {
	t.Parallel()
	s, r := slackOf(t, newReceiver(t, nil), "/services/T/B/x")
	wantKind(t, s.Send(t.Context(), hostileAlert()), "accepted")
	body := decode(t, r.only(t).body)
	limits := map[string]int{"header": 150, "section": 3000}
	blocks, _ := body["blocks"].([]any)
	for _, b := range blocks {
		kind := fmt.Sprint(b.(map[string]any)["type"])
		eachText([]any{b}, func(form, text string) {
			if len(text) > limits[kind] || !utf8.ValidString(text) {
				t.Errorf("a text of a block %s has %d bytes, want at most %d", kind, len(text), limits[kind])
			}
			inner := text
			if form == "mrkdwn" {
				inner = strings.TrimSuffix(strings.TrimPrefix(text, "<"), "|Open in dvt>")
			}
			if strings.ContainsAny(inner, "<>\x00\x1b\u202e") || form == "mrkdwn" && strings.Contains(inner, "|") {
				t.Errorf("a text of the type %s is not escaped: %.200q", form, text)
			}
		})
	}
	if text := fmt.Sprint(body["text"]); strings.ContainsAny(text, "<>\r\n") {
		t.Errorf("the text for notifications is not escaped: %.200q", text)
	}
}

func TestSlack_TakesTheWholeAddressAsSecretButOnlyOfItsHost(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	s, _ := slackOf(t, r, r.url+"/services/T/B/y")
	wantKind(t, s.Send(t.Context(), alertMessage()), "accepted")
	if got := r.only(t).path; got != "/services/T/B/y" {
		t.Errorf("the path is %s, want /services/T/B/y", got)
	}
	for _, secret := range []string{"https://evil.example/services/T/B/y", "//evil.example/x", "services", "/"} {
		s, _ := slackOf(t, r, secret)
		err := s.Send(t.Context(), alertMessage())
		if wantKind(t, err, "again"); strings.Contains(fmt.Sprint(err), "evil") {
			t.Errorf("the error %q shows the secret", err)
		}
	}
	if n := len(r.got()); n != 1 {
		t.Errorf("the receiver got %d requests, want 1", n)
	}
}

func TestSlack_HonoursRetryAfterAndHidesItsPath(t *testing.T) {
	t.Parallel()
	s, _ := slackOf(t, newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(map[string]string{"path": req.URL.Path})
	}), "/services/T0/B0/secretpart")
	err := s.Send(t.Context(), alertMessage())
	wantKind(t, err, "retry after 30s")
	if strings.Contains(fmt.Sprint(err), "secretpart") {
		t.Errorf("the error %q shows the path of the webhook", err)
	}
}
