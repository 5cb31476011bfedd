package ws

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/gorilla/websocket"
)

// frameRoom is the length of the longest header of a server's frame, in bytes.
const frameRoom = 10

// frame writes the header of an unmasked frame in front of the message b[at:] and returns the whole frame, a slice of
// b. at must be at least frameRoom.
func frame(b []byte, at, opcode int) []byte {
	const final = 0x80
	switch size := len(b) - at; {
	case size < 126:
		at -= 2
		b[at+1] = byte(size)
	case size < 1<<16:
		at -= 4
		b[at+1] = 126
		binary.BigEndian.PutUint16(b[at+2:], uint16(size))
	default:
		at -= frameRoom
		b[at+1] = 127
		binary.BigEndian.PutUint64(b[at+2:], uint64(size))
	}
	b[at] = final | byte(opcode)
	return b[at:]
}

// newFrame returns a frame with a copy of message.
func newFrame[B ~string | ~[]byte](opcode int, message B) []byte {
	b := make([]byte, frameRoom, frameRoom+len(message))
	return frame(append(b, message...), frameRoom, opcode)
}

// headRoom is the space that a frameBuf reserves for frame header and head before the payload. frame enlarges it for a
// long id.
const headRoom = 128

// maxPooled is the largest buffer that the pool keeps, in bytes, so that one large payload does not occupy memory for
// ever.
const maxPooled = 256 << 10

// frameBuf builds the frames of one payload for many viewers. A frame consists of the viewer's head (with its operation
// id) and the payload. The buffer holds one frame at a time: for the next viewer only the head is overwritten, and not
// even that when the heads are equal.
type frameBuf struct {
	at    Position
	head  string // head of the frame that buf holds
	buf   []byte // reserved space, payload, closing brace
	begin int    // index of the payload in buf
}

// room returns the reserved space, to which the caller appends a payload; load must follow.
func (p *frameBuf) room() []byte { return slices.Grow(p.buf[:0], headRoom)[:headRoom] }

// load sets the payload: b is the result of room with the payload appended. It invalidates earlier frames.
func (p *frameBuf) load(b []byte, at Position) {
	p.buf, p.begin, p.head, p.at = append(b, '}'), headRoom, "", at
}

// data returns the payload. It is valid until the next load.
func (p *frameBuf) data() []byte { return p.buf[p.begin : len(p.buf)-1] }

// frame returns the frame of the payload for a viewer. It is valid until the next call.
func (p *frameBuf) frame(head string) []byte {
	if need := len(head) + frameRoom; need > p.begin {
		p.buf = append(make([]byte, need), p.buf[p.begin:]...)
		p.begin, p.head = need, ""
	}
	at := p.begin - len(head)
	if p.head != head {
		copy(p.buf[at:], head)
		p.head = head
	}
	return frame(p.buf, at, websocket.TextMessage)
}

// copies returns n copies, because a frameBuf may be used by one goroutine only.
func (p *frameBuf) copies(from *frameBufs, n int) []*frameBuf {
	all := make([]*frameBuf, n)
	for i := range all {
		all[i] = from.take()
		all[i].load(append(all[i].room(), p.data()...), p.at)
	}
	return all
}

// frameBufs is a pool that all groups share, because a group uses a buffer only for a moment.
type frameBufs struct{ pool sync.Pool }

func (ps *frameBufs) take() *frameBuf {
	if p, ok := ps.pool.Get().(*frameBuf); ok {
		return p
	}
	return &frameBuf{}
}

func (ps *frameBufs) put(p *frameBuf) {
	if cap(p.buf) <= maxPooled {
		ps.pool.Put(p)
	}
}
