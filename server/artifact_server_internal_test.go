package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/usecases"
)

// bucket is a bucket whose objects a test replaces, signs and holds back.
type bucket struct {
	artifact.Blobs
	open  func() io.ReadSeekCloser // nil: that of Blobs
	signs bool
}

func (b *bucket) Open(ctx context.Context, uri string) (io.ReadSeekCloser, error) {
	if b.open != nil {
		return b.open(), nil
	}
	return b.Blobs.Open(ctx, uri)
}

func (b *bucket) Sign(_ context.Context, uri string, d artifact.Download) (string, error) {
	if !b.signs {
		return "", artifact.ErrCannotSign
	}
	return "https://bucket.example/" + uri + "?as=" + d.FileName, nil
}

// artifactWorld is an artifactServer with a run whose step s1 reported rows.csv.
type artifactWorld struct {
	*controltest.World
	server *artifactServer
	url    string
	bucket *bucket
	log    *bytes.Buffer
	runID  string
	uri    string
}

func newArtifactWorld(t *testing.T, content []byte) *artifactWorld {
	t.Helper()
	w := &artifactWorld{bucket: &bucket{}, log: &bytes.Buffer{}}
	w.World = controltest.New(t, func(c *usecases.Config) {
		w.bucket.Blobs = c.Blobs
		c.Blobs, c.Seals = w.bucket, controltest.TicketKeys(t, "k1")
	})
	p := &parts{control: w.UseCases, registry: prometheus.NewRegistry(), log: slog.New(slog.NewTextHandler(w.log, nil)),
		address: func(*http.Request) string { return "127.0.0.1" }, cfg: config.Config{RequestsPerMinute: 1000,
			AddressRequestsPerMinute: 1000, SignedDownloads: true}}
	p.callers = graph.NewCallers(graph.Config{Authenticate: w.Directory.Authenticate})
	w.server = newArtifactServer(p)
	mux := http.NewServeMux()
	mux.Handle("GET /artifacts/{runId}/{path...}", w.server)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	w.runID = w.CreateRunning("r", "s1")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: w.runID, StepID: "s1", LogicalAttempt: 1}, 1,
		"rows.csv")
	uri, sum, size, err := w.Artifacts.Put(t.Context(), name, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	w.uri, w.url = uri, s.URL+"/artifacts/"+w.runID+"/s1/1/1/rows.csv"
	w.FinishStep(w.runID, "s1", 1, run.StepCompletedEvent, controltest.M{"artifactRefs": []controltest.M{
		{"uri": uri, "kind": "custom", "sha256": sum, "sizeBytes": size, "expiresAt": w.Clock.Now().Add(time.Hour)}}})
	return w
}

// get sends a request as dev-viewer, or without a token for an address with a link.
func (w *artifactWorld) get(t *testing.T, at string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(at, "?link=") {
		r.Header.Set("Authorization", "Bearer dev-viewer")
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, body, err
}

// count returns the requests with an outcome; sent is the number of bytes that the server counted.
func (w *artifactWorld) count(t *testing.T, outcome string) (requests, sent float64) {
	t.Helper()
	families, err := w.server.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch {
			case f.GetName() == "dvt_artifact_served_bytes_total":
				sent = m.GetCounter().GetValue()
			case f.GetName() == "dvt_artifact_requests_total" && m.GetLabel()[0].GetValue() == outcome:
				requests = m.GetCounter().GetValue()
			}
		}
	}
	return requests, sent
}

func TestArtifactServer_AbortsATornDownload(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("row\n"), 100_000)
	w := newArtifactWorld(t, content)
	altered := bytes.Clone(content)
	altered[7] ^= 1
	w.bucket.open = func() io.ReadSeekCloser { return struct{ nopCloser }{nopCloser{bytes.NewReader(altered)}} }
	res, body, err := w.get(t, w.url)
	if err == nil || len(body) >= len(content) {
		t.Errorf("an altered object: %v, %d of %d bytes, %v; want a broken connection and fewer bytes", res.Status, len(body),
			len(content), err)
	}
	w.bucket.open = func() io.ReadSeekCloser { return struct{ nopCloser }{nopCloser{bytes.NewReader(content[:9])}} }
	res, body, err = w.get(t, w.url)
	if err != nil || res.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "ARTIFACT_TORN") {
		t.Errorf("a short object: %d %s %v; want 500 and ARTIFACT_TORN", res.StatusCode, body, err)
	}
	if n, _ := w.count(t, downloadTorn); n != 2 {
		t.Errorf("%g torn downloads are counted, want 2", n)
	}
	if n := strings.Count(w.log.String(), "an artifact in the bucket is torn"); n != 2 {
		t.Errorf("%d lines in the log, want one for each:\n%s", n, w.log)
	}
	w.bucket.open = nil
	if res, body, err = w.get(t, w.url); err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(body, content) {
		t.Errorf("the restored object: %d, %d bytes, %v; want the content", res.StatusCode, len(body), err)
	}
	if _, n := w.count(t, downloadTorn); n < float64(len(content)) {
		t.Errorf("%g bytes are counted, want at least %d", n, len(content))
	}
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

