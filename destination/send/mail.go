package send

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"github.com/dvt-engine/dvt/destination"
)

const (
	maxRecipients = 20
	// maxMailTalk bounds what a server may say in one session. net/smtp reads lines of any length.
	maxMailTalk = 64 << 10
	// maxMailMemory is the number of messages whose recipients are remembered.
	maxMailMemory = 256
)

// mailer sends alerts by SMTP. It requires TLS outside of development: STARTTLS for smtp://, from the first byte for
// smtps://.
type mailer struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	address  string
	host     string
	implicit bool // TLS from the first byte
	plain    bool // mail without TLS is permitted
	from     *mail.Address
	to       []*mail.Address
	user     string
	password secrets
	opt      Options
	reached  reached
}

func newMail(cfg destination.Config, opt Options) (*mailer, error) {
	u, err := parseAddress(cfg.URL, "smtp", "smtps")
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("the url has a path: smtp://HOST:PORT is enough")
	}
	from, err := parseMailbox(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if n := len(cfg.To); n < 1 || n > maxRecipients {
		return nil, fmt.Errorf("kind email needs 1 to %d addresses in to, not %d", maxRecipients, n)
	}
	m := &mailer{
		dial: opt.Guard.DialContext, host: u.Hostname(), implicit: u.Scheme == "smtps", plain: opt.AllowPrivate,
		from: from, user: cfg.User, opt: opt, address: hostPort(u, "587"),
	}
	if m.implicit {
		m.address = hostPort(u, "465")
	}
	for _, text := range cfg.To {
		to, err := parseMailbox(text)
		if err != nil {
			return nil, fmt.Errorf("to: %w", err)
		}
		m.to = append(m.to, to)
	}
	least := 0
	if cfg.User != "" {
		least = 1
	} else if len(cfg.Secrets) > 0 {
		return nil, errors.New("a password needs a user")
	}
	m.password, err = newSecrets(cfg, opt, least, 1)
	return m, err
}

// parseMailbox parses one address. Line breaks would add commands or headers.
func parseMailbox(text string) (*mail.Address, error) {
	a, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsAny(a.Address+a.Name, "\r\n\x00<>") || len(text) > 320 {
		return nil, fmt.Errorf("%q is no mail address", printable(text, 80))
	}
	return a, nil
}

