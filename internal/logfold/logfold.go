// Package logfold is the handler between the loggers of a process and the output. It folds repeated failures, so that
// an outage is a few lines and not a flood, and it adds the id of the trace to each line that names a run.
package logfold

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run/trace"
)

const (
	// Every is the time for which a failure that was logged stands for its repetitions.
	Every = time.Minute
	// MaxKinds is the most failures that are remembered at once. When there are more, the oldest is forgotten, after the
	// line of its repetitions.
	MaxKinds = 1000
	// maxIdentity bounds the text by which two lines are compared, in bytes.
	maxIdentity = 4 << 10
)

// Handler folds lines of the level WARN and above. The first line of a failure is written at once. Its repetitions
// within a minute are one line at the end of the minute: the last of them, with their number as `count` and the time of
// the first of them as `since`.
//
// Two lines are repetitions when the level, the message and the attributes are equal. Numbers, times and durations are
// not compared, and digits in errors are not, because ports and tries differ in each. Lines about different runs are
// different.
//
// A Handler is safe for concurrent use. Create it with New, and call Flush before the process ends.
type Handler struct {
	next   slog.Handler
	fold   *folding
	prefix string // identity of the attributes and groups of With
	groups bool   // attributes belong to a group
	traced bool   // the attributes of With have the id of a trace
}

// New returns a handler that writes to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, fold: &folding{every: Every, most: MaxKinds, kinds: map[string]*kind{}}}
}

// folding is what the handlers of one process share.
type folding struct {
	every time.Duration
	most  int

	mu    sync.Mutex
	kinds map[string]*kind
	order []*kind // the oldest first
}

// kind is one failure. Its first line was written.
type kind struct {
	identity string
	timer    *time.Timer
	count    int // lines that were not written
	since    time.Time
	last     slog.Record
	next     slog.Handler // of the last line, which has its attributes
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	if id := traceOf(attrs); id != "" && !h.groups && !h.traced {
		out.traced, attrs = true, append(slices.Clip(attrs), slog.String("traceId", id))
	}
	out.next = h.next.WithAttrs(attrs)
	var b strings.Builder
	b.WriteString(h.prefix)
	for _, a := range attrs {
		appendIdentity(&b, a)
	}
	out.prefix = b.String()
	return &out
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	out := *h
	out.next, out.groups, out.prefix = h.next.WithGroup(name), true, h.prefix+"\x00"+name+"{"
	return &out
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.traced && !h.groups {
		r = withTrace(r)
	}
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	if !h.fold.isFirst(h.identityOf(r), h.next, r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// Flush writes the lines of all repetitions now, for the end of the process.
func (h *Handler) Flush() {
	h.fold.mu.Lock()
	defer h.fold.mu.Unlock()
	for _, k := range h.fold.order {
		k.write()
		k.timer.Stop()
	}
	h.fold.order = nil
	clear(h.fold.kinds)
}

// isFirst reports whether a line is to be written at once. Otherwise it is kept as the last of its kind.
func (f *folding) isFirst(identity string, next slog.Handler, r slog.Record) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[identity]; k != nil {
		if k.count++; k.count == 1 {
			k.since = r.Time
		}
		k.last, k.next = r.Clone(), next
		return false
	}
	if len(f.order) >= f.most {
		f.forget(f.order[0])
	}
	k := &kind{identity: identity}
	k.timer = time.AfterFunc(f.every, func() { f.endMinute(k) })
	f.kinds[identity] = k
	f.order = append(f.order, k)
	return true
}

// endMinute writes the line of the repetitions of a minute. A failure that was not repeated is forgotten.
func (f *folding) endMinute(k *kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.kinds[k.identity] != k: // forgotten meanwhile
	case k.count == 0:
		f.forget(k)
	default:
		k.write()
		k.timer.Reset(f.every)
	}
}

// forget writes what was not written of a kind, and removes it. The caller holds mu.
func (f *folding) forget(k *kind) {
	k.write()
	k.timer.Stop()
	delete(f.kinds, k.identity)
	f.order = slices.DeleteFunc(f.order, func(o *kind) bool { return o == k })
}

// write writes the last of the lines that were not written, with their number.
func (k *kind) write() {
	if k.count == 0 {
		return
	}
	r := k.last
	r.AddAttrs(slog.Int("count", k.count), slog.Time("since", k.since))
	_ = k.next.Handle(context.Background(), r) // the output failed: there is no other place for the error
	k.count, k.last, k.next = 0, slog.Record{}, nil
}

func (h *Handler) identityOf(r slog.Record) string {
	var b strings.Builder
	b.WriteString(h.prefix)
	b.WriteByte(0)
	b.WriteString(r.Level.String())
	b.WriteByte(0)
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		appendIdentity(&b, a)
		return b.Len() < maxIdentity
	})
	return b.String()[:min(b.Len(), maxIdentity)]
}

// appendIdentity adds what is compared of an attribute.
func appendIdentity(b *strings.Builder, a slog.Attr) {
	v := a.Value.Resolve()
	b.WriteByte(0)
	b.WriteString(a.Key)
	b.WriteByte('=')
	switch v.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindDuration, slog.KindTime:
		return
	case slog.KindGroup:
		for _, inner := range v.Group() {
			appendIdentity(b, inner)
		}
		return
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			appendWithoutDigits(b, err.Error())
			return
		}
	}
	if a.Key == "error" {
		appendWithoutDigits(b, v.String())
		return
	}
	text := v.String()
	b.WriteString(text[:min(len(text), maxIdentity)])
}

// appendWithoutDigits writes a mark for each number in a text: the port of a connection differs in each error.
func appendWithoutDigits(b *strings.Builder, text string) {
	inNumber := false
	for _, c := range []byte(text[:min(len(text), maxIdentity)]) {
		isDigit := c >= '0' && c <= '9'
		switch {
		case !isDigit:
			b.WriteByte(c)
		case !inNumber:
			b.WriteByte('#')
		}
		inNumber = isDigit
	}
}

// withTrace adds the id of the trace of the run that a line names.
func withTrace(r slog.Record) slog.Record {
	id, known := "", false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "traceId":
			known = true
		case "runId":
			id = runOf(a)
		}
		return !known
	})
	if id == "" || known {
		return r
	}
	r = r.Clone()
	r.AddAttrs(slog.String("traceId", trace.IDOf(id).String()))
	return r
}

func traceOf(attrs []slog.Attr) string {
	for _, a := range attrs {
		if a.Key == "runId" && runOf(a) != "" {
			return trace.IDOf(runOf(a)).String()
		}
	}
	return ""
}

func runOf(a slog.Attr) string {
	if v := a.Value.Resolve(); v.Kind() == slog.KindString {
		return v.String()
	}
	return ""
}
