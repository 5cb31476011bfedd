package run_test

import (
	"encoding/json"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

func TestArtifactKind_ReadsTheKindsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]run.ArtifactKind{
		"manifest": run.KindDBTManifest, "run_results": run.KindDBTRunResults, "dbt-manifest": run.KindDBTManifest,
		"log-bundle": run.KindLogBundle, "anything": "anything",
	} {
		var ref run.ArtifactRef
		if err := json.Unmarshal([]byte(`{"kind":"`+text+`"}`), &ref); err != nil || ref.Kind != want {
			t.Errorf("%s is read as %s, %v; want %s", text, ref.Kind, err, want)
		}
	}
	for kind, want := range map[run.ArtifactKind]run.ArtifactKind{
		run.KindDatasetSample: run.KindDatasetSample, "anything": run.KindCustom, "": run.KindCustom,
	} {
		if got := kind.Known(); got != want {
			t.Errorf("the known kind of %q is %s, want %s", kind, got, want)
		}
	}
}
