package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

// viewers are websocket clients of one server. One thread reads all of them. To use little processor time it parses
// only the frame headers and the runSeq near the start of each message.
type viewers struct {
	dialect dialect
	poll    int // file descriptor of epoll
	all     []*viewer
	bySock  map[int32]*viewer
	buf     []byte
	ready   int // number of viewers that have received the welcome message
	err     error

	messages int64  // number of messages with a runSeq
	bytes    int64  // their total size
	last     string // last message of the first viewer
	arrivals []arrival
	target   int64  // seq of the update that until waits for
	reached  int    // number of viewers that have target
	wanted   string // text that the first viewer waits for; empty when a message contained it
	wantedAt time.Time

	beside *viewers // viewers of another server, whose pings must be answered meanwhile; may be nil
	tended time.Time
	heard  time.Time // time of the last read that had data
}

// want makes isShown wait for a text in a message of the first viewer. The last message counts too.
func (v *viewers) want(text string) {
	v.wanted, v.wantedAt = text, time.Now()
	if strings.Contains(v.last, text) {
		v.wanted = ""
	}
}

// isShown reports whether the first viewer has received the text of want.
func (v *viewers) isShown() bool { return v.wanted == "" }

// dialect is the protocol that viewers speak with a server.
type dialect struct {
	path, protocol string
	hello          func(viewer int) []string // messages that the viewer sends first; may be nil
	welcome        string                    // text in the message after which the viewer is subscribed
}

// viewer is one socket.
type viewer struct {
	sock   int
	first  bool // keep its messages completely
	ready  bool
	seq    int64  // of its newest update
	header []byte // incomplete header of a frame
	left   int    // bytes of the frame that are not read yet
	op     byte
	final  bool
	begin  []byte // start of the message
	size   int64  // size of the message
}

// arrival is the receipt of all updates from after+1 to to.
type arrival struct {
	after, to int64
	at        time.Time
}

// prefixSize is the number of bytes of a message that are parsed.
const prefixSize = 256

// Opcodes of RFC 6455.
const (
	opContinued = 0
	opText      = 1
	opClose     = 8
	opPing      = 9
	opPong      = 10
)

// receive parses data that was read from a socket.
func (v *viewers) receive(w *viewer, data []byte) {
	now := time.Now()
	for v.err == nil {
		if w.left == 0 {
			n, complete := w.frame(data)
			if data = data[n:]; !complete {
				return
			}
		}
		n := min(w.left, len(data))
		keep := n
		if !w.first {
			keep = min(n, prefixSize-len(w.begin))
		}
		w.begin = append(w.begin, data[:keep]...)
		w.left -= n
		w.size += int64(n)
		if data = data[n:]; w.left > 0 {
			return
		}
		if w.final {
			v.message(w, now)
		}
	}
}

// frame parses the header of a frame and returns the number of bytes that it consumed. complete is false if the header
// continues after data.
func (w *viewer) frame(data []byte) (n int, complete bool) {
	for {
		need := 2
		if len(w.header) >= 2 {
			switch w.header[1] & 0x7f {
			case 126:
				need = 4
			case 127:
				need = 10
			}
		}
		if len(w.header) >= need {
			break
		}
		take := min(need-len(w.header), len(data)-n)
		if take == 0 {
			return n, false
		}
		w.header = append(w.header, data[n:n+take]...)
		n += take
	}
	h := w.header
	switch len(h) {
	case 2:
		w.left = int(h[1] & 0x7f)
	case 4:
		w.left = int(binary.BigEndian.Uint16(h[2:]))
	default:
		w.left = int(binary.BigEndian.Uint64(h[2:]))
	}
	w.final = h[0]&0x80 != 0
	if op := h[0] & 0xf; op != opContinued {
		w.op, w.begin, w.size = op, w.begin[:0], 0
	}
	w.header = h[:0]
	return n, true
}

var seqKey = []byte(`"runSeq":`) //nolint:gochecknoglobals // a constant

// message handles a complete message.
func (v *viewers) message(w *viewer, at time.Time) {
	switch w.op {
	case opPing:
		v.send(w, opPong, string(w.begin))
		return
	case opPong:
		return
	case opClose:
		v.err = fmt.Errorf("a viewer was disconnected: %q", w.begin)
		return
	}
	if !w.ready && bytes.Contains(w.begin, []byte(v.dialect.welcome)) {
		w.ready = true
		v.ready++
	}
	i := bytes.Index(w.begin, seqKey)
	if i < 0 {
		v.handleOther(w)
		return
	}
	var seq int64
	for _, c := range w.begin[i+len(seqKey):] {
		if c < '0' || c > '9' {
			break
		}
		seq = seq*10 + int64(c-'0')
	}
	v.messages++
	v.bytes += w.size
	if w.first {
		v.last = string(w.begin)
		if v.wanted != "" && strings.Contains(v.last, v.wanted) {
			v.wanted, v.wantedAt = "", at
		}
	}
	if seq > w.seq {
		v.arrivals = append(v.arrivals, arrival{w.seq, seq, at})
		if w.seq < v.target && seq >= v.target {
			v.reached++
		}
		w.seq = seq
	}
}

// handleOther handles a message without a runSeq: it replies to pings and records errors.
func (v *viewers) handleOther(w *viewer) {
	switch {
	case string(w.begin) == "{}": // centrifuge's ping
		v.send(w, opText, "{}")
	case bytes.Contains(w.begin, []byte(`"type":"ping"`)):
		v.send(w, opText, `{"type":"pong"}`)
	case bytes.Contains(w.begin, []byte(`"error`)), bytes.Contains(w.begin, []byte(`"type":"complete"`)):
		v.err = fmt.Errorf("a viewer received %s", w.begin)
	}
}

