package server_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/store"
)

// The stranger's walk requests each field of the schema with ids of things that a stranger has no right to. It sends
// the requests to three servers and compares the answers. Full has the things and gets requests with their ids. Mirror
// has them too and gets ids of things that do not exist. Empty does not have them and gets the same requests as Full. A
// difference in status, header, body, frames, close codes or SQL statements would reveal something to the stranger. The
// statements stand for the time that an answer takes.

const (
	secretMark  = "Qz7"
	nowhereMark = "Zq9"
)

// walk is one stranger on three servers.
type walk struct {
	t                    *testing.T
	full, mirror, empty  *seededServer
	token                string
	things, absentThings map[string][]string // by key of a slot; the absent thing at an index is like the thing there
	// totals of the tenant, which all its people may read (Query.quotas, QueueEntryConnection.depth)
	totals   *regexp.Regexp
	sent     map[string]bool
	answers  map[string]int
	requests int
}

// contract: Z01, T101, G03
func TestStranger_LearnsNothingOfAnotherTenant(t *testing.T) {
	t.Parallel()
	secret := seedScope{secretMark, secretMark + "-tenant", secretMark + "-project", secretMark + "-env", "", time.Hour}
	own := seedScope{"own", "globex", "shop", "dev", "mallory", 2 * time.Hour}
	strangers := append(own.accounts(true), accountOf("globex", "mallory", role(authz.Admin, "*", "*")))
	inhabited := seedOptions{
		accounts: append(secret.accounts(true), strangers...),
		seed:     func(w *seededServer) { own.seed(w); secret.seed(w); secret.addPolicy(w) },
	}
	w := newWalk(t, "mallory", secret, own, inhabited, seedOptions{accounts: strangers, seed: own.seed})
	w.ask(own)
	w.askOverSockets(own)
	w.askOtherPaths(secret)
	w.askUnauthenticated(own)
	w.logSummary()
}

// contract: O3, T222
func TestStranger_LearnsNothingOfAnotherProject(t *testing.T) {
	t.Parallel()
	secret := seedScope{secretMark, "acme", secretMark + "-project", secretMark + "-env", "", time.Hour}
	own := seedScope{"own", "acme", "shop", "dev", "pia", 2 * time.Hour}
	strangers := append(own.accounts(false), accountOf("acme", "pia", role(authz.Admin, own.project, "*")))
	inhabited := seedOptions{accounts: append(secret.accounts(false), strangers...),
		seed: func(w *seededServer) { own.seed(w); secret.seed(w) }}
	w := newWalk(t, "pia", secret, own, inhabited, seedOptions{accounts: strangers, seed: own.seed})
	w.totals = regexp.MustCompile(
		`"(active|depth|queueDepth|position|estimatedWaitMs|tokensRemaining|usedPercent)":[0-9.]+`)
	w.ask(own)
	w.askOverSockets(own)
	w.askOtherPaths(secret)
	w.logSummary()
}

func newWalk(t *testing.T, token string, secret, own seedScope, inhabited, uninhabited seedOptions) *walk {
	t.Helper()
	w := &walk{t: t, token: token, sent: map[string]bool{}, answers: map[string]int{}}
	w.full, w.mirror, w.empty = startSeededServer(t, inhabited), startSeededServer(t, inhabited), startSeededServer(t,
		uninhabited)
	for _, i := range []*seededServer{w.full, w.mirror} {
		secret.addLogLines(i)
	}
	for _, i := range w.servers() {
		own.addLogLines(i)
	}
	w.things = gather(t, w.full, secret, own)
	for _, i := range w.servers() {
		i.takeStatements()
	}
	w.absentThings = map[string][]string{}
	for key, list := range w.things {
		for _, s := range list {
			w.absentThings[key] = append(w.absentThings[key], absentName(s))
		}
	}
	return w
}

func (w *walk) servers() []*seededServer { return []*seededServer{w.full, w.mirror, w.empty} }

