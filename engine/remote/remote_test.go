package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// journal is the Journal of the test's server. It returns the given answers and records the calls.
type journal struct {
	begun engine.AttemptStarted
	hook  engine.Hook
	ended engine.Receipt
	err   error
	wait  chan struct{} // Begin waits for it when it is not nil

	unknown atomic.Int64 // calls with unknown tokens that were reported

	mu       sync.Mutex
	begins   []engine.StartAttempt
	hooks    []engine.StartAttempt
	evidence []engine.Evidence
	ends     []engine.End
	reports  []engine.WorkerReport
}

func (j *journal) StartAttempt(_ context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	j.mu.Lock()
	j.begins = append(j.begins, b)
	j.mu.Unlock()
	if j.wait != nil {
		<-j.wait
	}
	return j.begun, j.err
}

func (j *journal) Compensation(_ context.Context, b engine.StartAttempt) (engine.Hook, error) {
	j.hooks = append(j.hooks, b)
	return j.hook, j.err
}

func (j *journal) Evidence(_ context.Context, e engine.Evidence) error {
	j.evidence = append(j.evidence, e)
	return j.err
}

func (j *journal) SecretReads(context.Context, engine.SecretReads) error { return j.err }

func (j *journal) End(_ context.Context, e engine.End) (engine.Receipt, error) {
	j.ends = append(j.ends, e)
	return j.ended, j.err
}

// callCount returns the number of recorded calls.
func (j *journal) callCount() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.begins) + len(j.hooks) + len(j.evidence) + len(j.ends)
}

// serve offers j to the workers with the tokens "good" and "other".
func serve(t *testing.T, j *journal) (base string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(remote.Path+"/", &remote.Server{
		Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(token string) (engine.AttemptJournal, error) {
			if token != "good" && token != "other" {
				return nil, errors.New("unknown")
			}
			return j, nil
		},
		Unknown: func(context.Context, string) { j.unknown.Add(1) },
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

// sameDocument compares JSON documents by value, regardless of escaping.
var sameDocument = cmp.Transformer("document", func(doc json.RawMessage) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return string(doc)
	}
	return v
})

var beginInput = engine.StartAttempt{RunID: "r1", StepID: "s", LogicalAttempt: 2, N: 4, EngineAttempt: 3,
	EmittedAt: noon,
	Ticket:    "k1.x.y"}

// contract: T203
func TestBegin_RoundTrip(t *testing.T) {
	t.Parallel()
	want := engine.AttemptStarted{
		AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted},
		Identity: run.Identity{TenantID: "acme", RunID: "r1", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p",
			PlanVersion: "1"},
		Key: "k1.z",
		Step: plan.Step{
			StepID: "s", Type: plan.Command, DependsOn: []string{"r"}, Timeout: 90 * time.Second,
			Inputs: json.RawMessage(`{"argv":["sh","-c","a < b && c > d"],"n":12345678901234567890.10,"é":"\u00e9"}`),
			Retry: plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2, MaxBackoffMS: 30000,
				RetryableErrors: []string{"timeout"}},
			Dispatch: plan.Dispatch{TaskQueue: "tq-data-dev", Cancellable: true},
		},
		ParamsSeq: 7,
	}
	j := &journal{begun: want}
	got, err := client(t, serve(t, j), "good").StartAttempt(t.Context(), beginInput)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameDocument); diff != "" {
		t.Errorf("answer (-sent +received):\n%s", diff)
	}
	if diff := cmp.Diff([]engine.StartAttempt{beginInput}, j.begins); diff != "" {
		t.Errorf("question (-sent +received):\n%s", diff)
	}
}

// contract: T113
func TestBegin_Throttled(t *testing.T) {
	t.Parallel()
	want := store.AttemptStarted{Verdict: store.StartThrottled, RetryAfter: 2*time.Second + 345*time.Microsecond}
	got, err := client(t, serve(t, &journal{begun: engine.AttemptStarted{AttemptStarted: want}}),
		"good").StartAttempt(t.Context(),
		beginInput)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.AttemptStarted); diff != "" {
		t.Errorf("answer (-sent +received):\n%s", diff)
	}
}

