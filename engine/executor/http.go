package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

const (
	maxAnswerBytes = 4 << 10 // bytes of a response's body that go to the step's log
	dialTimeout    = 10 * time.Second
	answerTimeout  = 60 * time.Second // from the request to the response's header
)

// httpExecutor sends one request with the Idempotency-Key of the attempt, so that a receiver can drop repeated requests
// (contract T69, T210). It follows no redirects and uses no proxy, because it must call the address that
// Config.Egress has checked.
type httpExecutor struct{ client *http.Client }

func newHTTPExecutor(cfg Config) *httpExecutor {
	return &httpExecutor{client: &http.Client{
		Transport:     cfg.Egress.Transport(egress.Timeouts{Dial: dialTimeout, Answer: answerTimeout}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (x *httpExecutor) Execute(ctx context.Context, t Task, h Host) (Result, error) {
	in, err := plan.DecodeHTTP(t.Step.Inputs)
	if err != nil {
		return Result{}, invalidInputs(err)
	}
	if in, err = t.fillHTTP(in); err != nil {
		return Result{}, err
	}
	req, err := request(egress.WithTenant(ctx, t.Identity.TenantID), in, t.IdempotencyKey,
		t.Traceparent)
	if err != nil {
		return Result{}, &Failure{Code: CodeInputsInvalid, Message: "the address cannot be called",
			Category: run.CategoryUser, Class: plan.ClassValidation}
	}
	target := in.Method + " " + originOf(req.URL)
	began := time.Now()
	resp, err := x.client.Do(req)
	if err != nil {
		h.Print("stderr", target+": "+egress.Reason(err))
		return Result{}, transportFailure(ctx, target, err)
	}
	defer resp.Body.Close()
	took := time.Since(began)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	h.Print("stdout", fmt.Sprintf("%s: %s in %d ms", target, resp.Status, took.Milliseconds()))
	for line := range strings.Lines(string(body)) {
		h.Print("stdout", strings.TrimRight(line, "\r\n"))
	}
	value, _ := json.Marshal(map[string]int64{"status": int64(resp.StatusCode), "elapsedMs": took.Milliseconds()})
	expected := resp.StatusCode/100 == 2
	if len(in.ExpectStatus) > 0 {
		expected = slices.Contains(in.ExpectStatus, resp.StatusCode)
	}
	if expected {
		return Result{Value: value}, nil
	}
	f := statusFailure(resp.StatusCode)
	f.Message, f.Value = fmt.Sprintf("%s answered %s", target, resp.Status), value
	return Result{}, f
}

// request makes the request of a step. A body that is a JSON string is sent as plain text, any other as JSON. The
// header Idempotency-Key is always the key. The step may set a traceparent of its own.
func request(ctx context.Context, in plan.HTTPInputs, key, traceparent string) (*http.Request, error) {
	body, contentType := []byte(in.Body), "application/json"
	var text string
	if len(body) > 0 && body[0] == '"' && json.Unmarshal(body, &text) == nil {
		body, contentType = []byte(text), "text/plain; charset=utf-8"
	}
	req, err := http.NewRequestWithContext(ctx, in.Method, in.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("User-Agent", "dvt")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	for k, v := range in.Headers {
		req.Header.Set(k, v)
		if strings.EqualFold(k, "Host") {
			req.Host = v
		}
	}
	req.Header.Set("Idempotency-Key", key)
	return req, nil
}

// originOf returns an address without its path and query, because many webhooks have their secret there.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// statusFailure returns the failure of an unexpected status, with its retry class and without a message.
func statusFailure(status int) *Failure {
	f := &Failure{Code: CodeHTTPStatus, Category: run.CategoryUser, Class: plan.ClassValidation}
	switch {
	case status == http.StatusTooManyRequests:
		f.Retryable, f.Category, f.Class = true, run.CategorySystem, plan.ClassRateLimit
	case status >= 500:
		f.Retryable, f.Category, f.Class = true, run.CategorySystem, plan.ClassTransient
	case status == http.StatusRequestTimeout:
		f.Retryable, f.Category, f.Class = true, run.CategoryTimeout, plan.ClassTimeout
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Class = plan.ClassAuthDeny
	case status == http.StatusConflict:
		f.Class = plan.ClassBusinessConflict
	}
	return f
}

// transportFailure returns the error of a call without a response: the cause of ctx if that ended, otherwise a
// *Failure.
func transportFailure(ctx context.Context, target string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, egress.ErrRefused) {
		return &Failure{Code: CodeAddressRefused, Category: run.CategoryUser, Class: plan.ClassPolicyDeny,
			Message: target + ": " + egress.Reason(err)}
	}
	f := &Failure{Code: CodeHTTPTransport, Retryable: true, Category: run.CategorySystem, Class: plan.ClassTransport,
		Message: target + ": " + egress.Reason(err)}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		f.Category, f.Class = run.CategoryTimeout, plan.ClassTimeout
	}
	return f
}
