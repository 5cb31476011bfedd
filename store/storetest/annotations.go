package storetest

import (
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var annotationCases = []testCase{
	{"TagsAreReplacedAndListed", testTagsAreReplacedAndListed},
	{"NotesAreKept", testNotesAreKept},
	{"NotesCannotBeChanged", testNotesCannotBeChanged},
	{"ImportKeepsTagsAndNotes", testImportKeepsTagsAndNotes},
}

func (f *fixture) tag(id run.Identity, tags ...string) error {
	return f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		if err := tx.PutTags(f.ctx(), tags); err != nil {
			return err
		}
		got, err := tx.Tags(f.ctx())
		f.equal(slices.Compact(slices.Sorted(slices.Values(tags))), got, "tags in the transaction")
		return err
	})
}

func testTagsAreReplacedAndListed(f *fixture) {
	a, b := f.run(), f.run()
	foreign := identity(9)
	foreign.TenantID = "t2"
	f.create(newRun(foreign, runtest.Draft(run.RunApproved, "", 1)))
	before := f.head(a)
	_, cursor, err := f.store.ListChanged(f.ctx(), store.RunFilter{TenantID: "t1"}, "")
	f.ok(err)
	f.ok(f.tag(a, "team:data", "odd", "odd"))
	f.ok(f.tag(b, "team:data"))
	f.ok(f.tag(foreign, "team:data"))
	f.equal(before.OpsRev+1, f.head(a).OpsRev, "opsRev, so that viewers learn of the change")
	got, err := f.store.ListTags(f.ctx(), store.RunFilter{TenantID: "t1"}, []string{a.RunID, b.RunID, "nobody"})
	f.ok(err)
	f.equal(map[string][]string{a.RunID: {"odd", "team:data"}, b.RunID: {"team:data"}}, got, "tags")
	for _, scope := range []store.RunFilter{{TenantID: "t2"}, {TenantID: "t1", ProjectIDs: []string{}},
		{TenantID: "t1", EnvironmentID: "nowhere"}, {TenantID: "t1", Scopes: store.Scopes{}}} {
		none, err := f.store.ListTags(f.ctx(), scope, []string{a.RunID})
		f.ok(err)
		f.equal(map[string][]string{}, none, fmt.Sprintf("tags in the scope %+v", scope))
	}
	f.equal([]string{b.RunID, a.RunID}, runIDs(f.list(store.RunFilter{Tag: "team:data", Limit: 10})), "list")
	f.equal([]string{a.RunID}, runIDs(f.list(store.RunFilter{Tag: "odd", Limit: 10})), "list")
	f.equal([]string{}, runIDs(f.list(store.RunFilter{Tag: "team", Limit: 10})), "list of a part of a tag")
	f.ok(f.store.MarkPublished(f.ctx(), a.RunID, f.head(a).LastSeq, f.head(a).OpsRev))
	rows, _, err := f.store.ListChanged(f.ctx(), store.RunFilter{TenantID: "t1"}, cursor)
	f.ok(err)
	i := slices.Index(runIDs(rows), a.RunID)
	if i < 0 {
		f.Fatalf("Changed() returned %v, want %s among them", runIDs(rows), a.RunID)
	}
	f.equal([]string{"odd", "team:data"}, rows[i].Tags, "tags of the changed row")
	f.ok(f.tag(a, "odd"))
	f.equal([]string{b.RunID}, runIDs(f.list(store.RunFilter{Tag: "team:data", Limit: 10})), "list after the change")
	f.ok(f.tag(a))
	got, err = f.store.ListTags(f.ctx(), store.RunFilter{TenantID: "t1"}, []string{a.RunID})
	f.ok(err)
	f.equal(map[string][]string{}, got, "tags of a run without any")
	many := make([]string, store.MaxTags+1)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	f.wantError(f.tag(a, many...), store.ErrTooMany)
}

func (f *fixture) note(id run.Identity, n store.Note) (out store.Note, err error) {
	err = f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) (err error) {
		out, _, err = tx.AddNote(f.ctx(), n)
		return err
	})
	return out, err
}

func testNotesAreKept(f *fixture) {
	id, other := f.run(), f.run()
	first, err := f.note(id, store.Note{Author: "ana", Body: "the source was late", RequestID: "q1"})
	f.ok(err)
	again, err := f.note(id, store.Note{Author: "ana", Body: "changed", RequestID: "q1"})
	f.ok(err)
	f.equal(first, again, "a repeated request")
	second, err := f.note(id, store.Note{Author: "ben", Body: "mine now", RequestID: "q1"})
	f.ok(err)
	got, err := f.store.ListNotes(f.ctx(), id.RunID)
	f.ok(err)
	f.equal([]store.Note{first, second}, got, "notes, the oldest first")
	if first.At.IsZero() || first.No >= second.No || first.RunID != id.RunID {
		f.Errorf("notes %+v and %+v, want the run, a time and growing numbers", first, second)
	}
	for i := 2; i < store.MaxNotes; i++ {
		_, err := f.note(id, store.Note{Author: "ana", Body: "more", RequestID: fmt.Sprint("more", i)})
		f.ok(err)
	}
	_, err = f.note(id, store.Note{Author: "ana", Body: "too many", RequestID: "last"})
	f.wantError(err, store.ErrTooMany)
	got, err = f.store.ListNotes(f.ctx(), other.RunID)
	f.ok(err)
	f.equal([]store.Note{}, got, "notes of another run")
	counts, err := f.store.CountNotes(f.ctx(), store.RunFilter{TenantID: "t1"}, []string{id.RunID, other.RunID, "nobody"})
	f.ok(err)
	f.equal(map[string]int{id.RunID: store.MaxNotes}, counts, "numbers of notes")
	for _, scope := range []store.RunFilter{{TenantID: "t2"}, {TenantID: "t1", ProjectIDs: []string{}},
		{TenantID: "t1", EnvironmentID: "nowhere"}, {TenantID: "t1", Scopes: store.Scopes{}}} {
		none, err := f.store.CountNotes(f.ctx(), scope, []string{id.RunID})
		f.ok(err)
		f.equal(map[string]int{}, none, fmt.Sprintf("numbers of notes in the scope %+v", scope))
	}
}

func testNotesCannotBeChanged(f *fixture) {
	_, err := f.note(f.run(), store.Note{Author: "ana", Body: "so it was", RequestID: "q1"})
	f.ok(err)
	for _, statement := range []string{`UPDATE run_note SET body = 'forged'`, `DELETE FROM run_note`} {
		if f.db.Exec(f.T, statement) == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
}

func testImportKeepsTagsAndNotes(f *fixture) {
	n := newRun(identity(1))
	n.Tags = []string{"team:data"}
	n.Notes = []store.Note{{Author: "ana", Body: "as it was", RequestID: "q1", At: runtest.Epoch}}
	f.ok(f.store.Import(f.ctx(), n, nil))
	tags, err := f.store.ListTags(f.ctx(), store.RunFilter{TenantID: "t1"}, []string{"run-001"})
	f.ok(err)
	f.equal(map[string][]string{"run-001": {"team:data"}}, tags, "tags")
	notes, err := f.store.ListNotes(f.ctx(), "run-001")
	f.ok(err)
	f.equal(1, len(notes), "number of notes")
	want := n.Notes[0]
	want.RunID, want.No = "run-001", notes[0].No
	f.equal(want, notes[0], "note")
}
