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
		if strings.HasPrefix(c.Name, "dvt_session") {
			return c
		}
	}
	return nil
}

// stays is a client that follows no redirect.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

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

// stubborn is a program that does not end when it is asked to, nor by itself. No other process has its arguments.
var stubbornCommand = fmt.Sprintf("sleep 613.%d", os.Getpid())

const (
	whoAmI = `{viewer{principal tenantId}}`
	cancel = `mutation($id:String!){cancelRun(input:{runId:$id,signalId:"no",reason:"no"}){signal{signalId}}}`
)

// TestEdge is what one `dvt dev` says to those who knock (api.md §7).
func TestDev_AuthorisesRequestsAndShutsDownInTime(t *testing.T) {
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--heartbeat", "2s")
	base := "http://" + address
	c := client.New(base, devToken(t, data, "dev-engineer"))
	for _, name := range []string{"dev-engineer", "dev-viewer", "dev-admin", "dev-system", "dev-sre", "dev-mallory"} {
		// Wrong tokens of this address do not keep out a token that was good before.
		if a := ask(t, base, whoAmI, nil, "Authorization: Bearer "+devToken(t, data, name)); !strings.Contains(a.body, `"`+
			name+`"`) {
			t.Fatalf("the token of %s: %d %s", name, a.StatusCode, a.body)
		}
	}
	t.Run("no token", func(t *testing.T) { testWrongTokens(t, data, base, address) })
	t.Run("session", func(t *testing.T) { testSession(t, data, base, p.link) })
	t.Run("names", func(t *testing.T) { testHostNames(t, base) })
	t.Run("operations", func(t *testing.T) { testOperationsEndpoints(t, data, base) })
	t.Run("interface", func(t *testing.T) { testInterface(t, base) })
	t.Run("journal", func(t *testing.T) { testJournal(t, data, base) })
	long := start(t, c, "edge-long", stepsPlan("long",
		fmt.Sprintf(`{"stepId":"wait","type":"COMMAND","inputs":{"argv":["sh","-c",%q]},
		"dependsOn":[],"timeout":"11m","retry":{"maxAttempts":10,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`, "trap '' TERM; exec "+stubbornCommand)))
	t.Run("debug", func(t *testing.T) { testDebug(t, data, base, long) })
	t.Run("another tenant", func(t *testing.T) { testAnotherTenant(t, data, base, long) })
	t.Run("kill -9", func(t *testing.T) {
		id := start(t, c, "edge-kill", killPlan(1))
		time.Sleep(500 * time.Millisecond)
		p.kill()
		p.start() // on the same address and data, at once
		if r := waitForEnd(t, c, id, time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("the run ended %s: %+v", r.StatusRaw, r.RootCause)
		}
	})
	if runtime.GOOS == "linux" { // the lost execution is found and repeated
		waitUntil(t, "after kill -9 the step runs once", 20*time.Second, func() bool { return len(findProcesses(t, stubbornCommand)) == 1 })
	}
	t.Run("shutdown", func(t *testing.T) { testShutdown(t, p, c, data, address, long) })
	if pids := findProcesses(t, stubbornCommand); len(pids) > 0 {
		t.Errorf("processes %v outlived dvt dev", pids)
	}
}

// edgeDebug looks into a run whose step runs.
func testDebug(t *testing.T, data, base, runID string) {
	at := base + "/engine/runs/" + runID + "/debug"
	for token, status := range map[string]int{"": 401, devToken(t, data, "dev-engineer"): 403,
		devToken(t, data, "dev-sre"): 200} {
		if a := get(t, at, "Authorization: Bearer "+token); a.StatusCode != status {
			t.Errorf("%q: %d %s", token, a.StatusCode, a.body)
		}
	}
	if a := get(t, base+"/engine/runs/none/debug", "Authorization: Bearer "+devToken(t, data,
		"dev-sre")); a.StatusCode != http.StatusNotFound {
		t.Errorf("no such run: %d %s", a.StatusCode, a.body)
	}
	var d struct {
		Engine struct {
			Executions []struct{ HistoryEvents, HistoryBytes int64 }
			Pending    []struct{ ID string }
			Last       []struct{ What string }
		}
	}
	waitUntil(t, "the engine has the step", 20*time.Second, func() bool {
		a := get(t, at, "Authorization: Bearer "+devToken(t, data, "dev-sre"))
		must(t, json.Unmarshal([]byte(a.body), &d))
		return len(d.Engine.Pending) == 1 && d.Engine.Pending[0].ID == "wait/1.1"
	})
	if e := d.Engine; len(e.Executions) != 1 || e.Executions[0].HistoryEvents < 5 || e.Executions[0].HistoryBytes < 100 ||
		len(e.Pending) != 1 || len(e.Last) == 0 {
		t.Errorf("debug says %+v", d)
	}
}