func TestArtifactServer_SaysWhatWasRemoved(t *testing.T) {
	t.Parallel()
	w := newArtifactWorld(t, []byte("a,b\n"))
	w.Clock.Advance(2 * time.Hour)
	res, body, err := w.get(t, w.url)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Code     run.Code
		Artifact run.ArtifactRef
	}
	if json.Unmarshal(body, &said) != nil || res.StatusCode != http.StatusGone || said.Code != run.CodeArtifactRemoved ||
		said.Artifact.URI != w.uri || said.Artifact.ExpiresAt == nil {
		t.Errorf("an expired artifact: %d %s; want 410 with its reference and end", res.StatusCode, body)
	}
	if n, _ := w.count(t, downloadRemoved); n != 1 {
		t.Error("the answer is not counted as removed")
	}
}

func TestArtifactServer_LinksAndRedirects(t *testing.T) {
	t.Parallel()
	w := newArtifactWorld(t, []byte("a,b\n"))
	link, err := w.LinkArtifact(t.Context(), w.Principal("dev-viewer"), w.runID, w.uri, "l1")
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Split(w.url, "/artifacts/")[0] + link.Path
	if res, body, err := w.get(t, at); err != nil || res.StatusCode != http.StatusOK || string(body) != "a,b\n" {
		t.Errorf("a link: %d %q %v; want the content", res.StatusCode, body, err)
	}
	for name, other := range map[string]string{"another file": strings.Replace(at, "rows.csv", "more.csv", 1),
		"an altered link": at + "x", "another run": strings.Replace(at, w.runID, "r9", 1)} {
		if res, body, err := w.get(t, other); err != nil || res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %q %v; want 404", name, res.StatusCode, body, err)
		}
	}
	w.bucket.signs = true
	for name, c := range map[string]struct {
		at, header string
		status     int
	}{
		"a program":             {w.url, "Accept: */*", http.StatusTemporaryRedirect},
		"a browser":             {w.url, "Sec-Fetch-Mode: navigate", http.StatusTemporaryRedirect},
		"a link":                {at, "Accept: */*", http.StatusTemporaryRedirect},
		"the script of a page":  {w.url, "Sec-Fetch-Mode: cors", http.StatusOK},
		"a script of this page": {w.url, "Sec-Fetch-Mode: same-origin", http.StatusOK},
	} {
		res, _, err := w.get(t, c.at, c.header)
		if err != nil || res.StatusCode != c.status {
			t.Errorf("%s: status %d, %v; want %d", name, res.StatusCode, err, c.status)
			continue
		}
		if to := res.Header.Get("Location"); c.status == http.StatusTemporaryRedirect &&
			to != "https://bucket.example/"+w.uri+"?as=rows.csv" {
			t.Errorf("%s: goes to %q, want the signed address", name, to)
		}
	}
	w.server.cfg.SignedDownloads = false
	if res, _, err := w.get(t, w.url); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("without signed-downloads: status %d, %v; want the content from the server", res.StatusCode, err)
	}
}

