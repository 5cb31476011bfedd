package attacks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// devHome is a `dvt dev` that pages and programs attack.
type devHome struct {
	data, url, link string
	address         string // host:port of its API
	tokens          map[string]string
	runID           string // a run that sleeps
	pid             int
	before          string // the state of all runs in the API before the attack
	terminate       func()
	kill            func()        // kill -9 of the process alone
	output          func() string // all that the process has printed
}

// startDev starts a `dvt dev` in a process of its own, with one run.
func startDev(t *testing.T, args ...string) *devHome {
	t.Helper()
	return startDevWith(t, func(w *world, args ...string) (*process, error) {
		return w.spawn("dvt dev", nil, args...)
	}, args...)
}

// startDevWith is startDev with another function that starts the process.
func startDevWith(t *testing.T, spawn func(w *world, args ...string) (*process, error), args ...string) *devHome {
	t.Helper()
	binary := os.Getenv("DVT_ATTACKS_BINARY")
	if binary == "" {
		binary = testserver.Binary(t)
	}
	address, err := freeAddress()
	must(t, err)
	w := &world{binary: binary, dir: t.TempDir()}
	h := &devHome{data: filepath.Join(w.dir, "data"), url: "http://" + address}
	p, err := spawn(w, append([]string{"dev", "--listen", address, "--data", h.data, "--no-sample"}, args...)...)
	must(t, err)
	h.pid, h.address, h.output = p.cmd.Process.Pid, address, p.output
	h.kill = p.kill
	h.terminate = func() {
		p.signal(t, syscall.SIGTERM)
		<-p.exited
	}
	t.Cleanup(func() {
		select {
		case <-p.exited:
		default:
			h.terminate()
		}
		if t.Failed() {
			t.Logf("dvt dev printed:\n%s", p.output())
		}
	})
	ready := regexp.MustCompile(`dvt is ready: (\S+)`)
	waitUntil(t, "dvt dev is ready", time.Minute, func() bool {
		line := ready.FindStringSubmatch(p.output())
		if line != nil {
			h.link = line[1]
		}
		return line != nil
	})
	// earlier versions have no file of tokens: the name of a principal is its token
	h.tokens = map[string]string{"dev-engineer": "dev-engineer", "dev-admin": "dev-admin"}
	if doc, err := os.ReadFile(filepath.Join(h.data, "tokens")); err == nil {
		var ring struct{ Tokens map[string]string }
		must(t, json.Unmarshal(doc, &ring))
		h.tokens = ring.Tokens
	}
	w.url = h.url
	h.runID, err = w.submit(t.Context(), h.tokens["dev-engineer"], "home", "shop",
		map[string]any{"inline": planOf("acme", "shop", "home", command("wait", queueData, "sleep", "300"))})
	must(t, err)
	h.before = h.readState(t)
	return h
}

// ask sends a request with header fields given as "Name: value".
func (h *devHome) ask(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	must(t, err)
	for _, field := range header {
		name, value, _ := strings.Cut(field, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}).Do(r)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(text)
}

func (h *devHome) bearer(name string) string { return "Authorization: Bearer " + h.tokens[name] }

const (
	jsonBody = "Content-Type: application/json"
	pauseRun = `{"query":"mutation{signalRun(input:{runId:\"%s\",signalId:\"%s\",signal:{pause:{}}}){signal{decision}}}"}`
	whoAmI   = `{"query":"{viewer{principal}}"}`
)

// readState returns the state of all runs in the API, and the signals of the run that sleeps.
func (h *devHome) readState(t *testing.T) string {
	t.Helper()
	_, text := h.ask(t, http.MethodPost, "/graphql", fmt.Sprintf(
		`{"query":"{runs(first:50){edges{node{runId}}} run(runId:\"%s\"){signals(first:50){edges{node{signalId}}}}}"}`,
		h.runID), h.bearer("dev-admin"), jsonBody)
	if !strings.Contains(text, h.runID) {
		t.Fatalf("the run of the test does not exist: %s", text)
	}
	return text
}

// origins are pages that do not belong to `dvt dev`: of the internet, of this machine, of a sandboxed frame.
var origins = map[string]string{
	"a page of the internet":      "Origin: https://evil.example",
	"a page of another port":      "Origin: http://127.0.0.1:3000",
	"a page of localhost":         "Origin: http://localhost:3000",
	"a page of https":             "Origin: https://127.0.0.1",
	"a page with a null origin":   "Origin: null",
	"a page with an empty origin": "Origin: ",
}

