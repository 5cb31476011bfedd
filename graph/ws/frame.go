package ws

import (
	"encoding/binary"

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

// parcel is a payload that many viewers get, each in a frame that begins with its
// own head. It holds one frame at a time, so that viewers with equal heads share it and
// others cost the change of the head.
type parcel struct {
	Payload
	head  string
	buf   []byte // room, payload, brace
	begin int    // of the payload
}

// load puts another payload in; the former frames are void.
func (p *parcel) load(next Payload) { p.Payload, p.head = next, "" }

// unload lets go of the payload, and of a buffer that is too large to keep.
func (p *parcel) unload() {
	const keep = 256 << 10
	p.load(Payload{})
	if cap(p.buf) > keep {
		p.buf = nil
	}
}

// frame is valid until the next call.
func (p *parcel) frame(head string) []byte {
	if p.head == "" || len(head)+frameRoom > p.begin {
		p.begin = max(headRoom, len(head)+frameRoom)
		if size := p.begin + len(p.Data) + 1; cap(p.buf) < size {
			p.buf = make([]byte, size)
		}
		p.buf = append(append(p.buf[:p.begin], p.Data...), '}')
		p.head = ""
	}
	at := p.begin - len(head)
	if p.head != head {
		copy(p.buf[at:], head)
		p.head = head
	}
	return frame(p.buf, at, websocket.TextMessage)
}
