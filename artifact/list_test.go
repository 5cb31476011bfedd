package artifact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
)

// putObjects stores small artifacts of tenant acme under names.
func putObjects(t *testing.T, s *artifact.Store, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, _, _, err := s.Put(t.Context(), "acme/"+name, strings.NewReader("1")); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory a comes before the directory a-b for a file system, and behind it by key.
func TestWalk_OfADirectoryGivesKeysInTheirOrder(t *testing.T) {
	t.Parallel()
	s := open(t, "file://"+t.TempDir(), artifact.Limits{})
	names := []string{"r/a-b/1/1/f", "r/a.b/1/1/f", "r/a/1/1/f", "r/a/1/1/g", "r/a/1/10/f", "r/a/1/2/f", "r/ä~/1/1/f"}
	putObjects(t, s, names...)
	scope := artifact.Scope{Kind: artifact.KindArtifacts, TenantID: "acme"}
	for from := range len(names) + 1 { // each position continues with the rest
		after := ""
		if from > 0 {
			after = "artifacts/acme/" + names[from-1]
		}
		var got []string
		err := s.Walk(t.Context(), scope, after, func(key string, _ int64) error {
			got = append(got, strings.TrimPrefix(key, "artifacts/acme/"))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Clone(names[from:]), append([]string{}, got...)); diff != "" {
			t.Errorf("Walk after %q (-want +got):\n%s", after, diff)
		}
	}
}

// A page of a list has 1,000 objects.
func TestMeasure_OfADirectoryCountsEachObjectOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "file://"+t.TempDir(), artifact.Limits{})
	names := []string{"r/a-b/1/1/f", "r/a.b/1/1/f"}
	for n := range 1500 { // a try of a step may have 1,000
		names = append(names, fmt.Sprintf("r/a/1/%d/f%04d", n/500, n))
	}
	putObjects(t, s, names...)
	scope := artifact.Scope{Kind: artifact.KindArtifacts, TenantID: "acme"}
	got, err := s.Measure(t.Context(), scope, 10_000)
	if err != nil || got.Objects != int64(len(names)) {
		t.Errorf("Measure counts %d objects, %v; want %d", got.Objects, err, len(names))
	}
}
