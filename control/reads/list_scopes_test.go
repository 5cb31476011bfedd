package reads_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// Regression: a second right in another environment emptied every list.
func TestLists_ShowWhatRightsInSeveralEnvironmentsGive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")),
		func(c *usecases.Config) { c.Lists = live.NewLists(c.Store, c.Bus, live.ListsConfig{}) })
	from := w.Clock.Now().Add(-time.Minute)
	shopDev, shopProd := w.CreateInProject("a", "shop", "dev"), w.CreateInProject("b", "shop", "prod")
	w.CreateInProject("c", "shop", "stage")
	bankProd := w.CreateInProject("d", "bank", "prod")
	waiting := w.CreateManual("e", "look") // shop/dev
	p := w.GrantTo("nobody", controltest.ViewerOf("shop", "dev"), controltest.ViewerOf("shop", "prod"))

	page := controltest.Must[control.RunsPage](t)(w.Runs(t.Context(), p, control.RunsQuery{}))
	if diff := cmp.Diff([]string{waiting, shopProd, shopDev}, ids(page)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	for environment, want := range map[string][]string{"dev": {waiting, shopDev}, "prod": {shopProd}, "stage": nil} {
		page := controltest.Must[control.RunsPage](t)(
			w.Runs(t.Context(), p, control.RunsQuery{Filter: control.RunFilter{EnvironmentID: environment}}))
		if diff := cmp.Diff(want, ids(page)); diff != "" {
			t.Errorf("runs of %s (-want +got):\n%s", environment, diff)
		}
	}
	if _, err := w.ServiceState(t.Context(), p); err != nil {
		t.Errorf("ServiceState returned %v, want no error", err)
	}
	counts := controltest.Must[[]reads.RunCount](t)(
		w.RunHistogram(t.Context(), p, reads.RunHistogram{From: from, To: from.Add(time.Hour), Buckets: 1}))
	if counts[0].Total != 3 {
		t.Errorf("the histogram counts %d runs, want 3", counts[0].Total)
	}
	controltest.Eventually(t, "the manual task of shop/dev shows", func() bool { // tasks lag behind the log
		tasks := controltest.Must[runs.ManualTasksPage](t)(w.ManualTasks(t.Context(), p, runs.ManualTasksQuery{}))
		return len(tasks.Tasks) == 1 && tasks.Tasks[0].Identity.RunID == waiting
	})
	if _, err := w.InboxCount(t.Context(), p); err != nil {
		t.Errorf("InboxCount returned %v, want no error", err)
	}
	frames := controltest.OpenStream[watch.RunsFrame](t)(w.WatchRuns(t.Context(), p, control.RunsQuery{First: 10}))
	first := controltest.TakeFrame(t, frames, "a page", func(f watch.RunsFrame) bool { return f.Reset && len(f.Runs) > 0 })
	if len(first.Runs) != 3 {
		t.Errorf("runListUpdates begins with %d rows, want 3", len(first.Runs))
	}

	p = w.GrantTo("nobody", controltest.ViewerOf("shop", "dev"), controltest.ViewerOf("*", "prod"))
	page = controltest.Must[control.RunsPage](t)(w.Runs(t.Context(), p, control.RunsQuery{}))
	if diff := cmp.Diff([]string{waiting, bankProd, shopProd, shopDev}, ids(page)); diff != "" {
		t.Errorf("runs of shop/dev and */prod (-want +got):\n%s", diff)
	}
}

func TestLists_ShowARunIfAndOnlyIfItMayBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type placed struct{ id, project, environment string }
	var all []placed
	projects, environments := []string{"shop", "store", "bank"}, []string{"dev", "prod", "stage"}
	for _, project := range projects {
		for _, environment := range environments {
			all = append(all, placed{w.CreateInProject(project+environment, project, environment), project, environment})
		}
	}
	slices.Reverse(all)
	r := rand.New(rand.NewPCG(1, 2))
	one := func(of []string) string { return of[r.IntN(len(of))] }
	for n := range 60 {
		var grants []authz.Grant
		for range r.IntN(5) {
			grants = append(grants, controltest.ViewerOf(one(append(projects, "*")), one(append(environments, "*"))))
		}
		p := w.GrantTo("nobody", grants...)
		q := control.RunsQuery{}
		if r.IntN(3) == 0 {
			q.Filter.ProjectIDs = []string{one(projects)}
		}
		if r.IntN(3) == 0 {
			q.Filter.EnvironmentID = one(environments)
		}
		var want []string
		for _, at := range all {
			_, err := w.Run(t.Context(), p, at.id, nil)
			own := (*control.Error)(nil)
			if err != nil && (!errors.As(err, &own) || own.Code != run.CodeNotFound) {
				t.Fatal(err)
			}
			asked := (len(q.Filter.ProjectIDs) == 0 || q.Filter.ProjectIDs[0] == at.project) &&
				(q.Filter.EnvironmentID == "" || q.Filter.EnvironmentID == at.environment)
			if err == nil && asked {
				want = append(want, at.id)
			}
		}
		got := ids(controltest.Must[control.RunsPage](t)(w.Runs(t.Context(), p, q)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("draw %d, grants %s, filter %+v (-want +got):\n%s", n, fmt.Sprint(grants), q.Filter, diff)
		}
	}
}