// gather returns the ids, names and cursors of the things in the secret scope, by key of a slot. It reads them as their
// owners.
func gather(t *testing.T, w *seededServer, secret, own seedScope) map[string][]string {
	t.Helper()
	ref, doc := secret.plan()
	_, mine := own.plan()
	out := map[string][]string{
		"token": {secret.uuid("tokenone"), secret.uuid("tokentwo")}, "project": {secret.project, own.project},
		"environment": {secret.environment, own.environment},
		"tenant":      {secret.tenant}, "plan": {secret.mark + "-plan"}, "principal": {secret.principal("ana"),
			secret.principal("eng")},
		"any": {"*", secret.project},
		"sha": {ref.SHA256}, "uri": {ref.URI}, "text": {secret.mark}, "name": {secret.text("token one"),
			secret.principal("ana")},
		"document": {string(doc), string(mine)},
	}
	for _, kind := range runKinds {
		out["run"], out["step"] = append(out["run"], secret.run(kind)), append(out["step"], secret.step(kind))
		out["signal"], out["request"] = append(out["signal"], secret.signal(kind)), append(out["request"], secret.mark+
			"-request-"+kind)
	}
	as := secret.principal("ana")
	take := func(key, query string) {
		a := ask(t, w.url, query, nil, "Authorization: Bearer "+as)
		var data any
		must(t, json.Unmarshal([]byte(a.body), &data))
		found := stringsUnder(data, "v")
		if len(found) == 0 && !strings.Contains(a.body, "FORBIDDEN") && key != "manualToken" &&
			!strings.Contains(a.body, "NOT_SUPPORTED") {
			t.Errorf("the owner of the secret scope finds no %s: %s", key, a.body)
		}
		out[key] = append(out[key], found...)
	}
	take("epoch", fmt.Sprintf(`{run(runId:%q){v:storeEpoch}}`, secret.run("running")))
	// the requester of a run may not get the token
	for _, as = range []string{secret.principal("eng"), secret.principal("ana")} {
		take("manualToken", `{manualTasks{edges{node{v:token instructions}}}}`)
	}
	for _, list := range []string{"deadLetters", "deadLetters(runId:" + `"` + secret.run("deadLetter") + `")`} {
		take("deadLetter", `{`+list+`{edges{node{v:id}}}}`)
		take("node", `{`+list+`{edges{node{v:id}}}}`)
		take("cursor:Query.deadLetters", `{`+list+`{edges{v:cursor}}}`)
	}
	for _, key := range []string{"bulk", "node"} {
		take(key, `{bulks{edges{node{v:id}}}}`)
	}
	take("cursor:Bulk.rows", fmt.Sprintf(`{bulk(id:%q){rows{edges{v:cursor}}}}`, secret.bulk()))
	take("node", `{runs{edges{node{v:id}}}}`)
	take("node", fmt.Sprintf(`{run(runId:%q){signals{edges{node{v:id}}}}}`, secret.run("failed")))
	take("cursor:Run.signals", fmt.Sprintf(`{run(runId:%q){signals{edges{v:cursor}}}}`, secret.run("failed")))
	for _, list := range []string{"runs", "manualTasks", "tokens(all:true)", "policyHistory", "quotaHistory", "audit",
		"queue", "approvals", "bulks", "plans", "attention", "secretAccess"} {
		name, _, _ := strings.Cut(list, "(")
		take("cursor:Query."+name, `{`+list+`{edges{v:cursor}}}`)
	}
	take("alert", `{alerts{edges{node{v:id}}}}`)
	take("cursor:Query.alerts", `{alerts{edges{v:cursor}}}`)
	take("incident", `{incidents{edges{node{v:id}}}}`)
	take("cursor:Query.incidents", `{incidents{edges{v:cursor}}}`)
	take("silence", `{alertSilences{v:id}}`)
	take("cursor:Query.logSearch", fmt.Sprintf(`{logSearch(in:{runId:%q},find:"a line"){edges{v:cursor}}}`,
		secret.run("failed")))
	cursor := func(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }
	out["cursor:Step.dbtNodes"] = []string{cursor("1")}    // its cursor is a number
	out["cursor:Step.nodes"] = []string{cursor("1")}       // its cursor is a number
	out["cursor:Run.artifactList"] = []string{cursor("1")} // its cursor is a number
	out["cursor:Query.tokens"] = append(out["cursor:Query.tokens"], cursor(secret.uuid("tokenone")))
	out["cursor:Query.deadLetters"] = append(out["cursor:Query.deadLetters"], cursor(secret.uuid("deadLetter")))
	out["destination"] = []string{secret.mark + "-hook"}
	out["hold"] = []string{secret.uuid("hold")}
	out["cursor:Query.legalHolds"] = []string{cursor(secret.uuid("hold"))}
	out["cursor:Query.retentionHistory"] = []string{cursor("9")} // its cursor is a number
	out["cursor:Query.deadDeliveries"] = []string{cursor("9")}   // its cursor is a number
	out["cursor:Query.erasures"] = []string{cursor("9")}         // its cursor is a number
	out["cursor:Query.queue"] = append(out["cursor:Query.queue"], cursor(secret.run("waiting")))
	out["cursor:Query.approvals"] = append(out["cursor:Query.approvals"], cursor(secret.run("approval")))
	// A cursor of auditCheck names a kind and a number, and shows objects of the tenant of its reader.
	out["cursor:Query.auditCheck"] = []string{cursor("0:1"), cursor("1:")}
	for key, list := range out {
		if out[key] = slices.DeleteFunc(list, func(s string) bool { return s == "" }); len(out[key]) == 0 {
			out[key] = []string{secret.principal("nothing")}
		}
	}
	return out
}