// running are the processes with these arguments.
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
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	for name, init := range map[string]string{
		"none": `{}`, "unknown": `{"Authorization":"Bearer dev-nobody"}`, "another key": `{"token":"` + token + `"}`,
		"the name": `{"Authorization":"Bearer dev-engineer"}`,
	} {
		ws := dial(t, address+"/graphql?token="+token, init)
		_, _, err := ws.ReadMessage()
		if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != 4401 {
			t.Errorf("socket, %s: %v, want close 4401", name, err)
		}
	}
	if a := get(t, base+"/graphql?query="+url.QueryEscape(whoAmI), "Authorization: Bearer "+
		devToken(t, data, "dev-viewer")); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"dev-viewer"`) {
		t.Errorf("a good token: %d %s", a.StatusCode, a.body)
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

// edgeNames comes under names that are not this machine's own (DNS rebinding).
func testHostNames(t *testing.T, base string) {
	port := base[strings.LastIndex(base, ":"):]
	for host, ok := range map[string]bool{
		"localhost" + port: true, "127.0.0.1" + port: true, "[::1]" + port: true,
		"evil.example" + port: false, "evil.example": false, "127.0.0.1.evil.example" + port: false, "192.168.0.1" +
			port: false,
	} {
		a := get(t, base+"/", "Host: "+host)
		if (a.StatusCode == http.StatusOK) != ok || !ok && a.cookie() != nil {
			t.Errorf("as %s: %d %+v", host, a.StatusCode, a.cookie())
		}
	}
}

func testOperationsEndpoints(t *testing.T, data, base string) {
	for _, path := range []string{"/livez", "/readyz"} {
		if a := get(t, base+path); a.StatusCode != http.StatusOK || a.body != "ok\n" {
			t.Errorf("%s: %d %q", path, a.StatusCode, a.body)
		}
	}
	if a := get(t, base+"/schema.graphqls"); a.StatusCode != http.StatusOK || a.body != dvt.Schema {
		t.Errorf("/schema.graphqls: %d, %d bytes of %d", a.StatusCode, len(a.body), len(dvt.Schema))
	}
	metrics := get(t, base+"/metrics", "Authorization: Bearer "+devToken(t, data, "dev-sre"))
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
	waitUntil(t, "/engine/health says HEALTHY", 20*time.Second, func() bool {
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

func testInterface(t *testing.T, base string) {
	page := get(t, base+"/")
	for _, path := range []string{"/runs/some-run", "/runs?status=FAILED"} {
		if a := get(t, base+path); a.StatusCode != http.StatusOK || a.body != page.body ||
			!strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is not a page of the interface: %d %s", path, a.StatusCode, a.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/no/such/page", "/debug/pprof/", "/.env"} {
		if a := get(t, base+path); a.StatusCode != http.StatusNotFound || a.body != page.body {
			t.Errorf("%s: status %d, want 404 with the page of the interface", path, a.StatusCode)
		}
	}
	if a := get(t, base+"/assets/no-such-file.js"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a missing file: %d", a.StatusCode)
	}
	script := regexp.MustCompile(`src="(/assets/[^"]+)"`).FindStringSubmatch(page.body)
	if script == nil {
		t.Fatalf("the page has no script: %s", page.body)
	}
	if a := get(t, base+script[1]); a.StatusCode != http.StatusOK || !strings.Contains(a.Header.Get("Cache-Control"),
		"immutable") {
		t.Errorf("%s: %d %q", script[1], a.StatusCode, a.Header.Get("Cache-Control"))
	}
	// The transport of Go asks for gzip and unpacks it by itself, unless it is told what to ask for.
	plain, packed := get(t, base+script[1], "Accept-Encoding: gzip;q=0"), get(t, base+script[1],
		"Accept-Encoding: br, gzip")
	if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" ||
		packed.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%s: %v and %v", script[1], plain.Header, packed.Header)
	}
	if z, err := gzip.NewReader(strings.NewReader(packed.body)); err != nil {
		t.Errorf("%s in gzip: %v", script[1], err)
	} else if read, err := io.ReadAll(z); err != nil || string(read) != plain.body ||
		len(packed.body) > len(plain.body)*6/10 { // a short file packs less well than a long one
		t.Errorf("%s: %d bytes, in gzip %d, unpacked %d, %v", script[1], len(plain.body), len(packed.body), len(read), err)
	}
	if a, b := plain.Header.Get("Content-Type"), packed.Header.Get("Content-Type"); a != b || a == "" {
		t.Errorf("%s is %q, in gzip %q", script[1], a, b)
	}
	policy := page.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		"worker-src 'self'", "trusted-types dvt-layout"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %q", want, policy)
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
		t.Errorf("policy %q, nosniff %q", policy, page.Header.Get("X-Content-Type-Options"))
	}
	if inline := regexp.MustCompile(`(?is)<script[^>]*>\s*[^<\s]|<style|\sstyle=|\son\w+=|javascript:`).FindString(
		page.body); inline != "" {
		t.Errorf("the page has %q inline", inline)
	}
	if a := send(t, http.MethodPost, base+"/", ""); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %d", a.StatusCode)
	}
}

// edgeJournal: people have no business at the workers' door (T203).
func testJournal(t *testing.T, data, base string) {
	for _, token := range []string{"", devToken(t, data, "dev-engineer"), devToken(t, data, "dev-admin"),
		devToken(t, data, "dev-system")} {
		a := send(t, http.MethodPost, base+remote.Path+"/begin", `{"runId":"x","stepId":"s"}`, "Authorization: Bearer "+token)
		if a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, "UNAUTHENTICATED") {
			t.Errorf("token %q: %d %s", token, a.StatusCode, a.body)
		}
	}
}

// edgeTenant asks for another tenant's run and for one that does not exist: word
// for word the same (G21).
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
		said := func(id string) string {
			accept := "Accept: application/json"
			if strings.HasPrefix(op, "subscription") {
				accept = "Accept: text/event-stream"
			}
			a := ask(t, base, op, map[string]any{"id": id}, "Authorization: Bearer "+devToken(t, data, "dev-mallory"), accept)
			return fmt.Sprintf("%d %s", a.StatusCode, requestID.ReplaceAllString(strings.ReplaceAll(a.body, id, "ID"),
				`"requestId":""`))
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
		t.Fatalf("the event stream did not begin: %v", err)
	}
	stuck, err := net.Dial("tcp", address) // a request that never ends
	must(t, err)
	defer stuck.Close()
	_, err = io.WriteString(stuck, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
		devToken(t, data, "dev-viewer")+"\r\nContent-Length: 100\r\n\r\n{")
	must(t, err)
	if took := p.terminate(); took > testtime.Of(15*time.Second) {
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
