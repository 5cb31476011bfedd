package ws_test

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// raw is a websocket peer without goroutines and buffers, for tests that control each read and write.
type raw struct {
	net.Conn
	t *testing.T
}

// rawDial connects and does the handshake.
func (s *server) rawDial(t *testing.T) raw {
	t.Helper()
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return s.upgrade(t, conn)
}

func (s *server) upgrade(t *testing.T, conn net.Conn) raw {
	t.Helper()
	c := raw{conn, t}
	c.handshake()
	return c
}

const upgradeRequest = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " +
	"websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"

func (c raw) handshake() {
	c.t.Helper()
	fmt.Fprint(c, upgradeRequest)
	for end := 0; end < 4; { // byte by byte, because the first frame may follow at once
		var b [1]byte
		if _, err := c.Read(b[:]); err != nil {
			c.t.Errorf("read the response to the handshake: %v", err)
			return
		}
		if b[0] == "\r\n\r\n"[end] {
			end++
		} else {
			end = 0
		}
	}
}

// rawOpen connects and authenticates.
func (s *server) rawOpen(t *testing.T) raw {
	t.Helper()
	return s.rawDial(t).init()
}

func (c raw) init() raw {
	c.t.Helper()
	c.text(`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`)
	opcode, data, err := readFrame(c)
	for opcode == 9 { // a ping may come first
		opcode, data, err = readFrame(c)
	}
	if err != nil || string(data) != `{"type":"connection_ack"}` {
		c.t.Errorf("got %s, error %v; want connection_ack", data, err)
	}
	return c
}

func (c raw) text(message string) { _, _ = c.Write(masked(1, []byte(message))) }

// masked returns a client's frame. Its mask is 0, which leaves the message unchanged.
func masked(opcode byte, message []byte) []byte {
	if len(message) < 126 {
		return append([]byte{0x80 | opcode, 0x80 | byte(len(message)), 0, 0, 0, 0}, message...)
	}
	n := len(message)
	if n < 1<<16 {
		return append([]byte{0x80 | opcode, 0x80 | 126, byte(n >> 8), byte(n), 0, 0, 0, 0}, message...)
	}
	return append([]byte{0x80 | opcode, 0x80 | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0,
		0, 0}, message...)
}

// readFrame reads one frame of the server and checks that it is well-formed.
func readFrame(r io.Reader) (opcode byte, data []byte, err error) {
	var head [10]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	size, more := int(head[1]), 0
	switch {
	case head[0]&0xf0 != 0x80 || head[1]&0x80 != 0:
		return 0, nil, fmt.Errorf("malformed header %x", head[:2])
	case size == 126:
		more = 2
	case size == 127:
		more = 8
	}
	if more > 0 {
		size = 0
		if _, err := io.ReadFull(r, head[2:2+more]); err != nil {
			return 0, nil, err
		}
	}
	for _, b := range head[2 : 2+more] {
		size = size<<8 | int(b)
	}
	switch opcode = head[0] & 0xf; {
	case opcode != 1 && opcode != 8 && opcode != 9 && opcode != 10, opcode >= 8 && size > 125, size > 1<<24:
		return 0, nil, fmt.Errorf("malformed frame of opcode %d and %d bytes", opcode, size)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(r, data)
	return opcode, data, err
}
