package send_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/destination"
)

// post is an SMTP server that keeps the mails it took.
type post struct {
	url string
	// refuse is the answer to a recipient; nil accepts all. It may change while the server runs.
	refuse func(to string) error
	login  bool // a user must log in: user, pa55word

	mu    sync.Mutex
	mails []posted
}

type posted struct {
	secure   bool
	user     string
	from, to string
	text     string
}

func newPost(t *testing.T, scheme string, config *tls.Config, change ...func(*post)) *post {
	t.Helper()
	p := &post{}
	for _, f := range change {
		f(p)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if scheme == "smtps" {
		l = tls.NewListener(l, config)
		config = nil
	}
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{post: p, conn: c}, nil
	}))
	srv.Domain, srv.TLSConfig, srv.AllowInsecureAuth = "receiver.test", config, true
	srv.ErrorLog = log.New(io.Discard, "", 0)
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(l) })
	t.Cleanup(func() { l.Close(); _ = srv.Close(); served.Wait() })
	p.url = scheme + "://receiver.test:" + port
	return p
}

func trusted() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{certificate}} }

type session struct {
	post *post
	conn *smtp.Conn
	user string
	from string
	to   []string
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "user" || password != "pa55word" {
			return &smtp.SMTPError{Code: 535, Message: "no: " + password}
		}
		s.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.post.login && s.user == "" {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.post.refuse != nil {
		if err := s.post.refuse(to); err != nil {
			return err
		}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, secure := s.conn.TLSConnectionState()
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	s.post.mails = append(s.post.mails, posted{secure, s.user, s.from, strings.Join(s.to, " "), string(text)})
	return nil
}

func (s *session) Reset()        { s.from, s.to = "", nil }
func (s *session) Logout() error { return nil }

func (p *post) got() []posted {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]posted(nil), p.mails...)
}

func mailOf(t *testing.T, p *post, change ...func(*destination.Config)) destination.Sender {
	t.Helper()
	cfg := mailConfig(p.url)
	for _, f := range change {
		f(&cfg)
	}
	return newSender(t, cfg)
}

func mailConfig(url string) destination.Config {
	return destination.Config{Kind: destination.Email, URL: url, From: "alerts@dvt.example.com",
		To: []string{"Ops <ops@example.com>", "data@example.com"}}
}

// withPassword logs the sender in.
func withPassword(t *testing.T, password string) func(*destination.Config) {
	return func(cfg *destination.Config) {
		cfg.User, cfg.Secrets = "user", []destination.SecretRef{secretFile(t, password)}
	}
}

func TestMail_SendsOverTLSWithAPassword(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"smtp", "smtps"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := newPost(t, scheme, trusted(), func(p *post) { p.login = true })
			wantKind(t, mailOf(t, p, withPassword(t, "pa55word\n")).Send(t.Context(), alertMessage()), "accepted")
			got := p.got()
			if len(got) != 1 {
				t.Fatalf("the server got %d mails, want 1", len(got))
			}
			text := got[0].text
			got[0].text = ""
			want := posted{secure: true, user: "user", from: "alerts@dvt.example.com", to: "ops@example.com data@example.com"}
			if got[0] != want {
				t.Errorf("the mail came as %+v, want %+v", got[0], want)
			}
			m := readMail(t, text)
			wantHeader := map[string]string{
				"Subject": "[dvt] High: No worker takes steps of tq-data-prod", "From": `"dvt" <alerts@dvt.example.com>`,
				"To": `"Ops" <ops@example.com>, <data@example.com>`, "Date": "Sat, 28 Nov 2026 06:00:00 +0000",
				"Auto-Submitted": "auto-generated",
			}
			for name, want := range wantHeader {
				if have := m.header.Get(name); have != want {
					t.Errorf("%s is %q, want %q", name, have, want)
				}
			}
			wantText := "Open. Level: High. Seen 3 times.\n\nNo worker takes steps of tq-data-prod\n\n" +
				"Start a worker for this queue.\nAsk the administrator of the installation.\n\ncode: NO_WORKER\ntenant: acme\n" +
				"project: sales\nenvironment: prod\nplan: nightly\nrun: run-1\n\nhttps://dvt.example.com/alerts/NO_WORKER\n"
			if diff := cmp.Diff(wantText, m.plain); diff != "" {
				t.Errorf("the text (-want +got):\n%s", diff)
			}
			if !strings.Contains(m.html, `<a href="https://dvt.example.com/alerts/NO_WORKER">Open in dvt</a>`) {
				t.Errorf("the html has no link: %s", m.html)
			}
		})
	}
}

