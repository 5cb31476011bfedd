package executor_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
)

var private = executor.Config{Egress: guard(egress.Settings{AllowPrivate: true})}

func guard(s egress.Settings) *egress.Guard {
	g, err := egress.New(s, nil)
	if err != nil {
		panic(err)
	}
	return g
}

// contract: T69
func TestHTTP_SendsTheRequestOfTheStep(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "thanks\nbye "+strings.Repeat("x", 100_000))
	}))
	defer srv.Close()
	j := newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: srv.URL + "/in?sig=canary", Method: "POST",
		Headers: map[string]string{"Authorization": "Bearer canary-1", "Idempotency-Key": "mine"},
		Body:    json.RawMessage(`{"a":1}`)})
	j.parent = "00-c91ebccbcb1f7f55a71151888bd71bb6-05d5d8e132a58249-01"
	end := execute(t, t.Context(), worker(t, j, private))
	if end.Completed == nil || !strings.Contains(string(end.Completed.Result), `"status":200`) {
		t.Fatalf("end %+v, failure %+v; want a completion with status 200", end, end.Failed)
	}
	if k := got.Header.Get("Idempotency-Key"); k != identity.RunID+":s1:1" {
		t.Errorf("Idempotency-Key %q, want that of the attempt", k)
	}
	if parent := got.Header.Get("Traceparent"); parent != j.parent {
		t.Errorf("traceparent %q, want %q", parent, j.parent)
	}
	if got.Method != http.MethodPost || got.Header.Get("Content-Type") != "application/json" || string(body) != `{"a":1}` {
		t.Errorf("request %s with %s body %s, want POST with the JSON of the step", got.Method,
			got.Header.Get("Content-Type"), body)
	}
	if log := j.log(); strings.Contains(log, "canary") || !strings.Contains(log, "thanks\n") || len(log) > 8<<10 {
		t.Errorf("want a short log with the response and without secrets, got %d bytes: %.300s", len(log), log)
	}

	j = newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: srv.URL, Method: "PUT",
		Body: json.RawMessage(`"plain \"text\""`)})
	execute(t, t.Context(), worker(t, j, private))
	if _, sent := got.Header["Traceparent"]; sent {
		t.Error("a request without a trace has a traceparent, want none: it would decide the sampling of the service")
	}
	if got.Method != http.MethodPut || string(body) != `plain "text"` {
		t.Errorf("request %s with body %q, want PUT with plain text", got.Method, body)
	}
}

// contract: T67
func TestHTTP_StatusDecidesClassAndRetry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status    int
		expect    []int
		ok        bool
		class     string
		retryable bool
	}{
		{200, nil, true, "", false},
		{204, nil, true, "", false},
		{200, []int{202}, false, plan.ClassValidation, false},
		{404, []int{404}, true, "", false},
		{302, nil, false, plan.ClassValidation, false},
		{400, nil, false, plan.ClassValidation, false},
		{401, nil, false, plan.ClassAuthDeny, false},
		{403, nil, false, plan.ClassAuthDeny, false},
		{408, nil, false, plan.ClassTimeout, true},
		{409, nil, false, plan.ClassBusinessConflict, false},
		{429, nil, false, plan.ClassRateLimit, true},
		{500, nil, false, plan.ClassTransient, true},
		{503, nil, false, plan.ClassTransient, true},
	} {
		calls := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
		}))
		j := newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: srv.URL, Method: "GET", ExpectStatus: c.expect})
		end := execute(t, t.Context(), worker(t, j, private))
		srv.Close()
		if c.ok != (end.Completed != nil) || j.class != c.class || calls != 1 {
			t.Errorf("status %d: failure %+v, class %q, %d calls; want success %t, class %q, 1 call", c.status,
				end.Failed, j.class, calls, c.ok, c.class)
		}
		if !c.ok {
			wantFailed(t, end, executor.CodeHTTPStatus, c.retryable)
		}
	}
}

func TestHTTP_TransportErrorTimeoutAndCancelDiffer(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	j := newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: gone.URL + "/?sig=canary", Method: "POST"})
	end := execute(t, t.Context(), worker(t, j, private))
	wantFailed(t, end, executor.CodeHTTPTransport, true)
	if j.class != plan.ClassTransport || strings.Contains(end.Failed.ErrorMessage+j.log(), "canary") {
		t.Errorf("class %q, message %q; want class transport and no query", j.class, end.Failed.ErrorMessage)
	}

	reached, release := make(chan struct{}, 2), make(chan struct{})
	hung := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{}; <-release }))
	defer hung.Close()
	defer close(release)
	j = newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: hung.URL, Method: "POST"})
	j.step.Timeout = 100 * time.Millisecond
	wantFailed(t, execute(t, t.Context(), worker(t, j, private)), "TIMEOUT", true)
	select {
	case <-reached:
	default: // a slow machine reaches the timeout before it calls the server
	}
	j.step.Timeout = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	back, err := worker(t, j, private).Run(ctx, dispatch, quiet)
	wantReturn(t, back, err, engine.ReturnCancelled)
}

// contract: T225
func TestHTTP_PrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the private address was called") }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1",
		"192.168.1.1", "100.64.0.1", "[fd00::1]", "[fe80::1]",
		"[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::1]", "[2001:0:7f00:1::1]", "[::7f00:1]", "[fec0::1]",
		"192.0.0.192", "198.18.0.1", "240.0.0.1", "0.1.2.3", "168.63.129.16", "255.255.255.255", "224.0.0.1"} {
		j := newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: "http://" + host + ":" + port, Method: "POST"})
		end := execute(t, t.Context(), worker(t, j, executor.Config{}))
		wantFailed(t, end, executor.CodeAddressRefused, false)
	}
}

// contract: T225
func TestHTTP_MessagesContainNoInnerAddressAndNoPath(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(srv.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	port := strings.TrimPrefix(srv.URL, "http://127.0.0.1:")
	for name, c := range map[string]struct {
		url     string
		cfg     executor.Config
		code    string
		message string
	}{
		"a private address": {
			"http://localhost:" + port + "/services/secret", executor.Config{}, executor.CodeAddressRefused,
			"POST http://localhost:" + port + ": the address leads to no host that may be called",
		},
		"denied for the tenant": {
			srv.URL + "/services/secret",
			executor.Config{Egress: guard(egress.Settings{
				AllowPrivate: true, Rules: map[string]egress.Rules{"t1": {Deny: []string{"127.0.0.0/8"}}},
			})},
			executor.CodeAddressRefused, "POST " + srv.URL + ": the address leads to no host that may be called",
		},
		"nobody listens": {
			strings.Replace(gone.URL, "127.0.0.1", "localhost", 1) + "/services/secret", private, executor.CodeHTTPTransport,
			"POST " + strings.Replace(gone.URL, "127.0.0.1", "localhost", 1) + ": the connection was refused",
		},
		"another status": {srv.URL + "/services/secret", private, executor.CodeHTTPStatus, "POST " + srv.URL +
			" answered 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.HTTPNotify, plan.HTTPInputs{URL: c.url, Method: "POST"})
			end := execute(t, t.Context(), worker(t, j, c.cfg))
			if end.Failed == nil || end.Failed.ErrorCode != c.code || end.Failed.ErrorMessage != c.message {
				t.Errorf("end %+v, want %s: %s", end.Failed, c.code, c.message)
			}
			log := j.log()
			if strings.Contains(log, "secret") || !strings.Contains(c.url, "127.0.0.1") && strings.Contains(log, "127.0.0.1") {
				t.Errorf("the step's log contains a path or an inner address: %s", log)
			}
		})
	}
}
