package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/pace"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store/remote"
	"github.com/dvt-engine/dvt/web"
)

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body string
}

// code is the first error's, if the body is GraphQL's.
func (a answer) code() string {
	var out struct {
		Errors []struct{ Extensions struct{ Code string } }
	}
	if json.Unmarshal([]byte(a.body), &out) != nil || len(out.Errors) == 0 {
		return ""
	}
	return out.Errors[0].Extensions.Code
}

func (a answer) cookie() *http.Cookie {
	for _, c := range a.Cookies() {
		if c.Name == "dvt_session" {
			return c
		}
	}
	return nil
}

// send sends a request with header fields given as "Name: value".
func send(t *testing.T, method, at, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	must(t, err)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	must(t, err)
	return answer{res, string(read)}
}

func get(t *testing.T, at string, header ...string) answer {
	t.Helper()
	return send(t, http.MethodGet, at, "", header...)
}

// ask sends one GraphQL operation by POST.
func ask(t *testing.T, base, query string, variables map[string]any, header ...string) answer {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	must(t, err)
	return send(t, http.MethodPost, base+"/graphql", string(body), append(header, "Content-Type: application/json")...)
}

// stubborn is a program that does not end when it is asked to, nor by itself. No other process has its arguments.
var stubborn = fmt.Sprintf("sleep 613.%d", os.Getpid())

const (
	whoAmI = `{viewer{principal tenantId}}`
	cancel = `mutation($id:String!){cancelRun(input:{runId:$id,signalId:"no",reason:"no"}){signal{signalId}}}`
)

// TestEdge is what one `dvt dev` says to those who knock (api.md §7).
func TestEdge(t *testing.T) {
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "2s")
	base := "http://" + address
	c := client.New(base, "dev-engineer")
	t.Run("no token", func(t *testing.T) { edgeTokens(t, base, address) })
	t.Run("session", func(t *testing.T) { edgeSession(t, base) })
	t.Run("names", func(t *testing.T) { edgeNames(t, base) })
	t.Run("operations", func(t *testing.T) { edgeOperations(t, base) })
	t.Run("interface", func(t *testing.T) { edgeInterface(t, base) })
	t.Run("journal", func(t *testing.T) { edgeJournal(t, base) })
	long := start(t, c, "edge-long", stepsPlan("long", fmt.Sprintf(`{"stepId":"wait","type":"COMMAND","inputs":{"argv":["sh","-c",%q]},
		"dependsOn":[],"timeout":"11m","retry":{"maxAttempts":10,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`, "trap '' TERM; exec "+stubborn)))
	t.Run("debug", func(t *testing.T) { edgeDebug(t, base, long) })
	t.Run("another tenant", func(t *testing.T) { edgeTenant(t, base, long) })
	t.Run("kill -9", func(t *testing.T) {
		id := start(t, c, "edge-kill", killPlan(1))
		time.Sleep(500 * time.Millisecond)
		p.kill()
		p.start() // on the same address and data, at once
		if r := ended(t, c, id, time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("the run ended %s: %+v", r.StatusRaw, r.RootCause)
		}
	})
	if runtime.GOOS == "linux" { // the lost execution is found and repeated
		until(t, "after kill -9 the step runs once", 20*time.Second, func() bool { return len(running(t, stubborn)) == 1 })
	}
	t.Run("shutdown", func(t *testing.T) { edgeShutdown(t, p, c, address, long) })
	if pids := running(t, stubborn); len(pids) > 0 {
		t.Errorf("processes %v outlived dvt dev", pids)
	}
}

