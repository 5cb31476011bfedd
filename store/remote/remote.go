// Package remote is engine.Journal over HTTPS, for data-plane workers that hold
// no store credentials (T203): a client, and the handler that a server offers at
// Path. A worker may Begin, read the Compensation of a step and give Evidence, for
// runs of the tenants it serves; everything else is refused. Every call is safe to repeat.
package remote

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
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Path where a server offers the Journal.
const Path = "/engine/journal"

// MaxRequest is the most bytes of one call: an artifact and its frame.
const MaxRequest = 80 << 20

// request is one call; exactly one member is set.
type request struct {
	Begin *store.Begin `json:"begin,omitempty"`
	// Throttles says that the worker knows store.BeginThrottled: one that does not is told
	// that the store is full, and asks again.
	Throttles    bool             `json:"throttles,omitempty"`
	Evidence     *engine.Evidence `json:"evidence,omitempty"`
	Compensation *compensation    `json:"compensation,omitempty"`
}

// compensation names a step of a run.
type compensation struct {
	RunID  string `json:"runId"`
	StepID string `json:"stepId"`
}

// runID is the run that the call concerns; ok unless not exactly one member is set.
func (r request) runID() (id string, ok bool) {
	calls := 0
	if r.Begin != nil {
		id, calls = r.Begin.RunID, calls+1
	}
	if r.Evidence != nil {
		id, calls = r.Evidence.RunID, calls+1
	}
	if r.Compensation != nil {
		id, calls = r.Compensation.RunID, calls+1
	}
	return id, calls == 1
}

type response struct {
	Begun *engine.Begun `json:"begun,omitempty"`
	Hook  *engine.Hook  `json:"hook,omitempty"`
	Code  run.Code      `json:"code,omitempty"`
	// RetryAfterMS goes with STORE_OVERLOADED.
	RetryAfterMS int64 `json:"retryAfterMs,omitempty"`
}

// Client is the worker's end.
type Client struct {
	url   string
	token string
	http  *http.Client
}

var _ engine.Journal = (*Client)(nil)

// ErrNotOffered is returned for what a data-plane worker may not do.
var ErrNotOffered = errors.New("remote: not offered to data-plane workers")

// NewClient makes a client of the server at base. Off loopback base must be https.
// Redirects are not followed, so that the token goes nowhere else.
func NewClient(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("remote: the server must be given as a URL like https://dvt.example:8443")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, errors.New("remote: a server that is not on this machine must be given as https://…")
	}
	return &Client{url: u.JoinPath(Path).String(), token: token, http: &http.Client{
		Timeout:       60 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Begin implements engine.Journal.
func (c *Client) Begin(ctx context.Context, b store.Begin) (engine.Begun, error) {
	out, err := c.call(ctx, request{Begin: &b, Throttles: true})
	if err != nil {
		return engine.Begun{}, err
	}
	if out.Begun == nil {
		return engine.Begun{}, fmt.Errorf("%w: the server answered without a verdict", store.ErrUnavailable)
	}
	return *out.Begun, nil
}

// Evidence implements engine.Journal.
func (c *Client) Evidence(ctx context.Context, e engine.Evidence) error {
	_, err := c.call(ctx, request{Evidence: &e})
	return err
}

// Compensation implements engine.Journal.
func (c *Client) Compensation(ctx context.Context, runID, stepID string) (engine.Hook, error) {
	out, err := c.call(ctx, request{Compensation: &compensation{RunID: runID, StepID: stepID}})
	if err != nil {
		return engine.Hook{}, err
	}
	if out.Hook == nil {
		return engine.Hook{}, fmt.Errorf("%w: the server answered without a hook", store.ErrUnavailable)
	}
	return *out.Hook, nil
}

// Append implements engine.Journal by refusing.
func (*Client) Append(context.Context, store.Append) (store.Appended, error) {
	return store.Appended{}, ErrNotOffered
}

// AppendUnlessPaused implements engine.Journal by refusing.
func (*Client) AppendUnlessPaused(context.Context, store.Append) (store.Appended, error) {
	return store.Appended{}, ErrNotOffered
}

// Signals implements engine.Journal by refusing.
func (*Client) Signals(context.Context, string, int64) ([]engine.Signal, error) {
	return nil, ErrNotOffered
}

// Skeleton implements engine.Journal by refusing.
func (*Client) Skeleton(context.Context, string) (engine.Skeleton, error) {
	return engine.Skeleton{}, ErrNotOffered
}

func (c *Client) call(ctx context.Context, in request) (response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return response{}, fmt.Errorf("remote: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return response{}, fmt.Errorf("remote: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	defer res.Body.Close()
	var out response
	err = json.NewDecoder(io.LimitReader(res.Body, MaxRequest)).Decode(&out)
	switch {
	case res.StatusCode == http.StatusOK && err == nil:
		return out, nil
	case out.Code == run.CodeNotFound: // said by the Journal, not by whatever else answers at a wrong address
		return out, store.ErrNotFound
	case out.Code == run.CodeStoreOverloaded:
		return out, &store.OverloadedError{RetryAfter: time.Duration(max(0, out.RetryAfterMS)) * time.Millisecond}
	default:
		return out, fmt.Errorf("%w: the server answered %d %s", store.ErrUnavailable, res.StatusCode, out.Code)
	}
}
