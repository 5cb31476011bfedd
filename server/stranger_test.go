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

// The stranger's walk: somebody asks every field of the schema about things that are not
// theirs. Three servers are asked the same at the same time. Full has the things, and is asked
// about them; Mirror has them too, and is asked about others that do not exist; Empty does
// not have them, and is asked as Full. Whatever a stranger could learn would be a
// difference: in status, header, body, frames, close codes, or in the statements that the
// store ran (which is what there is of time without a clock).

const (
	secretMark  = "Qz7"
	nowhereMark = "Zq9"
)

// walk is one stranger on three servers.
type walk struct {
	t                   *testing.T
	full, mirror, empty *island
	token               string
	things, nothings    map[string][]string // by key; those at the same index are alike but for what they name
	// what the tenant uses as a whole, which is for everybody in it (Query.quotas, QueueEntryConnection.depth)
	totals   *regexp.Regexp
	sent     map[string]bool
	answers  map[string]int
	requests int
}

// contract: Z01, T101, G03
func TestStranger_AnotherTenant(t *testing.T) {
	t.Parallel()
	secret := place{secretMark, secretMark + "-tenant", secretMark + "-project", secretMark + "-env", "", time.Hour}
	own := place{"own", "globex", "shop", "dev", "mallory", 2 * time.Hour}
	strangers := append(own.accounts(true), accountOf("globex", "mallory", role(authz.Admin, "*", "*")))
	inhabited := settling{
		accounts: append(secret.accounts(true), strangers...),
		seed:     func(w *island) { own.seed(w); secret.seed(w); secret.policy(w) },
	}
	w := newWalk(t, "mallory", secret, own, inhabited, settling{accounts: strangers, seed: own.seed})
	w.ask(own)
	w.sockets(own)
	w.addresses(secret)
	w.nobody(own)
	w.summary()
}

// contract: O3, T222
func TestStranger_AnotherProject(t *testing.T) {
	t.Parallel()
	secret := place{secretMark, "acme", secretMark + "-project", secretMark + "-env", "", time.Hour}
	own := place{"own", "acme", "shop", "dev", "pia", 2 * time.Hour}
	strangers := append(own.accounts(false), accountOf("acme", "pia", role(authz.Admin, own.project, "*")))
	inhabited := settling{accounts: append(secret.accounts(false), strangers...),
		seed: func(w *island) { own.seed(w); secret.seed(w) }}
	w := newWalk(t, "pia", secret, own, inhabited, settling{accounts: strangers, seed: own.seed})
	w.totals = regexp.MustCompile(
		`"(active|depth|queueDepth|position|estimatedWaitMs|tokensRemaining|usedPercent)":[0-9.]+`)
	w.ask(own)
	w.sockets(own)
	w.addresses(secret)
	w.summary()
}

func newWalk(t *testing.T, token string, secret, own place, inhabited, uninhabited settling) *walk {
	t.Helper()
	w := &walk{t: t, token: token, sent: map[string]bool{}, answers: map[string]int{}}
	w.full, w.mirror, w.empty = settle(t, inhabited), settle(t, inhabited), settle(t, uninhabited)
	for _, i := range []*island{w.full, w.mirror} {
		secret.print(i)
	}
	for _, i := range w.islands() {
		own.print(i)
	}
	w.things = gather(t, w.full, secret, own)
	for _, i := range w.islands() {
		i.reads()
	}
	w.nothings = map[string][]string{}
	for key, list := range w.things {
		for _, s := range list {
			w.nothings[key] = append(w.nothings[key], twin(s))
		}
	}
	return w
}

func (w *walk) islands() []*island { return []*island{w.full, w.mirror, w.empty} }