// parsedMail is a mail as a program that reads mail sees it.
type parsedMail struct {
	header      mail.Header
	plain, html string
}

func readMail(t *testing.T, text string) parsedMail {
	t.Helper()
	for part := range strings.SplitSeq(text, "\r\n") {
		if len(part) > 998 || strings.ContainsAny(part, "\r\n\x00") {
			t.Errorf("a line has %d bytes or a bare line break: %.100q", len(part), part)
		}
	}
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("the mail cannot be read: %v\n%s", err, text)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Errorf("the subject: %v", err)
	}
	m.Header["Subject"] = []string{subject}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("the type is %s: %v", kind, err)
	}
	out := parsedMail{header: m.Header}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, into := range []*string{&out.plain, &out.html} {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		*into = strings.ReplaceAll(string(body), "\r\n", "\n")
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		t.Errorf("the mail has more than two parts: %v", err)
	}
	return out
}

// Nothing that a tenant names can add a header, a recipient, a part or an element.
func TestMail_HostileTextStaysText(t *testing.T) {
	t.Parallel()
	p := newPost(t, "smtp", trusted())
	wantKind(t, mailOf(t, p).Send(t.Context(), hostileAlert()), "accepted")
	got := p.got()[0]
	if got.to != "ops@example.com data@example.com" {
		t.Errorf("the recipients are %s", got.to)
	}
	m := readMail(t, got.text)
	var names []string
	for name := range m.header {
		names = append(names, name)
	}
	if len(names) != 11 || m.header.Get("Bcc") != "" {
		t.Errorf("the headers are %v, want the 11 of every mail", names)
	}
	if strings.Contains(m.html, "<script") || strings.Contains(m.html, `"">`) || len(got.text) > 200<<10 {
		t.Errorf("the html holds elements of a tenant, or %d bytes are too many", len(got.text))
	}
	if strings.ContainsAny(m.plain, "\x00\x1b\u202e") {
		t.Error("the text holds control characters of a tenant")
	}
}

// Clients show the mails of one alert as one conversation, and drop a repetition.
func TestMail_OneAlertIsOneThread(t *testing.T) {
	t.Parallel()
	p := newPost(t, "smtp", trusted())
	opened, resolved, other := alertMessage(), alertMessage(), alertMessage()
	resolved.ID, resolved.Type, resolved.Alert.Resolved = "alert-1-4", "AlertResolved", true
	other.ID, other.Alert.Key = "alert-2-1", "OTHER"
	for _, m := range []destination.Message{opened, opened, resolved, other} {
		wantKind(t, mailOf(t, p).Send(t.Context(), m), "accepted")
	}
	var ids, threads, subjects []string
	for _, got := range p.got() {
		m := readMail(t, got.text)
		ids = append(ids, m.header.Get("Message-Id"))
		threads = append(threads, m.header.Get("In-Reply-To")+m.header.Get("References"))
		subjects = append(subjects, m.header.Get("Subject"))
	}
	if ids[0] != ids[1] || ids[1] == ids[2] || ids[2] == ids[3] {
		t.Errorf("the ids are %v, want the same for the first two only", ids)
	}
	if threads[0] != threads[2] || threads[0] == threads[3] || subjects[0] != subjects[2] {
		t.Errorf("the threads are %v with the subjects %v, want one for the first three", threads, subjects)
	}
}

func TestMail_NeedsTLSOutsideOfDevelopment(t *testing.T) {
	t.Parallel()
	p := newPost(t, "smtp", nil)
	err := mailOf(t, p).Send(t.Context(), alertMessage())
	if wantKind(t, err, "again"); !strings.Contains(fmt.Sprint(err), "STARTTLS") {
		t.Errorf("the error is %v, want that STARTTLS is missing", err)
	}
	wantKind(t, newSender(t, mailConfig(p.url), development).Send(t.Context(), alertMessage()), "accepted")
	cfg := mailConfig(p.url)
	withPassword(t, "pa55word")(&cfg)
	err = newSender(t, cfg, development).Send(t.Context(), alertMessage())
	if wantKind(t, err, "again"); !strings.Contains(fmt.Sprint(err), "a password is sent over TLS only") {
		t.Errorf("the error is %v, want that a password needs TLS", err)
	}
	if n := len(p.got()); n != 1 {
		t.Errorf("the server got %d mails, want the one of development", n)
	}
}