// frameOf returns a client's frame. Its mask is 0, which leaves the text unchanged.
func frameOf(op byte, text string) []byte {
	f := []byte{0x80 | op}
	if n := len(text); n < 126 {
		f = append(f, 0x80|byte(n))
	} else {
		f = binary.BigEndian.AppendUint16(append(f, 0x80|126), uint16(n))
	}
	return append(append(f, 0, 0, 0, 0), text...)
}

// handshake returns the request for the upgrade to a websocket.
func (d dialect) handshake(addr string) string {
	lines := "GET " + d.path + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	if d.protocol != "" {
		lines += "Sec-WebSocket-Protocol: " + d.protocol + "\r\n"
	}
	return lines + "\r\n"
}

// tend reads the viewers of the other server every 100 ms, so that they reply to pings and are not disconnected.
func (v *viewers) tend() error {
	if v.beside == nil || time.Since(v.tended) < 100*time.Millisecond {
		return nil
	}
	v.tended = time.Now()
	return errors.Join(v.beside.look(0), v.beside.err)
}

// until reads until done returns true. It returns an error when a viewer fails or the time limit is exceeded.
func (v *viewers) until(ctx context.Context, done func() bool) error {
	for deadline := time.Now().Add(4 * rig.Patience); !done(); {
		if err := v.look(20 * time.Millisecond); err != nil {
			return err
		}
		if err := errors.Join(v.err, v.tend(), ctx.Err()); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("of %d viewers, %d were subscribed and %d had update %d in time", len(v.all), v.ready, v.reached,
				v.target)
		}
	}
	return nil
}

// expect sets the update that reached counts, and clears arrivals.
func (v *viewers) expect(seq int64) {
	v.target, v.reached, v.arrivals = seq, 0, v.arrivals[:0]
	for _, w := range v.all {
		if w.seq >= seq {
			v.reached++
		}
	}
}

// watching is a server with its viewers.
type watching struct {
	*rig.Service
	*viewers
	seq int64 // of the newest update that all viewers have
}

// connectViewers connects n viewers and waits until all are subscribed. The viewers of beside, if not nil, are kept
// alive meanwhile. If the result is not nil the caller closes it, also after an error.
func connectViewers(ctx context.Context, s *rig.Service, d dialect, n int, beside *watching) (*watching, error) {
	v, err := newViewers(d)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	w := &watching{Service: s, viewers: v}
	if beside != nil {
		v.beside, beside.beside = beside.viewers, v
	}
	return w, w.addViewers(ctx, n)
}

// addViewers connects n more viewers.
func (w *watching) addViewers(ctx context.Context, n int) error {
	for range n {
		if err := w.open(w.Addr); err != nil {
			return err
		}
		if err := errors.Join(w.look(0), w.err, w.tend(), ctx.Err()); err != nil {
			return err
		}
	}
	if err := w.until(ctx, func() bool { return w.ready == len(w.all) }); err != nil {
		return err
	}
	w.seq = w.all[0].seq
	return nil
}

func (w *watching) close() error {
	w.viewers.close()
	return w.Close()
}

// step publishes one update and waits until every viewer has it.
func (w *watching) step(ctx context.Context) error {
	w.expect(w.seq + 1)
	if err := w.Publish(1, 0); err != nil {
		return err
	}
	if err := w.until(ctx, func() bool { return w.reached == len(w.all) }); err != nil {
		return err
	}
	w.seq = w.target
	_, err := w.Published()
	return err
}

// usage is the processor time of the server and the messages to its viewers during a number of updates.
type usage struct {
	cpu             time.Duration
	messages, bytes int64
}

// measureUsage publishes updates one after the other and returns the usage.
func (w *watching) measureUsage(ctx context.Context, updates int) (s usage, err error) {
	messages, bytes := w.messages, w.bytes
	before, err := w.CPU()
	if err != nil {
		return s, err
	}
	for range updates {
		if err := w.step(ctx); err != nil {
			return s, err
		}
	}
	after, err := w.CPU()
	return usage{after - before, w.messages - messages, w.bytes - bytes}, err
}

// perMessage measures the processor time of one message to a viewer.
func (w *watching) perMessage(updates int) rig.Measure {
	return func(ctx context.Context, _ int) (time.Duration, error) {
		s, err := w.measureUsage(ctx, updates)
		return s.cpu / time.Duration(max(1, s.messages)), err
	}
}

// receiptP99 publishes updates, one every interval, and returns the p99 of the time from commit to receipt over all
// viewers and updates.
func (w *watching) receiptP99(ctx context.Context, updates int, interval time.Duration) (time.Duration, error) {
	from := w.seq
	w.expect(from + int64(updates))
	if err := w.Publish(updates, interval); err != nil {
		return 0, err
	}
	if err := w.until(ctx, func() bool { return w.reached == len(w.all) }); err != nil {
		return 0, err
	}
	w.seq = w.target
	committed, err := w.Published()
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for _, a := range w.arrivals {
		for seq := a.after + 1; seq <= a.to; seq++ {
			at, ok := committed[seq]
			if !ok {
				return 0, fmt.Errorf("a viewer received update %d, which the server has not published", seq)
			}
			took = append(took, max(0, a.at.Sub(at)))
		}
	}
	if want := updates * len(w.all); len(took) != want {
		return 0, fmt.Errorf("the viewers received %d updates, not %d", len(took), want)
	}
	return rig.Quantile(took, 0.99), nil
}