// contract: T229
func TestEvidence_RoundTrip(t *testing.T) {
	t.Parallel()
	j := &journal{}
	want := engine.Evidence{
		RunID: "r1", StepID: "s", LogicalAttempt: 1, EngineAttempt: 2, N: 3, Hook: true, Key: "k1.z",
		Lines: []engine.LogLine{{No: 1, At: noon, Stream: "stdout", Text: "<b>&\x00 ü"}},
		Artifact: &engine.ArtifactBody{Ref: run.ArtifactRef{URI: "artifact:x", Kind: run.KindDBTManifest, SizeBytes: 3},
			Body: []byte{0, 255, 10}},
	}
	if err := client(t, serve(t, j), "good").Evidence(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]engine.Evidence{want}, j.evidence); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
}

// contract: R183
func TestCompensation_RoundTrip(t *testing.T) {
	t.Parallel()
	want := engine.Hook{
		Identity: run.Identity{TenantID: "acme", RunID: "r1", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p",
			PlanVersion: "1"},
		Step: plan.Step{StepID: "s", Type: plan.HTTPNotify, Inputs: json.RawMessage(`{"url":"https://example.com"}`),
			Timeout: time.Minute},
		Key: "k1.z",
	}
	j := &journal{hook: want}
	got, err := client(t, serve(t, j), "good").Compensation(t.Context(), beginInput)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameDocument); diff != "" {
		t.Errorf("answer (-sent +received):\n%s", diff)
	}
	if diff := cmp.Diff([]engine.StartAttempt{beginInput}, j.hooks); diff != "" {
		t.Errorf("question (-sent +received):\n%s", diff)
	}
}

func TestEnd_RoundTrip(t *testing.T) {
	t.Parallel()
	j := &journal{ended: engine.Receipt{Seq: 9, Type: run.StepFailedEvent}}
	c := client(t, serve(t, j), "good")
	completed := engine.End{
		RunID: "r1", StepID: "s", LogicalAttempt: 1, N: 2, EngineAttempt: 3, Hook: true, Key: "k1.z",
		Completed: &run.StepCompletedPayload{Result: json.RawMessage(`{"a":"<1>"}`), DurationMS: 5},
	}
	failed := completed
	failed.Completed, failed.Failed = nil, &run.FailurePayload{ErrorCode: "EXIT_STATUS", Retryable: true}
	for _, e := range []engine.End{completed, failed} {
		got, err := c.End(t.Context(), e)
		if err != nil || got != j.ended {
			t.Errorf("the answer is %+v, %v, want %+v", got, err, j.ended)
		}
	}
	if diff := cmp.Diff([]engine.End{completed, failed}, j.ends, sameDocument); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
}