// gather finds what its owners know of the secret place.
func gather(t *testing.T, w *island, secret, own place) map[string][]string {
	t.Helper()
	ref, doc := secret.plan()
	_, mine := own.plan()
	out := map[string][]string{
		"token": {secret.uuid("tokenone"), secret.uuid("tokentwo")}, "project": {secret.project, own.project},
		"environment": {secret.environment, own.environment},
		"tenant":      {secret.tenant}, "plan": {secret.mark + "-plan"}, "principal": {secret.who("ana"), secret.who("eng")},
		"any": {"*", secret.project},
		"sha": {ref.SHA256}, "uri": {ref.URI}, "text": {secret.mark}, "name": {secret.said("token one"), secret.who("ana")},
		"document": {string(doc), string(mine)},
	}
	for _, kind := range runKinds {
		out["run"], out["step"] = append(out["run"], secret.run(kind)), append(out["step"], secret.step(kind))
		out["signal"], out["request"] = append(out["signal"], secret.signal(kind)), append(out["request"], secret.mark+
			"-request-"+kind)
	}
	as := secret.who("ana")
	take := func(key, query string) {
		a := ask(t, w.url, query, nil, "Authorization: Bearer "+as)
		var data any
		must(t, json.Unmarshal([]byte(a.body), &data))
		found := leaves(data, "v")
		if len(found) == 0 && !strings.Contains(a.body, "FORBIDDEN") && key != "manualToken" &&
			!strings.Contains(a.body, "NOT_SUPPORTED") {
			t.Errorf("the owner of the place finds no %s: %s", key, a.body)
		}
		out[key] = append(out[key], found...)
	}
	take("epoch", fmt.Sprintf(`{run(runId:%q){v:storeEpoch}}`, secret.run("running")))
	for _, as = range []string{secret.who("eng"), secret.who("ana")} { // who asked for the run may have none
		take("manualToken", `{manualTasks{edges{node{v:token instructions}}}}`)
	}
	for _, list := range []string{"deadLetters", "deadLetters(runId:" + `"` + secret.run("letter") + `")`} {
		take("letter", `{`+list+`{edges{node{v:id}}}}`)
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
		"queue", "approvals", "bulks"} {
		name, _, _ := strings.Cut(list, "(")
		take("cursor:Query."+name, `{`+list+`{edges{v:cursor}}}`)
	}
	cursor := func(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }
	out["cursor:Step.dbtNodes"] = []string{cursor("1")} // it counts
	out["cursor:Query.tokens"] = append(out["cursor:Query.tokens"], cursor(secret.uuid("tokenone")))
	out["cursor:Query.deadLetters"] = append(out["cursor:Query.deadLetters"], cursor(secret.uuid("letter")))
	out["cursor:Query.queue"] = append(out["cursor:Query.queue"], cursor(secret.run("waiting")))
	out["cursor:Query.approvals"] = append(out["cursor:Query.approvals"], cursor(secret.run("approval")))
	// A cursor of auditCheck names a kind and a number, and shows objects of the tenant of its reader.
	out["cursor:Query.auditCheck"] = []string{cursor("0:1"), cursor("1:")}
	for key, list := range out {
		if out[key] = slices.DeleteFunc(list, func(s string) bool { return s == "" }); len(out[key]) == 0 {
			out[key] = []string{secret.who("nothing")}
		}
	}
	return out
}

// leaves are the strings under a name, anywhere in a value.
func leaves(v any, name string) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = append(out, leaves(e, name)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if s, ok := v[key].(string); ok && key == name {
				out = append(out, s)
				continue
			}
			out = append(out, leaves(v[key], name)...)
		}
	}
	return out
}

var (
	uuidText  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hexText   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	timeText  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	numberOf  = regexp.MustCompile(`"(latencyMs|lagMs|oldestWaitingSeconds)":[0-9.]+`)
	epochText = regexp.MustCompile(`"storeEpoch":"[^"]*"`)
	secretOf  = regexp.MustCompile(`dvt_[A-Za-z0-9_-]+`)
	codedText = regexp.MustCompile(`[A-Za-z0-9_-]{8,}`)
)