// edgeDebug looks into a run whose step runs.
func edgeDebug(t *testing.T, base, runID string) {
	at := base + "/engine/runs/" + runID + "/debug"
	for token, status := range map[string]int{"": 401, "nobody": 401, "dev-engineer": 403, "dev-sre": 200} {
		if a := get(t, at, "Authorization: Bearer "+token); a.StatusCode != status {
			t.Errorf("%q: %d %s", token, a.StatusCode, a.body)
		}
	}
	if a := get(t, base+"/engine/runs/none/debug", "Authorization: Bearer dev-sre"); a.StatusCode != http.StatusNotFound {
		t.Errorf("no such run: %d %s", a.StatusCode, a.body)
	}
	var d struct {
		Engine struct {
			Executions []struct{ HistoryEvents, HistoryBytes int64 }
			Pending    []struct{ ID string }
			Last       []struct{ What string }
		}
	}
	until(t, "the engine has the step", 20*time.Second, func() bool {
		a := get(t, at, "Authorization: Bearer dev-sre")
		must(t, json.Unmarshal([]byte(a.body), &d))
		return len(d.Engine.Pending) == 1 && d.Engine.Pending[0].ID == "wait/1.1"
	})
	if e := d.Engine; len(e.Executions) != 1 || e.Executions[0].HistoryEvents < 5 || e.Executions[0].HistoryBytes < 100 || len(e.Pending) != 1 || len(e.Last) == 0 {
		t.Errorf("debug says %+v", d)
	}
}

// running are the processes with these arguments.
func running(t *testing.T, args string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && string(line) == strings.ReplaceAll(args, " ", "\x00")+"\x00" {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

func edgeTokens(t *testing.T, base, address string) {
	for name, a := range map[string]answer{
		"none":                 ask(t, base, whoAmI, nil),
		"unknown":              ask(t, base, whoAmI, nil, "Authorization: Bearer dev-nobody"),
		"empty":                ask(t, base, whoAmI, nil, "Authorization: Bearer "),
		"another scheme":       ask(t, base, whoAmI, nil, "Authorization: Basic dev-engineer"),
		"in the address":       get(t, base+"/graphql?token=dev-engineer&access_token=dev-engineer&Authorization=Bearer%20dev-engineer&query="+url.QueryEscape(whoAmI)),
		"as the address' user": get(t, "http://dev-engineer:dev-engineer@"+address+"/graphql?query="+url.QueryEscape(whoAmI)),
		"for an event stream":  ask(t, base, `subscription{runListUpdates{sync}}`, nil, "Accept: text/event-stream"),
	} {
		if a.StatusCode != http.StatusUnauthorized || a.code() != "UNAUTHENTICATED" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	for name, init := range map[string]string{
		"none": `{}`, "unknown": `{"Authorization":"Bearer dev-nobody"}`, "another key": `{"token":"dev-engineer"}`,
	} {
		ws := dial(t, address+"/graphql?token=dev-engineer", init)
		_, _, err := ws.ReadMessage()
		if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != 4401 {
			t.Errorf("socket, %s: %v, want close 4401", name, err)
		}
	}
	if a := get(t, base+"/graphql?query="+url.QueryEscape(whoAmI), "Authorization: Bearer dev-viewer"); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"dev-viewer"`) {
		t.Errorf("a good token: %d %s", a.StatusCode, a.body)
	}
}

func dial(t *testing.T, path, init string) *websocket.Conn {
	t.Helper()
	ws, res, err := (&websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}).DialContext(t.Context(), "ws://"+path, nil)
	must(t, err)
	_ = res.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	must(t, ws.SetReadDeadline(time.Now().Add(time.Minute)))
	must(t, ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"connection_init","payload":`+init+`}`)))
	return ws
}