func TestDev_ForeignPagesAreRefusedBeforeTheyAreRead(t *testing.T) {
	h := startDev(t)
	res, _ := h.ask(t, http.MethodGet, strings.TrimPrefix(h.link, h.url), "")
	var session string
	for _, c := range res.Cookies() {
		session = "Cookie: " + c.Name + "=" + c.Value
	}
	if session == "" {
		res, _ = h.ask(t, http.MethodGet, "/", "") // in earlier versions any page signs in
		session = "Cookie: " + strings.Split(res.Header.Get("Set-Cookie"), ";")[0]
	}
	if _, text := h.ask(t, http.MethodPost, "/graphql", whoAmI, session, jsonBody); !strings.Contains(text,
		`"dev-engineer"`) {
		t.Fatalf("the browser is not signed in: %s", text)
	}
	sent := 0
	for name, origin := range origins {
		for _, c := range []struct{ method, path, body string }{
			{http.MethodPost, "/graphql", "mutation"},
			{http.MethodGet, "/graphql?query=%7Bviewer%7Bprincipal%7D%7D", ""},
			{http.MethodGet, "/", ""},
			{http.MethodGet, "/runs/" + h.runID, ""},
			{http.MethodGet, "/engine/health", ""},
			{http.MethodGet, "/metrics", ""},
			{http.MethodGet, "/auth/methods", ""},
			{http.MethodPost, "/dev/session", `{"principal":"dev-admin"}`},
			{http.MethodPost, "/dev/link", ""},
			{http.MethodGet, "/dev/plans/shop", ""},
			{http.MethodGet, "/dev/notify", ""},
			{http.MethodPost, "/dev/notify", "hello"},
			{http.MethodOptions, "/graphql", ""},
		} {
			for how, credential := range map[string]string{"the cookie": session, "a token": h.bearer("dev-engineer")} {
				body := c.body
				if body == "mutation" {
					sent++
					body = fmt.Sprintf(pauseRun, h.runID, fmt.Sprintf("evil-%d", sent))
				}
				res, text := h.ask(t, c.method, c.path, body, origin, credential, jsonBody)
				if res.StatusCode != http.StatusForbidden || !strings.Contains(text, "another origin") ||
					res.Header.Get("Set-Cookie") != "" {
					t.Errorf("%s, %s %s with %s: %d %.200s, want 403 because of another origin", name, c.method, c.path, how,
						res.StatusCode, text)
				}
			}
		}
		h.expectUpgradeRefused(t, name, origin)
	}
	h.expectAnswerBeforeBody(t)
	if after := h.readState(t); after != h.before {
		t.Errorf("foreign pages changed something:\nbefore %s\nafter  %s", h.before, after)
	}
}

// expectUpgradeRefused opens a socket with the name of a principal as its token, which earlier versions accepted.
func (h *devHome) expectUpgradeRefused(t *testing.T, name, origin string) {
	t.Helper()
	_, value, _ := strings.Cut(origin, ": ")
	d := &websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	ws, res, err := d.DialContext(t.Context(), strings.Replace(h.url, "http", "ws", 1)+"/graphql",
		http.Header{"Origin": {value}})
	if err != nil {
		if res == nil || res.StatusCode != http.StatusForbidden {
			t.Errorf("the upgrade of %s failed with %v, want 403", name, err)
		}
		return
	}
	defer ws.Close()
	t.Errorf("%s got a socket, want 403", name)
	for _, message := range []string{
		fmt.Sprintf(`{"type":"connection_init","payload":{"Authorization":"Bearer %s"}}`, h.tokens["dev-engineer"]),
		`{"type":"subscribe","id":"1","payload":` + fmt.Sprintf(pauseRun, h.runID, "evil-socket") + `}`,
	} {
		must(t, ws.WriteMessage(websocket.TextMessage, []byte(message)))
		must(t, ws.SetReadDeadline(time.Now().Add(5*time.Second)))
		_, answer, err := ws.ReadMessage()
		t.Logf("%s: %s %v", name, answer, err)
	}
}

// expectAnswerBeforeBody sends only the head of a request and expects the answer before the body.
func (h *devHome) expectAnswerBeforeBody(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	body, never := io.Pipe()
	defer never.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/graphql", body)
	must(t, err)
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Authorization", "Bearer "+h.tokens["dev-engineer"])
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Errorf("the answer waits for the body: %v", err)
		return
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("the answer before the body is %d, want 403", res.StatusCode)
	}
}