// stringsUnder returns all strings of fields with this name anywhere in v.
func stringsUnder(v any, name string) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = append(out, stringsUnder(e, name)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if s, ok := v[key].(string); ok && key == name {
				out = append(out, s)
				continue
			}
			out = append(out, stringsUnder(v[key], name)...)
		}
	}
	return out
}

var (
	uuidText  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hexText   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	timeText  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	clockText = regexp.MustCompile(`\d\d:\d\d:\d\d UTC`)
	numberOf  = regexp.MustCompile(`"(latencyMs|lagMs|oldestWaitingSeconds)":[0-9.]+`)
	epochText = regexp.MustCompile(`"storeEpoch":"[^"]*"`)
	secretOf  = regexp.MustCompile(`dvt_[A-Za-z0-9_-]+`)
	codedText = regexp.MustCompile(`[A-Za-z0-9_-]{8,}`)
)

// decodeWord decodes base64, and reports whether the result is printable text.
func decodeWord(word string) (string, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || !utf8.Valid(raw) {
		return "", false
	}
	for _, r := range string(raw) {
		if r < ' ' || r > '~' {
			return "", false
		}
	}
	return string(raw), true
}

// generatedName finds ids that dvt generated.
var generatedName = regexp.MustCompile(uuidText.String() + "|" + hexText.String())

// otherDigit returns another hexadecimal digit, and all other runes unchanged.
func otherDigit(r rune) rune {
	if i := strings.IndexRune("0123456789abcdef", r); i >= 0 {
		return rune("123456789abcdef0"[i])
	}
	return r
}

// absentName returns an id or name of the same form as s that names nothing.
func absentName(s string) string {
	switch text, ok := decodeWord(s); {
	case strings.Contains(s, secretMark):
		return strings.ReplaceAll(s, secretMark, nowhereMark)
	case generatedName.MatchString(s):
		return generatedName.ReplaceAllStringFunc(s, func(id string) string { return strings.Map(otherDigit, id) })
	case ok:
		return base64.RawURLEncoding.EncodeToString([]byte(absentName(text)))
	case strings.HasPrefix(s, "k."): // a manual token
		return "k." + strings.Repeat("A", len(s)-2)
	}
	return s
}

// normalise replaces parts that differ between any two answers, such as times and request ids.
func normalise(s string) string {
	s = codedText.ReplaceAllStringFunc(s, func(word string) string {
		if text, ok := decodeWord(word); ok && (generatedName.MatchString(text) || timeText.MatchString(text) ||
			strings.Contains(text, nowhereMark) || strings.Contains(text, secretMark)) {
			return "coded(" + text + ")"
		}
		return word
	})
	s = uuidText.ReplaceAllString(s, "UUID")
	s = hexText.ReplaceAllString(s, "HASH")
	s = timeText.ReplaceAllString(s, "TIME")
	s = clockText.ReplaceAllString(s, "TIME")
	s = secretOf.ReplaceAllString(s, "SECRET")
	s = numberOf.ReplaceAllString(s, `"$1":0`)
	s = epochText.ReplaceAllString(s, `"storeEpoch":"EPOCH"`)
	return requestID.ReplaceAllString(s, `"requestId":""`)
}