func edgeSession(t *testing.T, base string) {
	page := get(t, base+"/")
	session := page.cookie()
	if _, built := web.Dist(); !built {
		t.Fatal("the user interface is not built: run `make build`")
	}
	if session == nil || session.Value != "dev-engineer" || !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.Path != "/" {
		t.Fatalf("cookie of /: %+v", session)
	}
	mine := "Cookie: dvt_session=" + session.Value
	if a := ask(t, base, whoAmI, nil, mine); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"dev-engineer"`) {
		t.Errorf("a query with the session: %d %s", a.StatusCode, a.body)
	}
	if again := get(t, base+"/", mine).cookie(); again != nil {
		t.Errorf("a session that is good was replaced: %+v", again)
	}
	if again := get(t, base+"/", "Cookie: dvt_session=dev-nobody").cookie(); again == nil {
		t.Error("a session that is no good was left")
	}
	for name, origin := range map[string][]string{
		"no origin": nil, "a foreign one": {"Origin: http://evil.example"}, "null": {"Origin: null"}, "another port": {"Origin: http://127.0.0.1:1"},
	} {
		if a := ask(t, base, cancel, map[string]any{"id": "x"}, append(origin, mine)...); a.StatusCode != http.StatusForbidden || a.code() != "FORBIDDEN" {
			t.Errorf("a mutation with the session and %s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if a := ask(t, base, cancel, map[string]any{"id": "x"}, mine, "Origin: "+base); a.code() != "NOT_FOUND" {
		t.Errorf("a mutation from the page: %d %s", a.StatusCode, a.body)
	}
	if a := ask(t, base, cancel, map[string]any{"id": "x"}, "Authorization: Bearer dev-engineer"); a.code() != "NOT_FOUND" {
		t.Errorf("a mutation with a token needs no origin: %d %s", a.StatusCode, a.body)
	}

	become := func(principal string, header ...string) answer {
		return send(t, http.MethodPost, base+"/dev/session", fmt.Sprintf(`{"principal":%q}`, principal), append(header, "Content-Type: application/json")...)
	}
	switched := become("dev-viewer", mine, "Origin: "+base)
	if c := switched.cookie(); switched.StatusCode != http.StatusNoContent || c == nil || c.Value != "dev-viewer" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("switching: %d %+v", switched.StatusCode, switched.cookie())
	}
	if a := ask(t, base, whoAmI, nil, "Cookie: dvt_session=dev-viewer"); !strings.Contains(a.body, `"dev-viewer"`) {
		t.Errorf("after switching: %s", a.body)
	}
	for name, a := range map[string]answer{
		"nobody": become("dev-nobody"), "from another site": become("dev-admin", "Origin: http://evil.example"),
		"too much": become(strings.Repeat("x", 5<<10)),
	} {
		if a.StatusCode != http.StatusBadRequest || a.cookie() != nil {
			t.Errorf("switching, %s: %d %+v", name, a.StatusCode, a.cookie())
		}
	}
}

// edgeNames comes under names that are not this machine's own (DNS rebinding).
func edgeNames(t *testing.T, base string) {
	port := base[strings.LastIndex(base, ":"):]
	for host, ok := range map[string]bool{
		"localhost" + port: true, "127.0.0.1" + port: true, "[::1]" + port: true,
		"evil.example" + port: false, "evil.example": false, "127.0.0.1.evil.example" + port: false, "192.168.0.1" + port: false,
	} {
		a := get(t, base+"/", "Host: "+host)
		if (a.StatusCode == http.StatusOK) != ok || !ok && a.cookie() != nil {
			t.Errorf("as %s: %d %+v", host, a.StatusCode, a.cookie())
		}
	}
}

func edgeOperations(t *testing.T, base string) {
	for _, path := range []string{"/livez", "/readyz"} {
		if a := get(t, base+path); a.StatusCode != http.StatusOK || a.body != "ok\n" {
			t.Errorf("%s: %d %q", path, a.StatusCode, a.body)
		}
	}
	if a := get(t, base+"/schema.graphqls"); a.StatusCode != http.StatusOK || a.body != dvt.Schema {
		t.Errorf("/schema.graphqls: %d, %d bytes of %d", a.StatusCode, len(a.body), len(dvt.Schema))
	}
	metrics := get(t, base+"/metrics")
	for _, name := range []string{"dvt_watched_runs", "dvt_streams", "dvt_bus_up 1", "go_goroutines"} {
		if metrics.StatusCode != http.StatusOK || !strings.Contains(metrics.body, name) {
			t.Errorf("/metrics: %d without %s", metrics.StatusCode, name)
		}
	}
	var h struct {
		Status string
		Checks []struct {
			Name, Status string
			LatencyMS    *int64 `json:"latencyMs"`
		}
	}
	until(t, "/engine/health says HEALTHY", 20*time.Second, func() bool {
		health := get(t, base+"/engine/health")
		must(t, json.Unmarshal([]byte(health.body), &h))
		return health.StatusCode == http.StatusOK && h.Status == "HEALTHY" && len(h.Checks) >= 3
	})
	for _, check := range h.Checks {
		if check.Name == "" || check.Status == "" || check.LatencyMS == nil {
			t.Errorf("/engine/health: check %+v", check)
		}
	}
}

func edgeInterface(t *testing.T, base string) {
	page := get(t, base+"/")
	for _, path := range []string{"/runs/some-run", "/runs?status=FAILED", "/no/such/page"} {
		if a := get(t, base+path); a.StatusCode != http.StatusOK || a.body != page.body || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is not a page of the interface: %d %s", path, a.StatusCode, a.Header.Get("Content-Type"))
		}
	}
	if a := get(t, base+"/assets/no-such-file.js"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a missing file: %d", a.StatusCode)
	}
	script := regexp.MustCompile(`src="(/assets/[^"]+)"`).FindStringSubmatch(page.body)
	if script == nil {
		t.Fatalf("the page has no script: %s", page.body)
	}
	if a := get(t, base+script[1]); a.StatusCode != http.StatusOK || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d %q", script[1], a.StatusCode, a.Header.Get("Cache-Control"))
	}
	// The transport of Go asks for gzip and unpacks it by itself, unless it is told what to ask for.
	plain, packed := get(t, base+script[1], "Accept-Encoding: gzip;q=0"), get(t, base+script[1], "Accept-Encoding: br, gzip")
	if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%s: %v and %v", script[1], plain.Header, packed.Header)
	}
	if z, err := gzip.NewReader(strings.NewReader(packed.body)); err != nil {
		t.Errorf("%s in gzip: %v", script[1], err)
	} else if read, err := io.ReadAll(z); err != nil || string(read) != plain.body || len(packed.body) > len(plain.body)/2 {
		t.Errorf("%s: %d bytes, in gzip %d, unpacked %d, %v", script[1], len(plain.body), len(packed.body), len(read), err)
	}
	if a, b := plain.Header.Get("Content-Type"), packed.Header.Get("Content-Type"); a != b || a == "" {
		t.Errorf("%s is %q, in gzip %q", script[1], a, b)
	}
	policy := page.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "worker-src 'self'", "trusted-types dvt-layout"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %q", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || page.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("policy %q, nosniff %q", policy, page.Header.Get("X-Content-Type-Options"))
	}
	if inline := regexp.MustCompile(`(?is)<script[^>]*>\s*[^<\s]|<style|\sstyle=|\son\w+=|javascript:`).FindString(page.body); inline != "" {
		t.Errorf("the page has %q inline", inline)
	}
	if a := send(t, http.MethodPost, base+"/", ""); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %d", a.StatusCode)
	}
}