// An error of the Journal reaches the worker as the same error with its reason, and without details of the server.
func TestClient_ErrorsAreThoseOfTheJournal(t *testing.T) {
	t.Parallel()
	schema := &run.SchemaError{Violations: []plan.Violation{{Path: "/result", Message: "is too long"}}}
	for name, c := range map[string]struct {
		err    error
		want   error
		says   string
		status int
		code   run.Code
	}{
		"refused": {fmt.Errorf("%w: the worker's clock is 2h3m0s ahead", engine.ErrRefused), engine.ErrRefused,
			"engine: refused: the worker's clock is 2h3m0s ahead", 403, run.CodeTicketRefused},
		"schema":     {schema, run.ErrSchema, schema.Error(), 422, run.CodeSchemaValidation},
		"bad schema": {run.ErrSchema, run.ErrSchema, "", 422, run.CodeSchemaValidation},
		"not found": {fmt.Errorf("%w: secret of the driver", store.ErrNotFound), store.ErrNotFound, "store: not found", 404,
			run.CodeNotFound},
		"unanswered": {engine.ErrUnanswered, engine.ErrUnanswered, "did not answer within the write budget", 504,
			run.CodeWriteBudget},
		"broken": {errors.New("secret of the driver"), store.ErrUnavailable, "503 STORE_UNAVAILABLE", 503,
			run.CodeStoreUnavailable},
	} {
		j := &journal{err: c.err}
		base := serve(t, j)
		w := client(t, base, "good")
		_, begin := w.StartAttempt(t.Context(), beginInput)
		_, hook := w.Compensation(t.Context(), beginInput)
		_, end := w.End(t.Context(), engine.End{})
		for call, err := range map[string]error{"begin": begin, "compensation": hook, "end": end,
			"evidence": w.Evidence(t.Context(), engine.Evidence{})} {
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") ||
				strings.Count(err.Error(), "refused") > 1 {
				t.Errorf("%s, %s: the worker gets %v, want %v that says %q", name, call, err, c.want, c.says)
			}
		}
		if status, code := post(t, base, "good", "end", strings.NewReader(`{}`)); status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, status, code, c.status, c.code)
		}
	}
}

// contract: T203
func TestServer_OffersNothingElse(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	for name, c := range map[string]struct{ call, body string }{
		"append":       {"append", `{}`},
		"no call":      {"", `{}`},
		"a path":       {"begin/x", `{}`},
		"not a call":   {"begin", `[]`},
		"half of one":  {"begin", `{"runId":"r1`},
		"not even one": {"end", ``},
	} {
		if status, code := post(t, base, "good", c.call, strings.NewReader(c.body)); status != http.StatusBadRequest ||
			code != run.CodeBadInput {
			t.Errorf("%s: %d %s, want 400 BAD_USER_INPUT", name, status, code)
		}
	}
	res, err := http.DefaultClient.Do(request(t, http.MethodGet, base, "good", "begin", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("GET: %d, want 400", res.StatusCode)
	}
	if j.callCount() > 0 {
		t.Errorf("the journal was asked %d times", j.callCount())
	}
}

func request(t *testing.T, method, base, token, call string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+remote.Path+"/"+call, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func post(t *testing.T, base, token, call string, body io.Reader) (status int, code run.Code) {
	t.Helper()
	res, err := http.DefaultClient.Do(request(t, http.MethodPost, base, token, call, body))
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

// Each call sends one byte more than it may have, without holding it.
func TestServer_TooLarge(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	for call, most := range map[string]int64{"begin": remote.MaxCall, "compensation": remote.MaxCall,
		"end": remote.MaxCall, "evidence": remote.MaxEvidence} {
		body := io.MultiReader(strings.NewReader(`{"runId":"`), io.LimitReader(endless('x'), most), strings.NewReader(`"}`))
		if status, code := post(t, base, "good", call, body); status != http.StatusRequestEntityTooLarge ||
			code != run.CodeBadInput {
			t.Errorf("%s: %d %s, want 413 BAD_USER_INPUT", call, status, code)
		}
	}
	if j.callCount() > 0 {
		t.Errorf("the journal was asked %d times", j.callCount())
	}
	_, err := client(t, base, "good").End(t.Context(),
		engine.End{Completed: &run.StepCompletedPayload{Result: json.RawMessage(`"` + strings.Repeat("x", remote.MaxCall) +
			`"`)}})
	if !errors.Is(err, run.ErrSchema) {
		t.Errorf("an end that is too large: %v, want ErrSchema, so that the worker makes it smaller", err)
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(e)}, len(p)))
	return len(p), nil
}

// A token may have MaxCalls open calls, regardless of other tokens.
func TestServer_BoundsTheCallsOfAToken(t *testing.T) {
	t.Parallel()
	j := &journal{begun: engine.AttemptStarted{AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted}},
		wait: make(chan struct{})}
	base := serve(t, j)
	good := client(t, base, "good")
	var wg sync.WaitGroup
	for range remote.MaxCalls {
		wg.Go(func() {
			if _, err := good.StartAttempt(t.Context(), beginInput); err != nil {
				t.Error(err)
			}
		})
	}
	for began := time.Now(); j.callCount() < remote.MaxCalls; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d calls came", j.callCount())
		}
	}
	full, ok := errors.AsType[*store.OverloadedError](good.Evidence(t.Context(), engine.Evidence{}))
	if !ok || full.RetryAfter <= 0 {
		t.Errorf("one call more: %v, want an OverloadedError that says when", full)
	}
	if status, code := post(t, base, "good", "evidence", strings.NewReader(`{}`)); status != http.StatusTooManyRequests ||
		code != run.CodeTooManyCalls {
		t.Errorf("one call more: %d %s, want 429 TOO_MANY_CALLS", status, code)
	}
	if err := client(t, base, "other").Evidence(t.Context(), engine.Evidence{}); err != nil {
		t.Errorf("another worker: %v", err)
	}
	close(j.wait)
	wg.Wait()
	if err := good.Evidence(t.Context(), engine.Evidence{}); err != nil {
		t.Errorf("once they are done: %v", err)
	}
}

