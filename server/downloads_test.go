package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// filesOfRun are the files that the step load of a run with files reported.
var filesOfRun = map[string]string{
	"run_results.json": `{"results":[]}`,
	"report.html":      `<script>document.title = "owned"</script>`,
	"picture.svg":      `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
	"model.bin":        "\x00\x01\x02",
}

// seedFiles adds a run of a tenant whose step load has ended and reported filesOfRun.
func seedFiles(w *seededServer, tenant, runID string) {
	refs := []runtest.M{}
	for file := range filesOfRun {
		name := artifact.Name(artifact.AttemptID{TenantID: tenant, RunID: runID, StepID: "load", LogicalAttempt: 1}, 1, file)
		sum := sha256.Sum256([]byte(filesOfRun[file]))
		refs = append(refs, runtest.M{"uri": artifact.URI(name), "kind": "file", "sha256": hex.EncodeToString(sum[:]),
			"sizeBytes": len(filesOfRun[file])})
	}
	scope := seedScope{"files", tenant, "shop", "dev", "", time.Hour}
	ref, doc := scope.plan()
	must(w.t, w.store.PutPlan(w.t.Context(), ref.SHA256, doc))
	id := run.Identity{RunID: runID, TenantID: tenant, ProjectID: "shop", EnvironmentID: "dev", PlanID: ref.PlanID,
		PlanVersion: "1.0"}
	evs := runtest.Log(runtest.Start("load"), runtest.Draft(run.StepStartedEvent, "load", 1),
		runtest.Draft(run.StepCompletedEvent, "load", 1, runtest.M{"artifactRefs": refs}),
		runtest.Draft(run.RunCompleted, "", 1))
	began := time.Now().UTC().Truncate(time.Second).Add(-time.Hour) // artifacts of an old run have expired
	for n := range evs {
		evs[n].EmittedAt = began.Add(evs[n].EmittedAt.Sub(runtest.Epoch))
		evs[n].PersistedAt = began.Add(evs[n].PersistedAt.Sub(runtest.Epoch))
		evs[n].Identity, evs[n].EventID = id, scope.uuid(fmt.Sprint(runID, n))
		evs[n].Key = run.Key(runID + fmt.Sprint(n))
	}
	must(w.t, w.store.Import(w.t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestID: runID,
		RequestKey: run.RequestKey(tenant, "shop", "dev", ref.PlanID, "1.0", runID), PlanRef: ref, TriggeredBy: "vic",
		TriggerSource: "api", CreatedAt: began}}, evs))
}

// putFiles stores the content of seedFiles and a log of 2,500 lines.
func putFiles(w *seededServer, tenant, runID string) {
	id := artifact.AttemptID{TenantID: tenant, RunID: runID, StepID: "load", LogicalAttempt: 1}
	for file, body := range filesOfRun {
		_, _, _, err := w.artifacts.Put(w.t.Context(), artifact.Name(id, 1, file), strings.NewReader(body))
		must(w.t, err)
	}
	lines := []artifact.Line{{At: runtest.Epoch, Stream: "stderr",
		Text: "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x07 <script>"}}
	for n := 2; n <= 2500; n++ {
		lines = append(lines, artifact.Line{At: runtest.Epoch, Stream: "stdout", Text: fmt.Sprint("line ", n)})
	}
	must(w.t, w.artifacts.Append(w.t.Context(), id, 1, 1, lines))
}

func startFileServer(t *testing.T) *seededServer {
	t.Helper()
	w := startSeededServer(t, seedOptions{
		accounts: []authz.Account{
			accountOf("acme", "vic", role(authz.Viewer, "shop", "dev")),
			accountOf("acme", "pia", role(authz.Viewer, "bank", "dev")),
			accountOf("globex", "mallory", role(authz.Admin, "*", "*")),
		},
		seed: func(w *seededServer) { seedFiles(w, "acme", "r1"); seedFiles(w, "globex", "r2") },
	})
	putFiles(w, "acme", "r1")
	putFiles(w, "globex", "r2")
	return w
}

func TestArtifacts_AreServedWithoutRunning(t *testing.T) {
	t.Parallel()
	w := startFileServer(t)
	at := w.url + "/artifacts/r1/load/1/1/"
	for file, content := range filesOfRun {
		a := get(t, at+file, "Authorization: Bearer vic")
		h := a.Header
		if a.StatusCode != http.StatusOK || a.body != content {
			t.Errorf("%s: status %d, body %q; want its content", file, a.StatusCode, a.body)
		}
		if h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: type %q, options %q; want bytes and nosniff", file, h.Get("Content-Type"),
				h.Get("X-Content-Type-Options"))
		}
		if got := h.Get("Content-Disposition"); got != "attachment; filename="+file {
			t.Errorf("%s: disposition %q, want a download under its name", file, got)
		}
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "sandbox") || strings.Contains(policy, "allow-scripts") ||
			!strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: policy %q, want a sandbox that loads and runs nothing", file, policy)
		}
		if got := h.Get("Cache-Control"); got != "private, no-cache" {
			t.Errorf("%s: Cache-Control %q, want private, no-cache", file, got)
		}
	}
	head := send(t, http.MethodHead, at+"run_results.json", "", "Authorization: Bearer vic")
	if size := int64(len(filesOfRun["run_results.json"])); head.StatusCode != http.StatusOK ||
		head.ContentLength != size || head.body != "" {
		t.Errorf("HEAD: status %d, length %d, body %q; want the headers alone", head.StatusCode, head.ContentLength, head.body)
	}
	tag := head.Header.Get("ETag")
	for name, c := range map[string]struct {
		header []string
		status int
		body   string
	}{
		"a range":                       {[]string{"Range: bytes=1-9"}, http.StatusPartialContent, `"results"`},
		"a suffix":                      {[]string{"Range: bytes=-4"}, http.StatusPartialContent, ":[]}"},
		"a range from a byte":           {[]string{"Range: bytes=11-"}, http.StatusPartialContent, "[]}"},
		"a range of the same content":   {[]string{"Range: bytes=0-0", "If-Range: " + tag}, http.StatusPartialContent, "{"},
		"a range of other content":      {[]string{"Range: bytes=0-0", `If-Range: "other"`}, http.StatusOK, `{"results":[]}`},
		"several ranges":                {[]string{"Range: bytes=0-0,2-2"}, http.StatusOK, `{"results":[]}`},
		"a range behind the end":        {[]string{"Range: bytes=99-"}, http.StatusRequestedRangeNotSatisfiable, "*"},
		"content that the client has":   {[]string{"If-None-Match: " + tag}, http.StatusNotModified, ""},
		"a request of a script's fetch": {[]string{"Sec-Fetch-Mode: cors"}, http.StatusOK, `{"results":[]}`},
	} {
		a := get(t, at+"run_results.json", append(c.header, "Authorization: Bearer vic")...)
		if a.StatusCode != c.status || c.body != "*" && a.body != c.body {
			t.Errorf("%s: status %d, body %q; want %d and %q", name, a.StatusCode, a.body, c.status, c.body)
		}
	}
}

func TestArtifacts_OfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	w := startFileServer(t)
	digest := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		token, path string
		status      int
	}{
		"without a token":            {"", "r1/load/1/1/report.html", http.StatusUnauthorized},
		"of another tenant":          {"mallory", "r1/load/1/1/report.html", http.StatusNotFound},
		"of another project":         {"pia", "r1/load/1/1/report.html", http.StatusNotFound},
		"of another tenant's run":    {"vic", "r2/load/1/1/report.html", http.StatusNotFound},
		"by the digest":              {"vic", "r1/" + digest, http.StatusNotFound},
		"of another run by a digest": {"mallory", "r2/" + digest, http.StatusNotFound},
		"that nobody reported":       {"vic", "r1/load/1/1/other.html", http.StatusNotFound},
		"of another attempt":         {"vic", "r1/load/2/1/report.html", http.StatusNotFound},
		"by an encoded climb":        {"vic", "r1/..%2Fr2/load/1/1/report.html", http.StatusNotFound},
		"by a climb to the tenant":   {"vic", "r1/..%2F..%2Fglobex%2Fr2%2Fload%2F1%2F1%2Freport.html", http.StatusNotFound},
		"by a climb to the logs":     {"vic", "r1/..%2F..%2F..%2Flogs%2Facme%2Fr1%2Fload", http.StatusNotFound},
		"by a climb to the system":   {"vic", "r1/..%2F..%2F..%2F..%2F..%2F..%2Fetc%2Fpasswd", http.StatusNotFound},
		"by a null byte":             {"vic", "r1/load/1/1/report.html%00.json", http.StatusNotFound},
		"by a backslash":             {"vic", `r1/load%5C1%5C1%5Creport.html`, http.StatusNotFound},
	} {
		var header []string
		if c.token != "" {
			header = append(header, "Authorization: Bearer "+c.token)
		}
		a := get(t, w.url+"/artifacts/"+c.path, header...)
		unknown := get(t, w.url+"/artifacts/no-such-run/load/1/1/report.html", header...)
		if name == "of another tenant" && a.body != unknown.body {
			t.Errorf("%s: the answer is %q, that of an unknown run is %q; they tell apart what exists", name, a.body,
				unknown.body)
		}
		if a.StatusCode != c.status || strings.Contains(a.body, "owned") {
			t.Errorf("%s: status %d, body %.80q; want %d and nothing of the file", name, a.StatusCode, a.body, c.status)
		}
	}
	if got := get(t, w.url+"/artifacts/r2/load/1/1/report.html", "Authorization: Bearer mallory"); got.StatusCode !=
		http.StatusOK {
		t.Errorf("its own artifact: status %d, want 200", got.StatusCode)
	}
	if a := send(t, http.MethodPost, w.url+"/artifacts/r1/load/1/1/report.html", "", "Authorization: Bearer vic"); a.
		StatusCode == http.StatusOK {
		t.Error("POST was answered, want GET only")
	}
}

func TestLogs_AreServedAsPlainText(t *testing.T) {
	t.Parallel()
	w := startFileServer(t)
	a := get(t, w.url+"/logs/r1/load/1", "Authorization: Bearer vic")
	lines := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	if a.StatusCode != http.StatusOK || len(lines) != 2500 {
		t.Fatalf("status %d, %d lines; want 2,500 lines", a.StatusCode, len(lines))
	}
	want := runtest.Epoch.UTC().Format("2006-01-02T15:04:05.000Z") + " stderr red link <script>"
	if lines[0] != want || !strings.HasSuffix(lines[2499], " stdout line 2500") {
		t.Errorf("first line %q, last %q; want %q and line 2500", lines[0], lines[2499], want)
	}
	if got := a.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("type %q, want plain text", got)
	}
	if got := a.Header.Get("Content-Security-Policy"); !strings.Contains(got, "sandbox") {
		t.Errorf("policy %q, want a sandbox", got)
	}
	for name, c := range map[string]struct {
		token, path string
		status      int
	}{
		"without a token":   {"", "r1/load/1", http.StatusUnauthorized},
		"of another tenant": {"mallory", "r1/load/1", http.StatusNotFound},
		"of another scope":  {"pia", "r1/load/1", http.StatusNotFound},
		"of no step":        {"vic", "r1/other/1", http.StatusNotFound},
		"of attempt zero":   {"vic", "r1/load/0", http.StatusNotFound},
		"by a climb":        {"vic", "r1/..%2Fr2%2Fload/1", http.StatusNotFound},
	} {
		var header []string
		if c.token != "" {
			header = append(header, "Authorization: Bearer "+c.token)
		}
		if a := get(t, w.url+"/logs/"+c.path, header...); a.StatusCode != c.status || strings.Contains(a.body, "line 2") {
			t.Errorf("%s: status %d, body %.80q; want %d and no line", name, a.StatusCode, a.body, c.status)
		}
	}
}
