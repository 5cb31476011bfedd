package journal_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func refOf(uri string, body []byte) run.ArtifactRef {
	sum := sha256.Sum256(body)
	return run.ArtifactRef{URI: uri, Kind: "manifest", SHA256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(body))}
}

func TestEvidence_ArtifactIsReadBackByItsRef(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("evidence", "s1")
	body := []byte(`{"rows":7}`)
	e := evidenceOf(w.execute(id, "s1", 1), "")
	e.Lines = nil
	// The URI has the form of engine/executor:
	// artifact:<tenant>/<run>/<step>/<logical attempt>/<engine attempt>/<name>.
	e.Artifact = &engine.ArtifactBody{Ref: refOf("artifact:acme/"+id+"/s1/1/1/run%20results.json", body), Body: body}
	for range 2 { // safe to repeat
		if err := w.Journal.Evidence(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	r := controltest.Must[io.ReadCloser](t)(w.Artifacts.Open(t.Context(), e.Artifact.Ref.URI))
	defer r.Close()
	if got := controltest.Must[[]byte](t)(io.ReadAll(r)); !bytes.Equal(got, body) {
		t.Errorf("the artifact is %q, want its bytes", got)
	}
}

// A worker may write artifacts only under the URI of its attempt, and only with the bytes of the reference.
func TestEvidence_RefusesForeignArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("foreign", "s1")
	body := []byte("x")
	for _, c := range []struct {
		name string
		want error
		e    engine.Evidence
		ref  run.ArtifactRef
	}{
		{"other tenant", run.ErrSchema, engine.Evidence{StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1},
			refOf("artifact:globex/"+id+"/s1/1/1/f", body)},
		{"other attempt", run.ErrSchema, engine.Evidence{StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1},
			refOf("artifact:acme/"+id+"/s1/2/1/f", body)},
		{"escape", run.ErrSchema, engine.Evidence{StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1},
			refOf("artifact:acme/"+id+"/s1/1/1/..%2f..%2ff", body)},
		{"other bytes", run.ErrSchema, engine.Evidence{StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1},
			refOf("artifact:acme/"+id+"/s1/1/1/f", []byte("y"))},
		{"unknown step", store.ErrNotFound, engine.Evidence{StepID: "zz", LogicalAttempt: 1, EngineAttempt: 1},
			refOf("artifact:acme/"+id+"/zz/1/1/f", body)},
	} {
		c.e.RunID, c.e.N, c.e.Artifact = id, 1, &engine.ArtifactBody{Ref: c.ref, Body: body}
		c.e.Key = w.Tickets.Key(ticket.Execution{RunID: id, StepID: c.e.StepID, LogicalAttempt: 1, N: 1, EngineAttempt: 1})
		if err := w.Journal.Evidence(t.Context(), c.e); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if _, err := w.Artifacts.Open(t.Context(), c.ref.URI); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("%s: Open returned %v, want ErrNotFound because nothing was stored", c.name, err)
		}
	}
}

// contract: T145
func TestJournal_CompletesWhatTheInterpreterDoesNotCarry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := controltest.Must[runs.StartedRun](t)(
		w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("r",
			controltest.Document(controltest.M{"metadata.failurePolicy": controltest.M{"retryWindowSeconds": 7},
				"metadata.deadline": controltest.M{"within": "2h"}},
				"s1",
				"b<s1"))))
	id := s.View.Run.RunID
	w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1, controltest.M{"steps": []controltest.M{}}))
	st := w.StateOf(id)
	if st.Policy.RetryWindowMS != 7000 || st.Policy.MaxParallelSteps != 100 ||
		st.PlanRef.SHA256 != s.View.Run.PlanRef.SHA256 || len(st.Steps) != 2 {
		t.Errorf("the state is %+v, want the plan reference and two steps", st)
	}
	if due := st.DueAt(); due == nil || !due.Equal(st.StartedAt.Add(2*time.Hour)) {
		t.Errorf("the run that started at %s is due at %v, want two hours later", st.StartedAt, due)
	}
	in := controltest.SignalOf(id, "u1", run.Pause)
	in.Reason = "look at it"
	w.Send(w.Principal("dev-operator"), in)
	w.AppendEvents(id, runtest.Draft(run.RunPaused, "u1", 1, controltest.M{"pauseRequestedBy": "", "reason": ""}))
	evs := controltest.Must[reads.EventsPage](t)(w.Events(t.Context(), w.Engineer(), id, reads.EventPage{Last: 1})).Events
	p := controltest.Must[run.PausePayload](t)(run.PayloadOf[run.PausePayload](evs[0].Payload))
	if p.PauseRequestedBy != "dev-operator" || p.Reason != "look at it" {
		t.Errorf("the payload is %+v, want actor and reason of the receipt", p)
	}
}

