package send

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/destination"
)

// Limits of one message in bytes. Receivers of RFC 5425 should take 8,192, and 1,400 fit into one packet of a common
// network.
const (
	maxSyslogStream   = 8192
	maxSyslogDatagram = 1400
	facilityLocal0    = 16
	facilityAudit     = 13 // "log audit" of RFC 5424
	// Audit records that were written within resendFor are written again to a new connection, at most maxResend bytes:
	// a receiver that died may not have read them, and syslog acknowledges nothing.
	resendFor = 30 * time.Second
	maxResend = 1 << 20
	// syslogID names our structured data. 32473 is the enterprise number for examples: dvt has none of its own.
	syslogID = "dvt@32473"
)

// syslogger writes RFC 5424: counted frames over TCP (RFC 6587) and TLS (RFC 5425), datagrams over UDP (RFC 5426).
// Syslog acknowledges nothing: a message is accepted when the operating system has taken it.
type syslogger struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	scheme  string
	host    string
	address string
	// own is the name of this machine in messages.
	own string
	opt Options

	turn chan struct{} // holds one token: a turn at conn
	conn *syslogConn
	// recent are audit records that were written lately.
	recent      []sentLine
	recentBytes int
}

type sentLine struct {
	at   time.Time
	line []byte
}

func newSyslog(cfg destination.Config, opt Options) (*syslogger, error) {
	u, err := parseAddress(cfg.URL, "tcp", "tls", "udp")
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("the url has a path: tls://HOST:PORT is enough")
	}
	if _, err := newSecrets(cfg, opt, 0, 0); err != nil {
		return nil, err
	}
	own, err := os.Hostname()
	if err != nil {
		own = ""
	}
	port := map[string]string{"tcp": "601", "tls": "6514", "udp": "514"}[u.Scheme]
	s := &syslogger{
		dial: opt.Guard.DialContext, scheme: u.Scheme, host: u.Hostname(), address: hostPort(u, port),
		own: syslogName(own, 64), opt: opt, turn: make(chan struct{}, 1),
	}
	s.turn <- struct{}{}
	return s, nil
}

func (s *syslogger) Send(ctx context.Context, m destination.Message) error {
	line := s.format(m)
	if s.scheme != "udp" {
		line = append([]byte(strconv.Itoa(len(line))+" "), line...)
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return transportError(ctx, ctx.Err())
	}
	s.forgetRecent()
	reused := s.conn != nil && s.conn.alive()
	err := s.write(ctx, line)
	if err != nil && reused && ctx.Err() == nil {
		err = s.write(ctx, line) // the kept connection was dead
	}
	if err != nil {
		return transportError(ctx, err)
	}
	if m.Topic == destination.Audit {
		s.recent = append(s.recent, sentLine{time.Now(), line})
		s.recentBytes += len(line)
	}
	return nil
}

// forgetRecent drops records that a receiver has surely read.
func (s *syslogger) forgetRecent() {
	for len(s.recent) > 0 && (s.recentBytes > maxResend || time.Since(s.recent[0].at) > resendFor) {
		s.recentBytes -= len(s.recent[0].line)
		s.recent = s.recent[1:]
	}
}

// write writes to the kept connection or to a new one. After an error there is no connection, because a part of a frame
// would spoil the next one.
func (s *syslogger) write(ctx context.Context, line []byte) error {
	if s.conn != nil && !s.conn.alive() {
		s.drop()
	}
	if s.conn == nil {
		conn, err := s.connect(ctx)
		if err != nil {
			return err
		}
		s.conn = watch(conn)
		again := make([]byte, 0, s.recentBytes+len(line))
		for _, r := range s.recent {
			again = append(again, r.line...)
		}
		line = append(again, line...)
	}
	conn := s.conn // the function may run after the connection was dropped
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now()) })
	_, err := conn.Write(line)
	if inTime := stop(); err != nil || !inTime {
		s.drop() // the deadline may be set for ever
	}
	return err
}

