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

// badRequests is how many, unless DVT_BAD_REQUESTS says otherwise.
const badRequests = 20_000

// badRound is how many one server is sent.
const badRound = 2_500

// inside is text of what lies behind the API: Go, SQL, paths.
var inside = regexp.MustCompile(
	`goroutine |runtime error|panic|\.go:\d|sqlite|SQLITE|pgx|SELECT |INSERT |UPDATE run|constraint|/(?:tmp|work|home|root)/|nil pointer|interface conversion|json: |` +
		`strconv\.|invalid character|unexpected end of JSON|context (canceled|deadline)|%!|github\.com|reflect\.|gqlgen|map\[|\*ast\.|<nil>|0x[0-9a-f]{8}|unmarshal|no rows|connection refused|dial tcp`)

// damage judges answers to requests that are wrong.
type damage struct {
	t       *testing.T
	island  *island
	db      *sql.DB
	known   map[string]bool
	outage  map[string]bool // codes of what is really away here
	answers map[string]int
}

func newDamage(t *testing.T) (*damage, *spoiler) {
	t.Helper()
	own := place{"own", "acme", "shop", "dev", "", time.Hour}
	i := settle(t, settling{
		accounts: append(own.accounts(true), accountOf("globex", "mallory", role(authz.Admin, "*", "*"))),
		seed:     func(i *island) { own.seed(i); own.policy(i) }})
	own.print(i)
	d := &damage{
		t: t, island: i, known: map[string]bool{}, answers: map[string]int{},
		outage: map[string]bool{
			string(run.CodeEngineUnavailable): true, string(run.CodeTooManyStreams): true,
			string(run.CodeUnavailable): true, // of those who did not wait
		},
	}
	for _, c := range run.CodeTable() {
		d.known[string(c.Code)] = c.Code != run.CodeInternal
	}
	var err error
	d.db, err = sql.Open("sqlite", i.file)
	must(t, err)
	t.Cleanup(func() { _ = d.db.Close() })
	ops, _ := newAsker(t).operations(own.run("failed"))
	s := &spoiler{ops: ops, things: gather(t, i, own, own), tokens: []string{own.who("ana"), own.who("ola"),
		own.who("eng"), own.who("sre"), "mallory"}}
	return d, s
}

// stored is what a request that is refused must leave as it is; the audit grows.
func (d *damage) stored() (out string) {
	d.t.Helper()
	must(d.t, d.db.QueryRowContext(
		d.t.Context(), `SELECT (SELECT count(*) || ' ' || sum(last_seq) FROM run_head) || ' ' || (SELECT count(*) FROM signal) || ' ' || (SELECT count(*) FROM api_token) || ' ' ||
		(SELECT count(*) FROM policy) || ' ' || (SELECT count(*) FROM setting) || ' ' || (SELECT count(*) FROM approval_decision) || ' ' || (SELECT value FROM meta WHERE name = 'authority')`).Scan(&out))
	return out
}

