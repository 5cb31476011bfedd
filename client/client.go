// Package client is a Go client of dvt's public API: typed operations generated from schema.graphqls, and subscriptions
// over Server-Sent Events. It uses only the public API, so that scripts can do everything that dvt's commands do.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/Khan/genqlient/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

//go:generate go tool genqlient genqlient.yaml

// Client calls one server with one token. It is safe for concurrent use.
type Client struct {
	graphql.Client
	url    string
	doer   *authorized
	stream *http.Client
}

// New makes a client of the server at base, for example http://127.0.0.1:8080. It does no I/O. Calls time out after a
// minute; subscriptions end with their context, or by ErrSilent.
func New(base, token string) *Client {
	address := strings.TrimSuffix(base, "/") + "/graphql"
	doer := &authorized{token: token, http: &http.Client{Timeout: time.Minute}}
	return &Client{Client: graphql.NewClient(address, doer), url: address, doer: doer, stream: &http.Client{}}
}

// authorized is an HTTP client that adds the token to each request.
type authorized struct {
	token string
	http  *http.Client
}

func (a *authorized) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.http.Do(r)
}

// Error is an error of the API with its code and details. Named makes it of an error of an operation.
type Error struct {
	Code       string
	Message    string
	RetryAfter time.Duration
	Violations []Violation
	Denial     Denial
	RunSeq     int64    // with RUN_MOVED: the current seq of the run
	RequestID  string   // id of the request in the server's log
	More       []string // further lines for Error, which the caller may add
}

// Violation is one thing wrong with a request.
type Violation struct {
	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Denial explains a refusal: the action, the rule that denied it, and principals who could do it.
type Denial struct {
	Action, Rule string
	WhoCould     []string
}

// Error returns the code and the message, followed by an indented line for each further detail.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Message)
	for _, v := range e.Violations {
		fmt.Fprintf(&b, "\n  %s %s: %s", v.Code, v.Path, v.Message)
	}
	if e.Denial.Rule != "" {
		fmt.Fprintf(&b, "\n  the rule %q denies it", e.Denial.Rule)
	}
	if len(e.Denial.WhoCould) > 0 {
		fmt.Fprintf(&b, "\n  who can do this: %s", strings.Join(e.Denial.WhoCould, ", "))
	}
	for _, more := range e.More {
		fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(more, "\n", "\n  "))
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "\n  try again in %s", e.RetryAfter)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, "\n  request id: %s", e.RequestID)
	}
	return b.String()
}

// AsAPIError returns the first error of the API in err as an *Error. It returns err unchanged if it is none, such as a
// failed connection or an answer of another server.
func AsAPIError(err error) error {
	var list gqlerror.List
	var status *graphql.HTTPError
	switch {
	case errors.As(err, &status) && len(status.Response.Errors) > 0:
		list = status.Response.Errors
	case !errors.As(err, &list):
		return err
	}
	if len(list) == 0 {
		return err
	}
	first := list[0]
	raw, _ := json.Marshal(first.Extensions) // cannot fail: it was decoded from JSON
	var x struct {
		Code         string `json:"code"`
		RetryAfterMS int64  `json:"retryAfterMs"`
		RequestID    string `json:"requestId"`
		Violations   []Violation
		Denial       Denial
		Current      struct {
			RunSeq int64 `json:"runSeq"`
		}
	}
	_ = json.Unmarshal(raw, &x)
	if x.Code == "" && status != nil {
		return err // the answer is not one of dvt
	}
	if len(first.Path) > 1 && first.Path[0] == ast.PathName("variable") {
		first.Message = first.Path[1:].String() + ": " + first.Message
	}
	return &Error{
		Code: x.Code, Message: first.Message, RetryAfter: time.Duration(x.RetryAfterMS) * time.Millisecond,
		Violations: x.Violations, Denial: x.Denial, RunSeq: x.Current.RunSeq, RequestID: x.RequestID,
	}
}

// maxEvent bounds one event of a stream, in bytes. A whole run with 5,000 steps fits.
const maxEvent = 32 << 20

// maxSilence is the longest time in which a stream may bring nothing. A server sends a comment every 5 s, so a longer
// silence means that it is frozen or that the connection is cut.
const maxSilence = 15 * time.Second

