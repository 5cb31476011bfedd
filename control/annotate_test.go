package control_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestTagRun_ReplacesTagsAndIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("r", "s1")
	operator, viewer := w.who("dev-operator"), w.who("dev-viewer")
	tag := func(p authz.Principal, tags ...string) ([]string, error) {
		out, err := w.TagRun(t.Context(), p, runs.TagRun{RunID: id, RequestID: "q", Tags: tags})
		return out.Tags, err
	}
	got := must[[]string](t)(tag(operator, "team:data", "odd", "odd"))
	if diff := cmp.Diff([]string{"odd", "team:data"}, got); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	must[[]string](t)(tag(operator, "odd", "team:data"))
	if n := w.auditRows(`action = 'TAG_RUN' AND outcome = 'ACCEPTED'`); n != 1 {
		t.Errorf("%d audit rows, want 1: the second call changed nothing", n)
	}
	if of := must[map[string][]string](t)(w.Tags(t.Context(), viewer, []string{id})); len(of[id]) != 2 {
		t.Errorf("the viewer reads the tags %v, want 2", of[id])
	}
	if of := must[map[string][]string](t)(w.Tags(t.Context(), w.foreign(), []string{id})); len(of) != 0 {
		t.Errorf("another tenant reads the tags %v, want none", of)
	}
	_, err := tag(viewer, "x")
	refusal(t, err, run.CodeForbidden)
	if !w.audited("acme", "dev-viewer ANNOTATE DENIED") && w.auditRows(`action = 'ANNOTATE' AND outcome = 'DENIED'`) != 1 {
		t.Error("the denial is not in the audit")
	}
	_, err = w.TagRun(t.Context(), w.foreign(), runs.TagRun{RunID: id, RequestID: "q"})
	refusal(t, err, run.CodeNotFound)
	for _, bad := range []string{"", "A", ":x", "a:", "a b", "a:b c", strings.Repeat("k", 33),
		"k:" + strings.Repeat("v", 65)} {
		_, err := tag(operator, bad)
		refusal(t, err, run.CodeBadInput)
	}
	_, err = tag(operator, strings.Fields(tagsUpTo(store.MaxTags+1))...)
	refusal(t, err, run.CodeBadInput)
}

func TestChangeTags_AddsAndRemovesAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("r", "s1")
	operator := w.who("dev-operator")
	change := func(p authz.Principal, add, remove []string) ([]string, error) {
		tagged, err := w.ChangeTags(t.Context(), p, runs.ChangeTags{RunID: id, RequestID: "q", Add: add, Remove: remove})
		return tagged.Tags, err
	}
	for _, c := range []struct{ add, remove, want []string }{
		{[]string{"b", "a", "a"}, nil, []string{"a", "b"}},
		{[]string{"c"}, []string{"b", "never"}, []string{"a", "c"}},
		{[]string{"d"}, []string{"d"}, []string{"a", "c"}},
		{nil, nil, []string{"a", "c"}},
	} {
		got := must[[]string](t)(change(operator, c.add, c.remove))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("+%v -%v (-want +got):\n%s", c.add, c.remove, diff)
		}
	}
	if n := w.auditRows(`action = 'TAG_RUN' AND outcome = 'ACCEPTED'`); n != 2 {
		t.Errorf("%d audit rows, want 2: two calls changed nothing", n)
	}
	for _, bad := range []struct{ add, remove []string }{{[]string{"A"}, nil},
		{strings.Fields(tagsUpTo(store.MaxTags - 1)), nil}, {nil, strings.Fields(tagsUpTo(store.MaxTags + 1))}} {
		_, err := change(operator, bad.add, bad.remove)
		refusal(t, err, run.CodeBadInput)
	}
	_, err := change(w.who("dev-viewer"), []string{"x"}, nil)
	refusal(t, err, run.CodeForbidden)
	_, err = change(w.foreign(), []string{"x"}, nil)
	refusal(t, err, run.CodeNotFound)
}