func (s *syslogger) connect(ctx context.Context) (net.Conn, error) {
	network := "tcp"
	if s.scheme == "udp" {
		network = "udp"
	}
	conn, err := s.dial(ctx, network, s.address)
	if err != nil || s.scheme != "tls" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// drop ends the kept connection below TLS, because a receiver that hangs would hold up the end of a TLS session.
func (s *syslogger) drop() {
	if s.conn == nil {
		return
	}
	if secure, ok := s.conn.Conn.(*tls.Conn); ok {
		secure.NetConn().Close()
	}
	s.conn.Close()
	<-s.conn.done
	s.conn = nil
}

// Close ends the kept connection. It waits for a send in progress, which its deadline bounds.
func (s *syslogger) Close() error {
	<-s.turn
	s.drop()
	s.turn <- struct{}{}
	return nil
}

// syslogConn notices that the receiver ended the connection, also while nothing is written.
type syslogConn struct {
	net.Conn
	done chan struct{} // closed when the receiver has ended the connection
}

func watch(conn net.Conn) *syslogConn {
	c := &syslogConn{Conn: conn, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		// A receiver has nothing to say. Its bytes are dropped, so that it cannot fill a buffer.
		_, _ = io.Copy(io.Discard, conn)
	}()
	return c
}

func (c *syslogConn) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// format returns one message of RFC 5424.
func (s *syslogger) format(m destination.Message) []byte {
	limit, facility := maxSyslogStream, facilityLocal0
	if m.Topic == destination.Audit { // a part of a record cannot be verified
		limit, facility = destination.MaxMessage+maxSyslogStream, facilityAudit
	}
	if s.scheme == "udp" {
		limit = maxSyslogDatagram
	}
	at := "-"
	if !m.At.IsZero() {
		at = m.At.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	head := fmt.Sprintf("<%d>1 %s %s dvt - %s ", facility*8+severityOf(m), at, s.own, syslogName(m.Type, 32))
	text := "\ufeff" + s.syslogText(m) // the mark says that the text is UTF-8
	line := head + structured(m, false, 128) + " " + text
	if len(line) > limit {
		// The parameter truncated tells programs, and the last character tells people.
		line = cut(head+structured(m, true, limit/28)+" "+text, limit)
	}
	return []byte(line)
}

// syslogText is the alert in words, or the event as JSON.
func (s *syslogger) syslogText(m destination.Message) string {
	if m.Alert != nil {
		parts := []string{titleOf(m, maxSummary), statusLine(m), printable(m.Alert.Detail, 2*maxSyslogStream)}
		if link := s.opt.linkOf(m.Alert); link != "" {
			parts = append(parts, link)
		}
		return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, m.Data) != nil || compact.Len() == 0 {
		return printable(m.Type, maxSyslogStream)
	}
	if m.Topic == destination.Audit { // every byte counts for the hash; JSON has no control characters
		return compact.String()
	}
	return printable(compact.String(), compact.Len())
}

// structured returns the element with the ids of a message. Its values have at most n bytes and are escaped. There are
// at most 12, so that the element fits into a message of 28 n bytes.
func structured(m destination.Message, truncated bool, n int) string {
	var b strings.Builder
	b.WriteString("[" + syslogID)
	add := func(name, value string) {
		if value = syslogValue(value, n); value != "" {
			b.WriteString(" " + name + `="` + value + `"`)
		}
	}
	add("id", m.ID)
	add("topic", string(m.Topic))
	for _, f := range factsOf(m) {
		add(f.name, f.value)
	}
	if m.Seq > 0 {
		add("seq", strconv.FormatUint(m.Seq, 10))
	}
	add("level", m.Level)
	if m.Alert != nil {
		add("key", m.Alert.Key)
	}
	if m.Replayed {
		add("replayed", "true")
	}
	if truncated {
		add("truncated", "true")
	}
	b.WriteString("]")
	return b.String()
}

// syslogValue escapes the three characters that end a value, after everything that is not printable is gone.
func syslogValue(text string, n int) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`).Replace(printable(text, n))
}

// syslogName returns a name of printable ASCII without spaces, or "-".
func syslogName(text string, n int) string {
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, text)
	if name == "" {
		return "-"
	}
	return name[:min(len(name), n)]
}

// severityOf maps the level of an alert to a severity of syslog. Events of runs are informational.
func severityOf(m destination.Message) int {
	const critical, failure, warning, notice, informational = 2, 3, 4, 5, 6
	if m.Alert == nil {
		return informational
	}
	if stateOf(m) == stateResolved {
		return notice
	}
	switch m.Level {
	case "HIGH":
		return critical
	case "MEDIUM":
		return failure
	}
	return warning
}
