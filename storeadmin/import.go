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

// MaxViolations is how many violations an InvalidError lists; it counts all.
const MaxViolations = 1000

// InvalidError says all that is wrong with a file, by line. Nothing was changed.
type InvalidError struct {
	Violations []Violation
	Total      int
}

// Violation is one thing wrong with one line.
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

// ExistError names runs of a file that the store has. Nothing was changed. It is store.ErrConflict.
type ExistError struct{ RunIDs []string }

// Error implements error.
func (e *ExistError) Error() string {
	return fmt.Sprintf("%d runs of the file are in the store already; nothing was imported: %s", len(e.RunIDs),
		strings.Join(e.RunIDs, ", "))
}

// Is makes errors.Is(err, store.ErrConflict) true.
func (e *ExistError) Is(target error) bool { return target == store.ErrConflict }

// Imported is what Import wrote, also when it failed on its way.
type Imported struct {
	Runs     int      `json:"runs"`
	Events   int64    `json:"events"`
	Receipts int64    `json:"receipts"`
	Skipped  []string `json:"skipped,omitempty"` // runs that were there
	// Last is the run that was written last: those after it in the file are not.
	Last string `json:"last,omitempty"`
}

// Import makes the runs of a file that open opens, plain or gzip, twice: the first
// reading finds everything that is wrong with it, and only if there is nothing the
// second one writes, a transaction for each run. *InvalidError; *ExistError unless
// skipExisting.
//
// A file of version 2 is what Export writes. One of version 1 is events alone, of
// the shapes that came before (T16, T40, T147, T181): attempts in strings, an
// occurredAt, an emittedAt that is the time of storing, a flat RunStarted. Their
// keys and ids stay (T04, T11), types that nobody knows any more too. This is the
// one place that takes them.
//
// An open run is imported as a record: no engine works on it.
func Import(ctx context.Context, s store.Store, open func() (io.ReadCloser, error), skipExisting bool,
	p Progress) (Imported, error) {
	var out Imported
	first := &survey{s: s, skipping: skipExisting, skip: map[string]bool{}, requests: map[run.Key]string{}}
	if err := reading(ctx, open, first); err != nil {
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
	return out, reading(ctx, open, second)
}

// unit is one run of a file with everything that is its own.
type unit struct {
	line     int
	run      store.Run
	events   []run.Event
	receipts []run.Receipt

	// What stands in it once.
	keys    map[run.Key]bool
	ends    map[authority.Attempt]bool
	signals map[string]bool
	numbers map[int64]bool
}

// sink takes what a file holds, in order. An error ends the reading.
type sink interface {
	plan(ctx context.Context, p planLine) error
	unit(ctx context.Context, u unit) error
	violation(v Violation)
}

func reading(ctx context.Context, open func() (io.ReadCloser, error), to sink) (err error) {
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

// survey is the first reading: it only looks.
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
		w.violation(Violation{Line: u.line, Path: "run.requestKey", Message: "is that of run " + other + " too"})
		return nil
	}
	w.requests[key] = u.run.RunID
	old, err := w.s.ByRequest(ctx, key)
	switch {
	case err == nil:
		w.violation(Violation{Line: u.line, Path: "run.requestKey", Message: "the store made run " + old.RunID +
			" of this request"})
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

// writing is the second reading.
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
	if err := w.s.Import(ctx, store.NewRun{Run: u.run, Receipts: u.receipts, Audit: rows}, u.events); err != nil {
		return fmt.Errorf("import run %s: %w", u.run.RunID, err)
	}
	w.out.Runs++
	w.out.Events += int64(len(u.events))
	w.out.Receipts += int64(len(u.receipts))
	w.out.Last = u.run.RunID
	w.p.done(u.run.RunID)
	return nil
}

// violation cannot come: the first reading found none.
func (w *writing) violation(Violation) {}