// edgeJournal: people have no business at the workers' door (T203).
func edgeJournal(t *testing.T, base string) {
	for _, token := range []string{"", "dev-engineer", "dev-admin", "dev-system", "dev-nobody"} {
		a := send(t, http.MethodPost, base+remote.Path, `{"begin":{"runId":"x","stepId":"s"}}`, "Authorization: Bearer "+token, "Cookie: dvt_session=dev-admin")
		if a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, "UNAUTHENTICATED") {
			t.Errorf("token %q: %d %s", token, a.StatusCode, a.body)
		}
	}
}

// edgeTenant asks for another tenant's run and for one that does not exist: word
// for word the same (G21).
func edgeTenant(t *testing.T, base, runID string) {
	const missing = "00000000-0000-4000-8000-000000000000"
	for name, op := range map[string]string{
		"run":      `query($id:String!){run(runId:$id){runId status}}`,
		"signal":   `query($id:String!){signal(runId:$id,signalId:"s"){decision}}`,
		"step log": `query($id:String!){stepLog(runId:$id,stepId:"wait"){totalLines}}`,
		"cancel":   cancel,
		"pause":    `mutation($id:String!){signalRun(input:{runId:$id,signalId:"no",signal:{pause:{}}}){signal{signalId}}}`,
		"retry":    `mutation($id:String!){signalRun(input:{runId:$id,signalId:"no",signal:{retryStep:{stepId:"wait"}}}){signal{signalId}}}`,
		"watch":    `subscription($id:String!){runUpdates(runId:$id){runSeq}}`,
		"events":   `subscription($id:String!){runEvents(runId:$id){reset}}`,
		"receipts": `subscription($id:String!){signalUpdates(runId:$id){signalId}}`,
		"follow":   `subscription($id:String!){stepLogUpdates(runId:$id,stepId:"wait"){totalLines}}`,
	} {
		said := func(id string) string {
			accept := "Accept: application/json"
			if strings.HasPrefix(op, "subscription") {
				accept = "Accept: text/event-stream"
			}
			a := ask(t, base, op, map[string]any{"id": id}, "Authorization: Bearer dev-mallory", accept)
			return fmt.Sprintf("%d %s", a.StatusCode, requestID.ReplaceAllString(strings.ReplaceAll(a.body, id, "ID"), `"requestId":""`))
		}
		foreign, none := said(runID), said(missing)
		if foreign != none || !strings.Contains(none, "NOT_FOUND") && !strings.Contains(none, ":null}}") {
			t.Errorf("%s:\nanother tenant's: %s\nmissing:          %s", name, foreign, none)
		}
	}
}

