package server_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// badRequests and longBadRequests are the numbers of requests without and with TEST_LONG, unless DVT_BAD_REQUESTS sets
// another one.
const (
	badRequests     = 5_000
	longBadRequests = 20_000
)

// badRequestsPerServer is the number of requests after which the test starts a new server.
const badRequestsPerServer = 2_500

// internals finds text of the implementation in an answer, such as Go, SQL and paths.
var internals = regexp.MustCompile(
	`goroutine |runtime error|panic|\.go:\d|sqlite|SQLITE|pgx|SELECT |INSERT |UPDATE run|constraint|/(?:tmp|work|home|root)/|nil pointer|interface conversion|json: |` +
		`strconv\.|invalid character|unexpected end of JSON|context (canceled|deadline)|%!|github\.com|reflect\.|gqlgen|map\[|\*ast\.|<nil>|0x[0-9a-f]{8}|unmarshal|no rows|connection refused|dial tcp`)

// badInputJudge judges the answers of one server to malformed requests.
type badInputJudge struct {
	t       *testing.T
	server  *seededServer
	db      *sql.DB
	known   map[string]bool
	outage  map[string]bool // codes of services that this server does not have
	answers map[string]int
}

func newBadInputJudge(t *testing.T) (*badInputJudge, *requestFuzzer) {
	t.Helper()
	own := seedScope{"own", "acme", "shop", "dev", "", time.Hour}
	i := startSeededServer(t, seedOptions{
		accounts: append(own.accounts(true), accountOf("globex", "mallory", role(authz.Admin, "*", "*"))),
		seed:     func(i *seededServer) { own.seed(i); own.addPolicy(i) }})
	own.addLogLines(i)
	d := &badInputJudge{
		t: t, server: i, known: map[string]bool{}, answers: map[string]int{},
		outage: map[string]bool{
			string(run.CodeEngineUnavailable): true, string(run.CodeTooManyStreams): true,
			string(run.CodeUnavailable): true, // for requests whose context ended
		},
	}
	for _, c := range run.CodeTable() {
		d.known[string(c.Code)] = c.Code != run.CodeInternal
	}
	var err error
	d.db, err = sql.Open("sqlite", i.file)
	must(t, err)
	t.Cleanup(func() { _ = d.db.Close() })
	ops, _ := newOperationBuilder(t).operations(own.run("failed"))
	s := &requestFuzzer{ops: ops, things: gather(t, i, own, own), tokens: []string{own.principal("ana"),
		own.principal("ola"),
		own.principal("eng"), own.principal("sre"), "mallory"}}
	return d, s
}

// readStoreSummary returns counts and versions of all data that a refused request must not change. It leaves out the
// audit, which gets a row for a refusal.
func (d *badInputJudge) readStoreSummary() (out string) {
	d.t.Helper()
	must(d.t, d.db.QueryRowContext(
		d.t.Context(), `SELECT (SELECT count(*) || ' ' || sum(last_seq) FROM run_head) || ' ' || (SELECT count(*) FROM signal) || ' ' || (SELECT count(*) FROM api_token) || ' ' ||
		(SELECT count(*) FROM policy) || ' ' || (SELECT count(*) FROM setting) || ' ' || (SELECT count(*) FROM approval_decision) || ' ' || (SELECT value FROM meta WHERE name = 'authority')`).Scan(&out))
	return out
}

// contract: Z01
func TestBadInput_NothingBreaksLeaksOrChanges(t *testing.T) {
	n := badRequests
	if os.Getenv("TEST_LONG") != "" {
		n = longBadRequests
	}
	if v, err := strconv.Atoi(os.Getenv("DVT_BAD_REQUESTS")); err == nil {
		n = v
	}
	goroutines, heap, answers, began := runtime.NumGoroutine(), heapInUse(), map[string]int{}, time.Now()
	for round := 0; round*badRequestsPerServer < n && !t.Failed(); round++ {
		// some requests succeed and change the policy, so each round has a new server
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			d, s := newBadInputJudge(t)
			for i := round * badRequestsPerServer; i < min(n, (round+1)*badRequestsPerServer); i++ {
				s.r = rand.New(rand.NewPCG(1, uint64(i)))
				d.sendRequest(i, s)
				if i%250 == 0 {
					d.sendSocketMessages(i, s)
				}
			}
			for answer, times := range d.answers {
				answers[answer] += times
			}
			if logged := d.server.log.String(); strings.Contains(logged, "panic") || strings.Contains(logged, "INTERNAL") {
				t.Errorf("the log of the server has a panic or INTERNAL: %.3000s", logged)
			}
		})
	}
	took := time.Since(began)
	http.DefaultClient.CloseIdleConnections()
	for range 100 {
		if runtime.NumGoroutine() <= goroutines+10 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	after, now := runtime.NumGoroutine(), heapInUse()
	t.Logf("%d requests in %s, heap %d MiB before, %d MiB after, goroutines %d and %d: %v", n, took, heap>>20, now>>20,
		goroutines, after, answers)
	if after > goroutines+10 || now > heap+64<<20 {
		t.Errorf("%d goroutines and %d MiB are left, want at most %d and %d", after, now>>20, goroutines+10, heap>>20+64)
	}
}

