// Package artifacttest is the suite that every kind of bucket passes.
package artifacttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
)

// Buckets gives the suite buckets of one kind.
type Buckets struct {
	// New returns the address of a new empty bucket.
	New func(t *testing.T) string
	// Private means that only the process that opened a bucket sees its objects.
	Private bool
	// Signs means that the bucket signs links.
	Signs bool
}

// Run runs the suite. Each part has a bucket of its own.
func Run(t *testing.T, b Buckets) {
	t.Helper()
	for name, part := range map[string]func(*testing.T, Buckets){
		"blobs": blobs, "large blobs": largeBlobs, "refused blobs": refusedBlobs, "signed links": signedLinks,
		"logs": logs, "long logs": longLogs, "removal": removal, "archive": archive, "probe": probe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, b)
		})
	}
}

// Open opens a bucket and closes it when the test ends.
func Open(t *testing.T, address string, l artifact.Limits) *artifact.Store {
	t.Helper()
	s, err := artifact.OpenWithLimits(t.Context(), address, l)
	if err != nil {
		t.Fatalf("open the bucket: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Lines returns lines with the texts "line FROM" to "line TO".
func Lines(from, to int) (ls []artifact.Line) {
	for i := from; i <= to; i++ {
		ls = append(ls, artifact.Line{At: time.Unix(int64(i), 0).UTC(), Stream: "stdout", Text: fmt.Sprintf("line %d", i)})
	}
	return ls
}

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// noise returns bytes that no compression makes smaller.
func noise(n int) []byte {
	out := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(out)
	return out
}

func blobs(t *testing.T, b Buckets) {
	s := Open(t, b.New(t), artifact.Limits{})
	for name, body := range map[string][]byte{
		"t1/r1/s1/1/1/empty.bin": {}, "t1/r1/s1/1/1/empty.json": {}, "t1/r1/s1/1/1/a b%2Fc.bin": noise(1000),
		"t1/r1/s1/1/1/run results.json":      []byte(`{"results":[` + strings.Repeat(`"same",`, 10_000) + `"end"]}`),
		"t1/r1/s1/1/1/really gzip.json":      {0x1f, 0x8b, 8, 0, 1, 2, 3},
		"t1/r1/s1/1/1/sch\u00f6n \u20ac.txt": []byte("text"),
	} {
		for range 2 { // the second call changes nothing
			uri, sum, size, err := s.Put(t.Context(), name, bytes.NewReader(body))
			if err != nil || uri != artifact.URI(name) || sum != sumOf(body) || size != int64(len(body)) {
				t.Fatalf("Put(%q): uri %s, sha256 %s, size %d, %v; want the body's", name, uri, sum, size, err)
			}
		}
		uri := artifact.URI(name)
		if got := readAll(t, s, uri, sumOf(body), int64(len(body))); !bytes.Equal(got, body) {
			t.Errorf("%q: read back %d bytes, want the %d that were stored", name, len(got), len(body))
		}
		info, err := s.Stat(t.Context(), uri)
		if err != nil || info.Size != int64(len(body)) || time.Since(info.StoredAt).Abs() > time.Hour {
			t.Errorf("Stat(%q): %+v, %v; want size %d, stored now", name, info, err, len(body))
		}
		if strings.HasSuffix(name, "results.json") && info.Stored > int64(len(body)/10) {
			t.Errorf("%q takes %d bytes of %d, want a compressed object", name, info.Stored, len(body))
		}
		readParts(t, s, uri, body)
	}
	if _, err := s.Open(t.Context(), artifact.URI("t1/none")); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("Open of a missing artifact: %v, want ErrNotFound", err)
	}
	if _, err := s.Stat(t.Context(), artifact.URI("t1/none.json")); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("Stat of a missing artifact: %v, want ErrNotFound", err)
	}
}

// readAll reads an artifact and compares it with its size and its SHA-256.
func readAll(t *testing.T, s *artifact.Store, uri, sum string, size int64) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), uri)
	if err != nil {
		t.Fatalf("Open(%s): %v", uri, err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %s: %v", uri, err)
	}
	if int64(len(body)) != size || sumOf(body) != sum {
		t.Fatalf("read %s: %d bytes with the SHA-256 %s, want %d with %s", uri, len(body), sumOf(body), size, sum)
	}
	return body
}

// readParts reads an artifact from some positions, in any order.
func readParts(t *testing.T, s *artifact.Store, uri string, body []byte) {
	t.Helper()
	r, err := s.Open(t.Context(), uri)
	if err != nil {
		t.Fatalf("Open(%s): %v", uri, err)
	}
	defer r.Close()
	for _, at := range []int{len(body) / 2, len(body) / 3, 0, len(body)} {
		if _, err := r.Seek(int64(at), io.SeekStart); err != nil {
			t.Fatalf("seek %s to %d: %v", uri, at, err)
		}
		want := body[at:min(at+100, len(body))]
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s from %d: %d bytes, %v; want those of the body", uri, at, len(got), err)
		}
	}
}