var requestID = regexp.MustCompile(`"requestId":"[^"]*"`)

// edgeShutdown ends dvt while two streams are open, which are told why (O9), a
// request is stuck and a step does not listen: it takes no longer than 15 s.
func edgeShutdown(t *testing.T, p *process, c *client.Client, address, runID string) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	watching, events := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		events <- c.Watch(ctx, runID, client.Position{}, func(client.WatchRunRunUpdatesRunUpdate) error {
			select {
			case watching <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	ws := dial(t, address+"/graphql", `{"Authorization":"Bearer dev-viewer"}`)
	subscribe := fmt.Sprintf(`{"type":"subscribe","id":"1","payload":{"query":"subscription{runUpdates(runId:\"%s\"){runSeq}}"}}`, runID)
	expect := func(want string) {
		t.Helper()
		for {
			_, msg, err := ws.ReadMessage()
			if err != nil {
				t.Fatalf("the socket closed before %s: %v", want, err)
			}
			if bytes.Contains(msg, []byte(want)) {
				return
			}
		}
	}
	expect("connection_ack")
	must(t, ws.WriteMessage(websocket.TextMessage, []byte(subscribe)))
	expect(`"next"`)
	select {
	case <-watching:
	case err := <-events:
		t.Fatalf("the event stream did not begin: %v", err)
	}
	stuck, err := net.Dial("tcp", address) // a request that never ends
	must(t, err)
	defer stuck.Close()
	_, err = io.WriteString(stuck, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev-viewer\r\nContent-Length: 100\r\n\r\n{")
	must(t, err)
	if took := p.terminate(); took > pace.Of(15*time.Second) {
		t.Errorf("ending took %s", took)
	}
	if !p.cmd.ProcessState.Success() {
		t.Errorf("it ended as %s", p.cmd.ProcessState)
	}
	expect("SERVER_SHUTDOWN")
	_, _, err = ws.ReadMessage()
	if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != websocket.CloseServiceRestart {
		t.Errorf("the socket ended with %v, want close 1012", err)
	}
	if why, ok := errors.AsType[*client.Error](<-events); !ok || why.Code != "SERVER_SHUTDOWN" {
		t.Errorf("the event stream ended with %v, want SERVER_SHUTDOWN", why)
	}
}
