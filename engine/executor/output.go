package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/errorline"
)

const (
	maxLineBytes   = 8 << 10   // bytes of a line's text; cutLine cuts longer lines
	maxHeldLines   = 10_000    // queued lines: half from the beginning of the output, half from its end
	maxHeldBytes   = 4 << 20   // the same in bytes
	batchLines     = 2_000     // lines of one Evidence
	batchBytes     = 512 << 10 // bytes of one Evidence
	shipEvery      = time.Second
	shipRetryFirst = 500 * time.Millisecond
	shipRetryMost  = 5 * time.Second

	// print waits while the queue is full: for the first patientLines lines of an execution, and at most for patience
	// when the Journal stores nothing.
	patientLines = 2_000_000
	patience     = 2 * time.Second
)

// output collects the lines of one execution and ships them in the background, in order, at least once a second. A
// program that prints faster than the Journal stores lines waits, as behind any pipe. It does not wait while the
// Journal gives no answer, nor after patientLines. Then output keeps the first and the last waiting lines, drops the
// lines between them, and adds a line with their number.
type output struct {
	to      func(ctx context.Context, lines []engine.LogLine) error
	now     func() time.Time
	redact  redactor
	ready   chan struct{} // one slot: a batch is full
	closing chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	held    lines             // numbered lines, in the order in which they are shipped
	errors  errorline.Chooser // reads every line as it is in the log
	last    lines             // lines after the dropped ones; they get numbers when held is empty
	next    int64             // number of the next line
	count   int64             // of the printed lines
	bytes   int64             // of the printed lines
	dropped int
	room    chan struct{} // closed and replaced after each shipped batch
	stalled bool          // a caller of print waited for patience in vain; the next shipped batch clears it
}

// lines is a queue of lines that knows its size.
type lines struct {
	all   []engine.LogLine
	bytes int
}

func (l *lines) push(line engine.LogLine) {
	l.all = append(l.all, line)
	l.bytes += len(line.Text)
}

func (l *lines) drop(n int) {
	for _, line := range l.all[:n] {
		l.bytes -= len(line.Text)
	}
	l.all = l.all[n:]
}

// full reports whether the queue has half of the permitted lines or bytes.
func (l *lines) full() bool { return len(l.all) >= maxHeldLines/2 || l.bytes >= maxHeldBytes/2 }

// newOutput makes an output that ships by to. The caller runs ship in a goroutine and calls close at the end.
func newOutput(now func() time.Time, redact redactor, to func(context.Context, []engine.LogLine) error) *output {
	return &output{to: to, now: now, redact: redact, next: 1, room: make(chan struct{}),
		ready: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
}

// print queues a text as one line, or as several where it has line breaks: readers of the log expect one line in a
// row. Safe for concurrent use.
func (o *output) print(stream, text string) {
	// A secret may have line breaks, so the whole text is redacted.
	text = strings.TrimRight(strings.ToValidUTF8(o.redact.Replace(text), "\uFFFD"), "\r\n")
	for line := range strings.SplitSeq(text, "\n") {
		o.printLine(stream, cutLine(strings.TrimSuffix(line, "\r")))
	}
}

func (o *output) printLine(stream, text string) {
	line := engine.LogLine{At: o.now().UTC(), Stream: stream, Text: text}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wait()
	o.count++
	o.bytes += int64(len(text))
	if o.dropped == 0 && len(o.last.all) == 0 && !o.held.full() {
		o.errors.Add(o.next, stream, text)
		o.number(line)
		if len(o.held.all) >= batchLines || o.held.bytes >= batchBytes {
			select {
			case o.ready <- struct{}{}:
			default:
			}
		}
		return
	}
	o.errors.Add(0, stream, text) // it gets its number later, or is dropped
	o.last.push(line)
	for o.last.full() {
		o.last.drop(1)
		o.dropped++
	}
}

// errorLine returns the line that names the error best among the printed lines. Its number is 0 unless the line got one
// at once.
func (o *output) errorLine() (errorline.Line, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.errors.Line()
}

// wait returns when the queue has room, or when nothing was shipped for patience. The caller holds mu; wait releases it
// meanwhile.
func (o *output) wait() {
	for o.held.full() && !o.stalled && o.next <= patientLines {
		room := o.room
		o.mu.Unlock()
		enough := time.NewTimer(patience)
		select {
		case <-room:
			enough.Stop()
			o.mu.Lock()
		case <-enough.C:
			o.mu.Lock()
			o.stalled = o.stalled || room == o.room
		}
	}
}

// number assigns the next number to a line and queues it for shipping.
func (o *output) number(line engine.LogLine) {
	line.No = o.next
	o.next++
	o.held.push(line)
}

// shipped removes the first n lines. When the queue is then empty, it queues a line with the number of dropped lines
// and the lines after them.
func (o *output) shipped(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held.drop(n)
	if len(o.held.all) == 0 {
		if o.dropped > 0 {
			at := o.last.all[0].At
			o.number(engine.LogLine{
				At: at, Stream: "dvt", Text: fmt.Sprintf(
					"%d lines were dropped here: the step printed faster than the journal stored lines", o.dropped)})
			o.dropped = 0
		}
		for _, line := range o.last.all {
			o.number(line)
		}
		o.last = lines{}
	}
	o.stalled = false
	close(o.room)
	o.room = make(chan struct{})
}

// cutLine cuts a line to maxLineBytes, between characters.
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
			batch := o.batch()
			if len(batch) == 0 {
				break
			}
			if o.send(ctx, batch) != nil {
				return
			}
			o.shipped(len(batch))
		}
	}
}

// batch returns the lines of the next Evidence and leaves them in the queue.
func (o *output) batch() []engine.LogLine {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, size := 0, 0
	for n < len(o.held.all) && n < batchLines && (n == 0 || size+len(o.held.all[n].Text) <= batchBytes) {
		size += len(o.held.all[n].Text)
		n++
	}
	return o.held.all[:n:n]
}

// send repeats a batch until the Journal accepts it or ctx ends.
func (o *output) send(ctx context.Context, batch []engine.LogLine) error {
	return persist(ctx, shipRetryFirst, shipRetryMost, func() error { return o.to(ctx, batch) })
}

// printed returns the number of lines that were printed so far, and of their bytes, also of those that were dropped.
func (o *output) printed() (count, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count, o.bytes
}

// close ships the remaining lines and returns when ship has returned. When ctx ends first it calls stop, which must end
// the context of ship. It returns the number of lines that were not shipped.
func (o *output) close(ctx context.Context, stop context.CancelFunc) (lost int64) {
	close(o.closing)
	select {
	case <-o.done:
	case <-ctx.Done():
		stop()
		<-o.done
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.held.all) + len(o.last.all) + o.dropped)
}
