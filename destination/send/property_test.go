package send_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/destination"
)

// anyAlert draws an alert whose texts may hold every character.
func anyAlert(r *rapid.T) destination.Message {
	nasty := rapid.SampledFrom([]rune("a]\"\\<>\r\n:,;=?é\u2028\u0085\x00 "))
	text := rapid.OneOf(rapid.String(), rapid.StringOfN(nasty, 0, 4000, -1))
	m := alertMessage()
	for i, field := range []*string{&m.ID, &m.Type, &m.TenantID, &m.ProjectID, &m.EnvironmentID, &m.PlanID, &m.RunID,
		&m.Level, &m.Alert.Key, &m.Alert.Code, &m.Alert.Title, &m.Alert.Detail, &m.Alert.Link} {
		if rapid.Bool().Draw(r, "changes") {
			*field = text.Draw(r, string(rune('a'+i)))
		}
	}
	m.Alert.Count = rapid.Int64().Draw(r, "count")
	return m
}

// Whatever a message holds, the collector gets one line of RFC 5424.
func TestSyslog_EveryMessageIsOneLine(t *testing.T) {
	t.Parallel()
	tcp, udp := newCollector(t, "tcp"), newCollector(t, "udp")
	senders := map[*collector]destination.Sender{tcp: syslogOf(t, tcp), udp: syslogOf(t, udp)}
	rapid.Check(t, func(r *rapid.T) {
		m := anyAlert(r)
		for c, s := range senders {
			if err := s.Send(t.Context(), m); err != nil {
				r.Fatalf("the send: %v", err)
			}
			if frame := c.next(t); !line.MatchString(frame) {
				r.Fatalf("the message does not follow RFC 5424: %q", frame)
			}
		}
	})
}

// Whatever a message holds, the server gets one mail with the headers of every mail, for the configured recipients.
func TestMail_EveryMessageIsOneMail(t *testing.T) {
	t.Parallel()
	p := newPost(t, "smtp", trusted())
	s := mailOf(t, p)
	sent := map[string]bool{}
	rapid.Check(t, func(r *rapid.T) {
		m := anyAlert(r)
		m.ID += strings.Repeat("+", len(sent)) // a sender does not repeat a mail that was accepted
		sent[m.ID] = true
		before := len(p.got())
		if err := s.Send(t.Context(), m); err != nil {
			r.Fatalf("the send: %v", err)
		}
		got := p.got()
		if len(got) != before+1 || got[before].to != "ops@example.com data@example.com" {
			r.Fatalf("the server got %d mails, the last for %s", len(got)-before, got[len(got)-1].to)
		}
		parsed := readMail(t, got[before].text)
		if len(parsed.header) != 11 || !strings.HasPrefix(parsed.header.Get("Subject"), "[dvt] ") {
			r.Fatalf("the headers are %v, want the 11 of every mail", parsed.header)
		}
	})
}