// A header Range that is malformed, or that asks for several, is answered with the whole; one beyond the end with 416.
func TestArtifactServer_RangesByHand(t *testing.T) {
	t.Parallel()
	w := newArtifactWorld(t, []byte("0123456789"))
	for header, want := range map[string]string{
		"bytes=0-3": "206 0123 bytes 0-3/10", "bytes=-3": "206 789 bytes 7-9/10", "bytes=7-": "206 789 bytes 7-9/10",
		"bytes=5-99": "206 56789 bytes 5-9/10", "bytes=10-": "416 bytes */10",
		"bytes=0-0,2-3": "200 0123456789", "bytes=5-2": "200 0123456789", "bytes=abc": "200 0123456789",
		"items=0-1": "200 0123456789", "bytes=-0": "200 0123456789", "bytes=-": "200 0123456789",
		"bytes=0-99999999999999999999": "200 0123456789", "bytes=--5": "200 0123456789", "bytes=1--5": "200 0123456789",
	} {
		res, body, err := w.get(t, w.url, "Range: "+header, "Sec-Fetch-Mode: cors")
		if err != nil {
			t.Errorf("%s: %v", header, err)
			continue
		}
		got := strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", string(body), " ", res.Header.Get("Content-Range")))
		if res.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			got = fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Range"))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

func TestArtifactServer_BoundsDownloadsOfOnePrincipal(t *testing.T) {
	t.Parallel()
	w := newArtifactWorld(t, bytes.Repeat([]byte("x"), 100))
	release, reading := make(chan struct{}), make(chan struct{}, downloadsOfOne)
	w.bucket.open = func() io.ReadSeekCloser {
		return &heldBody{nopCloser{bytes.NewReader(bytes.Repeat([]byte("x"), 100))}, reading, release}
	}
	ended := make(chan error, downloadsOfOne)
	for range downloadsOfOne {
		go func() {
			_, _, err := w.get(t, w.url)
			ended <- err
		}()
	}
	for range downloadsOfOne {
		<-reading
	}
	res, body, err := w.get(t, w.url)
	if err != nil || res.StatusCode != http.StatusTooManyRequests ||
		!strings.Contains(string(body), "TOO_MANY_OPERATIONS") || res.Header.Get("Retry-After") == "" {
		t.Errorf("one more download: %d %s %v; want 429 with a time to wait", res.StatusCode, body, err)
	}
	res, _, err = w.get(t, w.url, "Authorization: Bearer dev-engineer", "Range: bytes=500-")
	if err != nil || res.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a download of somebody else: %d %v; want an answer", res.StatusCode, err)
	}
	close(release)
	for range downloadsOfOne {
		if err := <-ended; err != nil {
			t.Errorf("a download within the limit: %v", err)
		}
	}
	if n := len(w.server.running) + w.server.total; n != 0 {
		t.Errorf("%d downloads are still counted, want none", n)
	}
}

// heldBody waits for release before its first byte.
type heldBody struct {
	nopCloser
	reading, release chan struct{}
}

func (h *heldBody) Read(p []byte) (int, error) {
	h.reading <- struct{}{}
	<-h.release
	return h.nopCloser.Read(p)
}

func TestDisposition_NamesAreHarmless(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"run_results.json":           "attachment; filename=run_results.json",
		"a b.csv":                    `attachment; filename="a_b.csv"; filename*=UTF-8''a%20b.csv`,
		"Zürich.csv":                 `attachment; filename="Z_rich.csv"; filename*=UTF-8''Z%C3%BCrich.csv`,
		`x"; filename=evil.exe; y="`: `attachment; filename="x___filename_evil.exe__y__"; filename*=UTF-8''x%22%3B%20filename%3Devil.exe%3B%20y%3D%22`,
		"a\r\nSet-Cookie: x=1.html":  `attachment; filename="a__Set-Cookie__x_1.html"; filename*=UTF-8''a__Set-Cookie%3A%20x%3D1.html`,
		"../../etc/passwd":           `attachment; filename="_.._etc_passwd"; filename*=UTF-8''_.._etc_passwd`,
		`..\..\boot.ini`:             `attachment; filename="_.._boot.ini"; filename*=UTF-8''_.._boot.ini`,
		"gnp\u202egpj.exe":           "attachment; filename=gnp_gpj.exe",
		"...":                        "attachment; filename=file",
		"\xff\xfe":                   "attachment; filename=__",
		strings.Repeat("ü", 500):     "*",
	} {
		got := disposition(name, false)
		if want != "*" && got != want {
			t.Errorf("%q: %s\nwant %s", name, got, want)
		}
		if kind, params, err := mime.ParseMediaType(got); err != nil || kind != "attachment" || params["filename"] == "" ||
			strings.ContainsAny(params["filename"], "/\\\r\n") || len(params["filename"]) > maxFileName {
			t.Errorf("%q: %s is read as %q with %q (%v), want a short name of one file", name, got, kind, params["filename"], err)
		}
	}
}

// A principal of another tenant and a stranger get the same answer for what exists and for what does not.
func TestArtifactServer_StrangersLearnNothing(t *testing.T) {
	t.Parallel()
	w := newArtifactWorld(t, []byte("a,b\n"))
	if _, err := w.LinkArtifact(t.Context(), authz.Principal{ID: "dev-admin", TenantID: "globex"}, w.runID, w.uri,
		"l"); err == nil {
		t.Error("a principal of another tenant made a link")
	}
	res, _, err := w.get(t, w.url, "Authorization: Bearer wrong")
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %v; want 401", res.StatusCode, err)
	}
	_, here, errHere := w.get(t, w.url, "Authorization: Bearer nobody")
	_, nowhere, errNowhere := w.get(t, strings.Replace(w.url, w.runID, "r9", 1), "Authorization: Bearer nobody")
	if errors.Join(errHere, errNowhere) != nil || !bytes.Equal(here, nowhere) {
		t.Errorf("somebody without rights is told %s of a run, and %s of none", here, nowhere)
	}
}
