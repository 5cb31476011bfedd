package storeadmin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dvt-engine/dvt/store"
)

// reader parses a file line by line and passes its contents to a sink.
type reader struct {
	in   *bufio.Reader
	to   sink
	no   int
	seen map[string]bool // ids of the runs so far
	open *unit           // the run whose lines are being read

	version1 bool
	group    *group // the run whose events are being read, in version 1
	total    totalLine
	closed   bool // the line with the totals was read
}

func newReader(in *bufio.Reader, to sink) *reader {
	return &reader{in: in, to: to, seen: map[string]bool{}}
}

// reject reports a violation in the current line.
func (r *reader) reject(path, format string, args ...any) {
	r.to.violation(Violation{Line: r.no, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) read(ctx context.Context) error {
	for {
		text, err := r.readLine()
		if errors.Is(err, io.EOF) {
			return r.finish(ctx)
		}
		if err != nil {
			return fmt.Errorf("import: line %d: %w", r.no+1, err)
		}
		r.no++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := r.take(ctx, text); err != nil {
			return err
		}
	}
}

// readLine reads the next line; io.EOF after the last one.
func (r *reader) readLine() ([]byte, error) {
	var text []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case len(text) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(text) > 0:
			return text, nil
		}
		return text, err
	}
}

func (r *reader) take(ctx context.Context, text []byte) error {
	first := r.no == 1
	if first {
		var probe struct {
			EventType *string `json:"eventType"`
		}
		r.version1 = json.Unmarshal(text, &probe) == nil && probe.EventType != nil
	}
	if r.version1 {
		return r.takeV1(ctx, text)
	}
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&l); err != nil {
		r.reject("", "is not a line of an export: %v", err)
		return nil
	}
	switch {
	case first && l.Format != Format:
		r.reject("", "is neither the header of an export nor an event of version 1")
	case l.Format != "":
		if l.Version != Version {
			r.reject("version", "is %d; this program reads %d", l.Version, Version)
		}
	case r.closed:
		r.reject("", "is after the end of the export")
	case l.Plan != nil:
		if checkPlan(r, l.Plan) {
			return r.to.plan(ctx, *l.Plan)
		}
	case l.Run != nil:
		r.beginRun(l.Run)
	case l.Event != nil:
		r.event(l.Event)
	case l.Receipt != nil:
		r.receipt(l.Receipt)
	case l.End != nil:
		return r.end(ctx, l.End)
	case l.Total != nil:
		r.closed = true
		if *l.Total != r.total {
			r.reject("total", "says %d runs and %d events; the file has %d and %d", l.Total.Runs, l.Total.Events, r.total.Runs,
				r.total.Events)
		}
	default:
		r.reject("", "is not a line of an export")
	}
	return nil
}

func (r *reader) beginRun(l *runLine) {
	if r.open != nil {
		r.reject("run", "begins before the end line of run %s", r.open.run.RunID)
	}
	r.open = &unit{line: r.no, run: l.run(), tags: l.Tags, notes: l.notes()}
	if len(l.Tags) > store.MaxTags || len(l.Notes) > store.MaxNotes {
		r.reject("run", "has more than %d tags or %d notes", store.MaxTags, store.MaxNotes)
	}
	if r.seen[l.RunID] {
		r.reject("run.runId", "run %s is in the file more than once", l.RunID)
	}
	r.seen[l.RunID] = true
	checkRun(r, r.open.run)
}

func (r *reader) event(l *eventLine) {
	if r.open == nil {
		r.reject("event", "is not within a run")
		return
	}
	e := l.event()
	checkEvent(r, r.open, e)
	r.open.events = append(r.open.events, e)
}

func (r *reader) receipt(l *receiptLine) {
	if r.open == nil {
		r.reject("receipt", "is not within a run")
		return
	}
	c := l.receipt()
	checkReceipt(r, r.open, c)
	r.open.receipts = append(r.open.receipts, c)
}

func (r *reader) end(ctx context.Context, l *endLine) error {
	u := r.open
	r.open = nil
	switch {
	case u == nil:
		r.reject("end", "is not within a run")
		return nil
	case l.RunID != u.run.RunID, l.Events != len(u.events), l.Receipts != len(u.receipts):
		r.reject("end", "names run %s with %d events and %d receipts, but the lines before it are run %s with %d and %d",
			l.RunID, l.Events, l.Receipts, u.run.RunID, len(u.events), len(u.receipts))
	}
	r.total.Runs++
	r.total.Events += int64(len(u.events))
	return r.to.unit(ctx, *u)
}

// finish checks that the file is complete.
func (r *reader) finish(ctx context.Context) error {
	switch {
	case r.no == 0:
		r.no = 1
		r.reject("", "the file is empty")
	case r.version1:
		return r.endGroup(ctx)
	case r.open != nil:
		r.reject("", "the file ends within run %s", r.open.run.RunID)
	case !r.closed:
		r.reject("", "the file was cut off: its last line, with the totals, is missing")
	}
	return nil
}