func (s *mailer) Send(ctx context.Context, m destination.Message) error {
	if m.Alert == nil {
		return alertsOnly(destination.Email)
	}
	text, err := s.compose(m)
	if err != nil {
		return rejected("the mail cannot be written: %s", err)
	}
	conn, err := s.dial(ctx, "tcp", s.address)
	if err != nil {
		return transportError(ctx, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := s.session(ctx, &quietConn{Conn: conn, left: maxMailTalk}, m.ID, text); err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

func (s *mailer) Close() error { return nil }

// session sends one mail to the recipients that did not accept it in an earlier try.
func (s *mailer) session(ctx context.Context, conn net.Conn, id string, text []byte) error {
	client, err := s.open(conn)
	if err != nil {
		return err
	}
	defer client.Close()
	if s.user != "" {
		if err := s.login(client); err != nil {
			return err
		}
	}
	if err := client.Mail(s.from.Address); err != nil {
		return err
	}
	var accepted []string
	var later, never error
	for _, to := range s.to {
		if s.reached.has(id, to.Address) {
			continue
		}
		err := client.Rcpt(to.Address)
		var reply *textproto.Error
		switch {
		case err == nil:
			accepted = append(accepted, to.Address)
		case errors.As(err, &reply) && reply.Code/100 == 5:
			never = err
		case errors.As(err, &reply):
			later = err
		default:
			return err
		}
	}
	if len(accepted) > 0 {
		if err := deliver(client, text); err != nil {
			return err
		}
		s.reached.add(id, accepted)
		_ = client.Quit() // the mail is accepted, whatever the server says now
	}
	// Nobody is left out silently: a recipient that waits gets another try, and one that is refused a dead letter.
	switch {
	case ctx.Err() != nil && len(accepted) == 0:
		return ctx.Err()
	case later != nil:
		return later
	case never != nil:
		return rejected("a recipient was refused, %d of %d have the mail: %s",
			s.reached.count(id), len(s.to), printable(never.Error(), maxAnswer))
	}
	return nil
}

// open greets the server and starts TLS.
func (s *mailer) open(conn net.Conn) (*smtp.Client, error) {
	config := &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
	if s.implicit {
		conn = tls.Client(conn, config)
	}
	client, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return nil, err
	}
	if err := client.Hello(s.domain()); err != nil {
		return nil, err
	}
	if s.implicit {
		return client, nil
	}
	if offered, _ := client.Extension("STARTTLS"); offered {
		return client, client.StartTLS(config)
	}
	if !s.plain {
		return nil, &explainedError{"the server does not offer STARTTLS, and mail is sent over TLS only"}
	}
	return client, nil
}

// login sends the password, over TLS only.
func (s *mailer) login(client *smtp.Client) error {
	if _, secure := client.TLSConnectionState(); !secure {
		return &explainedError{"the server does not offer TLS, and a password is sent over TLS only"}
	}
	values, err := s.password.read()
	if err != nil {
		return err
	}
	if err := client.Auth(smtp.PlainAuth("", s.user, values[0], s.host)); err != nil {
		var reply *textproto.Error
		if errors.As(err, &reply) {
			// No reason for a dead letter: the password may be mended.
			return &explainedError{fmt.Sprintf("the server refused the user and the password: %d %s", reply.Code,
				printable(hide(reply.Msg, values[0]), maxAnswer))}
		}
		return err
	}
	return nil
}

func deliver(client *smtp.Client, text []byte) error {
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return w.Close()
}

// explain returns the error of the port for the error of a session.
func (s *mailer) explain(ctx context.Context, err error) error {
	var reply *textproto.Error
	var refused *destination.RejectedError
	var own *explainedError
	switch {
	case errors.As(err, &refused), errors.As(err, &own):
		return err
	case errors.Is(err, errTalk):
		return errors.New("destination: the mail server sent more bytes than one session may have")
	case errors.As(err, &reply) && reply.Code/100 == 5:
		return rejected("the mail server answered %d: %s", reply.Code, printable(reply.Msg, maxAnswer))
	case errors.As(err, &reply):
		return fmt.Errorf("destination: the mail server answered %d: %s", reply.Code, printable(reply.Msg, maxAnswer))
	}
	return transportError(ctx, err)
}

// domain is the name by which the client greets the server, and the right side of message ids.
func (s *mailer) domain() string {
	domain := s.from.Address[strings.LastIndexByte(s.from.Address, '@')+1:]
	for _, r := range domain {
		if r <= ' ' || r >= 0x7f {
			return "localhost"
		}
	}
	return domain
}

var errTalk = errors.New("too much was read")

// quietConn ends a connection on which the server says too much.
type quietConn struct {
	net.Conn
	left int
}

func (c *quietConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTalk
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// reached remembers who has accepted a message, so that a repetition for one recipient is no second mail for others. It
// is best effort: a restart forgets, and then the mail has the same Message-ID. The zero value is ready.
type reached struct {
	mu    sync.Mutex
	by    map[string][]string
	order []string // ids, the oldest first
}

func (r *reached) has(id, address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.by[id], address)
}

func (r *reached) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.by[id])
}

func (r *reached) add(id string, addresses []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string][]string{}
	}
	if _, known := r.by[id]; !known {
		r.order = append(r.order, id)
		if len(r.order) > maxMailMemory {
			delete(r.by, r.order[0])
			r.order = r.order[1:]
		}
	}
	r.by[id] = append(r.by[id], addresses...)
}
