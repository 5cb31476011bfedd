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
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
)

// answer is an HTTP response with its whole body.
type answer struct {
	*http.Response
	body string
}

// code returns the code of the first GraphQL error, or "" without one.
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
		if strings.HasPrefix(c.Name, "dvt_session") {
			return c
		}
	}
	return nil
}

// noRedirects is a client that follows no redirect.
var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send sends a request with header fields such as "Name: value". "Host: value" sets the host of the request.
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
	res, err := noRedirects.Do(r)
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

// stubbornCommand is a program that runs for minutes. No other process of the machine has its arguments.
var stubbornCommand = fmt.Sprintf("sleep 613.%d", os.Getpid())

const (
	whoAmI = `{viewer{principal tenantId}}`
	cancel = `mutation($id:String!){cancelRun(input:{runId:$id,signalId:"no",reason:"no"}){signal{signalId}}}`
)

// One `dvt dev` answers requests with and without credentials, survives a kill -9, and shuts down in time.
func TestDev_AuthorisesRequestsAndShutsDownInTime(t *testing.T) {
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "2s")
	base := "http://" + address
	c := client.New(base, devToken(t, data, "dev-engineer"))
	for _, name := range []string{"dev-engineer", "dev-viewer", "dev-admin", "dev-system", "dev-sre", "dev-mallory"} {
		// A token that was valid before passes even when the server limits wrong tokens of its address.
		if a := ask(t, base, whoAmI, nil, "Authorization: Bearer "+devToken(t, data, name)); !strings.Contains(a.body, `"`+
			name+`"`) {
			t.Fatalf("the token of %s is answered %d %s, want its principal", name, a.StatusCode, a.body)
		}
	}
	t.Run("requests without a valid token are refused", func(t *testing.T) { testWrongTokens(t, data, base, address) })
	t.Run("a browser signs in with the link", func(t *testing.T) { testSession(t, data, base, p.link) })
	t.Run("host names of other machines are refused", func(t *testing.T) { testHostNames(t, base) })
	t.Run("health, metrics and schema are served", func(t *testing.T) { testOperationsEndpoints(t, data, base) })
	t.Run("the UI is served", func(t *testing.T) { testInterface(t, base) })
	t.Run("the Journal refuses people", func(t *testing.T) { testJournal(t, data, base) })
	long := start(t, c, "edge-long", stepsPlan("long",
		fmt.Sprintf(`{"stepId":"wait","type":"COMMAND","inputs":{"argv":["sh","-c",%q]},
		"dependsOn":[],"timeout":"11m","retry":{"maxAttempts":10,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`, "trap '' TERM; exec "+stubbornCommand)))
	// contract: Z06
	t.Run("the debug page of a run needs DEBUG", func(t *testing.T) { testDebug(t, data, base, long) })
	t.Run("a run of another tenant does not exist", func(t *testing.T) { testAnotherTenant(t, data, base, long) })
	t.Run("a run survives kill -9", func(t *testing.T) {
		id := start(t, c, "edge-kill", killPlan(1))
		time.Sleep(500 * time.Millisecond)
		p.kill()
		p.start() // at once, on the same address and data
		if r := waitForEnd(t, c, id, time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("the run ended %s, want COMPLETED: %+v", r.StatusRaw, r.RootCause)
		}
	})
	if runtime.GOOS == "linux" { // dvt detects the lost execution and repeats it
		waitUntil(t, "after kill -9 the step runs once", 20*time.Second,
			func() bool { return len(findProcesses(t, stubbornCommand)) == 1 })
	}
	t.Run("a shutdown ends streams and steps in time", func(t *testing.T) { testShutdown(t, p, c, data, address, long) })
	if pids := findProcesses(t, stubbornCommand); len(pids) > 0 {
		t.Errorf("processes %v outlived dvt dev", pids)
	}
}

