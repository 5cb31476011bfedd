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

// viewers are websockets of one server, read by one thread that looks at as little
// as it can: where messages begin and end, and the runSeq near their beginning.
type viewers struct {
	speaks dialect
	poll   int // the kernel's list of sockets to look at
	all    []*viewer
	bySock map[int32]*viewer
	buf    []byte
	ready  int // how many are welcome
	err    error

	messages int64  // with a runSeq
	bytes    int64  // of them
	last     string // the newest of the first viewer
	arrivals []arrival
	target   int64  // the update that is waited for
	reached  int    // how many have it
	wanted   string // is in the message that the first viewer waits for; empty when it has come
	wantedAt time.Time

	beside *viewers // of another server, which are not to seem dead meanwhile; may be nil
	tended time.Time
	heard  time.Time // when something came last
}

// want begins to wait for a text in a message of the first viewer. It may be there already.
func (v *viewers) want(text string) {
	v.wanted, v.wantedAt = text, time.Now()
	if strings.Contains(v.last, text) {
		v.wanted = ""
	}
}

func (v *viewers) shown() bool { return v.wanted == "" }

// dialect is what a viewer says to a server, and how it knows that it is welcome.
type dialect struct {
	path, protocol string
	hello          func(viewer int) []string
	welcome        string // is in the message that says so
}

// viewer is one socket.
type viewer struct {
	sock   int
	first  bool // its messages are kept whole
	ready  bool
	seq    int64
	header []byte // of a frame, while it is not complete
	left   int    // bytes of the frame that are to come
	op     byte
	final  bool
	begin  []byte // of the message
	size   int64  // of the message
}

// arrival is the receipt of all updates after one, up to another.
type arrival struct {
	after, to int64
	at        time.Time
}

// lookedAt is how much of a message is looked at.
const lookedAt = 256

// Opcodes of RFC 6455.
const (
	opContinued = 0
	opText      = 1
	opClose     = 8
	opPing      = 9
	opPong      = 10
)

// got takes what came on a socket.
func (v *viewers) got(w *viewer, data []byte) {
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
			keep = min(n, lookedAt-len(w.begin))
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

// frame reads the header of a frame and returns how many bytes of data that took.
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
	if !w.ready && bytes.Contains(w.begin, []byte(v.speaks.welcome)) {
		w.ready = true
		v.ready++
	}
	i := bytes.Index(w.begin, seqKey)
	if i < 0 {
		v.talk(w)
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

// talk answers what is not an update.
func (v *viewers) talk(w *viewer) {
	switch {
	case string(w.begin) == "{}": // centrifuge's ping
		v.send(w, opText, "{}")
	case bytes.Contains(w.begin, []byte(`"type":"ping"`)):
		v.send(w, opText, `{"type":"pong"}`)
	case bytes.Contains(w.begin, []byte(`"error`)), bytes.Contains(w.begin, []byte(`"type":"complete"`)):
		v.err = fmt.Errorf("a viewer was told %s", w.begin)
	}
}

// frameOf is a client's frame. Its mask is 0, which leaves the text unchanged.
func frameOf(op byte, text string) []byte {
	f := []byte{0x80 | op}
	if n := len(text); n < 126 {
		f = append(f, 0x80|byte(n))
	} else {
		f = binary.BigEndian.AppendUint16(append(f, 0x80|126), uint16(n))
	}
	return append(append(f, 0, 0, 0, 0), text...)
}

// handshake asks for a websocket.
func (d dialect) handshake(addr string) string {
	lines := "GET " + d.path + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	if d.protocol != "" {
		lines += "Sec-WebSocket-Protocol: " + d.protocol + "\r\n"
	}
	return lines + "\r\n"
}

// tend answers, now and then, what the viewers beside these are asked.
func (v *viewers) tend() error {
	if v.beside == nil || time.Since(v.tended) < 100*time.Millisecond {
		return nil
	}
	v.tended = time.Now()
	return errors.Join(v.beside.look(0), v.beside.err)
}

// until reads until done or an error.
func (v *viewers) until(ctx context.Context, done func() bool) error {
	for deadline := time.Now().Add(4 * rig.Patience); !done(); {
		if err := v.look(20 * time.Millisecond); err != nil {
			return err
		}
		if err := errors.Join(v.err, v.tend(), ctx.Err()); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("of %d viewers %d were welcome and %d had the update %d in time", len(v.all), v.ready, v.reached,
				v.target)
		}
	}
	return nil
}

// expect begins to wait for an update.
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
	seq int64 // of the newest update
}

// lookOn connects n viewers and waits until all are welcome; beside them are others, if not nil.
func lookOn(ctx context.Context, s *rig.Service, d dialect, n int, beside *watching) (*watching, error) {
	v, err := newViewers(d)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	w := &watching{Service: s, viewers: v}
	if beside != nil {
		v.beside, beside.beside = beside.viewers, v
	}
	return w, w.more(ctx, n)
}

// more connects n viewers more.
func (w *watching) more(ctx context.Context, n int) error {
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
	return w.Service.Close()
}

// step makes one update and waits until every viewer has it.
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

// spent is what the server used of the processor, and what its viewers got, while
// they were shown a number of updates one after another.
type spent struct {
	cpu             time.Duration
	messages, bytes int64
}

func (w *watching) spend(ctx context.Context, updates int) (s spent, err error) {
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
	return spent{after - before, w.messages - messages, w.bytes - bytes}, err
}

// perMessage is the processor time of each message to a viewer.
func (w *watching) perMessage(updates int) rig.Measure {
	return func(ctx context.Context, _ int) (time.Duration, error) {
		s, err := w.spend(ctx, updates)
		return s.cpu / time.Duration(max(1, s.messages)), err
	}
}

// receipt is the p99, over all viewers and updates, of the time from commit to receipt.
func (w *watching) receipt(ctx context.Context, updates int, interval time.Duration) (time.Duration, error) {
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
				return 0, fmt.Errorf("a viewer was shown %d, which the server has not made", seq)
			}
			took = append(took, max(0, a.at.Sub(at)))
		}
	}
	if want := updates * len(w.all); len(took) != want {
		return 0, fmt.Errorf("%d receipts, not %d", len(took), want)
	}
	return rig.Quantile(took, 0.99), nil
}
