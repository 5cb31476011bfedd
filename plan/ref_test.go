package plan_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func goodRef(t testing.TB) plan.Ref {
	return plan.RefOf([]byte(apiPlan), mustParse(t, []byte(apiPlan)), "file:///plans/nightly.json")
}

func gzipBytes(t testing.TB, doc []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(doc); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func refTo(stored []byte) plan.Ref {
	sum := sha256.Sum256(stored)
	return plan.Ref{SHA256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(stored)), Compression: "gzip"}
}

func TestRefOf_IsValidAndOpensTheDocument(t *testing.T) {
	t.Parallel()
	ref := goodRef(t)
	if err := ref.Validate(); err != nil {
		t.Errorf("Validate() = %v, want no error", err)
	}
	doc, err := ref.Open([]byte(apiPlan))
	if err != nil || string(doc) != apiPlan {
		t.Errorf("Open: %v", err)
	}
}

// contract: W-10, L02
func TestRefValidate_ChecksTheSchemaVersionFirst(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"v7.0", "v9", "v2"} {
		if err := (plan.Ref{SchemaVersion: v}).Validate(); !errors.Is(err, plan.ErrUnsupportedSchema) {
			t.Errorf("%s: got %v, want ErrUnsupportedSchema", v, err)
		}
	}
	if diff := cmp.Diff([]string{"v1.0", "v1.1", "v1.2"}, plan.SupportedSchemas()); diff != "" {
		t.Errorf("SupportedSchemas() (-want +got):\n%s", diff)
	}
	for _, v := range []string{"v1", "v1.0", "v1.1", "v1.2"} {
		ref := goodRef(t)
		ref.SchemaVersion = v
		if err := ref.Validate(); err != nil {
			t.Errorf("%s: Validate() = %v, want no error", v, err)
		}
	}
}

