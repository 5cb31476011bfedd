// Package remote offers engine.AttemptJournal over HTTPS to data workers, which hold no credentials of the store
// (contract T203). It has a client, and the handler that a server offers under Path. Every call is safe to repeat.
package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Path is the URL path under which a server offers the Journal: Path/begin, Path/compensation, Path/evidence, Path/end,
// Path/secret-reads, Path/secret-orders, Path/state and Path/check. A call is a POST of the engine's own type as JSON.
const Path = "/engine/journal"

// The names of the calls in the path.
const (
	callBegin        = "begin"
	callCompensation = "compensation"
	callEvidence     = "evidence"
	callEnd          = "end"
	callSecretReads  = "secret-reads"
	callSecretOrders = "secret-orders"
	callState        = "state"
	callArtifact     = "artifact" // an Evidence on a line of its own, and then the bytes of its artifact
	callCheck        = "check"    // stores the WorkerReport of its body, if any, and changes nothing else
)

// Bounds of the body of a call, in bytes.
const (
	MaxEvidence = 80 << 20 // an artifact and its frame
	MaxCall     = 1 << 20  // any other call; the log accepts no payload of this size
	MaxReport   = 64 << 10 // the report of a worker
	// MaxArtifact is the size of an artifact whose bytes are a stream; no process holds it in memory.
	MaxArtifact = 2 << 30
	// maxArtifactHead is the size of the line before such an artifact.
	maxArtifactHead = 64 << 10
)

type response struct {
	Begun *engine.AttemptStarted `json:"begun,omitempty"`
	Hook  *engine.Hook           `json:"hook,omitempty"`
	Ended *engine.Receipt        `json:"ended,omitempty"`
	Order engine.WorkerOrder     `json:"order,omitzero"` // only of a report
	// SecretOrders are only of secret-orders.
	SecretOrders []engine.SecretOrder `json:"secretOrders,omitempty"`
	State        []byte               `json:"state,omitempty"` // only of state
	Code         run.Code             `json:"code,omitempty"`
	// Reason is a sentence; only with TICKET_REFUSED.
	Reason string `json:"reason,omitempty"`
	// Denied is only with TICKET_REFUSED: the refused error also wraps engine.ErrDenied. It is no code of its own, so that
	// a client of an earlier version still gets the reason.
	Denied bool `json:"denied,omitempty"`
	// Violations are only with SCHEMA_VALIDATION_FAILED.
	Violations []plan.Violation `json:"violations,omitempty"`
	// RetryAfterMS is only with STORE_OVERLOADED and TOO_MANY_CALLS.
	RetryAfterMS int64 `json:"retryAfterMs,omitempty"`
}

// Client calls the Journal of a server on behalf of a worker. It is safe for concurrent use.
type Client struct {
	url   *url.URL
	token func() string
	http  *http.Client
	// streams is http without a bound of the time of a call: the context bounds that of an artifact.
	streams *http.Client
}

// Config configures a Client.
type Config struct {
	// URL is the address of the server. It must be https unless the server is on this machine or AllowPlaintext is set.
	URL string
	// Token returns the worker's token. The client calls it for each call, so that the token may change.
	Token          func() string
	AllowPlaintext bool
	// TLS holds the TLS settings; nil trusts the system's authorities. Its callbacks may read certificates per
	// handshake.
	TLS *tls.Config
}

var (
	_ engine.AttemptJournal   = (*Client)(nil)
	_ engine.WorkerReporter   = (*Client)(nil)
	_ engine.SecretDispatcher = (*Client)(nil)
	_ engine.StateReader      = (*Client)(nil)
)

// NewClient is New with a fixed token.
func NewClient(base, token string) (*Client, error) {
	return New(Config{URL: base, Token: func() string { return token }})
}