// testDebug reads the debug page of a run whose step is running, and prints it with the command for it.
func testDebug(t *testing.T, data, base, runID string) {
	at := base + "/engine/runs/" + runID + "/debug"
	for token, status := range map[string]int{"": 401, devToken(t, data, "dev-engineer"): 403,
		devToken(t, data, "dev-sre"): 200} {
		if a := get(t, at, "Authorization: Bearer "+token); a.StatusCode != status {
			t.Errorf("the debug page for the token %q: %d %s, want %d", token, a.StatusCode, a.body, status)
		}
	}
	if a := get(t, base+"/engine/runs/none/debug", "Authorization: Bearer "+devToken(t, data,
		"dev-sre")); a.StatusCode != http.StatusNotFound {
		t.Errorf("the debug page of a missing run: %d %s, want 404", a.StatusCode, a.body)
	}
	var d struct {
		Engine struct {
			Executions []struct{ HistoryEvents, HistoryBytes int64 }
			Pending    []struct{ ID string }
			Last       []struct{ What string }
		}
	}
	waitUntil(t, "the engine shows the step as pending", 20*time.Second, func() bool {
		a := get(t, at, "Authorization: Bearer "+devToken(t, data, "dev-sre"))
		must(t, json.Unmarshal([]byte(a.body), &d))
		return len(d.Engine.Pending) == 1 && d.Engine.Pending[0].ID == "wait/1.1"
	})
	if e := d.Engine; len(e.Executions) != 1 || e.Executions[0].HistoryEvents < 5 || e.Executions[0].HistoryBytes < 100 ||
		len(e.Pending) != 1 || len(e.Last) == 0 {
		t.Errorf("the debug page shows %+v, want one execution with a history, one pending step and last events", d)
	}
	expectCommand(t, 0, []string{"workflow", "debug", runID, "--server", base, "--token", devToken(t, data, "dev-sre")},
		"run "+runID+" is running at seq ", ", 1 executions", "wait/1.1", "dvt.execute", "ActivityTaskScheduled")
}

// findProcesses returns the ids of all processes with these arguments.
func findProcesses(t *testing.T, args string) (pids []string) {
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

func testWrongTokens(t *testing.T, data, base, address string) {
	token := devToken(t, data, "dev-engineer")
	for name, a := range map[string]answer{
		"none":           ask(t, base, whoAmI, nil),
		"unknown":        ask(t, base, whoAmI, nil, "Authorization: Bearer dev-nobody"),
		"the name":       ask(t, base, whoAmI, nil, "Authorization: Bearer dev-engineer"),
		"empty":          ask(t, base, whoAmI, nil, "Authorization: Bearer "),
		"another scheme": ask(t, base, whoAmI, nil, "Authorization: Basic "+token),
		"in the address": get(t, base+"/graphql?token="+token+"&access_token="+token+"&Authorization=Bearer%20"+token+
			"&query="+url.QueryEscape(whoAmI)),
		"as the address' user": get(t, "http://"+token+":"+token+"@"+address+"/graphql?query="+url.QueryEscape(whoAmI)),
		"for an event stream":  ask(t, base, `subscription{runListUpdates{sync}}`, nil, "Accept: text/event-stream"),
	} {
		if a.StatusCode != http.StatusUnauthorized || a.code() != "UNAUTHENTICATED" {
			t.Errorf("a token (%s): %d %s, want UNAUTHENTICATED", name, a.StatusCode, a.body)
		}
	}
	for name, init := range map[string]string{
		"none": `{}`, "unknown": `{"Authorization":"Bearer dev-nobody"}`, "another key": `{"token":"` + token + `"}`,
		"the name": `{"Authorization":"Bearer dev-engineer"}`,
	} {
		ws := dial(t, address+"/graphql?token="+token, init)
		_, _, err := ws.ReadMessage()
		if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != 4401 {
			t.Errorf("a socket with a token (%s) ended with %v, want close 4401", name, err)
		}
	}
	if a := get(t, base+"/graphql?query="+url.QueryEscape(whoAmI), "Authorization: Bearer "+
		devToken(t, data, "dev-viewer")); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"dev-viewer"`) {
		t.Errorf("a valid token: %d %s, want its principal", a.StatusCode, a.body)
	}
}

func dial(t *testing.T, path, init string) *websocket.Conn {
	t.Helper()
	ws, res, err := (&websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}).DialContext(t.Context(), "ws://"+
		path, nil)
	must(t, err)
	_ = res.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	must(t, ws.SetReadDeadline(time.Now().Add(time.Minute)))
	must(t, ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"connection_init","payload":`+init+`}`)))
	return ws
}

// testHostNames sends host names that are not loopback. The server must refuse them because of DNS rebinding.
func testHostNames(t *testing.T, base string) {
	port := base[strings.LastIndex(base, ":"):]
	for host, ok := range map[string]bool{
		"localhost" + port: true, "127.0.0.1" + port: true, "[::1]" + port: true,
		"evil.example" + port: false, "evil.example": false, "127.0.0.1.evil.example" + port: false, "192.168.0.1" +
			port: false,
	} {
		a := get(t, base+"/", "Host: "+host)
		if (a.StatusCode == http.StatusOK) != ok || !ok && a.cookie() != nil {
			t.Errorf("a request to the host %s: %d with the cookie %+v, want served: %t", host, a.StatusCode, a.cookie(), ok)
		}
	}
}

