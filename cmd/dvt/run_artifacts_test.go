package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// serveArtifacts serves the API with runs that reported artifacts, and the files of served at /artifacts/.
func serveArtifacts(t *testing.T, served map[string]string) string {
	t.Helper()
	behind, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	reported := func(runID string, names ...string) {
		refs := []runtest.M{}
		for _, name := range names {
			content := "rows of " + name
			sum := sha256.Sum256([]byte(content))
			refs = append(refs, runtest.M{"uri": name, "kind": "file", "sha256": hex.EncodeToString(sum[:]),
				"sizeBytes": len(content)})
		}
		createRun(t, s, runID, runtest.Start("load", "test"), runtest.Draft(log.StepStartedEvent, "load", 1),
			runtest.Draft(log.StepCompletedEvent, "load", 1, runtest.M{"artifactRefs": refs}))
	}
	reported("good", "artifact:acme/good/load/1/1/a%20b.json", "artifact:acme/good/test/1/1/report.html")
	reported("climbs", "artifact:acme/climbs/load/1/1/a.json", "artifact:acme/climbs/..%2F..%2F1/1/evil")
	reported("wrong", "artifact:acme/wrong/load/1/1/a.json")
	reported("foreign", "artifact:acme/good/load/1/1/a%20b.json", "file:///etc/passwd")
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/artifacts/") {
			proxy.ServeHTTP(w, r)
			return
		}
		content, known := served[strings.TrimPrefix(r.URL.EscapedPath(), "/artifacts/")]
		if !known || r.Header.Get("Authorization") != "Bearer dev-viewer" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"NOT_FOUND","message":"The run has no such artifact, or it was removed."}`)
			return
		}
		_, _ = io.WriteString(w, content)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

func TestRunArtifacts_ListsAndSavesCheckedFiles(t *testing.T) {
	t.Parallel()
	address := serveArtifacts(t, map[string]string{
		"good/load/1/1/a%20b.json":  "rows of artifact:acme/good/load/1/1/a%20b.json",
		"good/test/1/1/report.html": "rows of artifact:acme/good/test/1/1/report.html",
		"wrong/load/1/1/a.json":     "ROWS of artifact:acme/wrong/load/1/1/a.json",
		"climbs/load/1/1/a.json":    "rows of artifact:acme/climbs/load/1/1/a.json",
	})
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		args   string
		status int
		says   string
		files  string // below the directory of the case, afterwards
	}{
		{"good", 0, "load  file  a b.json     46 B", ""},
		{"good test", 0, "test  file  report.html", ""},
		{"good -o json", 0, `"path": "load/1/1/a b.json"`, ""},
		{"nope", 4, "NOT_FOUND", ""},
		{"foreign", 0, "-     file  file:///etc/passwd", ""},
		{"good --save " + in("all"), 0, "2 files saved in", "load/1/1/a b.json test/1/1/report.html"},
		{"good --save " + in("all"), 2, "a b.json exists; nothing was saved", "load/1/1/a b.json test/1/1/report.html"},
		{"good test --save " + in("one"), 0, "1 file saved in", "test/1/1/report.html"},
		{"wrong --save " + in("wrong"), 1, "the run reported", ""},
		{"climbs --save " + in("climbs"), 1, "would leave", ""},
		{"foreign --save " + in("foreign"), 0, "is not stored in dvt", ""},
	} {
		out, status, err := dvt(t, address, "dev-viewer", append([]string{"run", "artifacts"}, strings.Fields(c.args)...)...)
		if said := out + text(err); status != c.status || !strings.Contains(said, c.says) {
			t.Errorf("dvt run artifacts %s: status %d, want %d and %q\n%s", c.args, status, c.status, c.says, said)
		}
		_, save, saves := strings.Cut(c.args, "--save ")
		if !saves {
			continue
		}
		var files []string
		_ = filepath.WalkDir(save, func(at string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, _ := filepath.Rel(save, at)
				files = append(files, filepath.ToSlash(name))
			}
			return nil
		})
		if got := strings.Join(files, " "); got != c.files {
			t.Errorf("dvt run artifacts %s: the files are %q, want %q", c.args, got, c.files)
		}
	}
	content, err := os.ReadFile(filepath.Join(in("all"), "load", "1", "1", "a b.json"))
	if err != nil || !strings.HasPrefix(string(content), "rows of ") {
		t.Errorf("the saved file is %q (%v), want its content", content, err)
	}
}

// A symbolic link in the directory must not lead the files to another place.
func TestRunArtifacts_DoNotFollowLinksOutOfTheDirectory(t *testing.T) {
	t.Parallel()
	address := serveArtifacts(t, map[string]string{
		"good/load/1/1/a%20b.json": "rows of artifact:acme/good/load/1/1/a%20b.json"})
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "load")); err != nil {
		t.Fatal(err)
	}
	out, status, err := dvt(t, address, "dev-viewer", "run", "artifacts", "good", "load", "--save", dir)
	if left, _ := os.ReadDir(outside); status == 0 || len(left) > 0 {
		t.Errorf("status %d, %v, %d files outside of the directory; want a refusal and none\n%s", status, err, len(left), out)
	}
}