// largeBlobs stores bodies of several parts.
func largeBlobs(t *testing.T, b Buckets) {
	s := Open(t, b.New(t), artifact.Limits{})
	for _, name := range []string{"t1/r1/s1/1/1/large.bin", "t1/r1/s1/1/1/large.json"} {
		body := noise(20<<20 + 7)
		uri, sum, size, err := s.Put(t.Context(), name, bytes.NewReader(body))
		if err != nil || size != int64(len(body)) || sum != sumOf(body) {
			t.Fatalf("Put(%q): size %d, %v; want %d", name, size, err, len(body))
		}
		if got := readAll(t, s, uri, sum, size); !bytes.Equal(got, body) {
			t.Errorf("%q: the body read back differs", name)
		}
	}
}

var errOfBody = errors.New("the body failed")

// refusedBlobs checks that a body that is too large or fails in the middle leaves nothing.
func refusedBlobs(t *testing.T, b Buckets) {
	s := Open(t, b.New(t), artifact.Limits{BlobBytes: 6 << 20})
	failing := func(n int) io.Reader {
		return io.MultiReader(bytes.NewReader(noise(n)), iotestErr{errOfBody})
	}
	for _, name := range []string{"t1/r1/s1/1/1/x.bin", "t1/r1/s1/1/1/x.json"} {
		for what, c := range map[string]struct {
			body io.Reader
			want error
		}{
			"too large":              {bytes.NewReader(noise(6<<20 + 1)), artifact.ErrTooLarge},
			"fails at once":          {failing(0), errOfBody},
			"fails after 100 bytes":  {failing(100), errOfBody},
			"fails after some parts": {failing(6 << 20), errOfBody},
		} {
			if _, _, _, err := s.Put(t.Context(), name, c.body); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, c.want)
			}
			if _, err := s.Stat(t.Context(), artifact.URI(name)); !errors.Is(err, artifact.ErrNotFound) {
				t.Errorf("%s, %s: the artifact exists (%v), want none", name, what, err)
			}
		}
	}
}

type iotestErr struct{ err error }

func (r iotestErr) Read([]byte) (int, error) { return 0, r.err }

func signedLinks(t *testing.T, b Buckets) {
	s := Open(t, b.New(t), artifact.Limits{})
	for name, body := range map[string][]byte{
		"t1/r1/s1/1/1/a.bin": noise(1000), "t1/r1/s1/1/1/a.json": []byte(`{"a":"` + strings.Repeat("b", 1000) + `"}`),
	} {
		uri, _, _, err := s.Put(t.Context(), name, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		link, err := s.Sign(t.Context(), uri, artifact.Download{FileName: "my file.json", For: time.Minute})
		if !b.Signs {
			if !errors.Is(err, artifact.ErrCannotSign) {
				t.Errorf("Sign: %v, want ErrCannotSign", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("Sign: %v", err)
		}
		res, err := http.Get(link) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(got, body) {
			t.Errorf("the link to %s answers %s with %d bytes, %v; want the body", name, res.Status, len(got), err)
		}
		if d := res.Header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment") {
			t.Errorf("the link answers with the Content-Disposition %q, want an attachment", d)
		}
	}
	if _, err := s.Sign(t.Context(), "file:///etc/passwd", artifact.Download{}); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("Sign of a foreign URI: %v, want ErrNotFound", err)
	}
}

var attempt = artifact.AttemptID{TenantID: "t1", RunID: "r1", StepID: "build", LogicalAttempt: 1}

func logs(t *testing.T, b Buckets) {
	address := b.New(t)
	s := Open(t, address, artifact.Limits{})
	other := s
	if !b.Private {
		other = Open(t, address, artifact.Limits{})
	}
	appendLines(t, s, 1, 1, Lines(1, 3))
	appendLines(t, other, 1, 2, Lines(2, 5)) // the next call went to another server
	appendLines(t, s, 1, 1, Lines(1, 5))     // repeated
	appendLines(t, other, 2, 1, Lines(6, 7)) // the platform runs it again
	for _, reader := range []*artifact.Store{s, other} {
		page, err := reader.Read(t.Context(), attempt, 1, 100)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"line 1", "line 2", "line 3", "line 4", "line 5", "line 6", "line 7"},
			texts(page)); diff != "" || page.Total != 7 {
			t.Errorf("total %d, lines (-want +got):\n%s", page.Total, diff)
		}
	}
	if nos, total, err := s.Find(t.Context(), attempt, "line 6", 10); err != nil || total != 1 || nos[0] != 6 {
		t.Errorf("Find: %v of %d, %v; want line 6", nos, total, err)
	}
	if no, err := s.ErrorLine(t.Context(), attempt, 2, 1); err != nil || no != 6 {
		t.Errorf("ErrorLine: %d, %v; want 6", no, err)
	}
}

func appendLines(t *testing.T, s *artifact.Store, engineAttempt int, from int64, ls []artifact.Line) {
	t.Helper()
	if err := s.Append(t.Context(), attempt, engineAttempt, from, ls); err != nil {
		t.Fatalf("append lines from %d: %v", from, err)
	}
}

