package reads_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// artifactPath is the path of the artifact of dbtStep.
const artifactPath = "s1/1/1/run_results.json"

// withSeals lets a world make links.
func withSeals(t *testing.T) func(*usecases.Config) {
	return func(c *usecases.Config) { c.Seals = controltest.TicketKeys(t, "k1") }
}

// reportFile makes a run whose step s1 reported a file with this content; change may alter the reference.
func (w *world) reportFile(requestID, file string, body []byte, change ...func(controltest.M)) (runID, uri string) {
	w.T.Helper()
	id := w.CreateRunning(requestID, "s1", "s2")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}, 1, file)
	uri, sum, size, err := w.Artifacts.Put(w.T.Context(), name, bytes.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	ref := controltest.M{"uri": uri, "kind": "custom", "sha256": sum, "sizeBytes": size}
	for _, f := range change {
		f(ref)
	}
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent, controltest.M{"artifactRefs": []controltest.M{ref}})
	return id, uri
}

func (w *world) open(p authz.Principal, runID, path string) (io.ReadSeekCloser, error) {
	w.T.Helper()
	a, err := w.FindArtifact(w.T.Context(), p, runID, path)
	if err != nil {
		w.T.Fatal(err)
	}
	return a.Open(w.T.Context())
}

func TestFindArtifact_OfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.dbtStep("artifact", []byte(`{"results":[]}`), "")
	a := controltest.Must[reads.Artifact](t)(w.FindArtifact(t.Context(), w.Principal("dev-viewer"), id, artifactPath))
	body := controltest.Must[io.ReadSeekCloser](t)(a.Open(t.Context()))
	defer func() { _ = body.Close() }()
	if content := controltest.Must[[]byte](t)(io.ReadAll(body)); string(content) != `{"results":[]}` ||
		a.Kind != run.KindDBTRunResults || a.File != "run_results.json" || a.StepID != "s1" || a.LogicalAttempt != 1 {
		t.Errorf("found %s %s of step %s with %q, want the reported file", a.Kind, a.File, a.StepID, content)
	}
	if at, err := body.Seek(2, io.SeekStart); err != nil || at != 2 {
		t.Errorf("Seek: %d, %v; want 2", at, err)
	}
	if rest := controltest.Must[[]byte](t)(io.ReadAll(body)); string(rest) != `results":[]}` {
		t.Errorf("after Seek it reads %q", rest)
	}
	for _, path := range []string{"", "s1", "s1/1/1/", "s1/1/1/other.json", "s2/1/1/run_results.json",
		"../" + id + "/" + artifactPath, "s1/1/1/../1/run_results.json", "s1%2F1/1/run_results.json"} {
		_, err := w.FindArtifact(t.Context(), w.Engineer(), id, path)
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	for _, p := range []authz.Principal{w.ForeignPrincipal(), w.Principal("nobody")} {
		_, err := w.FindArtifact(t.Context(), p, id, artifactPath)
		controltest.Refusal(t, err, run.CodeNotFound)
		_, unknown := w.FindArtifact(t.Context(), p, "no-such-run", artifactPath)
		if err.Error() != unknown.Error() {
			t.Errorf("%s of %s learns that the run exists: %q instead of %q", p.ID, p.TenantID, err, unknown)
		}
	}
}