// fetched starts a run of a reference and reads its skeleton like the engine.
func (w *world) fetched(requestID string, ref plan.Ref, f *journal.Fetcher) (engine.Skeleton, error) {
	w.T.Helper()
	s := controltest.Must[runs.StartedRun](w.T)(
		w.StartRun(w.T.Context(), w.Engineer(), runs.StartRun{RequestID: requestID, ProjectID: "shop", EnvironmentID: "dev",
			Ref: &ref}))
	j := w.NewJournal(func(c *journal.Config) { c.Fetch, c.Alerts = f, w.Alerts })
	return j.Skeleton(w.T.Context(), s.View.Run.RunID)
}

func fileRef(t *testing.T, path string, doc []byte) plan.Ref {
	t.Helper()
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(doc, plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"})
	if err != nil {
		t.Fatal(err)
	}
	return plan.RefOf(doc, p, "file://"+path)
}

// contract: T225
func TestFetch_ReadsFilesOnlyBelowTheRoots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	roots, outside := t.TempDir(), t.TempDir()
	f := journal.NewFetcher([]string{filepath.Join(outside, "missing"), roots}, nil)
	doc := controltest.Document(nil, "s1", "b<s1")
	good := fileRef(t, filepath.Join(roots, "plan.json"), doc)
	sk, err := w.fetched("good", good, f)
	if err != nil || sk.Failure != nil || sk.SHA256 != good.SHA256 || len(sk.Binary) == 0 ||
		sk.Identity.PlanID != "plan-3" {
		t.Fatalf("the skeleton is %+v with the error %v, want that of plan-3", sk, err)
	}
	// The document is stored by its digest, so the file may be removed.
	if err := os.Remove(filepath.Join(roots, "plan.json")); err != nil {
		t.Fatal(err)
	}
	if sk, err := w.fetched("again", good, f); err != nil || sk.Failure != nil {
		t.Errorf("without the file the skeleton is %+v with the error %v, want the stored plan", sk, err)
	}

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(controltest.Document(nil, "zipped"))
	_ = z.Close()
	zipped := fileRef(t, filepath.Join(roots, "zip"), controltest.Document(nil, "zipped"))
	sum := sha256.Sum256(packed.Bytes())
	zipped.Compression, zipped.SHA256, zipped.SizeBytes = "gzip", hex.EncodeToString(sum[:]), int64(packed.Len())
	if err := os.WriteFile(filepath.Join(roots, "zip"), packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if sk, err := w.fetched("gzip", zipped, f); err != nil || sk.Failure != nil {
		t.Errorf("the skeleton of a gzip document is %+v with the error %v, want no failure", sk, err)
	}

	change := func(r plan.Ref, f func(*plan.Ref)) plan.Ref { f(&r); return r }
	secret := fileRef(t, filepath.Join(outside, "plan.json"), controltest.Document(nil, "secret"))
	for name, to := range map[string]string{"link": "plan.json", "nowhere": "missing.json"} {
		if err := os.Symlink(filepath.Join(outside, to), filepath.Join(roots, name)); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := fileRef(t, filepath.Join(roots, "elsewhere"),
		controltest.Document(controltest.M{"scope.projectId": "store"}, "s1"))
	fresh := fileRef(t, filepath.Join(roots, "fresh"), controltest.Document(nil, "fresh"))
	unknown := change(fresh, func(r *plan.Ref) {
		r.SHA256 = strings.Repeat("b",
			64)
	}) // not among the stored plans
	const outsideMessage = "The reference's uri is outside the directories that plans may come from."
	const addressMessage = "The reference's uri leads to no host that plans may be fetched from."
	messages := map[string]string{
		"outside the roots": outsideMessage, "missing outside": outsideMessage, "dots": outsideMessage,
		"a link out":        outsideMessage,
		"a link to nowhere": outsideMessage, "private address": addressMessage, "metadata address": addressMessage,
		"shared address": addressMessage, "mapped address": addressMessage,
	}
	for name, c := range map[string]struct {
		ref  plan.Ref
		want run.Code
	}{
		"outside the roots": {secret, run.CodePlanFetchFailed},
		"dots": {
			change(secret, func(r *plan.Ref) { r.URI = "file://" + roots + "/../" + filepath.Base(outside) + "/plan.json" }),
			run.CodePlanFetchFailed},
		"a link out": {change(secret, func(r *plan.Ref) { r.URI = "file://" + roots + "/link" }),
			run.CodePlanFetchFailed},
		"a directory":    {change(secret, func(r *plan.Ref) { r.URI = "file://" + roots }), run.CodePlanFetchFailed},
		"missing":        {change(unknown, func(r *plan.Ref) { r.URI += "x" }), run.CodePlanFetchFailed},
		"another scheme": {change(unknown, func(r *plan.Ref) { r.URI = "ftp://example.com/x" }), run.CodePlanFetchFailed},
		"plain http":     {change(unknown, func(r *plan.Ref) { r.URI = "http://example.com/x" }), run.CodePlanFetchFailed},
		"private address": {change(unknown, func(r *plan.Ref) { r.URI = "https://127.0.0.1:1/x" }),
			run.CodePlanFetchFailed},
		"metadata address": {change(unknown, func(r *plan.Ref) { r.URI = "https://169.254.169.254/x" }),
			run.CodePlanFetchFailed},
		"shared address": {change(unknown, func(r *plan.Ref) { r.URI = "https://100.64.0.1/x" }), run.CodePlanFetchFailed},
		"missing outside": {change(secret, func(r *plan.Ref) { r.URI = "file://" + outside + "/missing.json" }),
			run.CodePlanFetchFailed},
		"a link to nowhere": {change(secret, func(r *plan.Ref) { r.URI = "file://" + roots + "/nowhere" }),
			run.CodePlanFetchFailed},
		"mapped address": {change(unknown, func(r *plan.Ref) { r.URI = "https://[::ffff:10.0.0.1]/x" }),
			run.CodePlanFetchFailed},
		"other bytes": {change(fresh, func(r *plan.Ref) { r.SHA256 = strings.Repeat("a", 64) }),
			run.CodePlanHashMismatch},
		"another place":   {elsewhere, run.CodePlanInvalid},
		"another version": {change(fresh, func(r *plan.Ref) { r.PlanVersion = "9" }), run.CodePlanInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			sk, err := w.fetched("bad-"+strings.ReplaceAll(name, " ", "-"), c.ref, f)
			if err != nil || sk.Failure == nil || sk.Failure.ErrorCode != string(c.want) || sk.Identity.TenantID != "acme" {
				t.Fatalf("%+v (%+v), %v; want %s", sk, sk.Failure, err, c.want)
			}
			if want := messages[name]; want != "" && sk.Failure.ErrorMessage != want {
				t.Errorf("message %q, want %q", sk.Failure.ErrorMessage, want)
			}
		})
	}
}

func privateGuard(t *testing.T) *egress.Guard {
	t.Helper()
	return controltest.Must[*egress.Guard](t)(egress.New(egress.Settings{AllowPrivate: true}, nil))
}

// A document with another digest is fetched once more; then the run fails.
// contract: L03
func TestFetch_ADocumentWithAnotherDigestIsFetchedOnceMore(t *testing.T) {
	t.Parallel()
	doc := controltest.Document(nil, "s1")
	p, err := plan.Parse(doc, plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		answers  []string // then the document
		want     run.Code
		requests int
	}{
		{"at once", nil, "", 1}, {"torn once", []string{"torn"}, "", 2}, {"torn twice", []string{"torn", "torn"},
			run.CodePlanHashMismatch, 2},
		{"an outage, then torn once", []string{"503", "torn"}, "", 3}, {"down", []string{"503", "503", "503"},
			run.CodePlanFetchFailed, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n++
				switch {
				case n > len(c.answers):
					_, _ = w.Write(doc)
				case c.answers[n-1] == "503":
					w.WriteHeader(http.StatusServiceUnavailable)
				default:
					_, _ = w.Write(doc[:len(doc)/2])
				}
			}))
			defer server.Close()
			got, _, err := journal.NewFetcher(nil, privateGuard(t)).Fetch(t.Context(), "acme", plan.RefOf(doc, p, server.URL))
			var broken *journal.PlanError
			if errors.As(err, &broken) != (c.want != "") || broken != nil && broken.Code != c.want || n != c.requests ||
				err == nil && !bytes.Equal(got, doc) {
				t.Errorf("%d requests, %v; want %d, %s", n, err, c.requests, c.want)
			}
		})
	}
}

