package reads_test

import (
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestSavedViews_AreOnesOwnOrSharedByThoseWhoMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator, viewer := w.Principal("dev-operator"), w.Principal("dev-viewer")
	save := func(p authz.Principal, id, project string) error {
		_, err := w.SaveView(t.Context(), p, reads.SaveView{ID: id, ProjectID: project, Name: "Failed",
			Query: "status:failed"})
		return err
	}
	if err := save(viewer, "v1", ""); err != nil {
		t.Fatal(err)
	}
	controltest.Refusal(t, save(viewer, "v2", "shop"), run.CodeForbidden)
	if err := save(operator, "v1", "shop"); err != nil {
		t.Fatal(err)
	}
	if got := controltest.Must[[]store.SavedView](t)(w.SavedViews(t.Context(), viewer)); len(got) != 2 {
		t.Errorf("the viewer has the views %+v, want its own and the shared one", got)
	}
	if got := controltest.Must[[]store.SavedView](t)(w.SavedViews(t.Context(), operator)); len(got) != 1 {
		t.Errorf("the operator has the views %+v, want only its own", got)
	}
	if got := controltest.Must[[]store.SavedView](t)(w.SavedViews(t.Context(), w.ForeignPrincipal())); len(got) != 0 {
		t.Errorf("another tenant has the views %+v, want none", got)
	}
	controltest.Refusal(t, save(operator, "", ""), run.CodeBadInput)
	deleted := func(id string) control.Change {
		return controltest.Must[control.Change](t)(w.DeleteView(t.Context(), viewer, id))
	}
	if deleted("v9") != (control.Change{}) || deleted("v1").Actor != viewer.ID {
		t.Error("DeleteView does not say whether the view existed")
	}
	if n := w.CountAuditRows(`action IN ('SAVE_VIEW', 'DELETE_VIEW') AND outcome = 'ACCEPTED'`); n != 3 {
		t.Errorf("%d audit rows, want 3", n)
	}
}

// A name may have any letter. What the audit keeps of it is JSON.
func TestSaveView_TheAuditKeepsAnyName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := "a \"quoted\" name with \U000e0001"
	if _, err := w.SaveView(t.Context(), w.Principal("dev-operator"), reads.SaveView{ID: "v1", Name: name}); err != nil {
		t.Fatal(err)
	}
	if n := w.CountAuditRows(`action = 'SAVE_VIEW' AND json_valid(detail) AND detail ->> 'name' LIKE 'a "quoted"%'`); n != 1 {
		t.Errorf("%d audit rows have the name as JSON, want 1", n)
	}
}
