package testserver

import (
	"bufio"
	"bytes"
	wire "encoding/binary"
	"errors"
	"io"
	"maps"
	"net/url"
	"sync"
	"testing"
)

// PostgresProxy is a Proxy in front of PostgreSQL that counts the executed statements.
type PostgresProxy struct {
	*Proxy
	// DSN is the URL of the database through the proxy.
	DSN string

	mu         sync.Mutex
	statements map[string]int
}

// NewPostgresProxy starts a proxy in front of the server of dsn, a URL without TLS, and ends it when t ends.
func NewPostgresProxy(t testing.TB, dsn string) *PostgresProxy {
	t.Helper()
	at, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	p := &PostgresProxy{statements: map[string]int{}}
	p.Proxy = startProxy(t, at.Host, func(l *link) (up, down func() error) {
		return func() error { return p.carry(l) }, l.copies(l.client, l.server)
	})
	at.Host = p.Addr
	p.DSN = at.String()
	return p
}

// Statements returns the number of executions of each statement since the last Reset, by its SQL.
func (p *PostgresProxy) Statements() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.statements)
}

// Reset sets all counts to zero.
func (p *PostgresProxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.statements)
}

func (p *PostgresProxy) count(sql string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statements[sql]++
}

const maxPostgresMessage = 1 << 30

// carry forwards the messages of a client one by one:
// https://www.postgresql.org/docs/current/protocol-message-formats.html.
func (p *PostgresProxy) carry(l *link) error {
	in, out := bufio.NewReader(l.client), bufio.NewWriter(l.server)
	prepared := map[string]string{}
	for first := true; ; first = false { // the first message has no type
		head := make([]byte, 5)
		if first {
			head = head[:4]
		}
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		size := wire.BigEndian.Uint32(head[len(head)-4:])
		if size < 4 || size > maxPostgresMessage {
			return errors.New("testserver: the message does not follow the PostgreSQL protocol")
		}
		body := make([]byte, size-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		if !first {
			p.inspect(prepared, head[0], body)
		}
		_, err := out.Write(append(head, body...))
		if in.Buffered() == 0 && err == nil {
			if !l.pass() {
				return nil
			}
			err = out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// inspect counts simple queries, and prepared statements when they are bound. prepared contains their SQL by name.
func (p *PostgresProxy) inspect(prepared map[string]string, kind byte, body []byte) {
	name, rest, _ := bytes.Cut(body, []byte{0})
	text, _, _ := bytes.Cut(rest, []byte{0})
	switch kind {
	case 'Q':
		p.count(string(name))
	case 'P':
		prepared[string(name)] = string(text)
	case 'B': // the portal, then the statement
		p.count(prepared[string(text)])
	}
}
