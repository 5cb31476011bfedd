package storeadmin_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

func (d *db) export(runs ...string) string {
	d.Helper()
	var b bytes.Buffer
	_, err := storeadmin.Export(d.Context(), d.Store, runs, &b, nil)
	must(d.T, err)
	return b.String()
}

func from(doc string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(doc)), nil }
}

func (d *db) load(doc string) storeadmin.Imported {
	d.Helper()
	out, err := storeadmin.Import(d.Context(), d.Store, from(doc), false, nil)
	must(d.T, err)
	return out
}

// body returns an export without its header, which has a time.
func body(doc string) string {
	_, rest, _ := strings.Cut(doc, "\n")
	return rest
}

func (d *db) receipts(runID string) []run.SignalReceipt {
	d.Helper()
	out, err := d.Receipts(d.Context(), runID, "", store.MaxPage)
	must(d.T, err)
	return out
}

// contract: Z09
func TestExport_ImportMakesEqualRunsInAnEmptyStore(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]string{{"sqlite", "sqlite"}, {"sqlite", "postgres"}, {"postgres", "sqlite"},
		{"postgres", "postgres"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			t.Parallel()
			a, b := adapters[way[0]](t), adapters[way[1]](t)
			for n := range 20 {
				id := a.createRandom(n)
				if n%3 == 0 {
					a.annotate(id.RunID)
				}
				if n%2 == 0 {
					a.project(id.RunID)
				}
			}
			doc := a.export()
			if !strings.Contains(doc, `"tags":["odd","team:data"]`) || !strings.Contains(doc, `"body":"late"`) {
				t.Error("the file lacks the tags and notes")
			}
			if n := strings.Count(doc, `{"plan":{"sha256"`); n != 1 {
				t.Errorf("%d plans in the file, want 1", n)
			}
			out := b.load(doc)
			if out.Runs != 20 || len(out.Skipped) > 0 {
				t.Errorf("imported %+v, want 20 runs and none skipped", out)
			}
			for n := range 20 {
				id := identity(n).RunID
				ra, err := a.Get(t.Context(), id)
				must(t, err)
				rb, err := b.Get(t.Context(), id)
				must(t, err)
				equal(t, "facts of "+id, ra, rb)
				equal(t, "events of "+id, a.log(id), b.log(id))
				equal(t, "receipts of "+id, a.receipts(id), b.receipts(id))
				equal(t, "state of "+id, a.state(id), b.state(id))
				ha, hb := a.head(id), b.head(id)
				ha.OpsRev, hb.OpsRev = 0, 0
				equal(t, "head of "+id, ha, hb)
				plan, err := b.Plan(t.Context(), ra.PlanRef.SHA256)
				must(t, err)
				if !bytes.Equal(plan, planBody) {
					t.Errorf("plan body %q, want %q", plan, planBody)
				}
			}
			b.clean()
			if body(doc) != body(b.export()) {
				t.Error("the export of the copy differs from the export of the original")
			}
		})
	}
}

// annotate attaches tags and a note to a run.
func (d *db) annotate(runID string) {
	d.Helper()
	must(d.T, d.InRun(d.Context(), runID, func(tx store.RunTx) error {
		if err := tx.PutTags(d.Context(), []string{"odd", "team:data"}); err != nil {
			return err
		}
		_, _, err := tx.AddNote(d.Context(), store.Note{Author: "ana", Body: "late", RequestID: "n1"})
		return err
	}))
}

// An export keeps bytes that a JSON encoder would change, such as spaces, HTML characters and a missing payload.
// contract: A11
func TestExport_PayloadsKeepTheirBytes(t *testing.T) {
	onEach(t, func(d *db) {
		log := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"), runtest.Draft(run.StepStartedEvent, "a",
			1), runtest.Draft(run.StepCompletedEvent, "a", 1))
		log[0].Payload = json.RawMessage("{ \"x\" :\n \"<b>&\u2028\\u2028\", \"x\": 1.0}")
		log[2].Payload = nil
		log[3].Payload = json.RawMessage(`{"a":"<b>&"}`)
		for i := range log {
			log[i].RunID = identity(1).RunID
			log[i].Key = run.Draft{Type: log[i].Type, StepID: log[i].StepID, LogicalAttempt: 1}.Key(identity(1))
			log[i].EventID = log[i].Key.EventID()
		}
		must(d.T, d.Import(d.Context(), newRun(identity(1)), log))
		fresh := newSQLite(d.T)
		fresh.load(d.export())
		equal(d.T, "events", log, fresh.log(identity(1).RunID))
	})
}

func TestExport_WritesOnlyTheNamedRuns(t *testing.T) {
	t.Parallel()
	d := newSQLite(t)
	for n := range 4 {
		d.createRandom(n)
	}
	doc := d.export("run-001", "run-003")
	if strings.Count(doc, `{"run":`) != 2 || strings.Contains(doc, "run-002") {
		t.Errorf("the export of run-001 and run-003 has other runs:\n%s", doc)
	}
	if _, err := storeadmin.Export(t.Context(), d.Store, []string{"nobody"}, io.Discard, nil); !errors.Is(err,
		store.ErrNotFound) {
		t.Errorf("export of an unknown run: error %v, want ErrNotFound", err)
	}
}

