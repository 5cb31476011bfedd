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

// PostgresProxy is a Proxy in front of PostgreSQL that counts the statements which go through it.
type PostgresProxy struct {
	*Proxy
	// DSN is the address of the same database through the proxy.
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

// Statements is how often each statement was executed since the last Reset, by its SQL.
func (p *PostgresProxy) Statements() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.statements)
}

// Reset forgets what was counted.
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

// carry passes on what a client says, message by message:
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
			return errors.New("testserver: not the protocol of PostgreSQL")
		}
		body := make([]byte, size-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		if !first {
			p.look(prepared, head[0], body)
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

// look counts simple queries, and prepared statements when they are bound.
func (p *PostgresProxy) look(prepared map[string]string, kind byte, body []byte) {
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
