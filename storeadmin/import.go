package storeadmin

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// MaxViolations limits the violations that an InvalidError lists. Total counts all of them.
const MaxViolations = 1000

// InvalidError lists the violations of a file, by line. Nothing was changed.
type InvalidError struct {
	Violations []Violation
	Total      int
}

// Violation says what is wrong with one line.
type Violation struct {
	Line    int    `json:"line"` // from 1
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// Error implements error.
func (e *InvalidError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the file has %d violations; nothing was imported", e.Total)
	for _, v := range e.Violations {
		fmt.Fprintf(&b, "\nline %d: ", v.Line)
		if v.Path != "" {
			b.WriteString(v.Path + ": ")
		}
		b.WriteString(v.Message)
	}
	if more := e.Total - len(e.Violations); more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// ExistError names runs of a file that are in the store already. Nothing was changed. errors.Is(err, store.ErrConflict)
// is true.
type ExistError struct{ RunIDs []string }

// Error implements error.
func (e *ExistError) Error() string {
	return fmt.Sprintf("%d runs of the file are in the store already; nothing was imported: %s", len(e.RunIDs),
		strings.Join(e.RunIDs, ", "))
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *ExistError) Is(target error) bool { return target == store.ErrConflict }

// Imported says what Import wrote, also when Import returns an error.
type Imported struct {
	Runs     int      `json:"runs"`
	Events   int64    `json:"events"`
	Receipts int64    `json:"receipts"`
	Skipped  []string `json:"skipped,omitempty"` // runs that were in the store already
	// Last is the run that was written last; runs after it in the file were not written.
	Last string `json:"last,omitempty"`
}

// Import makes the runs of a file, plain or gzip. It reads the file twice, so it calls open twice. The first reading
// finds all violations; only if there are none, the second one writes the runs, one transaction for each. Errors are
// *InvalidError, *ExistError unless skipExisting, and those of the store; after an error of the store, runs up to
// Imported.Last are written.
//
// A file of version 2 is an export. A file of version 1 has only events, in older forms: attempts in strings, an
// occurredAt, an emittedAt that is the time of storing, a flat RunStarted (contract T16, T147, T181). Import keeps
// their keys, ids and unknown types (contract T04, T11, T40). No other function accepts such events.
//
// No engine continues an imported run, not even an open one: it is only a record.
func Import(ctx context.Context, s store.Store, open func() (io.ReadCloser, error), skipExisting bool,
	p Progress) (Imported, error) {
	var out Imported
	first := &survey{s: s, skipping: skipExisting, skip: map[string]bool{}, requests: map[run.Key]string{}}
	if err := readFile(ctx, open, first); err != nil {
		return out, err
	}
	switch {
	case first.invalid.Total > 0:
		return out, &first.invalid
	case len(first.exist) > 0 && !skipExisting:
		return out, &ExistError{RunIDs: first.exist}
	}
	out.Skipped = first.exist
	second := &writing{s: s, skip: first.skip, out: &out, p: p}
	return out, readFile(ctx, open, second)
}

// unit is one run of a file, with its events and receipts.
type unit struct {
	line     int
	run      store.Run
	events   []run.Event
	receipts []run.SignalReceipt
	tags     []string
	notes    []store.Note

	// The values that must be unique within the run.
	keys    map[run.Key]bool
	ends    map[authority.Attempt]bool
	signals map[string]bool
	numbers map[int64]bool
}

// sink receives the contents of a file, in order. An error ends the reading.
type sink interface {
	plan(ctx context.Context, p planLine) error
	unit(ctx context.Context, u unit) error
	violation(v Violation)
}

// readFile reads a file once.
func readFile(ctx context.Context, open func() (io.ReadCloser, error), to sink) (err error) {
	f, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewReaderSize(f, 1<<20)
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		in = bufio.NewReaderSize(z, 1<<20)
	}
	return newReader(in, to).read(ctx)
}

// survey is the sink of the first reading. It writes nothing.
type survey struct {
	s        store.Store
	skipping bool
	invalid  InvalidError
	exist    []string
	skip     map[string]bool
	requests map[run.Key]string
}

func (w *survey) plan(context.Context, planLine) error { return nil }

func (w *survey) unit(ctx context.Context, u unit) error {
	_, err := w.s.Get(ctx, u.run.RunID)
	switch {
	case err == nil:
		w.exist, w.skip[u.run.RunID] = append(w.exist, u.run.RunID), true
		return nil
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	key := u.run.RequestKey
	if key == "" {
		return nil
	}
	if other := w.requests[key]; other != "" {
		w.violation(Violation{Line: u.line, Path: "run.requestKey", Message: "is also that of run " + other + " in the file"})
		return nil
	}
	w.requests[key] = u.run.RunID
	old, err := w.s.ByRequest(ctx, key)
	switch {
	case err == nil:
		w.violation(Violation{Line: u.line, Path: "run.requestKey", Message: "is also that of run " + old.RunID +
			" in the store"})
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return nil
}

func (w *survey) violation(v Violation) {
	w.invalid.Total++
	if len(w.invalid.Violations) < MaxViolations {
		w.invalid.Violations = append(w.invalid.Violations, v)
	}
}

// writing is the sink of the second reading. It writes the runs.
type writing struct {
	s    store.Store
	skip map[string]bool
	out  *Imported
	p    Progress
}

func (w *writing) plan(ctx context.Context, p planLine) error {
	return w.s.PutPlan(ctx, p.SHA256, p.Body)
}

func (w *writing) unit(ctx context.Context, u unit) error {
	if w.skip[u.run.RunID] {
		return nil
	}
	rows := store.ImportRows(u.run, u.receipts)
	for i := range rows {
		rows[i].ID = uuid.NewString()
	}
	if err := w.s.Import(ctx, store.NewRun{Run: u.run, Receipts: u.receipts, Tags: u.tags,
		Notes: u.notes, Audit: rows}, u.events); err != nil {
		return fmt.Errorf("import run %s: %w", u.run.RunID, err)
	}
	w.out.Runs++
	w.out.Events += int64(len(u.events))
	w.out.Receipts += int64(len(u.receipts))
	w.out.Last = u.run.RunID
	w.p.done(u.run.RunID)
	return nil
}

// violation is never called, because the first reading found no violation.
func (w *writing) violation(Violation) {}