func texts(page artifact.Page) (out []string) {
	for _, l := range page.Lines {
		out = append(out, l.Text)
	}
	return out
}

// longLogs stores 40 batches of lines, whose pieces become segments, and reads them at any place.
func longLogs(t *testing.T, b Buckets) {
	address := b.New(t)
	s := Open(t, address, artifact.Limits{})
	const all, batch = 12_000, 300
	for from := 1; from <= all; from += batch {
		appendLines(t, s, 1, int64(from), Lines(from, from+batch-1))
	}
	logs := artifact.Scope{Kind: artifact.KindLogs, TenantID: "t1", RunID: "r1"}
	stored, err := s.Measure(t.Context(), logs, 1000)
	if err != nil || stored.Objects > 20 {
		t.Errorf("%d batches are %d objects, %v; want at most 20", all/batch, stored.Objects, err)
	}
	readers := []*artifact.Store{s}
	if !b.Private {
		readers = append(readers, Open(t, address, artifact.Limits{}))
	}
	for _, reader := range readers {
		for _, from := range []int64{1, 299, 300, 301, 4799, 4800, 4801, 9000, all - 1, all} {
			page, err := reader.Read(t.Context(), attempt, from, 700)
			if err != nil {
				t.Fatalf("from %d: %v", from, err)
			}
			var want []string
			for i := from; i <= all && i < from+700; i++ {
				want = append(want, fmt.Sprintf("line %d", i))
			}
			if diff := cmp.Diff(want, texts(page)); diff != "" || page.Total != all {
				t.Fatalf("from %d: total %d (-want +got):\n%s", from, page.Total, diff)
			}
		}
		if _, total, err := reader.Find(t.Context(), attempt, "line 77", 10); err != nil || total != 111 {
			t.Errorf("Find: %d matches, %v; want 111", total, err)
		}
		if no, err := reader.ErrorLine(t.Context(), attempt, 1, 5000); err != nil || no != 5000 {
			t.Errorf("ErrorLine: %d, %v; want 5000", no, err)
		}
	}
	appendLines(t, s, 1, 1, Lines(1, all)) // repeated as a whole
	if page, err := s.Read(t.Context(), attempt, 1, 1); err != nil || page.Total != all {
		t.Errorf("after a repetition the log has %d lines, %v; want %d", page.Total, err, all)
	}
}

func removal(t *testing.T, b Buckets) {
	s := Open(t, b.New(t), artifact.Limits{})
	for _, owner := range []string{"acme/r1", "acme/r2", "acme2/r1"} {
		for i := range 5 {
			name := fmt.Sprintf("%s/s1/1/1/f%d", owner, i)
			if _, _, _, err := s.Put(t.Context(), name, strings.NewReader("12345")); err != nil {
				t.Fatal(err)
			}
		}
	}
	r1 := artifact.Scope{Kind: artifact.KindArtifacts, TenantID: "acme", RunID: "r1"}
	for i, w := range []artifact.Removed{{Objects: 3, Bytes: 15, More: true}, {Objects: 2, Bytes: 10}, {}} {
		if got, err := s.Remove(t.Context(), r1, 3); err != nil || got != w {
			t.Fatalf("batch %d removed %+v, %v; want %+v", i, got, err, w)
		}
	}
	tenant := artifact.Scope{Kind: artifact.KindArtifacts, TenantID: "acme"}
	if got, err := s.Measure(t.Context(), tenant, 100); err != nil || got != (artifact.Removed{Objects: 5, Bytes: 25}) {
		t.Errorf("the tenant has %+v, %v; want the 5 objects of r2", got, err)
	}
	for range 2 { // the second call finds nothing
		if err := s.RemoveArtifact(t.Context(), artifact.URI("acme/r2/s1/1/1/f0")); err != nil {
			t.Errorf("RemoveArtifact: %v", err)
		}
	}
	if _, err := s.Open(t.Context(), artifact.URI("acme/r2/s1/1/1/f0")); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("a removed artifact opens with %v, want ErrNotFound", err)
	}
}

func archive(t *testing.T, b Buckets) {
	a, err := artifact.OpenArchive(t.Context(), b.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	for _, name := range []string{"b/2", "a/1"} {
		if err := a.Write(t.Context(), name, []byte(name)); err != nil {
			t.Fatalf("Write(%s): %v", name, err)
		}
	}
	if err := a.Write(t.Context(), "a/1", []byte("other")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Write of an existing name: %v, want fs.ErrExist", err)
	}
	var got []string
	err = a.Walk(t.Context(), func(name string, body []byte) error {
		got = append(got, name+"="+string(body))
		return nil
	})
	if diff := cmp.Diff([]string{"a/1=a/1", "b/2=b/2"}, got); diff != "" || err != nil {
		t.Errorf("Walk: %v (-want +got):\n%s", err, diff)
	}
}

func probe(t *testing.T, b Buckets) {
	s := Open(t, b.New(t), artifact.Limits{})
	if err := s.CheckWritable(t.Context()); err != nil {
		t.Errorf("CheckWritable: %v, want nil", err)
	}
}
