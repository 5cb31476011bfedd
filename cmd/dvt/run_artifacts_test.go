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
	"strconv"
	"strings"
	"testing"
	"time"

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
	reported("cut", "artifact:acme/cut/load/1/1/a.json")
	reported("twice", "artifact:acme/twice/load/1/1/a.json", "artifact:acme/twice/load/2/1/a.json")
	reported("odd", "artifact:acme/odd/load/1/1/a%0A%1B%5B31m.json", "artifact:acme/odd/load/1/1/.dvt-part-aa")
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
		if cut, ok := strings.CutPrefix(content, "cut "); ok && r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(cut))) // the connection ends before the content
			_, _ = io.WriteString(w, cut[:10])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.TrimPrefix(content, "cut ")))
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
		"cut/load/1/1/a.json":       "cut rows of artifact:acme/cut/load/1/1/a.json",
		"twice/load/2/1/a.json":     "rows of artifact:acme/twice/load/2/1/a.json",
	})
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		args   string
		status int
		says   string
		files  string // below the directory of the case, afterwards
	}{
		{"good", 0, "load  1        file  a b.json     46 B  -", ""},
		{"good test", 0, "test  1        file  report.html", ""},
		{"good --step test", 0, "test  1        file  report.html", ""},
		{"good --kind dbt-manifest", 0, "No artifact was reported", ""},
		{"good test --step load", 2, "name the step once", ""},
		{"good --all --get report.html", 2, "not both", ""},
		{"good --get nothing.json --to " + in("get"), 4, "no artifact", ""},
		{"good --get report.html --to " + in("get"), 0, "1 file saved in", "report.html"},
		{"good --get report.html --to " + in("get"), 2, "report.html exists; nothing was saved", "report.html"},
		{"good --get report.html --force --to " + in("get"), 0, "1 file saved in", "report.html"},
		{"twice --get a.json --to " + in("twice"), 2, "give the path of one to --get:\n  load/1/1/a.json\n  load/2/1/a.json", ""},
		{"twice --get load/2/1/a.json --to " + in("twice"), 0, "1 file saved in", "a.json"},
		{"cut --all --to " + in("cut"), 0, "1 file saved in", "load/1/1/a.json"},
		{"odd --get load/1/1/.dvt-part-aa --to " + in("odd"), 1, "nothing was saved", ""},
		{"good -o json", 0, `"path": "load/1/1/a b.json"`, ""},
		{"nope", 4, "NOT_FOUND", ""},
		{"foreign", 0, "-     -        file  file:///etc/passwd", ""},
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
		save := c.args[strings.LastIndexByte(c.args, ' ')+1:]
		if !strings.HasPrefix(save, dir) {
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

// A name with line breaks and escape sequences neither moves the cursor of a terminal nor stays in the name of a file.
func TestRunArtifacts_NamesAreHarmless(t *testing.T) {
	t.Parallel()
	address := serveArtifacts(t, map[string]string{
		"odd/load/1/1/a%0A%1B%5B31m.json": "rows of artifact:acme/odd/load/1/1/a%0A%1B%5B31m.json"})
	out, status, err := dvt(t, address, "dev-viewer", "run", "artifacts", "odd")
	if status != 0 || strings.Contains(out, "\x1b") || len(strings.Split(strings.TrimSpace(out), "\n")) != 3 {
		t.Errorf("status %d, %v; want a head and two rows without escape sequences:\n%q", status, err, out)
	}
	dir := t.TempDir()
	if out, status, err = dvt(t, address, "dev-viewer", "run", "artifacts", "odd", "--get", "a\n\x1b[31m.json", "--to",
		dir); status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "a__[31m.json" {
		t.Errorf("the files are %v (%v), want a__[31m.json", files, err)
	}
}

// The part that an earlier try left is continued; a part with other content is not taken for the file.
func TestRunArtifacts_ContinueAnEarlierTry(t *testing.T) {
	t.Parallel()
	content := "rows of artifact:acme/cut/load/1/1/a.json"
	served := map[string]string{}
	address := serveArtifacts(t, served)
	sum := sha256.Sum256([]byte(content))
	id := sha256.Sum256([]byte("artifact:acme/cut/load/1/1/a.json " + hex.EncodeToString(sum[:])))
	part := ".dvt-part-" + hex.EncodeToString(id[:12])
	// The server gives only the end of this content right.
	served["cut/load/1/1/a.json"] = "XXXXXXXXXX" + content[10:]
	for name, c := range map[string]struct {
		left   string
		status int
		file   string
	}{
		"a part":                {content[:10], 0, content},
		"a part of other bytes": {"0123456789", 1, ""},
		"a longer part":         {content + "more", 1, ""},
		"nothing":               {"", 1, ""},
	} {
		dir := t.TempDir()
		if c.left != "" {
			if err := os.WriteFile(filepath.Join(dir, part), []byte(c.left), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, status, err := dvt(t, address, "dev-viewer", "run", "artifacts", "cut", "--get", "a.json", "--to", dir)
		saved, _ := os.ReadFile(filepath.Join(dir, "a.json"))
		if status != c.status || string(saved) != c.file {
			t.Errorf("%s: status %d, %v, file %q; want %d and %q\n%s", name, status, err, saved, c.status, c.file, out)
		}
		if _, err := os.Stat(filepath.Join(dir, part)); err == nil {
			t.Errorf("%s: the part is still there", name)
		}
	}
}
