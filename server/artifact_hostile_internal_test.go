package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
)

// report adds a run whose step s1 reported a file, and returns the address of the file.
func (w *artifactWorld) report(t *testing.T, requestID, file string, content []byte) string {
	t.Helper()
	id := w.CreateRunning(requestID, "s1")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}, 1, file)
	uri, sum, size, err := w.Artifacts.Put(t.Context(), name, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent, controltest.M{"artifactRefs": []controltest.M{
		{"uri": uri, "kind": "custom", "sha256": sum, "sizeBytes": size}}})
	link, err := w.LinkArtifact(t.Context(), w.Principal("dev-viewer"), id, uri, "l1")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(w.url, "/artifacts/")[0] + link.Path
}

// curl saves an address under the name that the server gives, in a directory of its own, and returns the saved files.
func curl(t *testing.T, at string, more ...string) (names []string, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "one", "two")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "curl", append([]string{"-sSf", "-J", "-O", at}, more...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("curl: %v: %s", err, out)
	}
	above := filepath.Dir(filepath.Dir(dir))
	_ = filepath.WalkDir(above, func(path string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return nil
	})
	return names, dir
}

// Programs save hostile files under harmless names in the directory where they are, byte by byte.
func TestArtifactServer_HostileFilesWithCurl(t *testing.T) {
	t.Parallel()
	w := newArtifactWorld(t, []byte("a"))
	var bomb bytes.Buffer
	z, _ := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	for range 64 {
		_, _ = z.Write(bytes.Repeat([]byte(" "), 1<<20))
	}
	_ = z.Close()
	script := []byte(`<script>fetch("/owned")</script>`)
	for i, c := range []struct {
		file    string
		content []byte
		saved   string
	}{
		{"page.html", script, "page.html"},
		{"picture.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>`), "picture.svg"},
		{"..\\..\\up.html", script, "_.._up.html"},
		{"a\nb\".html", script, "a_b_.html"},
		{"a\r\nSet-Cookie: x=1.html", script, "a__Set-Cookie__x_1.html"},
		{"..hidden", script, "hidden"},
		{"bomb.json.gz", bomb.Bytes(), "bomb.json.gz"},
	} {
		at := w.report(t, "hostile-"+strconv.Itoa(i), c.file, c.content)
		names, dir := curl(t, at, "--compressed")
		if len(names) != 1 || names[0] != c.saved {
			t.Errorf("%q: curl saved %q, want %q and nothing else", c.file, names, c.saved)
			continue
		}
		if saved, err := os.ReadFile(filepath.Join(dir, names[0])); err != nil || !bytes.Equal(saved, c.content) {
			t.Errorf("%q: the saved file has %d bytes (%v), want the content of %d", c.file, len(saved), err, len(c.content))
		}
		res, _, err := w.get(t, at)
		if err != nil || res.Header.Get("Content-Encoding") != "" || res.Header.Get("Set-Cookie") != "" ||
			res.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%q: headers %v (%v), want bytes without an encoding and a cookie", c.file, res.Header, err)
		}
	}
}

// A file of 2 GiB is served with constant memory, and each range of it reads only that range.
func TestArtifactServer_ServesLargeFilesWithConstantMemory(t *testing.T) {
	t.Parallel()
	size := int64(64 << 20)
	if os.Getenv("TEST_LONG") != "" {
		size = 2 << 30
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	sparse, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if err := sparse.Truncate(size); err != nil {
		t.Fatal(err)
	}
	w := newArtifactWorld(t, []byte("a"))
	id := w.CreateRunning("large", "s1")
	uri := artifact.URI(artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}, 1,
		"sparse.bin"))
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent, controltest.M{"artifactRefs": []controltest.M{
		{"uri": uri, "kind": "custom", "sha256": sum, "sizeBytes": size}}})
	reads := &countedReads{}
	w.bucket.open = func() io.ReadSeekCloser {
		return nopCloser{countingReader{io.NewSectionReader(sparse, 0, size), reads}}
	}
	at := strings.Replace(w.url, w.runID+"/s1/1/1/rows.csv", id+"/s1/1/1/sparse.bin", 1)
	res, body, err := w.get(t, at, fmt.Sprintf("Range: bytes=%d-", size-5))
	if err != nil || res.StatusCode != http.StatusPartialContent || len(body) != 5 {
		t.Fatalf("the end: %v, %d bytes, %v; want 5 bytes", res.Status, len(body), err)
	}
	if n := reads.all.Load(); n != 5 {
		t.Errorf("%d bytes of the object were read for the last 5", n)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer dev-viewer")
	whole, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Body.Close()
	got := sha256.New()
	if n, err := io.Copy(got, whole.Body); err != nil || n != size || hex.EncodeToString(got.Sum(nil)) != sum {
		t.Errorf("%d of %d bytes arrived, %v; want all", n, size, err)
	}
	if n := reads.largest.Load(); n > 1<<20 {
		t.Errorf("%d bytes were read at once, want at most a MiB in memory", n)
	}
}

// countedReads counts the bytes that are read, and the most of one read.
type countedReads struct{ all, largest atomic.Int64 }

type countingReader struct {
	io.ReadSeeker
	c *countedReads
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	r.c.all.Add(int64(n))
	r.c.largest.Store(max(r.c.largest.Load(), int64(len(p))))
	return n, err
}

// zeros gives zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