// Browsers request images, frames and no-cors resources without an Origin, and state their purpose in Sec-Fetch
// headers.
func TestDev_LoadsOfForeignPagesAreRefused(t *testing.T) {
	h := startDev(t)
	page := strings.TrimPrefix(h.link, h.url)
	for _, site := range []string{"cross-site", "same-site"} {
		for _, c := range []struct {
			name, path string
			mode, dest string
			status     int
		}{
			{"an image", page, "no-cors", "image", 403},
			{"a script", page, "no-cors", "script", 403},
			{"a frame", page, "navigate", "iframe", 403},
			{"an object", page, "navigate", "object", 403},
			{"a fetch", page, "no-cors", "empty", 403},
			{"a prefetch", page, "no-cors", "empty", 403},
			{"an image of data", "/graphql?query=%7Bviewer%7Bprincipal%7D%7D", "no-cors", "image", 403},
			{"a page of data", "/graphql?query=%7Bviewer%7Bprincipal%7D%7D", "navigate", "document", 403},
			{"a page of plans", "/dev/plans/shop", "navigate", "document", 403},
			{"a page of the UI", "/runs", "navigate", "document", 200},
			{"the schema", "/schema.graphqls", "navigate", "document", 200},
		} {
			res, text := h.ask(t, http.MethodGet, c.path, "", "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: "+c.mode,
				"Sec-Fetch-Dest: "+c.dest)
			if res.StatusCode != c.status || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s, %s: %d, want %d, %s %.200s", c.name, site, res.StatusCode, c.status, res.Header.Get("Set-Cookie"),
					text)
			}
		}
	}
	// The foreign pages did not use up the key. Its owner does.
	if res, _ := h.ask(t, http.MethodGet, page, "", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate",
		"Sec-Fetch-Dest: document"); res.StatusCode != http.StatusSeeOther || res.Header.Get("Set-Cookie") == "" {
		t.Errorf("the link opened by its owner: %d with the cookie %q, want a redirect with a session", res.StatusCode,
			res.Header.Get("Set-Cookie"))
	}
	if res, text := h.ask(t, http.MethodGet, page, ""); res.StatusCode != http.StatusForbidden ||
		res.Header.Get("Set-Cookie") != "" || !strings.Contains(text, "dvt dev link") {
		t.Errorf("a used key: %d with the cookie %q, %s; want 403 and a hint to dvt dev link", res.StatusCode,
			res.Header.Get("Set-Cookie"), text)
	}
}

func TestDev_StrangersOfTheMachineGetNothing(t *testing.T) {
	h := startDev(t)
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
	}{
		"the name of a principal": {http.MethodPost, "/graphql", whoAmI,
			[]string{"Authorization: Bearer dev-engineer", jsonBody}, 401},
		"the name of an admin": {http.MethodPost, "/graphql", whoAmI, []string{"Authorization: Bearer dev-admin",
			jsonBody}, 401},
		"the name in a cookie": {http.MethodPost, "/graphql", whoAmI, []string{"Cookie: dvt_session=dev-engineer",
			jsonBody}, 401},
		"a page that signed in once":   {http.MethodGet, "/", "", nil, 200},
		"a sample plan":                {http.MethodGet, "/dev/plans/shop", "", nil, 401},
		"the notifications":            {http.MethodGet, "/dev/notify", "", nil, 401},
		"a notification to no address": {http.MethodPost, "/dev/notify", "hello", nil, 405},
		"a notification to a guess":    {http.MethodPost, "/dev/notify/" + strings.Repeat("A", 43), "hello", nil, 404},
		"a link":                       {http.MethodPost, "/dev/link", "", nil, 401},
		"becoming an admin":            {http.MethodPost, "/dev/session", `{"principal":"dev-admin"}`, nil, 403},
		"becoming an admin as a page": {http.MethodPost, "/dev/session", `{"principal":"dev-admin"}`,
			[]string{"Origin: " + h.url}, 401},
		"a wrong key":                 {http.MethodGet, "/?key=" + strings.Repeat("A", 43), "", nil, 403},
		"another name of the machine": {http.MethodGet, "/", "", []string{"Host: evil.example"}, 421},
		"another name, with its own page": {http.MethodPost, "/graphql", whoAmI, []string{"Host: evil.example",
			"Origin: http://evil.example", h.bearer("dev-admin"), jsonBody}, 421},
	} {
		res, text := h.ask(t, c.method, c.path, c.body, c.header...)
		if res.StatusCode != c.status || res.Header.Get("Set-Cookie") != "" || strings.Contains(text, `"principal":"dev-`) {
			t.Errorf("%s: %d, want %d, %q %.200s", name, res.StatusCode, c.status, res.Header.Get("Set-Cookie"), text)
		}
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "tokens": 0o600} {
		info, err := os.Stat(filepath.Join(h.data, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q of the data directory has the mode %v, want %04o (%v)", name, info, mode, err)
		}
	}
	seen := map[string]string{}
	for name, token := range h.tokens {
		if len(token) < 43 || seen[token] != "" {
			t.Errorf("%s has the token %q, like %q", name, token, seen[token])
		}
		seen[token] = name
	}
	h.expectNoLinkForNarrowToken(t)
	h.terminate()
	h.expectTokensSurviveRestart(t)
}

