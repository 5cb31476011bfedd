package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// update is one frame of runUpdates as it came over the wire.
type update struct {
	Sync, Reason, StoreEpoch string
	RunSeq                   run.Seq
	HeadSeq                  *run.Seq
	AsOf                     time.Time
	Reset                    bool
	Snapshot                 *shownRun
	Delta                    *struct {
		FromSeq, ToSeq run.Seq
		Header         shownRun
		Steps          []shownStep
	}

	at     time.Time // when it arrived
	server string    // name of its server
	joined bool      // whether it is the first of its stream
	shows  string    // text of the picture of its viewer after it
}

type shownRun struct {
	Status     string
	RunSeq     run.Seq
	StepCounts struct{ Total, Pending, Running, Success, Failed, Skipped int }
	Steps      []shownStep
}

type shownStep struct {
	StepID           string
	Status           string
	LogicalAttemptID int
}

func (u update) String() string {
	out := u.Sync
	if u.Reason != "" {
		out += "(" + u.Reason + ")"
	}
	out += fmt.Sprintf(" %d", u.RunSeq)
	if u.HeadSeq != nil && *u.HeadSeq != u.RunSeq {
		out += fmt.Sprintf("<%d", *u.HeadSeq)
	}
	if u.Reset {
		out += " reset"
	}
	return "[" + out + "]"
}

func formatUpdates(us []update) string {
	var b strings.Builder
	for i, u := range us {
		if i > 0 && len(us) > 40 && i < len(us)-40 {
			continue
		}
		b.WriteString(u.String())
	}
	return b.String()
}

const watchQuery = `subscription($id:String!,$after:Seq,$epoch:String,$mode:UpdateMode!){
 runUpdates(runId:$id,after:$after,storeEpoch:$epoch,mode:$mode){
  sync reason runSeq headSeq storeEpoch asOf reset snapshot{...R steps{...S}} delta{fromSeq toSeq header{...R} steps{...S}}}}
fragment R on Run{status runSeq stepCounts{total pending running success failed skipped}}
fragment S on Step{stepId status logicalAttemptId}`

// streamError is the code with which a server ended a stream.
type streamError struct{ code string }

func (e *streamError) Error() string { return "the stream ended: " + e.code }

// watchOptions are the server, the run, the position and the transport of a stream.
type watchOptions struct {
	url, token string
	runID      string
	after      *run.Seq
	epoch      string
	mode       string  // "" means SNAPSHOT
	events     bool    // over Server-Sent Events
	narrow     bool    // with a small receive buffer in the kernel
	shows      picture // what a viewer who resumes has
}

func (w watchOptions) request() []byte {
	if w.mode == "" {
		w.mode = "SNAPSHOT"
	}
	variables := map[string]any{"id": w.runID, "mode": w.mode}
	if w.after != nil {
		variables["after"], variables["epoch"] = *w.after, w.epoch
	}
	body, _ := json.Marshal(map[string]any{"query": watchQuery, "variables": variables}) // strings and numbers
	return body
}

// stream calls each with every frame, until ctx ends, each returns an error, or the server ends the stream. It returns
// the reason.
func (w watchOptions) stream(ctx context.Context, each func(update) error) error {
	take := func(payload []byte) error {
		var out struct {
			Data   struct{ RunUpdates *update }
			Errors []struct {
				Message    string
				Extensions struct{ Code string }
			}
		}
		if err := json.Unmarshal(payload, &out); err != nil {
			return fmt.Errorf("%w: %s", err, payload)
		}
		if len(out.Errors) > 0 {
			return &streamError{out.Errors[0].Extensions.Code}
		}
		if out.Data.RunUpdates == nil {
			return fmt.Errorf("no frame: %s", payload)
		}
		out.Data.RunUpdates.at = time.Now()
		return each(*out.Data.RunUpdates)
	}
	var err error
	if w.events {
		err = w.streamEvents(ctx, take)
	} else {
		err = w.streamSocket(ctx, take)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (w watchOptions) streamSocket(ctx context.Context, take func([]byte) error) error {
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}, HandshakeTimeout: 10 * time.Second}
	if w.narrow {
		dialer.NetDialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetReadBuffer(32 << 10)
			}
			return c, err
		}
	}
	ws, res, err := dialer.DialContext(ctx, "ws"+strings.TrimPrefix(w.url, "http")+"/graphql", nil)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { _ = ws.Close() })()
	hello := fmt.Appendf(nil, `{"type":"connection_init","payload":{"Authorization":"Bearer %s"}}`, w.token)
	subscribe := fmt.Appendf(nil, `{"type":"subscribe","id":"1","payload":%s}`, w.request())
	for _, m := range [][]byte{hello, nil, subscribe} {
		if m == nil {
			_, _, err = ws.ReadMessage() // connection_ack
		} else {
			err = ws.WriteMessage(websocket.TextMessage, m)
		}
		if err != nil {
			return err
		}
	}
	for {
		_, data, err := ws.ReadMessage()
		if err != nil {
			return err
		}
		var m struct {
			Type    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		switch m.Type {
		case "next":
			err = take(m.Payload)
		case "error":
			err = take(fmt.Appendf(nil, `{"errors":%s}`, m.Payload))
		case "complete":
			err = &streamError{"complete"}
		}
		if err != nil {
			return err
		}
	}
}