// reply is the answer to a request and the statements that it caused.
type reply struct {
	status     int
	header     string
	body       string
	statements []string
}

// withoutInputs returns the reply as text without the inputs of the request, which put has by key.
func (r reply) withoutInputs(put map[string]string) string {
	s := normalise(r.body)
	keys := slices.SortedFunc(maps.Keys(put), func(a, b string) int { return len(put[b]) - len(put[a]) })
	for _, key := range keys {
		quoted, _ := json.Marshal(put[key])
		s = strings.ReplaceAll(s, normalise(strings.Trim(string(quoted), `"`)), "‹"+key+"›")
	}
	// earlier requests left their inputs in the audit and the tokens of the stranger
	s = strings.ReplaceAll(s, nowhereMark, secretMark)
	return fmt.Sprintf("%d %s\n%s\n%s", r.status, r.header, s, strings.Join(r.statements, "\n"))
}

func formatHeader(h http.Header) string {
	h = h.Clone()
	for _, name := range []string{"Date", "Content-Length", "X-Request-Id"} { // differ in each reply
		h.Del(name)
	}
	var b strings.Builder
	_ = h.Write(&b) // a strings.Builder returns no errors
	return normalise(strings.ReplaceAll(b.String(), "\r\n", "; "))
}

// post sends an operation and returns its reply. Of a stream it reads only the first frame.
func (i *seededServer) post(op operation, vars any, token string) reply {
	i.t.Helper()
	body, err := json.Marshal(map[string]any{"query": op.document, "variables": vars})
	must(i.t, err)
	ctx, cancel := context.WithTimeout(i.t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url+"/graphql", strings.NewReader(string(body)))
	must(i.t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if op.kind == ast.Subscription {
		r.Header.Set("Accept", "text/event-stream")
	}
	res, err := http.DefaultClient.Do(r)
	must(i.t, err)
	defer res.Body.Close()
	out := reply{status: res.StatusCode, header: formatHeader(res.Header)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		out.body = readFirstFrame(res.Body)
	} else {
		read, err := io.ReadAll(res.Body)
		must(i.t, err)
		out.body = string(read)
	}
	out.statements = slices.Sorted(slices.Values(i.takeStatements()))
	return out
}

func readFirstFrame(body io.Reader) string {
	var b strings.Builder
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		b.WriteString(lines.Text() + "\n")
		if lines.Text() == "" && strings.Contains(b.String(), "event: next") {
			break
		}
	}
	return b.String()
}