// A host that does not answer fails the run of one tenant, so people of that tenant hear of it.
func TestSkeleton_AHostThatGivesNoPlanRaisesAnAlertUntilItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := controltest.Document(nil, "s1")
	p := controltest.Must[plan.Plan](t)(plan.Parse(doc, plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}))
	var down atomic.Bool
	down.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			<-r.Context().Done() // it hangs
			return
		}
		_, _ = w.Write(doc)
	}))
	defer server.Close()
	f := journal.NewFetcher(nil, privateGuard(t))
	f.SetTry(200 * time.Millisecond)
	alerts := func() (out []string) {
		for _, a := range controltest.Must[[]store.AlertState](t)(w.Store.ListOpenAlerts(t.Context(),
			[]run.Code{run.CodePlanFetchFailed}, store.MaxPage)) {
			out = append(out, a.TenantID+" "+a.Subject)
		}
		return out
	}
	if sk, err := w.fetched("hangs", plan.RefOf(doc, p, server.URL), f); err != nil || sk.Failure == nil {
		t.Fatalf("the skeleton is %+v with the error %v, want a failure", sk, err)
	}
	want := []string{"acme " + strings.TrimPrefix(server.URL, "http://")}
	if diff := cmp.Diff(want, alerts()); diff != "" {
		t.Errorf("alerts while the host hangs (-want +got):\n%s", diff)
	}
	down.Store(false)
	if sk, err := w.fetched("answers", plan.RefOf(doc, p, server.URL), f); err != nil || sk.Failure != nil {
		t.Fatalf("the skeleton is %+v with the error %v, want no failure", sk, err)
	}
	if open := alerts(); len(open) > 0 {
		t.Errorf("after the host answered the alerts %q are open, want none", open)
	}
	// The end of a run whose plan is wrong asks no host.
	wrong := plan.RefOf(doc, p, server.URL)
	wrong.SHA256 = strings.Repeat("a", 64)
	id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), runs.StartRun{RequestID: "wrong",
		ProjectID: "shop", EnvironmentID: "dev", Ref: &wrong})).View.Run.RunID
	j := w.NewJournal(func(c *journal.Config) { c.Fetch, c.Alerts = f, w.Alerts })
	controltest.Must[store.Appended](t)(j.Append(t.Context(), store.Append{RunID: id,
		Events: []run.Draft{runtest.Start(), runtest.Draft(run.RunFailed, "", 1)}}))
	if open := alerts(); len(open) > 0 {
		t.Errorf("after the end of a run without a stored plan the alerts %q are open, want none", open)
	}
}

