package archive_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// nodesOf folds the nodes of attempt 1 of step a.
func (f *fixture) nodesOf(s store.Store, runID string) run.Nodes {
	f.Helper()
	var out run.Nodes
	for after := run.Seq(0); ; {
		events, err := s.Events(f.Context(), runID, after, 3)
		f.ok(err)
		if len(events) == 0 {
			return out
		}
		for i := range events {
			if after = events[i].Seq; events[i].Type == run.StepNodesReported {
				out.Apply(&events[i])
			}
		}
	}
}

// The nodes of dbt and their counts are the same in the log, in an archive without its events, in an export of that
// archive, and in a store that imported it.
func TestReading_NodesOfDBTSurviveTheArchiveAndAnImport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	drafts := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"),
		runtest.Draft(run.StepStartedEvent, "a", 1)}
	const batches = 4
	for n := range batches {
		ended := runtest.M{"id": fmt.Sprint("model.shop.m", n), "type": "model", "status": run.NodeFailed,
			"at": runtest.Epoch, "durationMs": 1500, "rows": 7, "bytes": 1 << 40, "failures": 2,
			"error":    "Binder Error: <no> \"column\"\nline 2",
			"relation": `"db"."main"."m"`}
		skipped := runtest.M{"id": fmt.Sprint("model.shop.s", n), "type": "model", "status": run.NodeSkipped,
			"at": runtest.Epoch, "skippedBy": fmt.Sprint("model.shop.m", n)}
		drafts = append(drafts, runtest.Draft(run.StepNodesReported, "a", 1, runtest.M{"batch": n + 1,
			"counts": runtest.M{"total": 2 * batches, "failed": n + 1, "skipped": n + 1},
			"nodes":  []runtest.M{ended, skipped}}))
	}
	drafts = append(drafts, runtest.Draft(run.StepFailedEvent, "a", 1), runtest.Draft(run.RunFailed, "", 1))
	id := runtest.ID
	f.ok(f.raw.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ola",
		TriggerSource: storeadmin.TriggerImport, CreatedAt: runtest.Epoch,
		PlanRef: plan.Ref{PlanID: id.PlanID, PlanVersion: id.PlanVersion}}}, runtest.Log(drafts...)))
	l, err := f.raw.Load(t.Context(), id.RunID)
	f.ok(err)
	f.ok(f.raw.MarkPublished(t.Context(), id.RunID, l.Head.LastSeq, l.Head.OpsRev))
	nodes, counts := f.nodesOf(f.raw, id.RunID), l.State.Steps[0].Attempts[0].Nodes
	if len(nodes.List) != 2*batches || counts == nil || counts.Failed != batches || counts.Skipped != batches {
		t.Fatalf("the log has %d nodes and the state counts %+v, want %d", len(nodes.List), counts, 2*batches)
	}
	same := func(where string, s store.Store) {
		t.Helper()
		if diff := cmp.Diff(nodes.List, f.nodesOf(s, id.RunID).List); diff != "" {
			t.Errorf("nodes %s (-log +there):\n%s", where, diff)
		}
		l, err := s.Load(t.Context(), id.RunID)
		f.ok(err)
		if diff := cmp.Diff(counts, l.State.Steps[0].Attempts[0].Nodes); diff != "" {
			t.Errorf("counts %s (-log +there):\n%s", where, diff)
		}
	}

	f.archive(id.RunID, -1)
	if left, err := f.raw.Events(t.Context(), id.RunID, 0, 10); err != nil || len(left) > 0 {
		t.Fatalf("the store still has %d events of the archived run, error %v", len(left), err)
	}
	same("in the archive", f.reading)
	f.ok(f.raw.DropCheckpoint(t.Context(), id.RunID))
	same("in the archive without a checkpoint", f.reading)

	var doc bytes.Buffer
	_, err = storeadmin.Export(t.Context(), f.reading, nil, &doc, nil)
	f.ok(err)
	copied, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "copy.db"), sqlite.Options{})
	f.ok(err)
	t.Cleanup(func() { _ = copied.Close() })
	_, err = storeadmin.Import(t.Context(), copied, func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(doc.String())), nil
	}, false, nil)
	f.ok(err)
	same("after an import", copied)
	verified, err := storeadmin.Verify(t.Context(), archive.Reading(copied, f.objects), storeadmin.VerifyOptions{}, nil)
	if f.ok(err); verified.Differences > 0 {
		t.Errorf("verify of the copy finds %v", verified.Found)
	}
}