// ask sends all operations, and all queries and subscriptions again, because then the stranger has things of his own.
func (w *walk) ask(own seedScope) {
	w.t.Helper()
	a := newOperationBuilder(w.t)
	ops, fields := a.operations(own.run("failed"))
	for key := range a.used {
		if len(w.things[key]) == 0 {
			w.t.Errorf("the walk has no %s of the secret scope: read one in gather", key)
		}
	}
	for _, node := range a.schema.GetPossibleTypes(a.schema.Types["Node"]) {
		isOfNode := func(id string) bool { text, _ := decodeWord(id); return strings.HasPrefix(text, node.Name+":") }
		if !slices.ContainsFunc(w.things["node"], isOfNode) {
			w.t.Errorf("the walk has no opaque id of a %s", node.Name)
		}
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
	for round := range 2 {
		for _, op := range ops {
			if round == 1 && op.kind == ast.Mutation {
				continue
			}
			w.vary(op, maxVariants(round, op), func(foreign, missing map[string]any, put, away map[string]string) {
				w.compare(op, put, away, w.full.post(op, foreign, w.token), w.mirror.post(op, missing, w.token),
					w.empty.post(op, foreign, w.token))
			})
		}
		for _, i := range w.servers() {
			_, err := i.store.LinkAudit(w.t.Context(), store.MaxPage)
			must(w.t, err)
		}
	}
	w.t.Logf("%d fields in %d variants", fields, len(ops))
}

// maxVariants returns the number of things with which an operation is sent: all things for the minimal operation of a
// field in the first round, otherwise 3.
func maxVariants(round int, op operation) int {
	if round == 0 && op.minimal {
		return math.MaxInt
	}
	return 3
}

// vary calls each with the variables of an operation for one thing after the other, for at most most things. foreign
// has the things, missing the absent ones; put and away have the inputs by key.
func (w *walk) vary(op operation, most int, each func(foreign, missing map[string]any, put, away map[string]string)) {
	n, used := 1, map[string]string{}
	fillSlots(op.variables, func(key string) string { n = max(n, len(w.things[key])); return "" }, used)
	for i := range min(n, most) {
		pick := func(from map[string][]string) func(string) string {
			return func(key string) string { return from[key][i%len(from[key])] }
		}
		put, away := map[string]string{}, map[string]string{}
		foreign, missing := fillSlots(op.variables, pick(w.things), put).(map[string]any),
			fillSlots(op.variables, pick(w.absentThings), away).(map[string]any)
		for _, s := range put {
			w.sent[s] = true
		}
		each(foreign, missing, put, away)
	}
}

// codePattern finds the error codes of an answer.
var codePattern = regexp.MustCompile(`"code":"([A-Z_0-9]+)"`)

// compare fails the test when the replies of the three servers differ.
func (w *walk) compare(op operation, put, away map[string]string, full, mirror, empty reply) {
	w.t.Helper()
	w.requests += 3
	code := "data"
	if m := codePattern.FindStringSubmatch(full.body); m != nil {
		code = m[1]
	}
	w.answers[code]++
	switch code {
	case "QUERY_TOO_COMPLEX", "QUERY_TOO_DEEP", "INTERNAL", "TOO_MANY_ALIASES":
		w.t.Errorf("the request for %s was not executed: %s\n%s", op.field, full.body, op.document)
	}
	if op.field == "Query.health" {
		for _, r := range []*reply{&full, &mirror, &empty} {
			r.statements = slices.DeleteFunc(r.statements, isOfHealth)
		}
	}
	if w.totals != nil {
		for _, r := range []*reply{&full, &mirror, &empty} {
			r.body = w.totals.ReplaceAllString(r.body, `"$1":0`)
		}
	}
	if diff := cmp.Diff(strings.Split(empty.withoutInputs(put), "\n"), strings.Split(full.withoutInputs(put),
		"\n")); diff != "" {
		w.t.Errorf("%s %v differs from a server without the things (-without +with):\n%s", op.field, put, diff)
	}
	if diff := cmp.Diff(strings.Split(mirror.withoutInputs(away), "\n"), strings.Split(full.withoutInputs(put),
		"\n")); diff != "" {
		w.t.Errorf("%s %v differs from the reply for an absent thing (-missing +existing):\n%s", op.field, put, diff)
	}
}

// isOfHealth reports whether a statement belongs to the write that proves that the store can be written, or reads the
// reports of workers. All callers share their results, and they are repeated when they are old.
func isOfHealth(statement string) bool {
	return statement == "COMMIT" || statement == "UPDATE meta SET value = value WHERE name = 'epoch'" ||
		strings.HasPrefix(statement, "SELECT account, worker, queue, doc, at FROM worker_report ")
}

// askOverSockets sends all subscriptions over websockets.
func (w *walk) askOverSockets(own seedScope) {
	ops, _ := newOperationBuilder(w.t).operations(own.run("failed"))
	for _, op := range ops {
		if op.kind != ast.Subscription {
			continue
		}
		w.vary(op, maxVariants(0, op), func(foreign, missing map[string]any, put, away map[string]string) {
			w.compare(op, put, away, w.full.askOverSocket(op, foreign, w.token), w.mirror.askOverSocket(op, missing, w.token),
				w.empty.askOverSocket(op, foreign, w.token))
		})
	}
}

// askOverSocket subscribes and reads until the first frame or the end. Then it sends complete and ping, and reads until
// the pong or the close of the socket.
func (i *seededServer) askOverSocket(op operation, vars any, token string) reply {
	i.t.Helper()
	c := dial(i.t, strings.TrimPrefix(i.url, "http://")+"/graphql", fmt.Sprintf(`{"Authorization":"Bearer %s"}`, token))
	defer c.Close()
	message, err := json.Marshal(
		map[string]any{"type": "subscribe", "id": "1", "payload": map[string]any{"query": op.document, "variables": vars}})
	must(i.t, err)
	_ = c.WriteMessage(websocket.TextMessage, message)
	var out reply
	var b strings.Builder
	completed := false
	for {
		_, m, err := c.ReadMessage()
		if err != nil {
			b.WriteString(err.Error())
			break
		}
		b.Write(m)
		b.WriteString("\n")
		if strings.Contains(string(m), `"type":"pong"`) {
			break
		}
		if !completed && !strings.Contains(string(m), `"connection_ack"`) {
			completed = true
			must(i.t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"complete","id":"1"}`)))
			must(i.t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"ping"}`)))
		}
	}
	out.body, out.statements = b.String(), slices.Sorted(slices.Values(i.takeStatements()))
	return out
}

