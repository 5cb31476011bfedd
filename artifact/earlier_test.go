package artifact_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
)

// Earlier versions stored pieces of logs and JSON without compression.
func TestEarlierVersions_TheirObjectsAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, body string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	piece := func(from, count int) {
		body := ""
		for i := from; i < from+count; i++ {
			body += fmt.Sprintf(`{"no":%d,"at":"2026-01-02T12:00:00Z","stream":"stdout","engineAttempt":1,"text":"line %d"}`, i,
				i) + "\n"
		}
		write(fmt.Sprintf("logs/t1/r1/build/1/%09d_%d_%d_1_%d_1.jsonl", from, count, len(body), from+count-1), body)
	}
	piece(1, 300)
	piece(301, 2)
	write("artifacts/t1/r1/build/1/1/manifest.json", `{"a":1}`)
	s := open(t, "file://"+dir, artifact.Limits{})
	add(t, s, 1, 302, text(302, 304)) // 302 is repeated
	var want []string
	for i := 1; i <= 304; i++ {
		want = append(want, fmt.Sprintf("line %d", i))
	}
	got, total := read(t, open(t, "file://"+dir, artifact.Limits{}), 1, 1000)
	if diff := cmp.Diff(want, got); diff != "" || total != 304 {
		t.Errorf("total %d, lines (-want +got):\n%s", total, diff)
	}
	r, err := s.Open(t.Context(), artifact.URI("t1/r1/build/1/1/manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); string(body) != `{"a":1}` || err != nil {
		t.Errorf("the artifact is %q, %v; want {\"a\":1}", body, err)
	}
}