// decoded is the text that a word is the base64 of.
func decoded(word string) (string, bool) {
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

// named are names that nobody chose.
var named = regexp.MustCompile(uuidText.String() + "|" + hexText.String())

// other is another hexadecimal digit.
func other(r rune) rune {
	if i := strings.IndexRune("0123456789abcdef", r); i >= 0 {
		return rune("123456789abcdef0"[i])
	}
	return r
}

// twin is a name like s that nothing has.
func twin(s string) string {
	switch text, ok := decoded(s); {
	case strings.Contains(s, secretMark):
		return strings.ReplaceAll(s, secretMark, nowhereMark)
	case named.MatchString(s):
		return named.ReplaceAllStringFunc(s, func(id string) string { return strings.Map(other, id) })
	case ok:
		return base64.RawURLEncoding.EncodeToString([]byte(twin(text)))
	case strings.HasPrefix(s, "k."): // a manual token
		return "k." + strings.Repeat("A", len(s)-2)
	}
	return s
}

// plain is an answer without what differs between any two answers.
func plain(s string) string {
	s = codedText.ReplaceAllStringFunc(s, func(word string) string {
		if text, ok := decoded(word); ok && (named.MatchString(text) || timeText.MatchString(text) ||
			strings.Contains(text, nowhereMark) || strings.Contains(text, secretMark)) {
			return "coded(" + text + ")"
		}
		return word
	})
	s = uuidText.ReplaceAllString(s, "UUID")
	s = hexText.ReplaceAllString(s, "HASH")
	s = timeText.ReplaceAllString(s, "TIME")
	s = secretOf.ReplaceAllString(s, "SECRET")
	s = numberOf.ReplaceAllString(s, `"$1":0`)
	s = epochText.ReplaceAllString(s, `"storeEpoch":"EPOCH"`)
	return requestID.ReplaceAllString(s, `"requestId":""`)
}

// reply is all that comes back of a request.
type reply struct {
	status int
	header string
	body   string
	reads  []string
}

// of is a reply without what the requester sent.
func (r reply) of(put map[string]string) string {
	s := plain(r.body)
	keys := slices.SortedFunc(maps.Keys(put), func(a, b string) int { return len(put[b]) - len(put[a]) })
	for _, key := range keys {
		quoted, _ := json.Marshal(put[key])
		s = strings.ReplaceAll(s, plain(strings.Trim(string(quoted), `"`)), "‹"+key+"›")
	}
	s = strings.ReplaceAll(s, nowhereMark, secretMark) // what was sent before stands in its own audit and tokens
	return fmt.Sprintf("%d %s\n%s\n%s", r.status, r.header, s, strings.Join(r.reads, "\n"))
}

func headers(h http.Header) string {
	h = h.Clone()
	for _, name := range []string{"Date", "Content-Length"} {
		h.Del(name)
	}
	var b strings.Builder
	_ = h.Write(&b) // a builder takes everything
	return plain(strings.ReplaceAll(b.String(), "\r\n", "; "))
}

// post sends an operation and reads its answer, of a stream the first frame.
func (i *island) post(op operation, vars any, token string) reply {
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
	out := reply{status: res.StatusCode, header: headers(res.Header)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		out.body = firstFrame(res.Body)
	} else {
		read, err := io.ReadAll(res.Body)
		must(i.t, err)
		out.body = string(read)
	}
	out.reads = slices.Sorted(slices.Values(i.reads()))
	return out
}

func firstFrame(body io.Reader) string {
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

// ask walks every field twice: after the first time the stranger has things of its own.
func (w *walk) ask(own place) {
	w.t.Helper()
	a := newAsker(w.t)
	ops, fields := a.operations(own.run("failed"))
	for key := range a.used {
		if len(w.things[key]) == 0 {
			w.t.Errorf("the walk has no %s of the secret place: say in gather where it is found", key)
		}
	}
	for _, node := range a.schema.GetPossibleTypes(a.schema.Types["Node"]) {
		if !slices.ContainsFunc(
			w.things["node"], func(id string) bool { text, _ := decoded(id); return strings.HasPrefix(text, node.Name+":") }) {
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
			w.vary(op, enough(round, op), func(foreign, missing map[string]any, put, away map[string]string) {
				w.compare(op, put, away, w.full.post(op, foreign, w.token), w.mirror.post(op, missing, w.token),
					w.empty.post(op, foreign, w.token))
			})
		}
		for _, i := range w.islands() {
			_, err := i.store.LinkAudit(w.t.Context(), store.MaxPage)
			must(w.t, err)
		}
	}
	w.t.Logf("%d fields in %d variants", fields, len(ops))
}

// enough is with how many things an operation is asked: the plainest of a field with all of them.
func enough(round int, op operation) int {
	if round == 0 && op.plainest {
		return math.MaxInt
	}
	return 3
}

// vary fills an operation with one thing after the other, at most with some.
func (w *walk) vary(op operation, most int, each func(foreign, missing map[string]any, put, away map[string]string)) {
	n, used := 1, map[string]string{}
	filled(op.variables, func(key string) string { n = max(n, len(w.things[key])); return "" }, used)
	for i := range min(n, most) {
		pick := func(from map[string][]string) func(string) string {
			return func(key string) string { return from[key][i%len(from[key])] }
		}
		put, away := map[string]string{}, map[string]string{}
		foreign, missing := filled(op.variables, pick(w.things), put).(map[string]any),
			filled(op.variables, pick(w.nothings), away).(map[string]any)
		for _, s := range put {
			w.sent[s] = true
		}
		each(foreign, missing, put, away)
	}
}

// codeIn finds the codes of an answer.
var codeIn = regexp.MustCompile(`"code":"([A-Z_0-9]+)"`)

func (w *walk) compare(op operation, put, away map[string]string, full, mirror, empty reply) {
	w.t.Helper()
	w.requests += 3
	code := "data"
	if m := codeIn.FindStringSubmatch(full.body); m != nil {
		code = m[1]
	}
	w.answers[code]++
	switch code {
	case "QUERY_TOO_COMPLEX", "QUERY_TOO_DEEP", "INTERNAL", "TOO_MANY_ALIASES":
		w.t.Errorf("%s was not asked: %s\n%s", op.field, full.body, op.document)
	}
	if w.totals != nil {
		for _, r := range []*reply{&full, &mirror, &empty} {
			r.body = w.totals.ReplaceAllString(r.body, `"$1":0`)
		}
	}
	if diff := cmp.Diff(strings.Split(empty.of(put), "\n"), strings.Split(full.of(put), "\n")); diff != "" {
		w.t.Errorf("%s %v differs where there is something (-without +with):\n%s", op.field, put, diff)
	}
	if diff := cmp.Diff(strings.Split(mirror.of(away), "\n"), strings.Split(full.of(put), "\n")); diff != "" {
		w.t.Errorf("%s %v differs for what exists (-missing +existing):\n%s", op.field, put, diff)
	}
}

// sockets asks every subscription over websockets.
func (w *walk) sockets(own place) {
	ops, _ := newAsker(w.t).operations(own.run("failed"))
	for _, op := range ops {
		if op.kind != ast.Subscription {
			continue
		}
		w.vary(op, enough(0, op), func(foreign, missing map[string]any, put, away map[string]string) {
			w.compare(op, put, away, w.full.socket(op, foreign, w.token), w.mirror.socket(op, missing, w.token),
				w.empty.socket(op, foreign, w.token))
		})
	}
}

// socket subscribes and reads until the first frame of data or the end; then the client completes
// what is open, and sees whether the socket lives.
func (i *island) socket(op operation, vars any, token string) reply {
	i.t.Helper()
	c := dial(i.t, strings.TrimPrefix(i.url, "http://")+"/graphql", fmt.Sprintf(`{"Authorization":"Bearer %s"}`, token))
	defer c.Close()
	message, err := json.Marshal(
		map[string]any{"type": "subscribe", "id": "1", "payload": map[string]any{"query": op.document, "variables": vars}})
	must(i.t, err)
	_ = c.WriteMessage(websocket.TextMessage, message)
	var out reply
	var b strings.Builder
	asked := false
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
		if !asked && !strings.Contains(string(m), `"connection_ack"`) {
			asked = true
			must(i.t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"complete","id":"1"}`)))
			must(i.t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"ping"}`)))
		}
	}
	out.body, out.reads = b.String(), slices.Sorted(slices.Values(i.reads()))
	return out
}