// Each further try of a document asks its next address, and people hear of a host whose mirror had to give it.
// contract: R545
func TestFetch_MirrorsAreTriedInTurn(t *testing.T) {
	t.Parallel()
	doc := controltest.Document(nil, "s1")
	p := controltest.Must[plan.Plan](t)(plan.Parse(doc, plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}))
	answer := func(status int, body []byte, asked *atomic.Int64) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}))
		t.Cleanup(s.Close)
		return s
	}
	var n [3]atomic.Int64
	down, torn, good := answer(http.StatusServiceUnavailable, nil, &n[0]),
		answer(http.StatusOK, doc[:len(doc)/2], &n[1]), answer(http.StatusOK, doc, &n[2])
	ref := plan.RefOf(doc, p, down.URL)
	ref.Mirrors = []string{torn.URL, good.URL}
	f := journal.NewFetcher(nil, privateGuard(t))
	got, from, err := f.Fetch(t.Context(), "acme", ref)
	asked := [3]int64{n[0].Load(), n[1].Load(), n[2].Load()}
	if err != nil || !bytes.Equal(got, doc) || from != good.URL || asked != [3]int64{1, 1, 1} {
		t.Errorf("%d bytes from %s after %v requests (%v), want the document from the last address after one each",
			len(got), from, asked, err)
	}
	ref.Mirrors = []string{"ftp://example.com/x"}
	var broken *journal.PlanError
	if _, _, err := f.Fetch(t.Context(), "acme", ref); !errors.As(err, &broken) || broken.Category != run.CategoryUser {
		t.Errorf("a mirror that is no permitted address: %v, want an error of the user", err)
	}

	w := newWorld(t)
	ref.Mirrors = []string{good.URL}
	if sk, err := w.fetched("mirrored", ref, f); err != nil || sk.Failure != nil {
		t.Fatalf("the skeleton is %+v with the error %v, want no failure", sk, err)
	}
	open := controltest.Must[[]store.AlertState](t)(w.Store.ListOpenAlerts(t.Context(),
		[]run.Code{run.CodePlanFetchFailed}, store.MaxPage))
	if len(open) != 1 || open[0].Level != store.AlertLow || !strings.Contains(open[0].Note, good.URL) {
		t.Errorf("open alerts are %+v, want one of level LOW that names the mirror", open)
	}
}