func (w watchOptions) streamEvents(ctx context.Context, take func([]byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/graphql", bytes.NewReader(w.request()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+w.token)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		var body bytes.Buffer
		_, _ = body.ReadFrom(lines)
		return take(body.Bytes())
	}
	event := ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimSpace(value)
		switch {
		case name == "event":
			if event = value; event == "complete" {
				return &streamError{"complete"}
			}
		case name == "data" && event == "next":
			if err := take([]byte(value)); err != nil {
				return err
			}
		}
	}
}

// picture is the state of a viewer: the run without its steps, and the steps in order.
type picture struct {
	header shownRun
	steps  []shownStep
	text   string
}

// apply applies a frame like a client does, and returns the text of the picture.
func (p *picture) apply(u update) string {
	switch {
	case u.Snapshot != nil:
		p.header, p.steps = *u.Snapshot, u.Snapshot.Steps
	case u.Delta != nil:
		p.header, p.steps = u.Delta.Header, slices.Clone(p.steps)
		for _, s := range u.Delta.Steps {
			if i := slices.IndexFunc(p.steps, func(old shownStep) bool { return old.StepID == s.StepID }); i >= 0 {
				p.steps[i] = s
			} else {
				p.steps = append(p.steps, s)
			}
		}
	default:
		return p.text
	}
	p.text = describe(p.header, p.steps)
	return p.text
}

func describe(h shownRun, steps []shownStep) string {
	c := h.StepCounts
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d: %d pending, %d running, %d success, %d failed, %d skipped;", h.Status, c.Total, c.Pending,
		c.Running, c.Success, c.Failed, c.Skipped)
	for _, s := range steps {
		fmt.Fprintf(&b, " %s=%s/%d", s.StepID, s.Status, s.LogicalAttemptID)
	}
	return b.String()
}

// frameWatcher watches one run over one or more streams until the test ends or leave is called.
type frameWatcher struct {
	t     *testing.T
	name  string
	leave context.CancelFunc
	over  chan struct{}

	mu      sync.Mutex
	updates []update
	changed chan struct{} // closed at the next frame or at the end
	end     error
	picture picture
}

func newFrameWatcher(t *testing.T, name string) (*frameWatcher, context.Context) {
	ctx, leave := context.WithCancel(t.Context())
	o := &frameWatcher{t: t, name: name, leave: leave, over: make(chan struct{}), changed: make(chan struct{})}
	t.Cleanup(func() { leave(); <-o.over })
	return o, ctx
}

// startWatcher watches a run of a server over one stream.
func startWatcher(t *testing.T, n *node, w watchOptions) *frameWatcher {
	t.Helper()
	o, ctx := newFrameWatcher(t, n.name)
	o.picture = w.shows
	if w.url = n.url; w.token == "" {
		w.token = viewerToken(0)
	}
	go func() {
		defer close(o.over)
		first := true
		o.setEnd(w.stream(ctx, func(u update) error {
			u.server, u.joined, first = n.name, first, false
			o.addUpdate(u)
			return nil
		}))
	}()
	return o
}

func (o *frameWatcher) addUpdate(u update) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u.shows = o.picture.apply(u)
	u.Snapshot, u.Delta = nil, nil
	o.updates = append(o.updates, u)
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *frameWatcher) setEnd(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = err
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *frameWatcher) receivedUpdates() []update {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.updates[:len(o.updates):len(o.updates)]
}

// waitForUpdate waits for a frame that satisfies ok, at index from or later, and returns its index. what describes the
// frame in messages.
func (o *frameWatcher) waitForUpdate(from int, patience time.Duration, what string, ok func(update) bool) int {
	o.t.Helper()
	deadline := time.NewTimer(testtime.Of(patience))
	defer deadline.Stop()
	for {
		o.mu.Lock()
		us, moved, end := o.updates, o.changed, o.end
		o.mu.Unlock()
		for ; from < len(us); from++ {
			if ok(us[from]) {
				return from
			}
		}
		if end != nil {
			o.t.Fatalf("%s: the stream ended with %v before it was %s: %s", o.name, end, what, formatUpdates(us))
		}
		select {
		case <-moved:
		case <-deadline.C:
			o.t.Fatalf("%s: no frame is %s within %s: %s", o.name, what, patience, formatUpdates(us))
		}
	}
}

func isLive(u update) bool { return u.Sync == "LIVE" }

// waitForLive waits for a LIVE frame at seq or later and returns its index.
func (o *frameWatcher) waitForLive(seq run.Seq, patience time.Duration) int {
	o.t.Helper()
	return o.waitForUpdate(0, patience, fmt.Sprintf("LIVE at %d", seq),
		func(u update) bool { return isLive(u) && u.RunSeq >= seq })
}

// waitForLiveUpdate waits for a LIVE frame at seq or later and returns it.
func (o *frameWatcher) waitForLiveUpdate(seq run.Seq, patience time.Duration) update {
	o.t.Helper()
	i := o.waitForLive(seq, patience)
	return o.receivedUpdates()[i]
}

// waitForEnd waits for the end of the stream and returns its code, or "" without a code.
func (o *frameWatcher) waitForEnd(patience time.Duration) string {
	o.t.Helper()
	select {
	case <-o.over:
	case <-time.After(testtime.Of(patience)):
		o.t.Fatalf("%s: the stream goes on: %s", o.name, formatUpdates(o.receivedUpdates()))
	}
	var named *streamError
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.As(o.end, &named) {
		return named.code
	}
	return ""
}