// New returns a client. It connects at its first call. It follows no redirects, so that the token goes to no other
// server.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("remote: the server must be given as a URL like https://dvt.example:8443")
	}
	if u.Scheme != "https" && !c.AllowPlaintext && !onThisMachine(u.Hostname()) {
		return nil, errors.New("remote: a server that is not on this machine must be given as https://…")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = c.TLS
	streams := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transport,
	}
	short := *streams
	short.Timeout = 60 * time.Second
	return &Client{url: u.JoinPath(Path), token: c.Token, http: &short, streams: streams}, nil
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// StartAttempt implements engine.AttemptJournal.
func (c *Client) StartAttempt(ctx context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	out, err := c.call(ctx, callBegin, b)
	return answerOf(out.Begun, err)
}

// Compensation implements engine.AttemptJournal.
func (c *Client) Compensation(ctx context.Context, b engine.StartAttempt) (engine.Hook, error) {
	out, err := c.call(ctx, callCompensation, b)
	return answerOf(out.Hook, err)
}

// Evidence implements engine.AttemptJournal. It sends an artifact with Open as a stream. A server of an earlier version
// does not know that call; it gets an artifact of at most maxOldArtifact bytes in one piece.
func (c *Client) Evidence(ctx context.Context, e engine.Evidence) error {
	if e.Artifact == nil || e.Artifact.Open == nil {
		_, err := c.call(ctx, callEvidence, e)
		return err
	}
	body, err := e.Artifact.Open()
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	defer body.Close()
	head, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	head = append(head, '\n')
	_, err = c.send(ctx, c.streams, callArtifact, io.MultiReader(bytes.NewReader(head), body),
		int64(len(head))+e.Artifact.Ref.SizeBytes)
	if !errors.Is(err, errUnknownCall) || e.Artifact.Ref.SizeBytes > maxOldArtifact {
		return err
	}
	again, err := e.Artifact.Open()
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	defer again.Close()
	whole := *e.Artifact
	if whole.Body, err = io.ReadAll(io.LimitReader(again, maxOldArtifact)); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	whole.Open, e.Artifact = nil, &whole
	_, err = c.call(ctx, callEvidence, e)
	return err
}

// SecretReads implements engine.AttemptJournal. A server of an earlier version does not know the call, so that steps
// with secrets wait for a newer one.
func (c *Client) SecretReads(ctx context.Context, r engine.SecretReads) error {
	_, err := c.call(ctx, callSecretReads, r)
	return err
}

// SecretOrders implements engine.SecretDispatcher.
func (c *Client) SecretOrders(ctx context.Context, p engine.SecretPoll) ([]engine.SecretOrder, error) {
	out, err := c.call(ctx, callSecretOrders, p)
	return out.SecretOrders, err
}

// ReadState implements engine.StateReader. A server of an earlier version names no state, so it gets no such call.
func (c *Client) ReadState(ctx context.Context, r engine.StateRead) ([]byte, error) {
	out, err := c.call(ctx, callState, r)
	return out.State, err
}

// maxOldArtifact is the size of the largest artifact that servers of earlier versions accept.
const maxOldArtifact = 32 << 20

// errUnknownCall means that the server does not know the call. It is store.ErrUnavailable.
var errUnknownCall = fmt.Errorf("%w: the server does not know the call", store.ErrUnavailable)

// End implements engine.AttemptJournal.
func (c *Client) End(ctx context.Context, e engine.End) (engine.Receipt, error) {
	out, err := c.call(ctx, callEnd, e)
	return answerOf(out.Ended, err)
}

// Check returns nil when the server accepts this client's token. Errors: engine.ErrDenied, store.ErrUnavailable, with
// store.ErrReadOnly when the server is that of a standby site.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.call(ctx, callCheck, check{})
	return err
}

// Report implements engine.WorkerReporter. A server of an earlier version ignores the report. The error wraps
// engine.ErrDenied when the server does not know the worker or the worker's account does not cover a queue of the
// report, and engine.ErrRefused when the server refuses the report for another reason.
func (c *Client) Report(ctx context.Context, r engine.WorkerReport) (engine.WorkerOrder, error) {
	out, err := c.call(ctx, callCheck, check{Report: &r})
	return out.Order, err
}

// check is the body of the call check.
type check struct {
	Report *engine.WorkerReport `json:"report,omitempty"`
}

