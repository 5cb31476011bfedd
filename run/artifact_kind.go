package run

import "encoding/json"

// ArtifactKind says what an artifact is.
type ArtifactKind string

// The kinds of artifacts.
const (
	KindDBTManifest   ArtifactKind = "dbt-manifest"
	KindDBTRunResults ArtifactKind = "dbt-run-results"
	KindLogBundle     ArtifactKind = "log-bundle"
	KindDatasetSample ArtifactKind = "dataset-sample"
	KindCustom        ArtifactKind = "custom"
)

// UnmarshalJSON reads a kind. Logs of earlier versions have the kinds manifest and run_results, which are read as
// dbt-manifest and dbt-run-results; the logs stay as they are.
func (k *ArtifactKind) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	switch text {
	case "manifest":
		*k = KindDBTManifest
	case "run_results":
		*k = KindDBTRunResults
	default:
		*k = ArtifactKind(text)
	}
	return nil
}

// Known returns the kind, or custom for a kind that the vocabulary does not have.
func (k ArtifactKind) Known() ArtifactKind {
	switch k {
	case KindDBTManifest, KindDBTRunResults, KindLogBundle, KindDatasetSample:
		return k
	}
	return KindCustom
}