// A run that reads its plan after the reference expired fails and says so, without a question to the host. A document
// that is stored needs no reference.
// contract: DD-10
func TestSkeleton_AnExpiredReferenceIsNotFetched(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	doc := controltest.Document(nil, "s1")
	p := controltest.Must[plan.Plan](t)(plan.Parse(doc, plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(doc)
	}))
	defer server.Close()
	w := newWorld(t)
	ref := plan.RefOf(doc, p, server.URL)
	ref.ExpiresAt = w.Clock.Now().Add(time.Hour)
	id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), runs.StartRun{RequestID: "late",
		ProjectID: "shop", EnvironmentID: "dev", Ref: &ref})).View.Run.RunID
	at := func(now time.Time) engine.Skeleton {
		j := w.NewJournal(func(c *journal.Config) {
			c.Fetch, c.Now = journal.NewFetcher(nil, privateGuard(t)), func() time.Time { return now }
		})
		return controltest.Must[engine.Skeleton](t)(j.Skeleton(t.Context(), id))
	}
	late := at(ref.ExpiresAt)
	if late.Failure == nil || late.Failure.ErrorCode != string(run.CodePlanFetchFailed) ||
		!strings.Contains(late.Failure.ErrorMessage, "expired at "+ref.ExpiresAt.UTC().Format(time.RFC3339)) ||
		late.Failure.FailureCategory != run.CategoryUser || asked.Load() != 0 {
		t.Errorf("the failure is %+v after %d requests, want an expired reference after none", late.Failure, asked.Load())
	}
	if early := at(ref.ExpiresAt.Add(-time.Second)); early.Failure != nil || asked.Load() != 1 {
		t.Errorf("before its time the failure is %+v after %d requests, want none after one", early.Failure, asked.Load())
	}
	if again := at(ref.ExpiresAt.Add(time.Hour)); again.Failure != nil {
		t.Errorf("with the document in the store the failure is %+v, want none", again.Failure)
	}
}

// Redirects are checked by the rules for references.
func TestFetch_RedirectsAreChecked(t *testing.T) {
	t.Parallel()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, "ftp://example.com/x", http.StatusFound)
	}))
	defer server.Close()
	ref := plan.Ref{URI: server.URL, SHA256: strings.Repeat("a", 64), SchemaVersion: "v1.2", PlanID: "plan-3",
		PlanVersion: "1.0"}
	_, _, err := journal.NewFetcher(nil, privateGuard(t)).Fetch(t.Context(), "acme", ref)
	var broken *journal.PlanError
	if !errors.As(err, &broken) || broken.Code != run.CodePlanFetchFailed || !strings.Contains(broken.Message,
		"must begin") || requests != 1 {
		t.Errorf("%d requests and the error %v, want one request and a refused scheme", requests, err)
	}
}

func TestSkeleton_RepeatsTheSameAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r", "s1", "b<s1")
	a := controltest.Must[engine.Skeleton](t)(w.Journal.Skeleton(t.Context(), id))
	b := controltest.Must[engine.Skeleton](t)(w.Journal.Skeleton(t.Context(), id))
	if diff := cmp.Diff(a, b); diff != "" || a.Failure != nil {
		t.Errorf("the second skeleton differs, or has a failure:\n%s", diff)
	}
	if _, err := w.Journal.Skeleton(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the skeleton of an unknown run returned %v, want ErrNotFound", err)
	}
}