// expectNoLinkForNarrowToken checks that an API token gets no link. A link signs in with all rights of a principal, and
// an API token may have fewer.
func (h *devHome) expectNoLinkForNarrowToken(t *testing.T) {
	t.Helper()
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	_, text := h.ask(t, http.MethodPost, "/graphql", fmt.Sprintf(
		`{"query":"mutation{createToken(input:{requestId:\"r\",name:\"n\",expiresAt:\"%s\",`+
			`grants:[{role:VIEWER,projectId:\"*\",environmentId:\"*\"}]}){secret}}"}`, until), h.bearer("dev-admin"), jsonBody)
	secret := regexp.MustCompile(`dvt_[A-Za-z0-9_-]{43}`).FindString(text)
	if secret == "" {
		t.Fatalf("createToken answered %s, want a token", text)
	}
	if res, text := h.ask(t, http.MethodPost, "/dev/link", "", "Authorization: Bearer "+
		secret); res.StatusCode != http.StatusForbidden || strings.Contains(text, "key=") {
		t.Errorf("a link for a narrow token: %d %s, want 403", res.StatusCode, text)
	}
}

// expectTokensSurviveRestart checks that tokens survive a restart on the same data, and that another data directory has
// other tokens.
func (h *devHome) expectTokensSurviveRestart(t *testing.T) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(h.data, "tokens"))
	must(t, err)
	other := startDev(t)
	for name, token := range h.tokens {
		if other.tokens[name] == token {
			t.Errorf("two data directories give %s the same token", name)
		}
		if res, _ := other.ask(t, http.MethodPost, "/graphql", whoAmI, "Authorization: Bearer "+token,
			jsonBody); name == "dev-engineer" && res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a token of another data directory: %d, want 401", res.StatusCode)
		}
	}
	if after, err := os.ReadFile(filepath.Join(h.data, "tokens")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file of tokens changed after the end of dvt dev (%v)", err)
	}
}

// A web page can send requests to every port of the machine. No port of `dvt dev` lets it end a run through the API of
// Temporal, even where the machine permits no private network for Temporal.
func TestDev_NoPortLetsAPageEndRuns(t *testing.T) {
	h := startDevWith(t, spawnWithoutNamespaces(t))
	if !strings.Contains(h.output(), "other users of this machine can reach the Temporal server of dvt dev") {
		t.Error("dvt dev does not say that other users reach its Temporal server")
	}
	ports := listeningPorts(t, h.pid)
	if len(ports) < 3 {
		t.Fatalf("dvt dev and its servers listen on %v, want several ports", ports)
	}
	body := `{"reason":"evil","visibilityQuery":"ExecutionStatus='Running'","terminationOperation":{"identity":"evil"}}`
	for i, port := range ports {
		for _, host := range []string{"evil.example", "127.0.0.1", "localhost"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				fmt.Sprintf("http://127.0.0.1:%d/api/v1/namespaces/dvt/batch-operations/job-%d-%s", port, i, host),
				strings.NewReader(body))
			must(t, err)
			r.Host = host
			r.Header.Set("Origin", "http://evil.example")
			r.Header.Set("Content-Type", "text/plain")
			if res, err := (&http.Client{Timeout: 5 * time.Second}).Do(r); err == nil {
				if _ = res.Body.Close(); res.StatusCode < 300 {
					t.Errorf("port %d ends runs for %s: %s", port, host, res.Status)
				}
			}
		}
	}
	time.Sleep(2 * time.Second) // Temporal carries the order out in the background
	_, text := h.ask(t, http.MethodPost, "/graphql", fmt.Sprintf(`{"query":"{run(runId:\"%s\"){status}}"}`, h.runID),
		h.bearer("dev-admin"), jsonBody)
	if !strings.Contains(text, "RUNNING") {
		t.Errorf("after the attack the run is %s, want RUNNING", text)
	}
}