// ErrSilent ends a subscription whose server has sent nothing for 15 s. Another server may answer.
var ErrSilent = errors.New("the server has sent nothing for 15 s: it hangs, or the connection is cut")

// heard calls f for each part that it reads.
type heard struct {
	io.Reader
	f func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.f()
	return n, err
}

// stream runs a subscription and calls each with its messages, one at a time. It returns nil when the server completes
// the subscription, otherwise the error of ctx, of each, of the API or of the connection, such as ErrSilent. A
// connection that ends without an error also returns ctx's error, which may be nil.
func stream[T any](ctx context.Context, c *Client, operation string, variables any, each func(T) error) error {
	body, err := json.Marshal(map[string]any{"query": operation, "variables": variables})
	if err != nil {
		return err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(ErrSilent) })
	defer silence.Stop()
	req, err := http.NewRequestWithContext(within, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+c.doer.token)
	res, err := c.stream.Do(req)
	if err != nil {
		return silentOr(within, err)
	}
	defer res.Body.Close()
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return refused(res)
	}
	lines := bufio.NewScanner(heard{res.Body, func() { silence.Reset(maxSilence) }})
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	event := ""
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event:"); ok {
			event = strings.TrimSpace(name)
			if event == "complete" {
				return nil
			}
			continue
		}
		data, ok := strings.CutPrefix(line, "data:")
		if !ok || event != "next" {
			continue
		}
		var out struct {
			Data   T
			Errors gqlerror.List
		}
		if err := json.Unmarshal([]byte(data), &out); err != nil {
			return fmt.Errorf("client: event unreadable: %w", err)
		}
		if len(out.Errors) > 0 {
			return AsAPIError(out.Errors)
		}
		silence.Stop() // each may take its time
		if err := each(out.Data); err != nil {
			return err
		}
		silence.Reset(maxSilence)
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return silentOr(within, err)
	}
	return ctx.Err()
}

// silentOr returns ErrSilent when it ended ctx, else err.
func silentOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrSilent) {
		return ErrSilent
	}
	return err
}

// refused returns the error of an answer that is not a stream.
func refused(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var out struct{ Errors gqlerror.List }
	if json.Unmarshal(body, &out) == nil && len(out.Errors) > 0 {
		return AsAPIError(out.Errors)
	}
	return fmt.Errorf("the server answered %s", res.Status)
}

// Position is a position in the log of a run. The zero value is the beginning.
type Position struct {
	Seq   int64
	Epoch string // epoch of the store; Seq is valid only within it
}

// Watch follows a run from a position; see Subscription.runUpdates of the schema. With the zero position the first
// frame has the whole run, otherwise the changes since the position. Watch ends like every subscription: with nil when
// the server completes it, or with the error of ctx, of each, of the API (see Named) or of the connection. It does not
// reconnect.
func (c *Client) Watch(ctx context.Context, runID string, after Position,
	each func(WatchRunRunUpdatesRunUpdate) error) error {
	variables := map[string]any{"runId": runID}
	if after.Epoch != "" {
		variables["after"], variables["storeEpoch"] = after.Seq, after.Epoch
	}
	return stream(ctx, c, WatchRun_Operation, variables, func(r WatchRunResponse) error { return each(r.RunUpdates) })
}

// Events follows the log of a run from a position; see Subscription.runEvents of the schema. It ends like Watch.
func (c *Client) Events(ctx context.Context, runID string, after Position,
	each func(FollowEventsRunEventsRunEventUpdate) error) error {
	variables := map[string]any{"runId": runID, "after": after.Seq}
	if after.Epoch != "" {
		variables["storeEpoch"] = after.Epoch
	}
	return stream(ctx, c, FollowEvents_Operation, variables,
		func(r FollowEventsResponse) error { return each(r.RunEvents) })
}

// beyond is a seq that no log reaches.
const beyond = 1<<53 - 1