// addresses are those beside GraphQL.
func (w *walk) addresses(secret place) {
	w.t.Helper()
	for _, token := range []string{w.token, ""} {
		for _, kind := range runKinds {
			for _, path := range []string{
				"GET /engine/runs/%s/debug", "GET /engine/runs/%s/steps/" + secret.step(kind) + "/logs",
				"POST /engine/runs/%s/inspect", "GET /runs/%s", "GET /artifacts/%s",
				"GET /dev/plans/%s", "GET /engine/runs/%s", "GET /engine/health/detailed?runId=%s", "POST /engine/journal?runId=%s",
			} {
				get := func(i *island, id string) reply {
					method, at, _ := strings.Cut(fmt.Sprintf(path, id), " ")
					body := fmt.Sprintf(`{"begin":{"runId":%q,"stepId":%q,"logicalAttempt":1,"engineAttempt":1}}`, id, secret.step(kind))
					a := send(w.t, method, i.url+at, body, "Authorization: Bearer "+token)
					return reply{a.StatusCode, headers(a.Header), a.body, slices.Sorted(slices.Values(i.reads()))}
				}
				id := secret.run(kind)
				put, away := map[string]string{"run": id}, map[string]string{"run": twin(id)}
				w.compare(operation{field: path}, put, away, get(w.full, id), get(w.mirror, twin(id)), get(w.empty, id))
			}
		}
	}
	for _, path := range []string{"/metrics", "/engine/health", "/engine/health/detailed", "/livez", "/readyz", "/",
		"/docs/api", "/debug/pprof/"} {
		if a := get(w.t, w.full.url+path); strings.Contains(a.body+headers(a.Header), secretMark) {
			w.t.Errorf("%s names something of the secret place: %s", path, a.body)
		}
	}
}