func testOperationsEndpoints(t *testing.T, data, base string) {
	for _, path := range []string{"/livez", "/readyz"} {
		if a := get(t, base+path); a.StatusCode != http.StatusOK || a.body != "ok\n" {
			t.Errorf("%s: %d %q, want 200 ok", path, a.StatusCode, a.body)
		}
	}
	if a := get(t, base+"/schema.graphqls"); a.StatusCode != http.StatusOK || a.body != dvt.Schema {
		t.Errorf("/schema.graphqls: %d with %d bytes, want the schema of %d bytes", a.StatusCode, len(a.body),
			len(dvt.Schema))
	}
	for _, version := range plan.SupportedSchemas() {
		want, _ := plan.JSONSchema(version)
		if a := get(t, base+"/schemas/plan/"+version+".json"); a.StatusCode != http.StatusOK || a.body != string(want) {
			t.Errorf("the JSON Schema of %s: %d with %d bytes, want %d bytes", version, a.StatusCode, len(a.body), len(want))
		}
	}
	for _, name := range []string{"v9.json", "v1.2"} {
		if a := get(t, base+"/schemas/plan/"+name); a.StatusCode != http.StatusNotFound {
			t.Errorf("/schemas/plan/%s: %d, want 404", name, a.StatusCode)
		}
	}
	metrics := get(t, base+"/metrics", "Authorization: Bearer "+devToken(t, data, "dev-sre"))
	for _, name := range []string{"dvt_watched_runs", "dvt_streams", "dvt_bus_up 1", "go_goroutines"} {
		if metrics.StatusCode != http.StatusOK || !strings.Contains(metrics.body, name) {
			t.Errorf("/metrics: %d, want 200 with %s", metrics.StatusCode, name)
		}
	}
	var h struct {
		Status string
		Checks map[string]struct {
			Status    string
			LatencyMS *int64 `json:"latencyMs"`
		}
	}
	waitUntil(t, "/engine/health is healthy", 20*time.Second, func() bool {
		health := get(t, base+"/engine/health")
		must(t, json.Unmarshal([]byte(health.body), &h))
		return health.StatusCode == http.StatusOK && h.Status == "healthy" && len(h.Checks) >= 3
	})
	for name, check := range h.Checks {
		if name == "" || check.Status == "" || check.LatencyMS == nil {
			t.Errorf("/engine/health has the check %q %+v, want a name, a status and a latency", name, check)
		}
	}
}

func testInterface(t *testing.T, base string) {
	page := get(t, base+"/")
	for _, path := range []string{"/runs/some-run", "/runs?status=FAILED"} {
		if a := get(t, base+path); a.StatusCode != http.StatusOK || a.body != page.body ||
			!strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s, want the page of the UI", path, a.StatusCode, a.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/no/such/page", "/debug/pprof/", "/.env"} {
		if a := get(t, base+path); a.StatusCode != http.StatusNotFound || a.body != page.body {
			t.Errorf("%s: status %d, want 404 with the page of the UI", path, a.StatusCode)
		}
	}
	if a := get(t, base+"/assets/no-such-file.js"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a missing file: %d, want 404", a.StatusCode)
	}
	script := regexp.MustCompile(`src="(/assets/[^"]+)"`).FindStringSubmatch(page.body)
	if script == nil {
		t.Fatalf("the page has no script: %s", page.body)
	}
	if a := get(t, base+script[1]); a.StatusCode != http.StatusOK || !strings.Contains(a.Header.Get("Cache-Control"),
		"immutable") {
		t.Errorf("%s: %d with Cache-Control %q, want 200 and immutable", script[1], a.StatusCode,
			a.Header.Get("Cache-Control"))
	}
	// Go's transport requests gzip and unpacks it silently, unless the request sets Accept-Encoding.
	plain, packed := get(t, base+script[1], "Accept-Encoding: gzip;q=0"), get(t, base+script[1],
		"Accept-Encoding: br, gzip")
	if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" ||
		packed.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%s: the headers are %v without and %v with gzip, want Content-Encoding and Vary only with it", script[1],
			plain.Header, packed.Header)
	}
	if z, err := gzip.NewReader(strings.NewReader(packed.body)); err != nil {
		t.Errorf("%s is no gzip: %v", script[1], err)
	} else if read, err := io.ReadAll(z); err != nil || string(read) != plain.body ||
		len(packed.body) > len(plain.body)*6/10 { // a short file compresses less than a long one
		t.Errorf("%s: %d bytes, in gzip %d, unpacked %d (%v), want the same content in 60%% of the size", script[1],
			len(plain.body), len(packed.body), len(read), err)
	}
	if a, b := plain.Header.Get("Content-Type"), packed.Header.Get("Content-Type"); a != b || a == "" {
		t.Errorf("the type of %s is %q, and %q with gzip, want the same", script[1], a, b)
	}
	policy := page.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		"worker-src 'self'", "trusted-types dvt-layout"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the Content-Security-Policy lacks %s: %q", want, policy)
		}
	}
	for _, path := range []string{
		"/", "/livez", "/readyz", "/engine/health", "/metrics", "/auth/methods", "/schema.graphqls", "/graphql",
		"/assets/none",
	} {
		h := send(t, http.MethodGet, base+path, "").Header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || page.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the page has the policy %q and X-Content-Type-Options %q, want no unsafe source, and nosniff", policy,
			page.Header.Get("X-Content-Type-Options"))
	}
	if inline := regexp.MustCompile(`(?is)<script[^>]*>\s*[^<\s]|<style|\sstyle=|\son\w+=|javascript:`).FindString(
		page.body); inline != "" {
		t.Errorf("the page has inline code %q, want none because of its policy", inline)
	}
	if a := send(t, http.MethodPost, base+"/", ""); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %d, want 405", a.StatusCode)
	}
}

