package graph_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/retention"
)

// RunArchive says that the run r1 is archived.
func (f *fake) RunArchive(_ context.Context, runID string) (*retention.ArchivedRun, error) {
	if runID != "r1" {
		return nil, nil //nolint:nilnil // as the use case
	}
	return &retention.ArchivedRun{RunID: runID, Events: 7, Bytes: 812, MarkedAt: instant}, nil
}

// RetentionPolicy returns a policy of its own with a last pass.
func (f *fake) RetentionPolicy(context.Context, authz.Principal) (retention.Policy, error) {
	return retention.Policy{Version: 2, Actor: "ann", Reason: "GDPR", At: instant,
		Document: retention.Document{Runs: retention.RunDays{ArchiveAfterDays: new(30)},
			Artifacts: map[string]int{"log-bundle": 3, "custom": 9}},
		Effective: retention.Days{ArchiveRuns: 30, StepLogs: 14, Artifacts: map[string]int{"log-bundle": 3, "custom": 9}},
		LastPass:  &retention.Pass{StartedAt: instant, EndedAt: after(0), Archived: 12, Error: "run r7: gone"}}, nil
}

// PreviewRetention returns the document that it got, in words.
func (f *fake) PreviewRetention(_ context.Context, _ authz.Principal, doc retention.Document) (retention.Effect,
	error) {
	changed := []string{"+ nothing"}
	if doc.StepLogs != nil && doc.Artifacts["custom"] == 5 {
		changed = []string{"+ both"}
	}
	return retention.Effect{Changed: changed, Archive: retention.Estimate{Runs: 12480, Bytes: 41e9, More: true}}, nil
}

func TestRetention_ShowsThePolicyAndWhatItWouldDo(t *testing.T) {
	t.Parallel()
	s := serve(t, newAnsweringFake())
	for query, want := range map[string]string{
		`{ retentionPolicy { version own reason days { archiveRuns deleteArchives artifacts { kind days } }
			lastPass { archived deletedEvents error } } }`: `{"data":{"retentionPolicy":{"version":2,"own":{"archiveRuns":30,` +
			`"artifacts":[{"days":9,"kind":"custom"},{"days":3,"kind":"log-bundle"}]},"reason":"GDPR","days":{"archiveRuns":30,` +
			`"deleteArchives":0,"artifacts":[{"kind":"custom","days":9},{"kind":"log-bundle","days":3}]},` +
			`"lastPass":{"archived":12,"deletedEvents":0,"error":"run r7: gone"}}}}`,
		`{ previewRetention(policy: {stepLogs: 4, artifacts: [{kind: "custom", days: 5}]}) { changed warnings
			archive { runs bytes more } delete { runs } } }`: `{"data":{"previewRetention":{"changed":["+ both"],"warnings":[],` +
			`"archive":{"runs":12480,"bytes":41000000000,"more":true},"delete":{"runs":0}}}}`,
		`{ run(runId: "r1") { archive { events sizeBytes } } }`: `{"data":{"run":{"archive":{"events":7,"sizeBytes":812}}}}`,
	} {
		if diff := cmp.Diff(want, strings.TrimSpace(s.query(query, nil))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	twice := s.query(`{ previewRetention(policy: {artifacts: [{kind: "a", days: 1}, {kind: "a", days: 2}]}) { changed } }`,
		nil)
	if !strings.Contains(twice, "is named twice") {
		t.Errorf("a kind that is named twice is answered with %s, want a violation", twice)
	}
	for _, field := range []string{"retentionHistory", "legalHolds"} {
		bad := s.query(`{ `+field+`(after: "x!") { pageInfo { hasNextPage } } }`, nil)
		if !strings.Contains(bad, "CURSOR_INVALID") {
			t.Errorf("%s after a bad cursor is answered with %s, want CURSOR_INVALID", field, bad)
		}
	}
}
