package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// History is the content of a journal.
type History struct {
	calls   []*call // in the order in which they were made
	byRun   map[string]*book
	drained int // position of the record Drained, or never
	torn    int // number of lines that a kill truncated
}

// never is the position of a record that does not exist.
const never = math.MaxInt

// call is a Call with its result. calledAt and returnedAt are the positions of the two records in the journal.
type call struct {
	Call
	Return
	calledAt, returnedAt int
}

func (c *call) done() bool { return c.Effect == Done }

// String returns the name of the call in violations.
func (c *call) String() string {
	return fmt.Sprintf("%s: %s %s (lines %s)", c.Actor, c.Kind, c.ID, c.lines())
}

func (c *call) lines() string {
	if c.returnedAt == never {
		return fmt.Sprintf("%d, no result", c.calledAt)
	}
	return fmt.Sprintf("%d to %d", c.calledAt, c.returnedAt)
}

// book has all records of one run.
type book struct {
	runID  string
	id     run.Identity
	log    *Log // nil if it was not read at the end
	events []run.Event
	writes []*write
	reads  []*call
	made   int // position at which a create was acknowledged

	bySubject map[subject]run.Seq
	started   map[attempt]run.Seq
	ended     map[attempt]run.Seq // terminal events of attempts
	hooks     map[attempt]run.Seq // ends of their hooks
	end       run.Seq             // terminal event of the run, 0 for none
	running   []int               // by seq
	gates     gates
	inserter  map[run.Seq]*write   // the write whose result says that it inserted the event
	maybe     map[subject][]*write // the writes without a result that may have inserted an event
	earliest  []int                // by seq: position of the first call that may have inserted the event
	acked     []mark
}

// mark records that the head is known to be at least seq from this position of the journal.
type mark struct {
	at  int
	seq run.Seq
}

// write is one entry of a call that writes.
type write struct {
	*call
	n      int
	append *store.Append
	begin  *store.StartAttempt
	drafts []run.Draft
	answer Answer
}

// ReadFile reads the journal at path.
func ReadFile(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer f.Close()
	return Read(f)
}

// Read reads a journal. It skips and counts lines that are not JSON, because a kill truncates lines. A result without
// its call is an error, because the journal is then incomplete.
func Read(r io.Reader) (*History, error) {
	h := &History{byRun: map[string]*book{}, drained: never}
	open := map[string]*call{}
	lines := bufio.NewReaderSize(r, 1<<20)
	for at := 1; ; {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("history: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var rec Record
			if json.Unmarshal(line, &rec) != nil {
				h.torn++
			} else if err := h.add(rec, at, open); err != nil {
				return nil, err
			}
			at++
		}
		if err != nil {
			break
		}
	}
	for _, c := range h.calls {
		h.file(c)
	}
	for _, b := range h.byRun {
		b.index()
	}
	return h, nil
}

func (h *History) add(rec Record, at int, open map[string]*call) error {
	switch {
	case rec.Call != nil:
		c := &call{Call: *rec.Call, Return: Return{Effect: Unknown}, calledAt: at, returnedAt: never}
		h.calls = append(h.calls, c)
		open[c.ID] = c
	case rec.Return != nil:
		c := open[rec.Return.Call]
		if c == nil {
			return fmt.Errorf("history: line %d has the result of %s, but the journal has no such call", at, rec.Return.Call)
		}
		delete(open, rec.Return.Call)
		c.Return, c.returnedAt = *rec.Return, at
	case rec.Log != nil:
		b := h.book(rec.Log.Identity.RunID)
		b.log, b.id = rec.Log, rec.Log.Identity
		for _, e := range rec.Log.Events {
			e.Event.SignalID = e.SignalID
			b.events = append(b.events, e.Event)
		}
	case rec.Drained:
		h.drained = at
	}
	return nil
}

func (h *History) book(runID string) *book {
	b := h.byRun[runID]
	if b == nil {
		b = &book{runID: runID, made: never}
		h.byRun[runID] = b
	}
	return b
}

// file adds a call to the books of its runs.
func (h *History) file(c *call) {
	switch c.Kind {
	case KindAppend, KindStartAttempt, KindBatch, KindTransact, KindCreate:
		b := h.book(c.RunID)
		if c.Kind == KindCreate && c.done() {
			b.made = min(b.made, c.returnedAt)
		}
		for n, e := range c.Entries {
			b.writes = append(b.writes, c.entry(n, e))
		}
	case KindHeads:
		for _, id := range c.RunIDs {
			b := h.book(id)
			b.reads = append(b.reads, c)
		}
	case KindChanged:
		known := map[string]bool{}
		for _, f := range c.Folds {
			if !known[f.RunID] {
				known[f.RunID] = true
				b := h.book(f.RunID)
				b.reads = append(b.reads, c)
			}
		}
	case KindSave: // only the feed needs it
	default:
		b := h.book(c.RunID)
		b.reads = append(b.reads, c)
	}
}

// entry returns the n-th entry of a call that writes, with its result.
func (c *call) entry(n int, e Entry) *write {
	w := &write{call: c, n: n, append: e.Append, begin: e.Start, answer: Answer{Effect: c.Effect}}
	switch {
	case e.Append != nil:
		w.drafts = e.Append.Events
	case e.Start != nil:
		w.drafts = []run.Draft{{Type: run.StepStartedEvent, StepID: e.Start.StepID, LogicalAttempt: e.Start.LogicalAttempt}}
	}
	if n < len(c.Answers) {
		w.answer = c.Answers[n]
	}
	if c.Kind == KindCreate && c.done() && !c.Wrote {
		w.answer.Effect = Nothing // the run existed already
	}
	return w
}