// testJournal checks that the Journal, the API of workers, refuses all tokens of people.
func testJournal(t *testing.T, data, base string) {
	for _, token := range []string{"", devToken(t, data, "dev-engineer"), devToken(t, data, "dev-admin"),
		devToken(t, data, "dev-system")} {
		a := send(t, http.MethodPost, base+remote.Path+"/begin", `{"runId":"x","stepId":"s"}`, "Authorization: Bearer "+token)
		if a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, "UNAUTHENTICATED") {
			t.Errorf("the Journal answers the token %q with %d %s, want UNAUTHENTICATED", token, a.StatusCode, a.body)
		}
	}
}

// testAnotherTenant requests a run of another tenant and a run that does not exist. The answers must be equal, so that
// nobody can find out ids of other tenants.
func testAnotherTenant(t *testing.T, data, base, runID string) {
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
		answerFor := func(id string) string {
			accept := "Accept: application/json"
			if strings.HasPrefix(op, "subscription") {
				accept = "Accept: text/event-stream"
			}
			a := ask(t, base, op, map[string]any{"id": id}, "Authorization: Bearer "+devToken(t, data, "dev-mallory"), accept)
			return fmt.Sprintf("%d %s", a.StatusCode, requestID.ReplaceAllString(strings.ReplaceAll(a.body, id, "ID"),
				`"requestId":""`))
		}
		foreign, none := answerFor(runID), answerFor(missing)
		if foreign != none || !strings.Contains(none, "NOT_FOUND") && !strings.Contains(none, ":null}}") {
			t.Errorf("%s: the answers differ, or show a run\nrun of another tenant: %s\nmissing run:           %s", name,
				foreign, none)
		}
	}
}

var requestID = regexp.MustCompile(`"requestId":"[^"]*"`)

// testShutdown ends dvt while two streams are open, a request is incomplete and a step ignores SIGTERM. The streams get
// the reason (contract O9), and the shutdown takes at most 15 s.
func testShutdown(t *testing.T, p *process, c *client.Client, data, address, runID string) {
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
	ws := dial(t, address+"/graphql", `{"Authorization":"Bearer `+devToken(t, data, "dev-viewer")+`"}`)
	subscribe := fmt.Sprintf(
		`{"type":"subscribe","id":"1","payload":{"query":"subscription{runUpdates(runId:\"%s\"){runSeq}}"}}`, runID)
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
		t.Fatalf("the event stream ended before its first frame: %v", err)
	}
	stuck, err := net.Dial("tcp", address) // sends a request without its whole body
	must(t, err)
	defer stuck.Close()
	_, err = io.WriteString(stuck, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
		devToken(t, data, "dev-viewer")+"\r\nContent-Length: 100\r\n\r\n{")
	must(t, err)
	if took := p.terminate(); took > testtime.Of(15*time.Second) {
		t.Errorf("the shutdown took %s, want 15 s or less", took)
	}
	if !p.cmd.ProcessState.Success() {
		t.Errorf("dvt dev ended with %s, want success", p.cmd.ProcessState)
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