// StoreTime returns the store's time at some moment between the call and its return. It subscribes to the run at a seq
// beyond its log: the server must then read the store, and the first frame has the time of that read.
func (c *Client) StoreTime(ctx context.Context, runID string) (at time.Time, err error) {
	known := errors.New("known")
	err = stream(ctx, c, StoreTime_Operation, map[string]any{"runId": runID, "after": beyond},
		func(r StoreTimeResponse) error {
			at = r.RunUpdates.AsOf
			return known
		})
	switch {
	case errors.Is(err, known):
		err = nil
	case err == nil:
		err = errors.New("client: the stream ended without a frame")
	}
	return at, err
}

// Follow follows the output of a step from a line; see Subscription.stepLogUpdates of the schema. A nil attempt is the
// latest one. It ends like Watch.
func (c *Client) Follow(ctx context.Context, runID, stepID string, attempt *int, fromLine int,
	each func(FollowStepLogStepLogUpdatesStepLogUpdate) error) error {
	variables := map[string]any{"runId": runID, "stepId": stepID, "attempt": attempt, "fromLine": fromLine}
	return stream(ctx, c, FollowStepLog_Operation, variables,
		func(r FollowStepLogResponse) error { return each(r.StepLogUpdates) })
}

// WatchBulk follows a bulk; see Subscription.bulkUpdates of the schema. It ends like Watch.
func (c *Client) WatchBulk(ctx context.Context, id string, each func(WatchBulkBulkUpdatesBulkUpdate) error) error {
	return stream(ctx, c, WatchBulk_Operation, map[string]any{"id": id},
		func(r WatchBulkResponse) error { return each(r.BulkUpdates) })
}

// WatchAlerts follows changes of alerts; see Subscription.alertUpdates of the schema. It ends like Watch.
func (c *Client) WatchAlerts(ctx context.Context, each func(WatchAlertsAlertUpdatesAlertUpdate) error) error {
	return stream(ctx, c, WatchAlerts_Operation, map[string]any{},
		func(r WatchAlertsResponse) error { return each(r.AlertUpdates) })
}

// OpenArtifact returns the content of an artifact of a run from a byte on; the caller closes it. path is the part of
// the artifact's URI behind the tenant and the run, not escaped. begins is the byte at which the content begins: from,
// or 0 when the server gives the whole. A server may send the client to the bucket. Errors are those of the API, such
// as NOT_FOUND and ARTIFACT_REMOVED, or of the connection. A read that brings nothing for a minute fails.
func (c *Client) OpenArtifact(ctx context.Context, runID, path string, from int64) (body io.ReadCloser, begins int64,
	err error) {
	parts := append([]string{"artifacts", runID}, strings.Split(path, "/")...)
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	within, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(time.Minute, func() { cancel(errors.New("the server has sent nothing for a minute")) })
	defer func() {
		if err != nil {
			silence.Stop()
			cancel(nil)
		}
	}()
	at := strings.TrimSuffix(c.url, "graphql") + strings.Join(parts, "/")
	req, err := http.NewRequestWithContext(within, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.doer.token)
	req.Header.Set("Accept-Encoding", "identity") // the digest and the ranges are those of the content itself
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	res, err := c.stream.Do(req)
	if err != nil {
		return nil, 0, err
	}
	ranged := fmt.Sprintf("bytes %d-", from)
	switch {
	case res.StatusCode == http.StatusOK:
		return &artifactBody{res.Body, silence, cancel}, 0, nil
	case res.StatusCode == http.StatusPartialContent && strings.HasPrefix(res.Header.Get("Content-Range"), ranged):
		return &artifactBody{res.Body, silence, cancel}, from, nil
	}
	defer res.Body.Close()
	var said struct{ Code, Message string }
	if json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&said) == nil && said.Code != "" {
		wait, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return nil, 0, &Error{Code: said.Code, Message: said.Message, RetryAfter: time.Duration(wait) * time.Second}
	}
	return nil, 0, fmt.Errorf("the server answered %s", res.Status)
}

// artifactBody ends a connection that brings nothing for a minute.
type artifactBody struct {
	io.ReadCloser
	silence *time.Timer
	cancel  context.CancelCauseFunc
}

func (b *artifactBody) Read(p []byte) (int, error) {
	b.silence.Reset(time.Minute)
	return b.ReadCloser.Read(p)
}

func (b *artifactBody) Close() error {
	b.silence.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
