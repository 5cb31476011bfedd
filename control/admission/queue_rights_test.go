package admission_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
)

// A page has as many runs as were requested when p may see that many, and the next page starts after one of them.
// Otherwise a viewer could not page on.
// contract: T137
func TestQueue_PagesHaveOnlyReadableRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()))
	for i := range 2 {
		w.StartOneStep(fmt.Sprint("started", i))
	}
	var want []string
	for i, environment := range []string{"prod", "prod", "prod", "dev", "prod", "dev", "prod"} {
		in := controltest.StartOf(fmt.Sprint("r", i), controltest.Document(controltest.M{"scope.environmentId": environment},
			"s1"))
		s := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), in))
		if environment == "dev" {
			want = append(want, s.View.Run.RunID)
		}
	}
	after := ""
	for i, id := range want {
		page := controltest.Must[admission.QueuePage](t)(
			w.Queue(t.Context(), w.Principal("env-viewer"), admission.QueueQuery{First: 1, After: after}))
		if more := i+1 < len(want); len(page.Entries) != 1 || page.Entries[0].RunID != id || page.HasNext != more {
			t.Fatalf("page %d: %+v, want %s", i, page, id)
		}
		after = id
	}
	p := w.GrantTo("nobody", controltest.ViewerOf("shop", "dev"), controltest.ViewerOf("bank", "prod"))
	page := controltest.Must[admission.QueuePage](t)(w.Queue(t.Context(), p, admission.QueueQuery{}))
	var shown []string
	for _, e := range page.Entries {
		shown = append(shown, e.RunID)
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("queue of shop/dev and bank/prod (-want +got):\n%s", diff)
	}
}