// tagsUpTo returns n distinct tags, separated by blanks.
func tagsUpTo(n int) string {
	var out []string
	for i := range n {
		out = append(out, "n"+strings.Repeat("x", i))
	}
	return strings.Join(out, " ")
}

func TestAddNote_KeepsTextAuthorAndTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("r", "s1")
	note := func(p authz.Principal, requestID, body string) (store.Note, error) {
		return w.AddNote(t.Context(), p, runs.NoteRun{RunID: id, RequestID: requestID, Body: body})
	}
	first := must[store.Note](t)(note(w.who("dev-operator"), "n1", "the source was late"))
	if first.Author != "dev-operator" || first.At.IsZero() {
		t.Errorf("the note is %+v, want its author and time", first)
	}
	again := must[store.Note](t)(note(w.who("dev-operator"), "n1", "changed"))
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("a repeated request (-want +got):\n%s", diff)
	}
	if n := w.auditRows(`action = 'NOTE_RUN'`); n != 1 {
		t.Errorf("%d audit rows, want 1", n)
	}
	if got := must[[]store.Note](t)(w.Notes(t.Context(), w.who("dev-viewer"), id)); len(got) != 1 {
		t.Errorf("the viewer reads %d notes, want 1", len(got))
	}
	_, err := w.Notes(t.Context(), w.foreign(), id)
	refusal(t, err, run.CodeNotFound)
	_, err = note(w.who("dev-viewer"), "n2", "no")
	refusal(t, err, run.CodeForbidden)
	for _, body := range []string{"", strings.Repeat("x", runs.MaxNoteBytes+1), "\x1b[31m"} {
		_, err := note(w.who("dev-operator"), "n3", body)
		refusal(t, err, run.CodeBadInput)
	}
}

func TestSavedViews_AreOnesOwnOrSharedByThoseWhoMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator, viewer := w.who("dev-operator"), w.who("dev-viewer")
	save := func(p authz.Principal, id, project string) error {
		_, err := w.SaveView(t.Context(), p, reads.SaveView{ID: id, ProjectID: project, Name: "Failed",
			Query: "status:failed"})
		return err
	}
	if err := save(viewer, "v1", ""); err != nil {
		t.Fatal(err)
	}
	refusal(t, save(viewer, "v2", "shop"), run.CodeForbidden)
	if err := save(operator, "v1", "shop"); err != nil {
		t.Fatal(err)
	}
	if got := must[[]store.SavedView](t)(w.SavedViews(t.Context(), viewer)); len(got) != 2 {
		t.Errorf("the viewer has the views %+v, want its own and the shared one", got)
	}
	if got := must[[]store.SavedView](t)(w.SavedViews(t.Context(), operator)); len(got) != 1 {
		t.Errorf("the operator has the views %+v, want only its own", got)
	}
	if got := must[[]store.SavedView](t)(w.SavedViews(t.Context(), w.foreign())); len(got) != 0 {
		t.Errorf("another tenant has the views %+v, want none", got)
	}
	refusal(t, save(operator, "", ""), run.CodeBadInput)
	deleted := func(id string) control.Change {
		return must[control.Change](t)(w.DeleteView(t.Context(), viewer, id))
	}
	if deleted("v9") != (control.Change{}) || deleted("v1").Actor != viewer.ID {
		t.Error("DeleteView does not say whether the view existed")
	}
	if n := w.auditRows(`action IN ('SAVE_VIEW', 'DELETE_VIEW') AND outcome = 'ACCEPTED'`); n != 3 {
		t.Errorf("%d audit rows, want 3", n)
	}
}

// A name may have any letter. What the audit keeps of it is JSON.
func TestSaveView_TheAuditKeepsAnyName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := "a \"quoted\" name with \U000e0001"
	if _, err := w.SaveView(t.Context(), w.who("dev-operator"), reads.SaveView{ID: "v1", Name: name}); err != nil {
		t.Fatal(err)
	}
	if n := w.auditRows(`action = 'SAVE_VIEW' AND json_valid(detail) AND detail ->> 'name' LIKE 'a "quoted"%'`); n != 1 {
		t.Errorf("%d audit rows have the name as JSON, want 1", n)
	}
}