// contract: Z01
func TestBadInput_NothingBreaksLeaksOrChanges(t *testing.T) {
	n := badRequests
	if v, err := strconv.Atoi(os.Getenv("DVT_BAD_REQUESTS")); err == nil {
		n = v
	}
	goroutines, heap, answers, began := runtime.NumGoroutine(), memory(), map[string]int{}, time.Now()
	for round := 0; round*badRound < n && !t.Failed(); round++ {
		// some requests are not refused: after a while there is another policy
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			d, s := newDamage(t)
			for i := round * badRound; i < min(n, (round+1)*badRound); i++ {
				s.r = rand.New(rand.NewPCG(1, uint64(i)))
				d.request(i, s)
				if i%250 == 0 {
					d.socket(i, s)
				}
			}
			for answer, times := range d.answers {
				answers[answer] += times
			}
			if said := d.island.said.String(); strings.Contains(said, "panic") || strings.Contains(said, "INTERNAL") {
				t.Errorf("the server said %.3000s", said)
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
	after, now := runtime.NumGoroutine(), memory()
	t.Logf("%d requests in %s, heap %d MiB before, %d MiB after, goroutines %d and %d: %v", n, took, heap>>20, now>>20,
		goroutines, after, answers)
	if after > goroutines+10 || now > heap+64<<20 {
		t.Errorf("something is left: %d goroutines, %d MiB", after, now>>20)
	}
}

func memory() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// request sends one request, and judges its answer.
func (d *damage) request(i int, s *spoiler) {
	d.t.Helper()
	r := s.draw()
	patience := time.Minute
	if r.stream {
		patience = 5 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	before := ""
	if r.change {
		before = d.stored()
	}
	answer := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(http.ErrAbortHandler) {
				d.t.Errorf("request %d panics with %v\n%.3000s\n%s", i, p, r.body, debug.Stack())
			}
		}()
		d.island.routes.ServeHTTP(answer, r.WithContext(ctx))
	}()
	d.island.reads()
	refused := d.judge(i, r.Method+" "+r.URL.Path, r.body, answer.Code, answer.Header().Get("Content-Type"),
		answer.Body.String())
	// T222
	inLog := strings.Contains(answer.Body.String(), `"FORBIDDEN"`) && (strings.Contains(r.body, "signalRun(") ||
		strings.Contains(r.body, "cancelRun("))
	if r.change && refused && !inLog {
		if after := d.stored(); after != before {
			d.t.Errorf("request %d was refused and changed %s to %s: %.2000s\n%s", i, before, after, r.body, answer.Body)
		}
	}
}

// judge looks at one answer; it says whether it refused all that was asked.
func (d *damage) judge(i int, at, body string, status int, kind, text string) (refused bool) {
	d.t.Helper()
	bad := func(why string) {
		d.t.Helper()
		d.t.Errorf("request %d (%s) %s: %d %.1500s\nto %.3000q", i, at, why, status, text, body)
	}
	if strings.HasPrefix(kind, "application/") || strings.HasPrefix(kind, "text/event-stream") {
		if !utf8.ValidString(text) {
			bad("is answered with what is no text")
		}
		if m := inside.FindString(text); m != "" && !strings.Contains(body, m) && !strings.Contains(at, m) {
			bad("is told of " + m)
		}
	}
	codes := codeIn.FindAllStringSubmatch(text, -1)
	var out struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
	}
	isGraphQL := strings.Contains(at, "/graphql") && strings.Contains(kind, "json")
	if isGraphQL && json.Unmarshal([]byte(text), &out) != nil {
		bad("is answered with what is no JSON")
	}
	away := false
	for _, e := range out.Errors {
		if !d.known[e.Extensions.Code] || e.Message == "" {
			bad("has no code of the table")
		}
		away = away || d.outage[e.Extensions.Code]
	}
	for _, c := range codes {
		away = away || d.outage[c[1]]
		if c[1] == string(run.CodeInternal) {
			bad("breaks something")
		}
	}
	if status >= 500 && (status != http.StatusServiceUnavailable || !away) && status != http.StatusNotImplemented {
		bad("is not the server's fault")
	}
	key := fmt.Sprint(status)
	if len(out.Errors) > 0 {
		key += " " + out.Errors[0].Extensions.Code
	}
	d.answers[key]++
	return isGraphQL && len(out.Errors) > 0 && (len(out.Data) == 0 || string(out.Data) == "null")
}

// socket says odd things over a websocket until it is closed.
func (d *damage) socket(i int, s *spoiler) {
	d.t.Helper()
	c, res, err := (&websocket.Dialer{
		Subprotocols: []string{pickOne(s.r, "graphql-transport-ws", "graphql-transport-ws", "graphql-ws", "")}}).DialContext(
		d.t.Context(), "ws"+strings.TrimPrefix(d.island.url, "http")+"/graphql", nil)
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
			"ping", "pong", "next", "connection_init", s.oddText()), pickOne(s.r, fmt.Sprint(n), "", "1", s.oddText()), payload)
		kind := websocket.TextMessage
		switch s.r.IntN(20) {
		case 0:
			kind = websocket.BinaryMessage
		case 1:
			m = s.oddText()
		case 2:
			m = m[:s.r.IntN(len(m))]
		}
		if !say(kind, []byte(m)) {
			break
		}
	}
	say(websocket.TextMessage, []byte(`{"type":"no such type"}`)) // which closes it, if nothing has
	for {
		_, m, err := c.ReadMessage()
		if err != nil {
			closed, ok := errors.AsType[*websocket.CloseError](err)
			if !ok || closed.Code == websocket.CloseInternalServerErr || closed.Code == websocket.CloseAbnormalClosure ||
				inside.MatchString(closed.Text) {
				d.t.Errorf("socket %d ends with %v after\n%s", i, err, sent.String())
			} else {
				d.answers[fmt.Sprint("close ", closed.Code)]++
			}
			return
		}
		d.judge(i, "socket", sent.String(), http.StatusOK, "application/json", string(m))
	}
}