// Only what the run's log names under the run's own prefix is opened: neither a file that no step reported, nor the
// file of another tenant that a worker reported.
func TestFindArtifact_RefusesFilesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := artifact.Name(artifact.AttemptID{TenantID: "globex", RunID: "r9", StepID: "s1", LogicalAttempt: 1}, 1,
		"run_results.json")
	uri, _, _, err := w.Artifacts.Put(t.Context(), theirs, strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	id := w.dbtStep("artifact-theft", []byte(`{}`), uri)
	for _, path := range []string{artifactPath, "../../globex/r9/" + artifactPath} {
		_, err := w.FindArtifact(t.Context(), w.Engineer(), id, path)
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	// The address that a worker would have to report for a traversal does not open either.
	up := w.dbtStep("artifact-up", []byte(`{}`), "artifact:acme/../globex/r9/"+artifactPath)
	_, err = w.FindArtifact(t.Context(), w.Engineer(), up, "../../globex/r9/"+artifactPath)
	controltest.Refusal(t, err, run.CodeNotFound)
}

func TestArtifact_RemovedContentNamesItsReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, uri := w.reportFile("gone", "rows.csv", []byte("a,b"))
	if err := w.Artifacts.RemoveArtifact(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	ends := w.Clock.Now().Add(time.Hour).UTC()
	expiring, _ := w.reportFile("expiring", "rows.csv", []byte("a,b"), func(ref controltest.M) { ref["expiresAt"] = ends })
	_, err := w.open(w.Engineer(), gone, "s1/1/1/rows.csv")
	controltest.Refusal(t, err, run.CodeArtifactRemoved)
	body, err := w.open(w.Engineer(), expiring, "s1/1/1/rows.csv")
	if err != nil {
		t.Fatalf("before it expires: %v, want the content", err)
	}
	_ = body.Close()
	w.Clock.Advance(2 * time.Hour)
	_, err = w.open(w.Engineer(), expiring, "s1/1/1/rows.csv")
	controltest.Refusal(t, err, run.CodeArtifactRemoved)
	var e *control.Error
	if !errors.As(err, &e) || e.Artifact == nil || e.Artifact.ExpiresAt == nil || !e.Artifact.ExpiresAt.Equal(ends) {
		t.Errorf("the refusal is %+v, want the reference with its end %v", e, ends)
	}
}

// A reader never gets altered content whole, and content of another size not at all.
func TestArtifact_TornContentIsNotReadWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := bytes.Repeat([]byte("0123456789"), 20_000)
	altered := bytes.Clone(content)
	altered[len(altered)-70_000] ^= 1
	id, uri := w.reportFile("altered", "rows.csv", content)
	put := func(body []byte) {
		t.Helper()
		name := strings.TrimPrefix(uri, "artifact:")
		if _, _, _, err := w.Artifacts.Put(t.Context(), name, bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	put(altered)
	body, err := w.open(w.Engineer(), id, "s1/1/1/rows.csv")
	if err != nil {
		t.Fatal(err)
	}
	read, err := io.ReadAll(body)
	if !errors.Is(err, artifact.ErrTorn) || len(read) >= len(content) {
		t.Errorf("an altered object gives %d of %d bytes and %v, want fewer and ErrTorn", len(read), len(content), err)
	}
	for _, size := range []int{0, 10, len(content) - 1} {
		put(content[:size])
		// Only reading a compressed object shows its size.
		body, err := w.open(w.Engineer(), id, "s1/1/1/rows.csv")
		if err == nil {
			_, err = io.Copy(io.Discard, body)
			_ = body.Close()
		}
		if !errors.Is(err, artifact.ErrTorn) {
			t.Errorf("an object of %d bytes: %v, want ErrTorn", size, err)
		}
	}
	put(content)
	body = controltest.Must[io.ReadSeekCloser](t)(w.open(w.Engineer(), id, "s1/1/1/rows.csv"))
	if read := controltest.Must[[]byte](t)(io.ReadAll(body)); !bytes.Equal(read, content) {
		t.Errorf("the restored object gives %d bytes, want the content", len(read))
	}
}

func TestLinkArtifact_WorksWithTheRightsOfItsMaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSeals(t))
	ctx := t.Context()
	id, uri := w.reportFile("linked", "rows.csv", []byte("a,b"))
	w.FinishStep(id, "s2", 1, run.StepCompletedEvent, controltest.M{"artifactRefs": []controltest.M{
		{"uri": strings.Replace(uri, "/s1/", "/s2/", 1), "kind": "custom"}}})
	made := controltest.Must[access.CreatedToken](t)(w.CreateToken(ctx, w.Engineer(), access.CreateToken{
		RequestID: "t", Name: "laptop", Grants: []authz.Grant{{Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"}}}))
	if err := w.LoadPolicy(ctx); err != nil {
		t.Fatal(err)
	}
	bearer := controltest.Must[authz.Principal](t)(w.Authz.Authenticate(made.Secret))
	link := controltest.Must[reads.ArtifactLink](t)(w.LinkArtifact(ctx, bearer, id, uri, "l1"))
	at, err := url.Parse(link.Path)
	if err != nil || at.Path != "/artifacts/"+id+"/s1/1/1/rows.csv" {
		t.Fatalf("the link is %q (%v), want the path of the artifact", link.Path, err)
	}
	token := at.Query().Get("link")
	works := func(token, runID, path string) bool {
		t.Helper()
		if _, _, err = w.FindLinked(ctx, runID, path, token); err == nil {
			return true
		}
		controltest.Refusal(t, err, run.CodeNotFound)
		if !strings.HasSuffix(err.Error(), "This link has expired, was revoked, or never existed.") {
			t.Errorf("a link that does not work answers %q, which tells why", err)
		}
		return false
	}
	if !works(token, id, "s1/1/1/rows.csv") {
		t.Error("a fresh link does not work")
	}
	other, _ := w.reportFile("other", "rows.csv", []byte("a,b"))
	for name, c := range map[string][3]string{
		"of another run":       {token, other, "s1/1/1/rows.csv"},
		"of another file":      {token, id, "s2/1/1/rows.csv"},
		"with altered content": {"x" + token, id, "s1/1/1/rows.csv"},
		"with a foreign seal":  {token[:len(token)-2] + "AA", id, "s1/1/1/rows.csv"},
		"empty":                {".", id, "s1/1/1/rows.csv"},
		"too long":             {strings.Repeat("a", 9000), id, "s1/1/1/rows.csv"},
	} {
		if works(c[0], c[1], c[2]) {
			t.Errorf("a link %s works", name)
		}
	}
	if n := w.CountAuditRows(`action = 'LINK_ARTIFACT' AND outcome = 'ACCEPTED'`); n != 1 {
		t.Errorf("%d audit rows, want one for the link", n)
	}
	if _, err := w.RevokeToken(ctx, w.Engineer(), access.RevokeToken{RequestID: "gone", ID: made.Token.ID,
		Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	if err := w.LoadPolicy(ctx); err != nil {
		t.Fatal(err)
	}
	if works(token, id, "s1/1/1/rows.csv") {
		t.Error("the link works after the token of its maker was revoked")
	}
	account := controltest.Must[reads.ArtifactLink](t)(w.LinkArtifact(ctx, w.Engineer(), id, uri, "l2"))
	at, _ = url.Parse(account.Path)
	if token = at.Query().Get("link"); !works(token, id, "s1/1/1/rows.csv") {
		t.Error("a link of an account does not work")
	}
	w.Clock.Advance(6 * time.Minute)
	if err := w.LoadPolicy(ctx); err != nil {
		t.Fatal(err)
	}
	if works(token, id, "s1/1/1/rows.csv") {
		t.Error("the link works after its five minutes")
	}
}

func TestLinkArtifact_RefusesStrangersAndFloods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSeals(t))
	id, uri := w.reportFile("linked", "rows.csv", []byte("a,b"))
	_, err := w.LinkArtifact(t.Context(), w.ForeignPrincipal(), id, uri, "l")
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.LinkArtifact(t.Context(), w.ForeignPrincipal(), id, strings.Replace(uri, "acme", "globex", 1), "l")
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.LinkArtifact(t.Context(), w.Engineer(), id, "file:///etc/passwd", "l")
	controltest.Refusal(t, err, run.CodeBadInput)
	for range 60 {
		if _, err := w.LinkArtifact(t.Context(), w.Engineer(), id, uri, "l"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.LinkArtifact(t.Context(), w.Engineer(), id, uri, "l")
	controltest.Refusal(t, err, run.CodeRequestRate)
	keyless := newWorld(t)
	id, uri = keyless.reportFile("linked", "rows.csv", []byte("a,b"))
	_, err = keyless.LinkArtifact(t.Context(), keyless.Engineer(), id, uri, "l")
	controltest.Refusal(t, err, run.CodeNotSupported)
}

// signing is a bucket that signs addresses.
type signing struct {
	artifact.Blobs
	err error
}

// compressing is a bucket that signs addresses and whose objects are compressed.
type compressing struct{ signing }

func (compressing) Stat(context.Context, string) (artifact.Info, error) {
	return artifact.Info{Encoding: "gzip"}, nil
}

func (s signing) Sign(_ context.Context, uri string, d artifact.Download) (string, error) {
	return "https://bucket.example/" + uri + "?as=" + d.FileName + "&for=" + d.For.String(), s.err
}

func TestArtifact_SignsWhereTheBucketDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		blobs func(artifact.Blobs) artifact.Blobs
		want  error
	}{
		"a bucket that signs": {func(b artifact.Blobs) artifact.Blobs { return signing{Blobs: b} }, nil},
		"a bucket that cannot sign it": {func(b artifact.Blobs) artifact.Blobs { return signing{b, artifact.ErrCannotSign} },
			artifact.ErrCannotSign},
		"a compressed object": {func(b artifact.Blobs) artifact.Blobs { return compressing{signing{Blobs: b}} },
			artifact.ErrCannotSign},
		"a bucket without signatures": {func(b artifact.Blobs) artifact.Blobs { return struct{ artifact.Blobs }{b} },
			artifact.ErrCannotSign},
	} {
		w := newWorld(t, func(cfg *usecases.Config) { cfg.Blobs = c.blobs(cfg.Blobs) })
		id, uri := w.reportFile("signed", "rows.csv", []byte("a,b"))
		a := controltest.Must[reads.Artifact](t)(w.FindArtifact(t.Context(), w.Engineer(), id, "s1/1/1/rows.csv"))
		at, err := a.Sign(t.Context())
		if !errors.Is(err, c.want) || c.want == nil && at != "https://bucket.example/"+uri+"?as=rows.csv&for=1m0s" {
			t.Errorf("%s: %q, %v; want the error %v", name, at, err, c.want)
		}
	}
}

func TestListArtifacts_FiltersAndPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("list", "s1", "s2")
	ref := func(step string, attempt int, kind, file string) controltest.M {
		sum := sha256.Sum256([]byte(file))
		name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: step, LogicalAttempt: attempt}, 1, file)
		return controltest.M{"uri": artifact.URI(name), "kind": kind, "sha256": hex.EncodeToString(sum[:]), "sizeBytes": 1}
	}
	w.FinishStep(id, "s2", 1, run.StepCompletedEvent, controltest.M{"artifactRefs": []controltest.M{
		ref("s2", 1, "dbt-manifest", "manifest.json"), {"uri": "s3://elsewhere/x", "kind": "custom"}}})
	w.FinishStep(id, "s1", 1, run.StepFailedEvent, controltest.M{"artifactRefs": []controltest.M{
		ref("s1", 1, "manifest", "manifest.json"), ref("s1", 1, "run_results", "run_results.json")}})
	list := func(q reads.ArtifactsQuery) (files []string, page reads.ArtifactsPage) {
		t.Helper()
		q.RunID = id
		page = controltest.Must[reads.ArtifactsPage](t)(w.ListArtifacts(t.Context(), w.Principal("dev-viewer"), q))
		for _, ref := range page.Artifacts {
			place, _ := reads.PlaceOf("acme", id, ref.URI)
			files = append(files, place.Path)
		}
		return files, page
	}
	for name, c := range map[string]struct {
		q    reads.ArtifactsQuery
		want []string
	}{
		"all": {reads.ArtifactsQuery{}, []string{"s1/1/1/manifest.json", "s1/1/1/run_results.json",
			"s2/1/1/manifest.json", ""}},
		"of a step": {reads.ArtifactsQuery{StepID: "s1"},
			[]string{"s1/1/1/manifest.json", "s1/1/1/run_results.json"}},
		"of an older kind": {reads.ArtifactsQuery{Kinds: []string{"manifest"}},
			[]string{"s1/1/1/manifest.json", "s2/1/1/manifest.json"}},
		"of a kind":         {reads.ArtifactsQuery{Kinds: []string{"dbt-run-results"}}, []string{"s1/1/1/run_results.json"}},
		"of no such kind":   {reads.ArtifactsQuery{Kinds: []string{"log-bundle"}}, nil},
		"elsewhere":         {reads.ArtifactsQuery{Kinds: []string{"custom"}}, []string{""}},
		"a page, the first": {reads.ArtifactsQuery{First: 1, StepID: "s1"}, []string{"s1/1/1/manifest.json"}},
	} {
		if got, _ := list(c.q); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	_, first := list(reads.ArtifactsQuery{First: 1, StepID: "s1"})
	next, second := list(reads.ArtifactsQuery{First: 1, StepID: "s1", After: first.Cursors[0]})
	if !first.HasNext || first.Total != 2 || second.HasNext || !cmp.Equal(next, []string{"s1/1/1/run_results.json"}) {
		t.Errorf("pages: %+v then %+v, want two of one artifact each", first, second)
	}
	_, err := w.ListArtifacts(t.Context(), w.ForeignPrincipal(), reads.ArtifactsQuery{RunID: id})
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.ListArtifacts(t.Context(), w.Engineer(), reads.ArtifactsQuery{RunID: id, After: "x"})
	controltest.Refusal(t, err, run.CodeCursorInvalid)
}

func TestStepOutput_SumsTheFiguresOfDBT(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.dbtStep("output", []byte(`{"results":[
		{"unique_id":"model.shop.a","status":"success","adapter_response":{"rows_affected":40,"bytes_processed":1000}},
		{"unique_id":"seed.shop.b","status":"success","adapter_response":{"rows_affected":2}},
		{"unique_id":"model.shop.c","status":"error","adapter_response":{"rows_affected":-1}},
		{"unique_id":"test.shop.d.1","status":"pass","adapter_response":{"rows_affected":7,"bytes_processed":24}}]}`), "")
	o, ok, err := w.StepOutput(t.Context(), w.Principal("dev-viewer"), id, "s1", 0)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if m := o.Metrics; m.RowsWritten == nil || *m.RowsWritten != 42 || m.BytesProcessed == nil ||
		*m.BytesProcessed != 1024 || m.StartedAt == nil || m.FinishedAt == nil || m.DurationMS == nil {
		t.Errorf("the figures are %+v, want 42 rows, 1,024 bytes and times", m)
	}
	if o.Status != run.StepFailed || len(o.Artifacts) != 1 || o.Error == nil {
		t.Errorf("the output is %+v, want the failed attempt with its artifact and error", o.Attempt)
	}
	if _, ok, err := w.StepOutput(t.Context(), w.Engineer(), id, "s1", 2); ok || err != nil {
		t.Errorf("an attempt that does not exist: %t, %v; want none", ok, err)
	}
	_, _, err = w.StepOutput(t.Context(), w.ForeignPrincipal(), id, "s1", 0)
	controltest.Refusal(t, err, run.CodeNotFound)
	counted := w.CreateRunning("counted", "s1")
	w.FinishStep(counted, "s1", 1, run.StepCompletedEvent, controltest.M{"result": controltest.M{"rows": controltest.M{
		"a": 3, "b": 4}}})
	o, _, err = w.StepOutput(t.Context(), w.Engineer(), counted, "s1", 1)
	if err != nil || o.Metrics.RowsWritten != nil {
		t.Errorf("a step without results of dbt: %+v, %v; want no rows", o.Metrics, err)
	}
}
