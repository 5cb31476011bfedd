package erasure_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// nodesOf folds the reported nodes of a run, from the store or its archive.
func (i *installation) nodesOf(runID string) (out run.Nodes) {
	i.Helper()
	for _, e := range must[[]run.Event](i.T)(archive.Reading(i.store, i.bucket).Events(i.Context(), runID, 0, 100)) {
		if e.Type == run.StepNodesReported {
			out.Apply(&e)
		}
	}
	return out
}

// An erasure of the person who started a run keeps the nodes of dbt of that run: those in the log and those in an
// archive. The name of the person in the error of a node is replaced as everywhere in the log.
func TestSubject_NodesOfDBTSurvive(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		person := personOf(gone)
		for _, id := range []string{"run-" + gone + "-0", "run-" + gone + "-1"} {
			_, err := i.store.Append(t.Context(), store.Append{RunID: id, Events: []run.Draft{
				runtest.Draft(run.StepStartedEvent, "s1", 1),
				runtest.Draft(run.StepNodesReported, "s1", 1, runtest.M{"counts": runtest.M{"total": 2, "failed": 1, "skipped": 1},
					"nodes": []runtest.M{
						{"id": "model.shop.orders", "type": "model", "status": run.NodeFailed, "at": runtest.Epoch, "rows": 5,
							"error": "permission denied for " + person},
						{"id": "model.shop.report", "type": "model", "status": run.NodeSkipped, "at": runtest.Epoch,
							"skippedBy": "model.shop.orders"},
					}})}})
			check(t, err)
		}
		i.end(gone, 0) // the first of the runs is in the archive
		i.ask(request, store.EraseSubject, person)
		want := i.nodesOf("run-" + gone + "-1")
		if len(want.List) != 2 || !strings.Contains(want.List[0].Error, person) {
			t.Fatalf("before the erasure the run has the nodes %+v", want.List)
		}
		c := i.certificate(must[[]byte](t)(i.runner(nil).Run(t.Context(), request)))
		want.List[0].Error = "permission denied for " + c.Pseudonym
		for _, id := range []string{"run-" + gone + "-0", "run-" + gone + "-1"} {
			if diff := cmp.Diff(want.List, i.nodesOf(id).List); diff != "" {
				t.Errorf("nodes of %s (-want +after the erasure):\n%s", id, diff)
			}
			s, _ := must[store.Loaded](t)(archive.Reading(i.store, i.bucket).Load(t.Context(), id)).State.Step("s1")
			if n := s.Attempts[0].Nodes; n == nil || n.Failed != 1 || n.Skipped != 1 {
				t.Errorf("the state of %s counts %+v", id, n)
			}
		}
		for _, trace := range i.named(person) {
			t.Errorf("the person is still named by %s", trace)
		}
		i.verifyArchived()
	})
}
