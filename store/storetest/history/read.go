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

// History is what a journal holds.
type History struct {
	calls   []*call // in the order of their calls
	byRun   map[string]*book
	drained int // position of the mark; never when there is none
	torn    int // lines that a kill cut off
}

// never is the position of what did not come.
const never = math.MaxInt

// call is a Call with its answer. Positions are those of the lines in the journal.
type call struct {
	Call
	Return
	asked, told int
}

func (c *call) done() bool { return c.Fate == Done }

// String is how a violation names the call.
func (c *call) String() string {
	return fmt.Sprintf("%s: %s %s (lines %s)", c.Actor, c.Kind, c.ID, c.lines())
}

func (c *call) lines() string {
	if c.told == never {
		return fmt.Sprintf("%d to no answer", c.asked)
	}
	return fmt.Sprintf("%d to %d", c.asked, c.told)
}

// book is all that is known about one run.
type book struct {
	runID  string
	id     run.Identity
	log    *Log // nil: nobody read it at the end
	events []run.Event
	writes []*write
	reads  []*call
	made   int // position at which a create was acknowledged

	bySubject map[subject]run.Seq
	begun     map[attempt]run.Seq
	ended     map[attempt]run.Seq // terminals of attempts
	hooks     map[attempt]run.Seq // ends of their hooks
	end       run.Seq             // terminal of the run, 0 for none
	running   []int               // by seq
	gates     gates
	inserter  map[run.Seq]*write // who was told to have inserted it
	maybe     map[subject][]*write
	earliest  []int // by seq: before this position nobody had asked for the event
	acked     []mark
}

// mark says that from this position on the head is known to be seq or more.
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

// Read reads a journal. A line that cannot be read was cut off by a kill; an
// answer without its call is an error, for then the journal is not whole.
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
		c := &call{Call: *rec.Call, Return: Return{Fate: Unknown}, asked: at, told: never}
		h.calls = append(h.calls, c)
		open[c.ID] = c
	case rec.Return != nil:
		c := open[rec.Return.Call]
		if c == nil {
			return fmt.Errorf("history: line %d answers %s, which nobody called", at, rec.Return.Call)
		}
		delete(open, rec.Return.Call)
		c.Return, c.told = *rec.Return, at
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

// file puts a call into the books of its runs.
func (h *History) file(c *call) {
	switch c.Kind {
	case KindAppend, KindBegin, KindBatch, KindTransact, KindCreate:
		b := h.book(c.RunID)
		if c.Kind == KindCreate && c.done() {
			b.made = min(b.made, c.told)
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
	case KindSave: // a matter of the feed
	default:
		b := h.book(c.RunID)
		b.reads = append(b.reads, c)
	}
}

// entry is the n-th entry of a write with its own answer.
func (c *call) entry(n int, e Entry) *write {
	w := &write{call: c, n: n, append: e.Append, begin: e.Begin, answer: Answer{Fate: c.Fate}}
	switch {
	case e.Append != nil:
		w.drafts = e.Append.Events
	case e.Begin != nil:
		w.drafts = []run.Draft{{Type: run.StepStartedEvent, StepID: e.Begin.StepID, LogicalAttempt: e.Begin.LogicalAttempt}}
	}
	if n < len(c.Answers) {
		w.answer = c.Answers[n]
	}
	if c.Kind == KindCreate && c.done() && !c.Wrote {
		w.answer.Fate = Nothing // the run was there
	}
	return w
}
