package ws

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/gorilla/websocket"
)

// frameRoom is what the header of a frame of the server may take.
const frameRoom = 10

// frame writes the header of an unmasked frame in front of the message b[at:], which
// needs frameRoom before it, and returns all that is to be sent.
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

// newFrame is the frame of a message that is not built in place.
func newFrame[B ~string | ~[]byte](opcode int, message B) []byte {
	b := make([]byte, frameRoom, frameRoom+len(message))
	return frame(append(b, message...), frameRoom, opcode)
}

// headRoom is kept for what stands before a shared payload; more if an id is long.
const headRoom = 128

// maxKept is the longest payload whose room is kept for others.
const maxKept = 256 << 10

// parcel is a payload that many viewers get, each in a frame that begins with its
// own head. It holds one frame at a time, so that viewers with equal heads share it and
// others cost the change of the head.
type parcel struct {
	at    Place
	head  string // of the frame that it holds
	buf   []byte // room, payload, brace
	begin int    // of the payload
}

// room is what a payload is to be appended to; load then is to follow.
func (p *parcel) room() []byte { return slices.Grow(p.buf[:0], headRoom)[:headRoom] }

// load takes room with a payload behind it; the former frames are void.
func (p *parcel) load(b []byte, at Place) {
	p.buf, p.begin, p.head, p.at = append(b, '}'), headRoom, "", at
}

// data is the payload.
func (p *parcel) data() []byte { return p.buf[p.begin : len(p.buf)-1] }

// frame is valid until the next call.
func (p *parcel) frame(head string) []byte {
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

// copies are n parcels of the same payload, each for one goroutine.
func (p *parcel) copies(from *parcels, n int) []*parcel {
	all := make([]*parcel, n)
	for i := range all {
		all[i] = from.take()
		all[i].load(append(all[i].room(), p.data()...), p.at)
	}
	return all
}

// parcels are kept for whichever group has something to deliver next: a group needs one
// for moments only.
type parcels struct{ pool sync.Pool }

func (ps *parcels) take() *parcel {
	if p, ok := ps.pool.Get().(*parcel); ok {
		return p
	}
	return &parcel{}
}

func (ps *parcels) put(p *parcel) {
	if cap(p.buf) <= maxKept {
		ps.pool.Put(p)
	}
}