// answerOf returns the part of an answer that the call requires, or store.ErrUnavailable when it is missing.
func answerOf[T any](part *T, err error) (out T, _ error) {
	if err != nil {
		return out, err
	}
	if part == nil {
		return out, fmt.Errorf("%w: the server answered something else", store.ErrUnavailable)
	}
	return *part, nil
}

func (c *Client) call(ctx context.Context, call string, in any) (response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return response{}, fmt.Errorf("remote: %w", err)
	}
	return c.send(ctx, c.http, call, bytes.NewReader(body), int64(len(body)))
}

// send makes a call with a body of a length in bytes.
func (c *Client) send(ctx context.Context, by *http.Client, call string, body io.Reader, length int64) (response,
	error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.JoinPath(call).String(), body)
	if err != nil {
		return response{}, fmt.Errorf("remote: %w", err)
	}
	req.ContentLength = length
	req.Header.Set("Authorization", "Bearer "+c.token())
	req.Header.Set("Content-Type", "application/json")
	if traceparent := engine.Traceparent(ctx); traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	res, err := by.Do(req)
	if err != nil {
		return response{}, &unreachableError{c.url.Host, err}
	}
	defer res.Body.Close()
	var out response
	err = json.NewDecoder(io.LimitReader(res.Body, MaxEvidence)).Decode(&out)
	if res.StatusCode == http.StatusOK && err == nil {
		return out, nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return response{}, fmt.Errorf("%w: the answer was cut off", store.ErrUnavailable)
	}
	return response{}, out.problem(res.StatusCode, c.url.Host)
}

// unreachableError is a call without an answer. It is store.ErrUnavailable, and engine.ErrUndelivered when no
// connection was made.
type unreachableError struct {
	host  string
	cause error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("the server at %s (setting server) does not answer: %s", e.host, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

func (e *unreachableError) Is(target error) bool {
	var dial *net.OpError
	return target == store.ErrUnavailable || target == engine.ErrUndelivered && errors.As(e.cause, &dial) &&
		dial.Op == "dial"
}

// problem converts an answer that is not OK to an error, by its code. A server of dvt always sends a code; a proxy in
// front of it does not.
func (r response) problem(status int, host string) error {
	switch r.Code {
	case run.CodeNotFound:
		return store.ErrNotFound
	case run.CodeTicketRefused:
		if r.Denied {
			return fmt.Errorf("%w: %s", engine.ErrDenied, r.Reason)
		}
		return fmt.Errorf("%w: %s", engine.ErrRefused, r.Reason)
	case run.CodeSchemaValidation:
		return &run.SchemaError{Violations: r.Violations}
	case run.CodeStandby:
		return fmt.Errorf("%w: %w: %s is a standby", store.ErrUnavailable, store.ErrReadOnly, host)
	case run.CodeWriteBudget:
		return engine.ErrUnanswered
	case run.CodeBadInput:
		if status == http.StatusBadRequest {
			return errUnknownCall
		}
	case run.CodeStoreOverloaded, run.CodeTooManyCalls:
		return &store.OverloadedError{RetryAfter: time.Duration(max(0, r.RetryAfterMS)) * time.Millisecond}
	}
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return &run.SchemaError{
			Violations: []plan.Violation{{Path: "/", Message: "the call has more bytes than the server takes"}}}
	case r.Code == run.CodeUnauthenticated:
		return &engine.DeniedError{Status: status, Why: fmt.Sprintf(
			"%s does not know the worker's token (%d): compare the setting worker-token of this worker with the accounts "+
				"of the server", host, status)}
	case r.Code == "" && !isTemporary(status):
		return &engine.DeniedError{Status: status, Why: fmt.Sprintf(
			"what answers at %s is no journal of dvt (%d): look at the setting server of this worker, and let proxies pass %s/",
			host, status, Path)}
	}
	return fmt.Errorf("%w: the server answered %d %s", store.ErrUnavailable, status, r.Code)
}

// isTemporary reports whether a proxy answers with this status while the server behind it is unavailable or busy.
func isTemporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// reasonOf returns the sentence of an error that wraps engine.ErrRefused.
func reasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), engine.ErrRefused.Error()+": ")
}
