package archive_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

type fixture struct {
	*testing.T
	raw     store.Store // without the archive
	reading store.Store
	objects *artifact.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := artifact.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(s.Close(), objects.Close()) })
	return &fixture{T: t, raw: s, reading: archive.Reading(s, objects), objects: objects}
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
}

// endedRun imports a random log that has an end, with a receipt for each decision about a signal.
func (f *fixture) endedRun(n int) string {
	f.Helper()
	for seed := uint64(n) * 1000; ; seed++ {
		events := runtest.RandomLog(seed)
		if len(events) < 12 || !events[len(events)-1].Type.EndsRun() {
			continue
		}
		id := runtest.ID
		id.RunID = fmt.Sprintf("run-%d", n)
		var receipts []run.SignalReceipt
		for _, e := range events {
			if e.Type.OfSignal() {
				receipts = append(receipts, run.SignalReceipt{RunID: id.RunID, Signal: run.Signal{ID: e.SignalID, Type: run.Pause},
					Actor: "ola", AcceptedSeq: e.Seq, ReceivedAt: e.PersistedAt, Application: run.SignalNotApply,
					No: int64(len(receipts) + 1)})
			}
		}
		f.ok(f.raw.Import(f.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ola",
			TriggerSource: storeadmin.TriggerImport, CreatedAt: runtest.Epoch,
			PlanRef: plan.Ref{PlanID: id.PlanID, PlanVersion: id.PlanVersion}}, Receipts: receipts}, events))
		l, err := f.raw.Load(f.Context(), id.RunID)
		f.ok(err)
		f.ok(f.raw.MarkPublished(f.Context(), id.RunID, l.Head.LastSeq, l.Head.OpsRev))
		return id.RunID
	}
}

// archive moves a run into the archive and deletes at most events of its events; a negative number deletes all.
func (f *fixture) archive(runID string, events int) store.ArchivedRun {
	f.Helper()
	a, err := archive.Write(f.Context(), f.raw, f.objects, runID)
	f.ok(err)
	f.ok(f.raw.MarkArchived(f.Context(), a))
	if events < 0 {
		events = store.MaxPage
	}
	if events > 0 {
		_, err = f.raw.DeleteArchivedEvents(f.Context(), runID, events)
		f.ok(err)
	}
	return a
}

// answers are all answers of a store about a run, as a text.
func (f *fixture) answers(s store.Store, runID string) string {
	f.Helper()
	var b strings.Builder
	ctx := f.Context()
	show := func(what string, v any, err error) {
		f.ok(err)
		fmt.Fprintf(&b, "%s: %s\n", what, runtest.JSON(v))
	}
	l, err := s.Load(ctx, runID)
	head := l.Head.LastSeq
	show("load", l.State, err)
	for _, limit := range []int{1, 3, 1000} {
		for at := run.Seq(0); at <= head+1; at++ {
			events, err := s.Events(ctx, runID, at, limit)
			show(fmt.Sprint("events after ", at), events, err)
			before, err := s.EventsBefore(ctx, runID, at, limit)
			show(fmt.Sprint("events before ", at), before, err)
		}
	}
	for at := run.Seq(1); at <= head+1; at++ {
		past, err := s.At(ctx, runID, at)
		show(fmt.Sprint("state at ", at), past.State, err)
		since, d, err := s.Since(ctx, runID, at)
		show(fmt.Sprint("since ", at), []any{d, since.Head}, err)
		tails, err := s.Tails(ctx, []store.TailRequest{{RunID: runID, Seq: at}})
		show(fmt.Sprint("tail ", at), tails.ByRun[runID].Events, err)
	}
	receipts, err := s.Receipts(ctx, runID, "", 10)
	show("receipts", receipts, err)
	for _, r := range receipts {
		one, err := s.Receipt(ctx, runID, r.Signal.ID)
		show("receipt", one, err)
		rest, err := s.Receipts(ctx, runID, r.Signal.ID, 1)
		show("receipts after", rest, err)
	}
	return b.String()
}

// contract: T180
func TestReading_AnswersAsBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for n := range 12 {
		id := f.endedRun(n)
		want := f.answers(f.raw, id)
		f.archive(id, []int{-1, 0, 1, 5}[n%4])
		if n%3 == 0 {
			_, err := f.raw.DeleteArchivedReceipts(t.Context(), id)
			f.ok(err)
		}
		if diff := cmp.Diff(want, f.answers(f.reading, id)); diff != "" {
			t.Errorf("answers about archived run %s (-before +after):\n%s", id, diff)
		}
	}
}

// A checkpoint of another revision of the reducer is folded again, from the archive.
func TestReading_RebuildsALostCheckpoint(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.endedRun(1)
	want := f.answers(f.raw, id)
	f.archive(id, -1)
	f.ok(f.raw.DropCheckpoint(t.Context(), id))
	if diff := cmp.Diff(want, f.answers(f.reading, id)); diff != "" {
		t.Errorf("answers without a checkpoint (-before +after):\n%s", diff)
	}
	_, err := storeadmin.Rebuild(t.Context(), f.reading, nil, nil)
	f.ok(err)
	if diff := cmp.Diff(want, f.answers(f.reading, id)); diff != "" {
		t.Errorf("answers after a rebuild (-before +after):\n%s", diff)
	}
}

func TestReading_VerifiesAndExportsArchivedRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []string
	for n := range 5 {
		ids = append(ids, f.endedRun(n))
	}
	verify := func(s store.Store) storeadmin.Verified {
		out, err := storeadmin.Verify(t.Context(), s, storeadmin.VerifyOptions{}, nil)
		f.ok(err)
		return out
	}
	export := func(s store.Store) string {
		var b bytes.Buffer
		_, err := storeadmin.Export(t.Context(), s, nil, &b, nil)
		f.ok(err)
		_, lines, _ := strings.Cut(b.String(), "\n") // the header has the time
		return lines
	}
	verified, exported := verify(f.raw), export(f.raw)
	for _, id := range ids {
		f.archive(id, -1)
		_, err := f.raw.DeleteArchivedReceipts(t.Context(), id)
		f.ok(err)
	}
	if diff := cmp.Diff(verified, verify(f.reading), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("verify (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(exported, export(f.reading)); diff != "" {
		t.Errorf("export (-before +after):\n%s", diff)
	}
}

func TestReading_ALostArchiveIsADifferenceOfItsRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost, torn, whole := f.endedRun(1), f.endedRun(2), f.endedRun(3)
	f.ok(f.objects.RemoveArchived(t.Context(), f.archive(lost, -1).Location))
	f.ok(f.objects.PutArchived(t.Context(), f.archive(torn, -1).Location, strings.NewReader("other bytes")))
	f.archive(whole, -1)
	out, err := storeadmin.Verify(t.Context(), f.reading, storeadmin.VerifyOptions{}, nil)
	f.ok(err)
	var got []string
	for _, found := range out.Found {
		got = append(got, found.RunID+" "+found.What)
	}
	slices.Sort(got)
	want := []string{lost + " archive", torn + " archive"}
	slices.Sort(want)
	if out.Runs != 3 || !slices.Equal(got, want) {
		t.Errorf("%d runs verified, differences %v; want 3 and %v", out.Runs, got, want)
	}
}

// The object of a run is a file for dvt store import.
func TestWrite_MakesAFileThatCanBeImported(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t), newFixture(t)
	id := f.endedRun(3)
	want := f.answers(f.raw, id)
	a := f.archive(id, -1)
	open := func() (io.ReadCloser, error) { return f.objects.OpenArchived(context.Background(), a.Location) }
	_, err := storeadmin.Import(t.Context(), other.raw, open, false, nil)
	f.ok(err)
	if diff := cmp.Diff(want, other.answers(other.raw, id)); diff != "" {
		t.Errorf("answers of another store after the import (-before +after):\n%s", diff)
	}
}

func TestReading_ReportsATornObject(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]func([]byte) []byte{
		"cut":       func(b []byte) []byte { return b[:len(b)/2] },
		"changed":   func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"empty":     func([]byte) []byte { return nil },
		"no gzip":   func([]byte) []byte { return []byte("hello") },
		"rewritten": func(b []byte) []byte { return rewrite(t, b) },
		"appended":  func(b []byte) []byte { return append(bytes.Clone(b), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.endedRun(1)
			a := f.archive(id, -1)
			in, err := f.objects.OpenArchived(t.Context(), a.Location)
			f.ok(err)
			whole, err := io.ReadAll(in)
			f.ok(errors.Join(err, in.Close()))
			f.ok(f.objects.PutArchived(t.Context(), a.Location, bytes.NewReader(body(whole))))
			if _, err := f.reading.Events(t.Context(), id, 0, 10); !errors.Is(err, archive.ErrTorn) {
				t.Errorf("events from a torn object: %v, want ErrTorn", err)
			}
		})
	}
}

// rewrite makes another valid object: a person in it has another name.
func rewrite(t *testing.T, object []byte) []byte {
	t.Helper()
	in, err := gzip.NewReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(bytes.ReplaceAll(lines, []byte(`"ola"`), []byte(`"eve"`)))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// forgetful loses the end of each object.
type forgetful struct{ archive.Objects }

func (o forgetful) PutArchived(ctx context.Context, name string, body io.Reader) error {
	whole, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return o.Objects.PutArchived(ctx, name, bytes.NewReader(whole[:len(whole)-20]))
}

// A bucket that loses bytes is noticed before anything is deleted.
func TestWrite_VerifiesWhatItWrote(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.endedRun(1)
	if _, err := archive.Write(t.Context(), f.raw, forgetful{f.objects}, id); !errors.Is(err, archive.ErrTorn) {
		t.Errorf("a write to a bucket that loses bytes: %v, want ErrTorn", err)
	}
}

func TestWrite_RefusesAnOpenRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := runtest.ID
	f.ok(f.raw.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, CreatedAt: time.Now()}},
		runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"))))
	if _, err := archive.Write(t.Context(), f.raw, f.objects, id.RunID); store.ObstacleOf(err) != store.ObstacleOpen {
		t.Errorf("a write of an open run: %v, want the obstacle OPEN", err)
	}
}