// nobody asks as nobody: every answer is the same, whatever was asked.
func (w *walk) nobody(own place) {
	w.t.Helper()
	ops, _ := newAsker(w.t).operations(own.run("failed"))
	for _, token := range []string{"", "wrong"} {
		w.full.reads()
		c := w.full.socket(operation{document: `subscription{runListUpdates{sync}}`}, nil, token)
		if !strings.Contains(c.body, "4401") || len(c.reads) > 0 {
			w.t.Errorf("a socket of nobody: %+v", c)
		}
		first := ""
		for _, op := range ops {
			w.vary(op, 1, func(foreign, _ map[string]any, put, _ map[string]string) {
				got := w.full.post(op, foreign, token)
				w.requests++
				w.answers["nobody"]++
				if got.status == http.StatusTooManyRequests { // who guesses is slowed, whatever is asked
					return
				}
				if first == "" {
					first = got.of(nil)
				}
				if got.status != http.StatusUnauthorized || got.of(nil) != first || len(got.reads) > 0 {
					w.t.Errorf("%s as nobody (%q) with %v: %s, not %s", op.field, token, put, got.of(nil), first)
				}
			})
		}
	}
}

func (w *walk) summary() {
	w.t.Logf("%d requests, %d names of things, answers: %v", w.requests, len(w.sent), w.answers)
}