// contract: T203
func TestServer_WrongToken(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	for _, token := range []string{"", "bad", "good "} {
		if status, code := post(t, base, token+"!", "begin",
			strings.NewReader(`{"runId":"r1"}`)); status != http.StatusUnauthorized || code != run.CodeUnauthenticated {
			t.Errorf("token %q: %d %s", token, status, code)
		}
	}
	_, err := client(t, base, "bad").StartAttempt(t.Context(), beginInput)
	if !errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), "worker-token") {
		t.Errorf("the worker gets %v, want ErrDenied that names the setting worker-token", err)
	}
	if err := client(t, base, "bad").Check(t.Context()); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("a check with a wrong token: %v, want ErrDenied", err)
	}
	if err := client(t, base, "good").Check(t.Context()); err != nil {
		t.Errorf("a check with a good token: %v", err)
	}
	if got := j.unknown.Load(); got != 5 {
		t.Errorf("%d calls were reported as those of unknown workers, want the 5 with a wrong token", got)
	}
	if res, err := http.Post(base+remote.Path+"/check", "application/json", http.NoBody); err != nil {
		t.Error(err)
	} else if _ = res.Body.Close(); res.StatusCode != http.StatusUnauthorized || j.unknown.Load() != 5 {
		t.Errorf("a call without a token: %s, and %d reports; want 401 and no report", res.Status, j.unknown.Load())
	}
	if j.callCount() > 0 {
		t.Error("the journal was asked")
	}
}

// contract: T216
func TestClient_OutagesAreUnavailable(t *testing.T) {
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
		"a gateway":                 answering(http.StatusBadGateway, "bad gateway"),
		"an answer without verdict": answering(http.StatusOK, "{}"),
		"half an answer":            answering(http.StatusOK, `{"begun":{"ver`),
	} {
		_, err := client(t, at, "good").StartAttempt(t.Context(), beginInput)
		_, end := client(t, at, "good").End(t.Context(), engine.End{})
		for call, err := range map[string]error{"begin": err, "end": end} {
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotFound) || errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s: %s is %v, want ErrUnavailable", name, call, err)
			} else if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the cause reached the worker: %v", name, err)
			}
		}
	}
	for name, at := range map[string]string{
		"a page of something else": answering(http.StatusNotFound, "<h1>404</h1>"),
		"a wall":                   answering(http.StatusForbidden, "<h1>403</h1>"),
		"a page of sign-in":        answering(http.StatusOK, "<h1>Sign in</h1>"),
		"a redirect":               answering(http.StatusTemporaryRedirect, ""),
	} {
		if _, err := client(t, at, "good").StartAttempt(t.Context(), beginInput); !errors.Is(err, engine.ErrDenied) ||
			!strings.Contains(err.Error(), "proxies") {
			t.Errorf("%s: begin is %v, want ErrDenied that names proxies", name, err)
		}
	}
	if j.callCount() != 2 {
		t.Errorf("the journal was asked %d times: a redirect was followed", j.callCount())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, base, "good").StartAttempt(ctx, beginInput); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
}

