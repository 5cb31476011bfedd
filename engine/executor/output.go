package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/engine"
)

const (
	maxLineBytes   = 8 << 10 // of a line's text, then it is cut
	maxHeldLines   = 10_000  // lines that wait to be shipped, then lines are dropped
	maxHeldBytes   = 4 << 20 //
	batchLines     = 256     // lines of one Evidence
	batchBytes     = 512 << 10
	shipEvery      = time.Second
	shipRetryFirst = 500 * time.Millisecond
	shipRetryMost  = 5 * time.Second
)

// output collects the lines of one execution and ships them in the background,
// in order, at least once a second. Printing never waits: what does not fit while the
// journal does not answer is dropped, and a line says how much.
type output struct {
	to      func(ctx context.Context, lines []engine.LogLine) error
	now     func() time.Time
	redact  *strings.Replacer
	ready   chan struct{} // one slot: a batch is full
	closing chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	held    []engine.LogLine
	bytes   int
	next    int64 // number of the next line
	dropped int
}

func newOutput(now func() time.Time, redact *strings.Replacer, to func(context.Context, []engine.LogLine) error) *output {
	return &output{to: to, now: now, redact: redact, next: 1,
		ready: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
}

func (o *output) print(stream, text string) {
	text = cutLine(strings.ToValidUTF8(o.redact.Replace(text), "\uFFFD"))
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) >= maxHeldLines || o.bytes+len(text) > maxHeldBytes {
		o.dropped++
		return
	}
	o.markDropped()
	o.hold(stream, text)
	if len(o.held) >= batchLines {
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

func (o *output) markDropped() {
	if o.dropped > 0 {
		text := fmt.Sprintf("%d lines were dropped here: they came faster than they could be kept", o.dropped)
		o.dropped = 0
		o.hold("dvt", text)
	}
}

func (o *output) hold(stream, text string) {
	o.held = append(o.held, engine.LogLine{No: o.next, At: o.now().UTC(), Stream: stream, Text: text})
	o.next++
	o.bytes += len(text)
}

func cutLine(text string) string {
	const mark = " … (line cut)"
	if len(text) <= maxLineBytes {
		return text
	}
	end := maxLineBytes - len(mark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// ship runs until close, and then until everything is shipped or ctx ends.
func (o *output) ship(ctx context.Context) {
	defer close(o.done)
	tick := time.NewTicker(shipEvery)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-ctx.Done():
			return
		case <-o.closing:
			open = false
		case <-o.ready:
		case <-tick.C:
		}
		for {
			batch, size := o.batch(!open)
			if len(batch) == 0 {
				break
			}
			if o.send(ctx, batch) != nil {
				return
			}
			o.mu.Lock()
			o.held, o.bytes = o.held[len(batch):], o.bytes-size
			o.mu.Unlock()
		}
	}
}

func (o *output) batch(last bool) (lines []engine.LogLine, size int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last {
		o.markDropped()
	}
	n := 0
	for n < len(o.held) && n < batchLines && (n == 0 || size+len(o.held[n].Text) <= batchBytes) {
		size += len(o.held[n].Text)
		n++
	}
	return o.held[:n:n], size
}

func (o *output) send(ctx context.Context, batch []engine.LogLine) error {
	return persist(ctx, shipRetryFirst, shipRetryMost, func() error { return o.to(ctx, batch) })
}

// close ships what is left; it gives up when ctx ends.
func (o *output) close(ctx context.Context, stop context.CancelFunc) {
	close(o.closing)
	select {
	case <-o.done:
	case <-ctx.Done():
		stop()
		<-o.done
	}
}
