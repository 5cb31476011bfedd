package runs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestTagRun_ReplacesTagsAndIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r", "s1")
	operator, viewer := w.Principal("dev-operator"), w.Principal("dev-viewer")
	tag := func(p authz.Principal, tags ...string) ([]string, error) {
		out, err := w.TagRun(t.Context(), p, runs.TagRun{RunID: id, RequestID: "q", Tags: tags})
		return out.Tags, err
	}
	got := controltest.Must[[]string](t)(tag(operator, "team:data", "odd", "odd"))
	if diff := cmp.Diff([]string{"odd", "team:data"}, got); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	controltest.Must[[]string](t)(tag(operator, "odd", "team:data"))
	if n := w.CountAuditRows(`action = 'TAG_RUN' AND outcome = 'ACCEPTED'`); n != 1 {
		t.Errorf("%d audit rows, want 1: the second call changed nothing", n)
	}
	if of := controltest.Must[map[string]runs.Marks](t)(w.Marks(t.Context(), viewer,
		[]string{id})); len(of[id].Tags) != 2 {
		t.Errorf("the viewer reads the marks %+v, want 2 tags", of[id])
	}
	if of := controltest.Must[map[string]runs.Marks](t)(w.Marks(t.Context(), w.ForeignPrincipal(),
		[]string{id})); len(of) != 0 {
		t.Errorf("another tenant reads the marks %v, want none", of)
	}
	_, err := tag(viewer, "x")
	controltest.Refusal(t, err, run.CodeForbidden)
	if !w.HasAuditRow("acme", "dev-viewer ANNOTATE DENIED") &&
		w.CountAuditRows(`action = 'ANNOTATE' AND outcome = 'DENIED'`) != 1 {
		t.Error("the denial is not in the audit")
	}
	_, err = w.TagRun(t.Context(), w.ForeignPrincipal(), runs.TagRun{RunID: id, RequestID: "q"})
	controltest.Refusal(t, err, run.CodeNotFound)
	for _, bad := range []string{"", "A", ":x", "a:", "a b", "a:b c", strings.Repeat("k", 33),
		"k:" + strings.Repeat("v", 65)} {
		_, err := tag(operator, bad)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
	_, err = tag(operator, strings.Fields(tagsUpTo(store.MaxTags+1))...)
	controltest.Refusal(t, err, run.CodeBadInput)
}

func TestChangeTags_AddsAndRemovesAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r", "s1")
	operator := w.Principal("dev-operator")
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
		got := controltest.Must[[]string](t)(change(operator, c.add, c.remove))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("+%v -%v (-want +got):\n%s", c.add, c.remove, diff)
		}
	}
	if n := w.CountAuditRows(`action = 'TAG_RUN' AND outcome = 'ACCEPTED'`); n != 2 {
		t.Errorf("%d audit rows, want 2: two calls changed nothing", n)
	}
	for _, bad := range []struct{ add, remove []string }{{[]string{"A"}, nil},
		{strings.Fields(tagsUpTo(store.MaxTags - 1)), nil}, {nil, strings.Fields(tagsUpTo(store.MaxTags + 1))}} {
		_, err := change(operator, bad.add, bad.remove)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
	_, err := change(w.Principal("dev-viewer"), []string{"x"}, nil)
	controltest.Refusal(t, err, run.CodeForbidden)
	_, err = change(w.ForeignPrincipal(), []string{"x"}, nil)
	controltest.Refusal(t, err, run.CodeNotFound)
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
	id := w.CreateQueued("r", "s1")
	note := func(p authz.Principal, requestID, body string) (store.Note, error) {
		return w.AddNote(t.Context(), p, runs.NoteRun{RunID: id, RequestID: requestID, Body: body})
	}
	first := controltest.Must[store.Note](t)(note(w.Principal("dev-operator"), "n1", "the source was late"))
	if first.Author != "dev-operator" || first.At.IsZero() {
		t.Errorf("the note is %+v, want its author and time", first)
	}
	again := controltest.Must[store.Note](t)(note(w.Principal("dev-operator"), "n1", "the source was late"))
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("a repeated request (-want +got):\n%s", diff)
	}
	if n := w.CountAuditRows(`action = 'NOTE_RUN'`); n != 1 {
		t.Errorf("%d audit rows, want 1", n)
	}
	if got := controltest.Must[[]store.Note](t)(w.Notes(t.Context(), w.Principal("dev-viewer"), id)); len(got) != 1 {
		t.Errorf("the viewer reads %d notes, want 1", len(got))
	}
	marks := func(p authz.Principal) int {
		return controltest.Must[map[string]runs.Marks](t)(w.Marks(t.Context(), p, []string{id}))[id].Notes
	}
	if got, foreign := marks(w.Principal("dev-viewer")), marks(w.ForeignPrincipal()); got != 1 || foreign != 0 {
		t.Errorf("lists show %d notes to the viewer and %d to another tenant, want 1 and 0", got, foreign)
	}
	_, err := w.Notes(t.Context(), w.ForeignPrincipal(), id)
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = note(w.Principal("dev-viewer"), "n2", "no")
	controltest.Refusal(t, err, run.CodeForbidden)
	for _, body := range []string{"", strings.Repeat("x", runs.MaxNoteBytes+1), "\x1b[31m"} {
		_, err := note(w.Principal("dev-operator"), "n3", body)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}