// askOtherPaths sends requests to all paths other than /graphql.
func (w *walk) askOtherPaths(secret seedScope) {
	w.t.Helper()
	for _, token := range []string{w.token, ""} {
		for _, kind := range runKinds {
			for _, path := range []string{
				"GET /engine/runs/%s/debug", "GET /engine/runs/%s/steps/" + secret.step(kind) + "/logs",
				"POST /engine/runs/%s/inspect", "GET /runs/%s", "GET /artifacts/%s",
				"GET /artifacts/%s/" + secret.step(kind) + "/1/1/run_results.json",
				"GET /logs/%s/" + secret.step(kind) + "/1",
				"GET /dev/plans/%s", "GET /engine/runs/%s", "GET /engine/health/detailed?runId=%s", "POST /engine/journal?runId=%s",
			} {
				get := func(i *seededServer, id string) reply {
					method, at, _ := strings.Cut(fmt.Sprintf(path, id), " ")
					body := fmt.Sprintf(`{"begin":{"runId":%q,"stepId":%q,"logicalAttempt":1,"engineAttempt":1}}`, id, secret.step(kind))
					a := send(w.t, method, i.url+at, body, "Authorization: Bearer "+token)
					return reply{a.StatusCode, formatHeader(a.Header), a.body, slices.Sorted(slices.Values(i.takeStatements()))}
				}
				id := secret.run(kind)
				put, away := map[string]string{"run": id}, map[string]string{"run": absentName(id)}
				w.compare(operation{field: path}, put, away, get(w.full, id), get(w.mirror, absentName(id)), get(w.empty, id))
			}
		}
	}
	for _, path := range []string{"/metrics", "/engine/health", "/engine/health/detailed", "/livez", "/readyz", "/",
		"/docs/api", "/debug/pprof/"} {
		if a := get(w.t, w.full.url+path); strings.Contains(a.body+formatHeader(a.Header), secretMark) {
			w.t.Errorf("%s names a thing of the secret scope: %s", path, a.body)
		}
	}
}

// askUnauthenticated sends all operations without a valid token. All answers must be equal and cause no statements.
func (w *walk) askUnauthenticated(own seedScope) {
	w.t.Helper()
	ops, _ := newOperationBuilder(w.t).operations(own.run("failed"))
	for _, token := range []string{"", "wrong"} {
		w.full.takeStatements()
		c := w.full.askOverSocket(operation{document: `subscription{runListUpdates{sync}}`}, nil, token)
		if !strings.Contains(c.body, "4401") || len(c.statements) > 0 {
			w.t.Errorf("a socket without a valid token: %+v, want close 4401 and no statements", c)
		}
		first := ""
		for _, op := range ops {
			w.vary(op, 1, func(foreign, _ map[string]any, put, _ map[string]string) {
				got := w.full.post(op, foreign, token)
				w.requests++
				w.answers["unauthenticated"]++
				if got.status == http.StatusTooManyRequests { // wrong tokens are limited for all operations alike
					return
				}
				if first == "" {
					first = got.withoutInputs(nil)
				}
				if got.status != http.StatusUnauthorized || got.withoutInputs(nil) != first || len(got.statements) > 0 {
					w.t.Errorf("%s with the token %q and %v: %s, want the answer %s", op.field, token, put, got.withoutInputs(nil),
						first)
				}
			})
		}
	}
}

func (w *walk) logSummary() {
	w.t.Logf("%d requests, %d names of things, answers: %v", w.requests, len(w.sent), w.answers)
}