func TestMail_TrustsNoUnknownAuthority(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"smtp", "smtps"} {
		p := newPost(t, scheme, &tls.Config{Certificates: []tls.Certificate{stranger}})
		err := mailOf(t, p, withPassword(t, "pa55word")).Send(t.Context(), alertMessage())
		if wantKind(t, err, "again"); !strings.Contains(fmt.Sprint(err), "certificate is not valid") {
			t.Errorf("%s: the error is %v, want that the certificate is not valid", scheme, err)
		}
	}
}

func TestMail_WrongPasswordIsNoDeadLetterAndIsNotShown(t *testing.T) {
	t.Parallel()
	p := newPost(t, "smtp", trusted(), func(p *post) { p.login = true })
	err := mailOf(t, p, withPassword(t, "wrongwrong")).Send(t.Context(), alertMessage())
	wantKind(t, err, "again")
	if text := fmt.Sprint(err); !strings.Contains(text, "535") || strings.Contains(text, "wrongwrong") {
		t.Errorf("the error is %v, want the code 535 and no password", err)
	}
}

// Nobody is left out in silence, and nobody gets a mail twice because of somebody else.
func TestMail_EachRecipientCounts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var answer error
	p := newPost(t, "smtp", trusted(), func(p *post) {
		p.refuse = func(to string) error {
			mu.Lock()
			defer mu.Unlock()
			if to == "data@example.com" {
				return answer
			}
			return nil
		}
	})
	set := func(err error) { mu.Lock(); defer mu.Unlock(); answer = err }
	s := mailOf(t, p)
	set(&smtp.SMTPError{Code: 451, Message: "come back"})
	wantKind(t, s.Send(t.Context(), alertMessage()), "again")
	set(nil)
	wantKind(t, s.Send(t.Context(), alertMessage()), "accepted")
	other := alertMessage()
	other.ID = "other"
	set(&smtp.SMTPError{Code: 550, Message: "nobody here"})
	err := s.Send(t.Context(), other)
	if wantKind(t, err, "rejected"); !strings.Contains(fmt.Sprint(err), "1 of 2 have the mail") {
		t.Errorf("the error is %v, want that 1 of 2 have the mail", err)
	}
	var to []string
	for _, got := range p.got() {
		to = append(to, got.to)
	}
	if diff := cmp.Diff([]string{"ops@example.com", "data@example.com", "ops@example.com"}, to); diff != "" {
		t.Errorf("the recipients of the mails (-want +got):\n%s", diff)
	}
}

func TestMail_TakesEventsForNoAlert(t *testing.T) {
	t.Parallel()
	wantKind(t, mailOf(t, newPost(t, "smtp", trusted())).Send(t.Context(), eventMessage()), "rejected")
}

// A server may say what it likes for as long as it likes: the deadline and the limit end it.
func TestMail_HostileServers(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]func(net.Conn){
		"says nothing":            func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"hangs up":                func(c net.Conn) { c.Close() },
		"refuses the connection":  func(c net.Conn) { _, _ = io.WriteString(c, "554 go away\r\n") },
		"is busy":                 func(c net.Conn) { _, _ = io.WriteString(c, "421 busy\r\n") },
		"endless line":            func(c net.Conn) { endless(c, strings.Repeat("2", 1<<16)) },
		"endless greeting":        func(c net.Conn) { endless(c, strings.Repeat("220-hello\r\n", 1000)) },
		"is a web server":         func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"drips":                   func(c net.Conn) { drip(c, "220 receiver.test hello hello hello hello\r\n") },
		"answers before asked":    func(c net.Conn) { endless(c, "250 ok\r\n220 ok\r\n") },
		"starttls without a TLS":  func(c net.Conn) { script(c, "220 a", "250-a\r\n250 STARTTLS", "220 go", "plain") },
		"refuses starttls":        func(c net.Conn) { script(c, "220 a", "250-a\r\n250 STARTTLS", "454 no") },
		"injects behind starttls": func(c net.Conn) { script(c, "220 a", "250-a\r\n250 STARTTLS", "220 go\r\n250 ok") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := mailConfig("smtp://" + rawServer(t, nil, talk))
			cfg.Timeout = time.Second
			withPassword(t, "pa55word")(&cfg)
			err := withinDeadline(t, newSender(t, cfg), alertMessage(), cfg.Timeout)
			tooMuch := strings.Contains(fmt.Sprint(err), "more bytes than one session may have")
			if strings.HasPrefix(name, "endless ") && !tooMuch {
				t.Errorf("the error is %v, want that the server says too much", err)
			}
		})
	}
}
