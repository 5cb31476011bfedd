package send

import (
	"bytes"
	"fmt"
	"html"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"

	"github.com/dvt-engine/dvt/destination"
)

const (
	maxSubject    = 160
	maxMailDetail = 16 << 10
)

// compose writes the mail of a message. The same message gives the same mail, so that programs that read mail can drop
// repetitions by the Message-ID.
//
// The subject does not change while the alert does, and each mail answers the same id: clients then show the mails of
// one alert as one conversation. The first line says the state, which clients show beside the subject.
func (s *mailer) compose(m destination.Message) ([]byte, error) {
	var out bytes.Buffer
	root := s.messageID("alert " + m.Alert.Key)
	subject := fmt.Sprintf("[dvt] %s: %s", levelWord(m.Level), titleOf(m, maxSubject))
	recipients := make([]string, len(s.to))
	for i, to := range s.to {
		recipients[i] = to.String()
	}
	parts := multipart.NewWriter(&out)
	if err := parts.SetBoundary("dvt-" + digest("boundary "+m.ID)); err != nil {
		return nil, err
	}
	for _, header := range [][2]string{
		{"From", (&mail.Address{Name: nameOf(s.from), Address: s.from.Address}).String()},
		{"To", strings.Join(recipients, ",\r\n ")},
		{"Subject", encodeHeader(subject)},
		{"Date", m.At.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700")},
		{"Message-ID", s.messageID("message " + m.ID)},
		{"In-Reply-To", root},
		{"References", root},
		// Out-of-office programs do not answer to such a mail.
		{"Auto-Submitted", "auto-generated"},
		{"X-Auto-Response-Suppress", "All"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "multipart/alternative;\r\n boundary=\"" + parts.Boundary() + "\""},
	} {
		fmt.Fprintf(&out, "%s: %s\r\n", header[0], header[1])
	}
	out.WriteString("\r\n")
	for _, part := range []struct{ kind, text string }{
		{"text/plain", s.plainText(m)}, {"text/html", s.htmlText(m)},
	} {
		w, err := parts.CreatePart(textproto.MIMEHeader{
			"Content-Type":              {part.kind + "; charset=utf-8"},
			"Content-Transfer-Encoding": {"quoted-printable"},
		})
		if err != nil {
			return nil, err
		}
		encoder := quotedprintable.NewWriter(w)
		if _, err := encoder.Write([]byte(strings.ReplaceAll(part.text, "\n", "\r\n"))); err != nil {
			return nil, err
		}
		if err := encoder.Close(); err != nil {
			return nil, err
		}
	}
	err := parts.Close()
	return out.Bytes(), err
}

// messageID returns an id that follows from the text.
func (s *mailer) messageID(text string) string { return "<" + digest(text) + "@" + s.domain() + ">" }

func nameOf(a *mail.Address) string {
	if a.Name == "" {
		return "dvt"
	}
	return a.Name
}

// encodeHeader returns the text as one header that other programs can read, folded below their limit of a line. The
// text has no control characters.
func encodeHeader(text string) string {
	return strings.ReplaceAll(mime.BEncoding.Encode("utf-8", text), "?= =?", "?=\r\n =?")
}

func (s *mailer) plainText(m destination.Message) string {
	text := statusLine(m) + "\n\n" + titleOf(m, maxSummary) + "\n"
	if detail := readable(cut(m.Alert.Detail, maxMailDetail)); detail != "" {
		text += "\n" + detail + "\n"
	}
	text += "\n"
	for _, f := range factsOf(m) {
		text += f.name + ": " + f.value + "\n"
	}
	if link := s.opt.linkOf(m.Alert); link != "" {
		text += "\n" + link + "\n"
	}
	return text
}

func (s *mailer) htmlText(m destination.Message) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html><body>\n")
	fmt.Fprintf(&b, "<p>%s</p>\n<h2>%s</h2>\n", html.EscapeString(statusLine(m)),
		html.EscapeString(titleOf(m, maxSummary)))
	if detail := readable(cut(m.Alert.Detail, maxMailDetail)); detail != "" {
		b.WriteString("<p>" + strings.ReplaceAll(html.EscapeString(detail), "\n", "<br>\n") + "</p>\n")
	}
	b.WriteString("<table>\n")
	for _, f := range factsOf(m) {
		fmt.Fprintf(&b, "<tr><td>%s</td><td>%s</td></tr>\n", html.EscapeString(f.name), html.EscapeString(f.value))
	}
	b.WriteString("</table>\n")
	if link := s.opt.linkOf(m.Alert); link != "" {
		fmt.Fprintf(&b, "<p><a href=\"%s\">Open in dvt</a></p>\n", html.EscapeString(link))
	}
	b.WriteString("</body></html>\n")
	return b.String()
}
