// Package send holds the senders of package destination: signed webhooks, PagerDuty, Slack, e-mail and syslog. A sender
// tries one message once; retries, order and dead letters are the caller's.
//
// Each sender treats its destination as hostile: an answer is read up to a limit, no call outlives its deadline, no
// redirect is followed, and the guard of package egress judges each address when it is dialled.
package send

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/egress"
)

// DefaultTimeout bounds one send of a destination without a timeout of its own.
const DefaultTimeout = 10 * time.Second

// Options are what all destinations of an installation share. The zero value sends to public addresses only.
type Options struct {
	// PublicAddress is the address of the UI, such as https://dvt.example.com, or empty. It is the source of messages and
	// the base of links.
	PublicAddress string
	// Guard judges each address. nil permits public addresses only.
	Guard *egress.Guard
	// LookupEnv reads the environment for secrets. nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// AllowPrivate is for `dvt dev` and tests. It permits private addresses to every destination, and http:// and mail
	// without TLS.
	AllowPrivate bool
	// Version of dvt for the header User-Agent.
	Version string
}

// New returns the sender of a destination. It checks the address and the fields that the kind needs, and reads no
// secret: a secret that is missing fails the send, so that it can be put in place later.
func New(cfg destination.Config, opt Options) (destination.Sender, error) {
	if opt.LookupEnv == nil {
		opt.LookupEnv = os.LookupEnv
	}
	opt.PublicAddress = strings.TrimRight(opt.PublicAddress, "/")
	if cfg.AllowPrivate || opt.AllowPrivate {
		opt.Guard = opt.Guard.WithPrivate()
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	var (
		sender destination.Sender
		err    error
	)
	switch cfg.Kind {
	case destination.Webhook:
		if cfg.Format == destination.OpenLineage {
			sender, err = newOpenLineage(cfg, opt)
		} else {
			sender, err = newWebhook(cfg, opt)
		}
	case destination.PagerDuty:
		sender, err = newPagerDuty(cfg, opt)
	case destination.Slack:
		sender, err = newSlack(cfg, opt)
	case destination.Email:
		sender, err = newMail(cfg, opt)
	case destination.Syslog:
		sender, err = newSyslog(cfg, opt)
	case destination.File:
		sender, err = newFile(cfg)
	default:
		err = fmt.Errorf("the kind %q is unknown: use webhook, pagerduty, slack, email, syslog or file", cfg.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("destination %s: %w", cfg.Name, err)
	}
	return bounded{sender, cfg.Timeout}, nil
}

// bounded holds every sender to the rules of the port: the deadline, and the limit of a message.
type bounded struct {
	destination.Sender
	timeout time.Duration
}

func (b bounded) Send(ctx context.Context, m destination.Message) error {
	if len(m.Data) > destination.MaxMessage {
		return rejected("the message has %d bytes, more than %d", len(m.Data), destination.MaxMessage)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return b.Sender.Send(ctx, m)
}

// explainedError is an error of ours whose text may be shown.
type explainedError struct{ text string }

func (e *explainedError) Error() string { return "destination: " + e.text }

func rejected(format string, args ...any) error {
	return &destination.RejectedError{Reason: fmt.Sprintf(format, args...)}
}

// parseAddress parses the address of a destination, which has one of the schemes, a host, and no user or password:
// those would show in logs and lists.
func parseAddress(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the url cannot be parsed") // the error of url.Parse quotes the address
	case !slices.Contains(schemes, u.Scheme) || u.Hostname() == "":
		return nil, fmt.Errorf("the url begins with none of %s:// and a host", strings.Join(schemes, "://, "))
	case u.User != nil:
		return nil, errors.New("the url has a user or a password: name a secret instead")
	case u.Fragment != "":
		return nil, errors.New("the url has a fragment (#), which is never sent")
	}
	return u, nil
}

// hostPort returns host:port of an address whose scheme has a default port.
func hostPort(u *url.URL, port string) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// linkOf returns the address of an alert's page, or "" when it is not known or no http address.
func (o Options) linkOf(a *destination.AlertText) string {
	link := a.Link
	if strings.HasPrefix(link, "/") && o.PublicAddress != "" {
		link = o.PublicAddress + link
	}
	if u, err := url.Parse(link); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return link
}

// transportError returns the error for a connection that failed. It names no address and no answer.
func transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("destination: there was no answer in time")
	}
	return errors.New("destination: " + egress.Reason(err))
}