func TestImport_RefusesOrSkipsRunsThatExist(t *testing.T) {
	onEach(t, func(d *db) {
		src := newSQLite(d.T)
		for n := range 3 {
			src.createRandom(n)
		}
		doc := src.export()
		d.load(src.export("run-001"))
		_, err := storeadmin.Import(d.Context(), d.Store, from(doc), false, nil)
		var exist *storeadmin.ExistError
		if !errors.As(err, &exist) || !errors.Is(err, store.ErrConflict) || fmt.Sprint(exist.RunIDs) != "[run-001]" {
			d.Fatalf("error %v, want an ExistError for run-001", err)
		}
		if runs, err := d.AllRuns(d.Context(), "", 10); err != nil || len(runs) != 1 {
			d.Fatalf("%d runs after the refusal, want 1 (error %v)", len(runs), err)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err = io.WriteString(z, doc)
		must(d.T, errors.Join(err, z.Close()))
		out, err := storeadmin.Import(d.Context(), d.Store, from(packed.String()), true, nil)
		must(d.T, err)
		if out.Runs != 2 || fmt.Sprint(out.Skipped) != "[run-001]" || out.Last != "run-002" {
			d.Errorf("imported %+v, want 2 runs up to run-002 and run-001 skipped", out)
		}
		d.clean()
	})
}

// Import lists all violations by line and writes nothing.
func TestImport_ListsAllViolationsOfAFile(t *testing.T) {
	t.Parallel()
	src := newSQLite(t)
	src.sample()
	lines := strings.Split(strings.TrimSpace(src.export()), "\n")
	change := func(n int, old, other string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[n], old) {
				t.Fatalf("line %d has no %s: %s", n+1, old, l[n])
			}
			l[n] = strings.Replace(l[n], old, other, 1)
			return l
		}
	}
	for name, c := range map[string]struct {
		edit func([]string) []string
		line int
		want string
	}{
		"empty file":              {func([]string) []string { return nil }, 1, "empty"},
		"no header":               {func(l []string) []string { return l[1:] }, 1, "neither the header"},
		"unknown version":         {change(0, `"version":2`, `"version":3`), 1, "this program reads 2"},
		"not JSON":                {func(l []string) []string { l[3] = "{"; return l }, 4, "not a line of an export"},
		"hash of a plan":          {change(1, `"body":"`, `"body":"AAAA`), 2, "the SHA-256 of the body is"},
		"pattern of the tenant":   {change(2, `"tenantId":"t1"`, `"tenantId":"t|1"`), 3, "tenantId"},
		"event of another tenant": {change(4, `"tenantId":"t1"`, `"tenantId":"t2"`), 5, "another run, tenant"},
		"hole in the seqs":        {change(4, `"runSeq":2`, `"runSeq":7`), 5, "leaves a hole"},
		"malformed eventId":       {change(4, `"eventId":"`, `"eventId":"x`), 5, "not a UUID"},
		"wrong key":               {change(4, `"idempotencyKey":"`, `"idempotencyKey":"0`), 5, "the key of this event"},
		"attempt 0":               {change(4, `"engineAttemptId":1`, `"engineAttemptId":0`), 5, "from 1 to"},
		"malformed time":          {change(4, `"emittedAt":"20`, `"emittedAt":"99920`), 5, "not a line of an export"},
		"without the last line":   {func(l []string) []string { return l[:len(l)-1] }, len(lines) - 1, "cut off"},
		"cut off within a run":    {func(l []string) []string { return l[:5] }, 5, "ends within run run-001"},
		"missing event":           {func(l []string) []string { return append(l[:4:4], l[5:]...) }, 5, "leaves a hole"},
		"line after the end":      {func(l []string) []string { return append(l, l[1]) }, len(lines) + 1, "after the end"},
		"run in the file twice": {func(l []string) []string {
			return append(l[:len(l)-1:len(l)-1], l[2:]...)
		}, len(lines), "in the file more than once"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := newSQLite(t)
			doc := strings.Join(c.edit(append([]string(nil), lines...)), "\n")
			_, err := storeadmin.Import(t.Context(), fresh.Store, from(doc), false, nil)
			var invalid *storeadmin.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want an InvalidError", err)
			}
			found := false
			for _, v := range invalid.Violations {
				found = found || v.Line == c.line && strings.Contains(v.Path+" "+v.Message, c.want)
			}
			if !found {
				t.Errorf("want a violation in line %d with %q among:\n%v", c.line, c.want, err)
			}
			if runs, err := fresh.AllRuns(t.Context(), "", 10); err != nil || len(runs) > 0 {
				t.Errorf("%d runs were written, want none (error %v)", len(runs), err)
			}
		})
	}
	broken := append([]string(nil), lines...)
	broken[3], broken[4], broken[5] = change(3, `"runSeq":1`, `"runSeq":0`)(broken)[3], "?", "{}"
	_, err := storeadmin.Import(t.Context(), newSQLite(t).Store, from(strings.Join(broken, "\n")), false, nil)
	for _, line := range []string{"line 4: ", "line 5: ", "line 6: "} {
		if !strings.Contains(fmt.Sprint(err), line) {
			t.Errorf("want a violation in %q among: %v", line, err)
		}
	}
}