// contract: T203
func TestNewClient_Address(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{
		"https://dvt.example": true, "https://dvt.example/under/": true, "http://127.0.0.1:8080": true,
		"http://[::1]:8080": true, "http://localhost:8080": true,
		"http://dvt.example": false, "http://10.0.0.1:8080": false, "http://127.0.0.1.example": false,
		"ftp://127.0.0.1":  false,
		"dvt.example:8443": false, "": false, "://": false,
	} {
		if _, err := remote.NewClient(base, "good"); (err == nil) != ok {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// The error of a full store reaches the worker with the pause that the store asked for.
func TestBegin_OverloadedKeepsItsTime(t *testing.T) {
	t.Parallel()
	j := &journal{err: fmt.Errorf("append: %w", &store.OverloadedError{RetryAfter: 1250 * time.Millisecond})}
	base := serve(t, j)
	_, err := client(t, base, "good").StartAttempt(t.Context(), beginInput)
	full, ok := errors.AsType[*store.OverloadedError](err)
	if !ok || full.RetryAfter != 1250*time.Millisecond || !errors.Is(err, store.ErrOverloaded) {
		t.Fatalf("the worker got %v", err)
	}
	res, err := http.DefaultClient.Do(request(t, http.MethodPost, base, "good", "begin",
		strings.NewReader(`{"runId":"r1"}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "2" {
		t.Errorf("status %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
}

// Calls with a large body have slots of their own, because each uses memory of the server.
func TestServer_BoundsTheLargeCallsOfAToken(t *testing.T) {
	t.Parallel()
	j := &journal{}
	base := serve(t, j)
	halves := make([]*io.PipeWriter, 0, remote.MaxLargeOfOne)
	var open sync.WaitGroup
	for range remote.MaxLargeOfOne {
		body, half := io.Pipe()
		halves = append(halves, half)
		open.Go(func() {
			if status, _ := post(t, base, "good", "evidence", body); status != http.StatusOK {
				t.Errorf("a large call within the bound: %d", status)
			}
		})
		if _, err := half.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	chunked := func() io.Reader { return io.MultiReader(strings.NewReader("{}")) } // of unknown length
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if status, _ := post(t, base, "good", "evidence", chunked()); status == http.StatusTooManyRequests {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("one large call more is served, want 429")
		}
	}
	if status, _ := post(t, base, "other", "evidence", chunked()); status != http.StatusOK {
		t.Errorf("a large call of another worker: %d", status)
	}
	for _, half := range halves {
		_, _ = half.Write([]byte("}"))
		_ = half.Close()
	}
	open.Wait()
	if status, _ := post(t, base, "good", "evidence", chunked()); status != http.StatusOK {
		t.Errorf("a large call once the others are done: %d", status)
	}
}

// A worker may hand a dispatch to another one only when its call cannot have arrived.
func TestClient_TellsACallThatNeverArrivedFromOneWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for name, c := range map[string]struct {
		address string
		never   bool
	}{"nobody listens": {gone.Addr().String(), true}, "the connection breaks": {silent.Addr().String(), false}} {
		_, err := client(t, "http://"+c.address, "good").StartAttempt(t.Context(), beginInput)
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, engine.ErrUndelivered) != c.never {
			t.Errorf("%s: %v, want ErrUnavailable, and ErrUndelivered: %t", name, err, c.never)
		}
		if err != nil && !strings.Contains(err.Error(), "setting server") {
			t.Errorf("%s: %q does not name the setting", name, err)
		}
	}
}
