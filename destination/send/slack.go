package send

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dvt-engine/dvt/destination"
)

const slackURL = "https://hooks.slack.com"

// Limits of Slack's blocks, in characters. Ours count bytes, which are at least as many, and escaping is counted too.
const (
	maxSlackHeader = 150
	maxSlackText   = 3000
)

// slack posts to an incoming webhook, whose path is its secret.
type slack struct {
	poster
	base *url.URL
	path secrets
	opt  Options
}

func newSlack(cfg destination.Config, opt Options) (*slack, error) {
	base, err := parseAddress(cmp.Or(cfg.URL, slackURL), httpSchemes(opt)...)
	if err != nil {
		return nil, err
	}
	if strings.Trim(base.Path, "/") != "" || base.RawQuery != "" {
		return nil, errors.New("the url has a path: the path of a Slack webhook is a secret and stands in secrets")
	}
	path, err := newSecrets(cfg, opt, 1, 1)
	if err != nil {
		return nil, err
	}
	return &slack{poster: newPoster(cfg, opt), base: base, path: path, opt: opt}, nil
}

func (s *slack) Send(ctx context.Context, m destination.Message) error {
	if m.Alert == nil {
		return alertsOnly(destination.Slack)
	}
	values, err := s.path.read()
	if err != nil {
		return err
	}
	to, err := s.address(values[0])
	if err != nil {
		return err
	}
	body, err := json.Marshal(s.message(m))
	if err != nil {
		return rejected("the message is not valid JSON")
	}
	return s.post(ctx, to, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body,
		values[0], to.Path, strings.TrimPrefix(to.Path, "/services/"))
}

func (s *slack) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// address returns the address of the webhook. The secret is its path, or the whole address as Slack shows it; the host
// stays the configured one.
func (s *slack) address(secret string) (*url.URL, error) {
	path, _ := strings.CutPrefix(secret, s.base.Scheme+"://"+s.base.Host)
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/" {
		return nil, fmt.Errorf("destination: the secret is no path of a webhook at %s, such as /services/…", s.base.Host)
	}
	return s.base.ResolveReference(&url.URL{Path: u.Path, RawPath: u.RawPath}), nil
}

// slackMessage has blocks, and a text for notifications. Texts of tenants stand in plain text objects only, in which
// Slack knows no formatting, links or mentions, and are escaped as well.
type slackMessage struct {
	Text        string `json:"text"`
	Mrkdwn      bool   `json:"mrkdwn"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
	Blocks      []any  `json:"blocks"`
}

type slackText struct {
	Type     string `json:"type"` // plain_text or mrkdwn
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`    // of plain_text
	Verbatim *bool  `json:"verbatim,omitempty"` // of mrkdwn
}

type slackBlock struct {
	Type   string      `json:"type"`
	Text   *slackText  `json:"text,omitempty"`
	Fields []slackText `json:"fields,omitempty"`
}

func slackPlain(text string, n int) slackText {
	return slackText{Type: "plain_text", Text: slackEscape(text, n), Emoji: new(bool)}
}

func (s *slack) message(m destination.Message) slackMessage {
	heading := titleOf(m, maxSlackHeader)
	if level := levelWord(m.Level); stateOf(m) == stateOpen {
		heading = level + ": " + heading
	} else {
		heading = string(stateOf(m)) + ": " + heading
	}
	block := func(kind string, text slackText) slackBlock { return slackBlock{Type: kind, Text: &text} }
	blocks := []any{
		block("header", slackPlain(heading, maxSlackHeader)),
		block("section", slackPlain(statusLine(m), maxSlackText)),
	}
	if detail := readable(m.Alert.Detail); detail != "" {
		blocks = append(blocks, block("section", slackPlain(detail, maxSlackText)))
	}
	var fields []slackText
	for _, f := range factsOf(m) {
		fields = append(fields, slackPlain(f.name+": "+f.value, 2000))
	}
	if len(fields) > 0 {
		blocks = append(blocks, slackBlock{Type: "section", Fields: fields})
	}
	if link := slackLink(s.opt.linkOf(m.Alert)); link != "" {
		verbatim := true
		blocks = append(blocks, block("section",
			slackText{Type: "mrkdwn", Text: "<" + link + "|Open in dvt>", Verbatim: &verbatim}))
	}
	return slackMessage{Text: slackEscape(heading, maxSlackText), Blocks: blocks}
}

// slackLink returns an address that cannot end the link around it.
func slackLink(link string) string {
	link = strings.NewReplacer("<", "%3C", ">", "%3E", "|", "%7C", "&", "&amp;").Replace(link)
	if len(link) > maxSlackText-100 {
		return ""
	}
	return link
}

// slackEscape escapes the three characters of Slack's control sequences: <!channel> and <@U123> become plain text.
// The result has at most n bytes and ends with no half of an escape.
func slackEscape(text string, n int) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for limit := n; ; limit -= 1 + (len(escape.Replace(cut(text, limit)))-n)/5 {
		if escaped := escape.Replace(cut(text, limit)); len(escaped) <= n || limit <= 0 {
			return escaped
		}
	}
}

// readable keeps the lines of a text, and removes its other control and formatting characters.
func readable(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, printable(line, len(line)))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