func TestRefValidate_ReportsAllViolationsAtOnce(t *testing.T) {
	t.Parallel()
	want := []string{"MISSING schemaVersion", "MISSING uri", "MISSING sha256", "MISSING planId", "MISSING planVersion"}
	if diff := cmp.Diff(want, violationsOf(t, plan.Ref{}.Validate())); diff != "" {
		t.Errorf("violations of the empty reference (-want +got):\n%s", diff)
	}
	bad := plan.Ref{URI: "plans/nightly.json", SHA256: "E3B0", SchemaVersion: "v1", PlanID: "a|b", PlanVersion: "1 0",
		SizeBytes: -1, Compression: "zip"}
	want = []string{"INVALID uri", "INVALID sha256", "INVALID planId", "INVALID planVersion", "RANGE sizeBytes",
		"UNKNOWN compression"}
	if diff := cmp.Diff(want, violationsOf(t, bad.Validate())); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

// contract: DD-10, R277
func TestRefValidate_ChecksWhatThePlannerSaysOfTheDocument(t *testing.T) {
	t.Parallel()
	good := goodRef(t)
	good.Mirrors = []string{"s3://plans/nightly.json", "https://example.com/nightly.json"}
	good.SchemaEvolutionPath = "v1 → v1.1 →" + good.SchemaVersion
	good.MigrationHint = &plan.MigrationHint{SourceVersion: "v1", TargetVersion: "v1.2",
		TransformScript: "https://example.com/up.py"}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate() = %v, want no error", err)
	}
	for path, version := range map[string]string{"v1.0": "v1", "v1": "v1.0"} {
		good.SchemaEvolutionPath, good.SchemaVersion = path, version
		if err := good.Validate(); err != nil {
			t.Errorf("the path %s to %s: %v, want no error, because both are one version", path, version, err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(r *plan.Ref)
		want   []string
	}{
		{"all at once", func(r *plan.Ref) {
			r.URI, r.Mirrors = "here", []string{"", "s3://plans/a.json"}
			r.SchemaEvolutionPath = "v1, v1.2"
			r.MigrationHint = &plan.MigrationHint{SourceVersion: "one", TransformScript: "up.py"}
		}, []string{"INVALID uri", "INVALID mirrors[0]", "INVALID schemaEvolutionPath",
			"INVALID migrationHint.sourceVersion", "INVALID migrationHint.targetVersion",
			"INVALID migrationHint.transformScript"}},
		{"too many", func(r *plan.Ref) {
			r.Mirrors = []string{"s3://a/1", "s3://a/2", "s3://a/3"}
			r.SchemaEvolutionPath = strings.Repeat("v1 → ", 20) + "v1.2"
		}, []string{"RANGE mirrors", "RANGE schemaEvolutionPath"}},
		{"a path to another version", func(r *plan.Ref) { r.SchemaEvolutionPath = "v1.2 → v1.1" },
			[]string{"INVALID schemaEvolutionPath"}},
	} {
		ref := goodRef(t)
		c.change(&ref)
		if diff := cmp.Diff(c.want, violationsOf(t, ref.Validate())); diff != "" {
			t.Errorf("%s: violations (-want +got):\n%s", c.name, diff)
		}
	}
}

// contract: L04
func TestRef_RefusesALargeDocumentBeforeItIsFetched(t *testing.T) {
	t.Parallel()
	ref := goodRef(t)
	ref.SizeBytes = plan.MaxDocumentBytes + 1
	if err := ref.Validate(); !errors.Is(err, plan.ErrTooLarge) {
		t.Errorf("Validate: got %v, want ErrTooLarge", err)
	}
	if err := ref.Check(nil); !errors.Is(err, plan.ErrTooLarge) {
		t.Errorf("Check: got %v, want ErrTooLarge", err)
	}
	if err := refTo(nil).Check(make([]byte, plan.MaxDocumentBytes+1)); !errors.Is(err, plan.ErrTooLarge) {
		t.Errorf("Check of a large document: got %v, want ErrTooLarge", err)
	}
}

// contract: L03
func TestRefCheck_RefusesChangedBytes(t *testing.T) {
	t.Parallel()
	ref := goodRef(t)
	altered := []byte(apiPlan)
	altered[10] ^= 1
	for name, doc := range map[string][]byte{"altered": altered, "cut": altered[:20]} {
		if err := ref.Check(doc); !errors.Is(err, plan.ErrHashMismatch) {
			t.Errorf("%s: got %v, want ErrHashMismatch", name, err)
		}
	}
}

// contract: T139
func TestRefOpen_HashIsOfTheStoredBytes(t *testing.T) {
	t.Parallel()
	stored := gzipBytes(t, []byte(apiPlan))
	doc, err := refTo(stored).Open(stored)
	if err != nil || string(doc) != apiPlan {
		t.Errorf("Open: %v", err)
	}
	ref := goodRef(t) // with the hash of the decompressed document
	ref.Compression, ref.SizeBytes = "gzip", 0
	if _, err := ref.Open(stored); !errors.Is(err, plan.ErrHashMismatch) {
		t.Errorf("got %v, want ErrHashMismatch", err)
	}
}

// contract: L04
func TestRefOpen_GzipBombIsBounded(t *testing.T) {
	t.Parallel()
	full := gzipBytes(t, make([]byte, plan.MaxDocumentBytes))
	if doc, err := refTo(full).Open(full); err != nil || len(doc) != plan.MaxDocumentBytes {
		t.Errorf("a document of the maximum size: %d bytes, %v", len(doc), err)
	}
	bomb := gzipBytes(t, make([]byte, 4*plan.MaxDocumentBytes))
	if _, err := refTo(bomb).Open(bomb); !errors.Is(err, plan.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	many := bytes.Repeat(full, 2) // gzip members may follow each other
	if _, err := refTo(many).Open(many); !errors.Is(err, plan.ErrTooLarge) {
		t.Errorf("two members: got %v, want ErrTooLarge", err)
	}
}

func TestRefOpen_RefusesBytesThatAreNotGzip(t *testing.T) {
	t.Parallel()
	whole := gzipBytes(t, []byte(apiPlan))
	for name, stored := range map[string][]byte{"plain": []byte(apiPlan), "empty": {}, "cut": whole[:len(whole)-5]} {
		_, err := refTo(stored).Open(stored)
		if diff := cmp.Diff([]string{"INVALID compression"}, violationsOf(t, err)); diff != "" {
			t.Errorf("violations of %s bytes (-want +got):\n%s", name, diff)
		}
	}
}