func heapInUse() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// sendRequest sends request i and judges its answer.
func (d *badInputJudge) sendRequest(i int, s *requestFuzzer) {
	d.t.Helper()
	r := s.draw()
	patience := time.Minute
	if r.stream {
		patience = 5 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	before := ""
	if r.changes {
		before = d.readStoreSummary()
	}
	answer := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(http.ErrAbortHandler) {
				d.t.Errorf("request %d panicked with %v\n%.3000s\n%s", i, p, r.body, debug.Stack())
			}
		}()
		d.server.routes.ServeHTTP(answer, r.WithContext(ctx))
	}()
	d.server.takeStatements()
	refused := d.judge(i, r.Method+" "+r.URL.Path, r.body, answer.Code, answer.Header().Get("Content-Type"),
		answer.Body.String())
	// the log of a run records a signal without permission (contract T222)
	inLog := strings.Contains(answer.Body.String(), `"FORBIDDEN"`) && (strings.Contains(r.body, "signalRun(") ||
		strings.Contains(r.body, "cancelRun("))
	if r.changes && refused && !inLog {
		if after := d.readStoreSummary(); after != before {
			d.t.Errorf("request %d was refused, and the store changed from %s to %s: %.2000s\n%s", i, before, after, r.body,
				answer.Body)
		}
	}
}

// judge checks one answer and reports whether it refused the whole operation.
func (d *badInputJudge) judge(i int, at, body string, status int, kind, text string) (refused bool) {
	d.t.Helper()
	bad := func(why string) {
		d.t.Helper()
		d.t.Errorf("request %d (%s) %s: %d %.1500s\nto %.3000q", i, at, why, status, text, body)
	}
	if strings.HasPrefix(kind, "application/") || strings.HasPrefix(kind, "text/event-stream") {
		if !utf8.ValidString(text) {
			bad("is answered with invalid UTF-8")
		}
		withoutLinks := strings.ReplaceAll(text, "https://github.com/dvt-engine/dvt/blob/main/docs/", "")
		if m := internals.FindString(withoutLinks); m != "" && !strings.Contains(body, m) && !strings.Contains(at, m) {
			bad("reveals the internal text " + m)
		}
	}
	codes := codePattern.FindAllStringSubmatch(text, -1)
	var out struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
	}
	isGraphQL := strings.Contains(at, "/graphql") && strings.Contains(kind, "json")
	if isGraphQL && json.Unmarshal([]byte(text), &out) != nil {
		bad("is answered with invalid JSON")
	}
	away := false
	for _, e := range out.Errors {
		if !d.known[e.Extensions.Code] || e.Message == "" {
			bad("is answered without a code of the table")
		}
		away = away || d.outage[e.Extensions.Code]
	}
	for _, c := range codes {
		away = away || d.outage[c[1]]
		if c[1] == string(run.CodeInternal) {
			bad("is answered with INTERNAL")
		}
	}
	if status >= 500 && (status != http.StatusServiceUnavailable || !away) && status != http.StatusNotImplemented {
		bad("is answered with a server error")
	}
	key := fmt.Sprint(status)
	if len(out.Errors) > 0 {
		key += " " + out.Errors[0].Extensions.Code
	}
	d.answers[key]++
	return isGraphQL && len(out.Errors) > 0 && (len(out.Data) == 0 || string(out.Data) == "null")
}

// sendSocketMessages sends malformed messages over a websocket until the server closes it.
func (d *badInputJudge) sendSocketMessages(i int, s *requestFuzzer) {
	d.t.Helper()
	c, res, err := (&websocket.Dialer{
		Subprotocols: []string{pickOne(s.r, "graphql-transport-ws", "graphql-transport-ws", "graphql-ws", "")}}).DialContext(
		d.t.Context(), "ws"+strings.TrimPrefix(d.server.url, "http")+"/graphql", nil)
	if err != nil {
		d.t.Errorf("socket %d: %v %v", i, err, res)
		return
	}
	_ = res.Body.Close()
	defer c.Close()
	must(d.t, c.SetReadDeadline(time.Now().Add(testtime.Of(20*time.Second))))
	var sent strings.Builder
	say := func(kind int, m []byte) bool {
		fmt.Fprintf(&sent, "%d %.500q\n", kind, m)
		return c.WriteMessage(kind, m) == nil
	}
	if s.r.IntN(4) > 0 {
		say(websocket.TextMessage, []byte(`{"type":"connection_init","payload":{"Authorization":"Bearer `+s.tokens[0]+`"}}`))
	}
	for n := range 1 + s.r.IntN(8) {
		op := s.draw()
		payload := pickOne(s.r, op.body, "{}", "null", `"x"`, "[]")
		m := fmt.Sprintf(`{"type":%q,"id":%q,"payload":%s}`, pickOne(s.r, "subscribe", "subscribe", "subscribe", "complete",
			"ping", "pong", "next", "connection_init", s.randomText()), pickOne(s.r, fmt.Sprint(n), "", "1", s.randomText()),
			payload)
		kind := websocket.TextMessage
		switch s.r.IntN(20) {
		case 0:
			kind = websocket.BinaryMessage
		case 1:
			m = s.randomText()
		case 2:
			m = m[:s.r.IntN(len(m))]
		}
		if !say(kind, []byte(m)) {
			break
		}
	}
	say(websocket.TextMessage, []byte(`{"type":"no such type"}`)) // closes the socket, if it is still open
	for {
		_, m, err := c.ReadMessage()
		if err != nil {
			closed, ok := errors.AsType[*websocket.CloseError](err)
			if !ok || closed.Code == websocket.CloseInternalServerErr || closed.Code == websocket.CloseAbnormalClosure ||
				internals.MatchString(closed.Text) {
				d.t.Errorf("socket %d ended with %v, want a close code without internal text, after\n%s", i, err, sent.String())
			} else {
				d.answers[fmt.Sprint("close ", closed.Code)]++
			}
			return
		}
		d.judge(i, "socket", sent.String(), http.StatusOK, "application/json", string(m))
	}
}
