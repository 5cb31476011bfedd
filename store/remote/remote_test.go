package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/remote"
)

// journal is the server's side of the tests: it answers what it was told to and
// keeps what it was asked.
type journal struct {
	engine.Journal // whatever else is called ends the test
	begun          engine.Begun
	hook           engine.Hook
	err            error
	begins         []store.Begin
	evidence       []engine.Evidence
	hooks          []string
}

func (j *journal) Compensation(_ context.Context, runID, stepID string) (engine.Hook, error) {
	j.hooks = append(j.hooks, runID+" "+stepID)
	return j.hook, j.err
}

func (j *journal) Begin(_ context.Context, b store.Begin) (engine.Begun, error) {
	j.begins = append(j.begins, b)
	return j.begun, j.err
}

func (j *journal) Evidence(_ context.Context, e engine.Evidence) error {
	j.evidence = append(j.evidence, e)
	return j.err
}

// serve offers j to the worker "good", which serves acme. Runs are named after
// their tenants.
func serve(t *testing.T, j *journal) (base string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(remote.Path, &remote.Server{
		Journal: j, Logger: slog.New(slog.DiscardHandler),
		Tenant: func(_ context.Context, runID string) (string, error) {
			tenant, _, ok := strings.Cut(runID, "/")
			if !ok {
				return "", store.ErrNotFound
			}
			return tenant, nil
		},
		Authenticate: func(token string) (func(string) bool, error) {
			if token != "good" {
				return nil, errors.New("unknown")
			}
			return func(tenant string) bool { return tenant == "acme" }, nil
		},
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func client(t *testing.T, base, token string) *remote.Client {
	t.Helper()
	c, err := remote.NewClient(base, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)

// sameDocument compares JSON by what it says: every digit and character, however escaped.
var sameDocument = cmp.Transformer("document", func(doc json.RawMessage) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return string(doc)
	}
	return v
})

func TestBegin_T203_RoundTrip(t *testing.T) {
	t.Parallel()
	want := engine.Begun{
		Begun:    store.Begun{Verdict: store.BeginRun},
		Identity: run.Identity{TenantID: "acme", RunID: "acme/1", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p", PlanVersion: "1"},
		Step: plan.Step{
			StepID: "s", Type: plan.Command, DependsOn: []string{"r"}, Timeout: 90 * time.Second,
			Inputs:   json.RawMessage(`{"argv":["sh","-c","a < b && c > d"],"n":12345678901234567890.10,"é":"\u00e9"}`),
			Retry:    plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2, MaxBackoffMS: 30000, RetryableErrors: []string{"timeout"}},
			Dispatch: plan.Dispatch{TaskQueue: "tq-data-dev", Cancellable: true},
		},
		ParamsSeq: 7,
	}
	j := &journal{begun: want}
	ask := store.Begin{RunID: "acme/1", StepID: "s", LogicalAttempt: 2, EngineAttempt: 3, EmittedAt: noon, PassFailing: true, SignalID: "retry-1"}
	got, err := client(t, serve(t, j), "good").Begin(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameDocument); diff != "" {
		t.Errorf("answer (-sent +received):\n%s", diff)
	}
	if diff := cmp.Diff([]store.Begin{ask}, j.begins); diff != "" {
		t.Errorf("question (-sent +received):\n%s", diff)
	}
}

// A worker hears that there is no token, and when; one of a version that does not know
// that answer hears that the store is full.
func TestBegin_T113_Throttled(t *testing.T) {
	t.Parallel()
	want := store.Begun{Verdict: store.BeginThrottled, RetryAfter: 2*time.Second + 345*time.Microsecond}
	base := serve(t, &journal{begun: engine.Begun{Begun: want}})
	got, err := client(t, base, "good").Begin(t.Context(), store.Begin{RunID: "acme/1", StepID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Begun); diff != "" {
		t.Errorf("answer (-sent +received):\n%s", diff)
	}
	status, code := post(t, base, "good", strings.NewReader(`{"begin":{"runId":"acme/1","stepId":"s"}}`))
	if status != http.StatusServiceUnavailable || code != run.CodeStoreOverloaded {
		t.Errorf("a worker that does not know the answer gets %d %s", status, code)
	}
}

func TestBegin_T112_CarriesTheStoredTerminal(t *testing.T) {
	t.Parallel()
	terminal := run.Event{
		Identity: run.Identity{TenantID: "acme", RunID: "acme/1"}, EventID: "e", Type: run.StepCompletedEvent, Seq: 9, Key: "k", StepID: "s",
		LogicalAttempt: 1, EngineAttempt: 2, EmittedAt: noon, PersistedAt: noon, EmittedBy: run.ByEngine, Payload: json.RawMessage(`{"result":{"a":"<1>"}}`),
	}
	j := &journal{begun: engine.Begun{Begun: store.Begun{Verdict: store.BeginDone, Terminal: &terminal}}}
	got, err := client(t, serve(t, j), "good").Begin(t.Context(), store.Begin{RunID: "acme/1", StepID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j.begun.Begun, got.Begun, sameDocument); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
}

func TestEvidence_T229_RoundTrip(t *testing.T) {
	t.Parallel()
	j := &journal{}
	want := engine.Evidence{
		RunID: "acme/1", StepID: "s", LogicalAttempt: 1, EngineAttempt: 2,
		Lines:    []engine.LogLine{{No: 1, At: noon, Stream: "stdout", Text: "<b>&\x00 ü"}},
		Artifact: &engine.ArtifactBody{Ref: run.ArtifactRef{URI: "artifact:x", Kind: "manifest", SizeBytes: 3}, Body: []byte{0, 255, 10}},
	}
	if err := client(t, serve(t, j), "good").Evidence(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]engine.Evidence{want}, j.evidence); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
}

func TestClient_T203_OffersNothingElse(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	c := client(t, base, "good")
	_, appending := c.Append(t.Context(), store.Append{RunID: "acme/1"})
	_, signals := c.Signals(t.Context(), "acme/1", 0)
	_, skeleton := c.Skeleton(t.Context(), "acme/1")
	for name, err := range map[string]error{"append": appending, "signals": signals, "skeleton": skeleton} {
		if !errors.Is(err, remote.ErrNotOffered) {
			t.Errorf("%s: %v, want ErrNotOffered", name, err)
		}
	}
	for name, body := range map[string]string{
		"append":       `{"append":{"runId":"acme/1","events":[]}}`,
		"nothing":      `{}`,
		"two at once":  `{"begin":{"runId":"acme/1"},"evidence":{"runId":"acme/1"}}`,
		"not a call":   `[]`,
		"half of one":  `{"begin":{"runId":"acme`,
		"not even one": ``,
	} {
		if status, code := post(t, base, "good", strings.NewReader(body)); status != http.StatusBadRequest || code != run.CodeBadInput {
			t.Errorf("%s: %d %s, want 400 BAD_INPUT", name, status, code)
		}
	}
	res, err := http.DefaultClient.Do(request(t, http.MethodGet, base, "good", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("GET: %d, want 400", res.StatusCode)
	}
	if len(j.begins)+len(j.evidence) > 0 {
		t.Errorf("the journal was asked: %+v %+v", j.begins, j.evidence)
	}
}

func request(t *testing.T, method, base, token string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+remote.Path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func post(t *testing.T, base, token string, body io.Reader) (status int, code run.Code) {
	t.Helper()
	res, err := http.DefaultClient.Do(request(t, http.MethodPost, base, token, body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct{ Code run.Code }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Fatalf("%d without an answer: %v", res.StatusCode, err)
	}
	return res.StatusCode, out.Code
}

// TestServer_TooLarge sends one byte more than a call may have, without holding it.
func TestServer_TooLarge(t *testing.T) {
	t.Parallel()
	j := &journal{}
	pad := io.LimitReader(endless('x'), remote.MaxRequest)
	body := io.MultiReader(strings.NewReader(`{"evidence":{"runId":"acme/1","stepId":"`), pad, strings.NewReader(`"}}`))
	status, code := post(t, serve(t, j), "good", body)
	if status != http.StatusRequestEntityTooLarge || code != run.CodeBadInput || len(j.evidence) > 0 {
		t.Errorf("%d %s and %d calls, want 413 BAD_INPUT and none", status, code, len(j.evidence))
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(e)}, len(p)))
	return len(p), nil
}

// TestServer_T203_ForeignIsMissing: a run of a tenant that the worker does not
// serve answers byte for byte as one that does not exist.
func TestServer_T203_ForeignIsMissing(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	c := client(t, base, "good")
	answers := map[string]bool{}
	for _, id := range []string{"globex/1", "missing"} {
		if _, err := c.Begin(t.Context(), store.Begin{RunID: id, StepID: "s"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("begin in %s: %v, want ErrNotFound", id, err)
		}
		if err := c.Evidence(t.Context(), engine.Evidence{RunID: id}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("evidence of %s: %v, want ErrNotFound", id, err)
		}
		res, err := http.DefaultClient.Do(request(t, http.MethodPost, base, "good", strings.NewReader(fmt.Sprintf(`{"begin":{"runId":%q}}`, id))))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		answers[fmt.Sprintf("%d %s", res.StatusCode, body)] = true
	}
	if len(answers) != 1 {
		t.Errorf("two answers: %v", answers)
	}
	if len(j.begins)+len(j.evidence) > 0 {
		t.Error("the journal was asked about a run that is not the worker's")
	}
}

func TestServer_T203_WrongToken(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	for _, token := range []string{"", "bad", "good "} {
		if status, code := post(t, base, token+"!", strings.NewReader(`{"begin":{"runId":"acme/1"}}`)); status != http.StatusUnauthorized || code != run.CodeUnauthenticated {
			t.Errorf("token %q: %d %s", token, status, code)
		}
	}
	_, err := client(t, base, "bad").Begin(t.Context(), store.Begin{RunID: "acme/1"})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "UNAUTHENTICATED") {
		t.Errorf("the worker hears %v, want ErrUnavailable that names UNAUTHENTICATED", err)
	}
	if len(j.begins) > 0 {
		t.Error("the journal was asked")
	}
}

func TestClient_T216_OutagesAreUnavailable(t *testing.T) {
	t.Parallel()
	j := &journal{err: errors.New("secret of the driver")}
	base := serve(t, j)
	answering := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", base+remote.Path)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, at := range map[string]string{
		"a broken store":            base,
		"no server":                 gone.URL,
		"a page of something else":  answering(http.StatusNotFound, "<h1>404</h1>"),
		"a gateway":                 answering(http.StatusBadGateway, "bad gateway"),
		"an answer without verdict": answering(http.StatusOK, "{}"),
		"half an answer":            answering(http.StatusOK, `{"begun":{"ver`),
		"a redirect":                answering(http.StatusTemporaryRedirect, ""),
	} {
		_, err := client(t, at, "good").Begin(t.Context(), store.Begin{RunID: "acme/1", StepID: "s"})
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the cause reached the worker: %v", name, err)
		}
	}
	if len(j.begins) != 1 {
		t.Errorf("the journal was asked %d times: a redirect was followed", len(j.begins))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, base, "good").Begin(ctx, store.Begin{RunID: "acme/1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
}

func TestEvidence_SchemaIsNotAnOutageOfTheServer(t *testing.T) {
	t.Parallel()
	j := &journal{err: run.ErrSchema}
	if status, code := post(t, serve(t, j), "good", strings.NewReader(`{"evidence":{"runId":"acme/1"}}`)); status != http.StatusUnprocessableEntity || code != run.CodeSchemaValidation {
		t.Errorf("%d %s, want 422 %s", status, code, run.CodeSchemaValidation)
	}
}

func TestNewClient_T203_Address(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{
		"https://dvt.example": true, "https://dvt.example/under/": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true, "http://localhost:8080": true,
		"http://dvt.example": false, "http://10.0.0.1:8080": false, "http://127.0.0.1.example": false, "ftp://127.0.0.1": false,
		"dvt.example:8443": false, "": false, "://": false,
	} {
		if _, err := remote.NewClient(base, "good"); (err == nil) != ok {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// A full store reaches the worker as one, with the time that it asked for.
func TestBegin_OverloadedKeepsItsTime(t *testing.T) {
	t.Parallel()
	j := &journal{err: fmt.Errorf("append: %w", &store.OverloadedError{RetryAfter: 1250 * time.Millisecond})}
	base := serve(t, j)
	_, err := client(t, base, "good").Begin(t.Context(), store.Begin{RunID: "acme/1", StepID: "s"})
	full, ok := errors.AsType[*store.OverloadedError](err)
	if !ok || full.RetryAfter != 1250*time.Millisecond || !errors.Is(err, store.ErrOverloaded) {
		t.Fatalf("the worker got %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+remote.Path, strings.NewReader(`{"begin":{"runId":"acme/1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer good")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "2" {
		t.Errorf("status %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
}

func TestCompensation_T203_R183_RoundTrip(t *testing.T) {
	t.Parallel()
	want := engine.Hook{
		Identity: run.Identity{TenantID: "acme", RunID: "acme/1", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p", PlanVersion: "1"},
		Step:     plan.Step{StepID: "s", Type: plan.HTTPNotify, Inputs: json.RawMessage(`{"url":"https://example.com"}`), Timeout: time.Minute},
	}
	j := &journal{hook: want}
	c := client(t, serve(t, j), "good")
	got, err := c.Compensation(t.Context(), "acme/1", "s")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameDocument); diff != "" {
		t.Errorf("answer (-sent +received):\n%s", diff)
	}
	if _, err := c.Compensation(t.Context(), "globex/1", "s"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a hook of a tenant that the worker does not serve: %v", err)
	}
	if diff := cmp.Diff([]string{"acme/1 s"}, j.hooks); diff != "" {
		t.Errorf("the journal was asked (-want +got):\n%s", diff)
	}
	j.err = store.ErrNotFound
	if _, err := c.Compensation(t.Context(), "acme/1", "s"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a step without a hook: %v", err)
	}
}
