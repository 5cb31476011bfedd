package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// requestFuzzer makes malformed requests from the valid ones of the stranger's walk. A seed repeats its requests.
type requestFuzzer struct {
	r      *rand.Rand
	ops    []operation
	things map[string][]string
	tokens []string // valid ones
}

// fuzzedRequest is one request with its body.
type fuzzedRequest struct {
	*http.Request
	body    string
	changes bool // a mutation with a valid token
	stream  bool
}

func pickOne[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomText returns text that no field expects.
func (s *requestFuzzer) randomText() string {
	switch s.r.IntN(14) {
	case 0:
		return ""
	case 1:
		return strings.Repeat(pickOne(s.r, "a", "\x00", "é", "(", "/../", "%s%n"), 1<<s.r.IntN(13))
	case 2:
		return "\x00" + "nul\x00"
	case 3:
		return "\xff\xfe\xc0\x80"
	case 4:
		return `\ud800`
	case 5:
		return "'; DROP TABLE run; --"
	case 6:
		return "../../../../etc/passwd"
	case 7:
		return "\u202e\u0000\u2028𝟘"
	case 8:
		return base64.RawURLEncoding.EncodeToString(
			[]byte(pickOne(s.r, "Run:", "Run:a/b/c", "Signal:x", ":", "DeadLetter:\x00", "0", "-1", "99999999999999999999",
				"2026-01-01T00:00:00Z ", "x y z")))
	case 9:
		return pickOne(s.r, "NaN", "Infinity", "-0", "1e400", "0x10", "9007199254740993", "null", "undefined", "true")
	case 10:
		return pickOne(s.r, "2026-13-45T99:99:99Z", "0000-00-00", "9999999-01-01T00:00:00Z", "-1s", "1h")
	case 11:
		return pickOne(s.r, "${jndi:ldap://x}", "{{7*7}}", "<script>alert(1)</script>", "%00%0a%0d", "file:///etc/passwd",
			"http://169.254.169.254/")
	case 12:
		list := s.things[pickOne(s.r, "run", "token", "node", "cursor:Query.runs", "manualToken")]
		return list[s.r.IntN(len(list))]
	}
	return fmt.Sprintf("x%d", s.r.IntN(1000))
}

// randomValue returns a JSON value of any kind.
func (s *requestFuzzer) randomValue(depth int) any {
	switch s.r.IntN(14) {
	case 0:
		return nil
	case 1:
		return s.r.IntN(2) == 0
	case 2:
		return json.Number(pickOne(s.r, "0", "-1", "1e3", "1e308", "1e400", "9007199254740993", "-9223372036854775809", "0.1",
			"1e-400", "2147483648", "123456789012345678901234567890"))
	case 3:
		return []any{}
	case 4:
		return map[string]any{}
	case 5:
		if depth > 0 {
			return []any{s.randomValue(depth - 1), s.randomValue(depth - 1)}
		}
	case 6:
		if depth > 0 {
			return map[string]any{s.randomText(): s.randomValue(depth - 1), "runId": s.randomValue(depth - 1)}
		}
	case 7:
		var deep any = 1
		for range 1 << s.r.IntN(9) {
			deep = pickOne(s.r, any([]any{deep}), any(map[string]any{"a": deep}))
		}
		return deep
	}
	return s.randomText()
}

// mutate replaces about one of odds values inside v, renames and removes fields, and repeats elements of lists.
func (s *requestFuzzer) mutate(v any, odds int) any {
	if s.r.IntN(odds) == 0 {
		return s.randomValue(2)
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			for range 1 + s.r.IntN(8)/7*s.r.IntN(300) {
				out = append(out, s.mutate(e, odds))
			}
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, e := range v {
			switch s.r.IntN(12) {
			case 0:
				continue
			case 1:
				out[name+s.randomText()] = e
			default:
				out[name] = s.mutate(e, odds)
			}
		}
		return out
	}
	return v
}

// corruptDocument returns a GraphQL document that is malformed, too deep or too expensive. About a third stay
// unchanged.
func (s *requestFuzzer) corruptDocument(d string) string {
	switch s.r.IntN(16) {
	case 0:
		b := []byte(d)
		for range 1 + s.r.IntN(4) {
			b[s.r.IntN(len(b))] = byte(s.r.IntN(256))
		}
		return string(b)
	case 1:
		return d[:s.r.IntN(len(d))]
	case 2:
		n := 1 << s.r.IntN(12)
		return strings.Repeat("{a", n) + strings.Repeat("}", s.r.IntN(2)*n)
	case 3:
		var b strings.Builder
		for i := range 1 + s.r.IntN(500) {
			fmt.Fprintf(&b, "a%d:__typename ", i)
		}
		return "{" + b.String() + "}"
	case 4:
		return "{...A} fragment A on Query{...B} fragment B on Query{...A health{status}}"
	case 5:
		var b strings.Builder
		n := 1 + s.r.IntN(30)
		for i := range n {
			fmt.Fprintf(&b, "fragment F%d on Query{...F%d ...F%d} ", i, i+1, i+1)
		}
		return fmt.Sprintf("{...F0} %sfragment F%d on Query{health{status}}", b.String(), n)
	case 6:
		return strings.Replace(d, "{", "{"+pickOne(s.r, "nothing ", "__schema{types{fields{type{fields{type{name}}}}}} ",
			"viewer{nothing} ", "run{runId} ", "run(runId:1,runId:2){runId} ", "@skip "), 1)
	case 7:
		return d + " " + d
	case 8:
		return pickOne(s.r, "", " ", "#", "query", "subscription{a}{b}", "mutation{}", "{", "}", "\ufeff{health{status}}",
			"query($a:Int=$a){health{status}}", "query($x:[[[[Int]]]]!){health{status}}", `{run(runId:"""`+
				strings.Repeat("x", s.r.IntN(5000))+`"""){runId}}`)
	case 9:
		return strings.Replace(d, ":", pickOne(s.r, ":-", ":99999999999999999999 ", `:"\ud800"`, ":NOPE ", ":{a:{b:{c:1}}}",
			":[[[[[1]]]]]", ":1e999 ", ": $nothing ", ":null "), 1)
	case 10:
		return strings.Replace(d, "{", pickOne(s.r, "@include(if:$x){", "@skip(if:1){", "@nothing{",
			"@deprecated@deprecated{", "@skip(if:true)@skip(if:true){"), 1)
	}
	return d
}

func (s *requestFuzzer) draw() fuzzedRequest {
	op := s.ops[s.r.IntN(len(s.ops))]
	thing := func(key string) string { list := s.things[key]; return list[s.r.IntN(len(list))] }
	vars := fillSlots(op.variables, thing, map[string]string{})
	if s.r.IntN(5) > 0 {
		vars = s.mutate(vars, 2+s.r.IntN(20))
	}
	request := map[string]any{"query": s.corruptDocument(op.document), "variables": vars}
	switch s.r.IntN(12) {
	case 0:
		request["operationName"] = s.randomValue(1)
	case 1:
		request["extensions"] = pickOne[any](s.r, s.randomValue(3), map[string]any{"persistedQuery": s.randomValue(2)},
			map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": s.randomText()}})
	case 2:
		request[pickOne(s.r, "query", "variables")] = s.randomValue(2)
	}
	body, err := json.Marshal(request)
	if err != nil { // the number has no JSON, such as 1e400
		body = []byte(`{"query":"{viewer{principal}}","variables":{"a":1e999999}}`)
	}
	out := fuzzedRequest{body: string(s.corruptBody(body)), stream: op.kind == ast.Subscription}
	method, at, header := http.MethodPost, "/graphql", http.Header{"Content-Type": {"application/json"}}
	if op.kind == ast.Subscription || s.r.IntN(40) == 0 {
		header.Set("Accept", "text/event-stream")
		out.stream = true
	}
	switch s.r.IntN(30) {
	case 0:
		method, at, out.body = http.MethodGet, "/graphql?"+url.Values{"query": {fmt.Sprint(request["query"])},
			"variables": {s.randomText()}, "extensions": {s.randomText()}}.Encode(), ""
	case 1:
		method = pickOne(s.r, "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW")
	case 2:
		at = s.randomPath()
		method = pickOne(s.r, http.MethodGet, http.MethodPost)
	}
	s.corruptHeader(header)
	valid := s.r.IntN(8) > 0
	if token := s.tokens[s.r.IntN(len(s.tokens))]; valid {
		header.Set("Authorization", "Bearer "+token)
	} else {
		header.Set("Authorization", pickOne(s.r, "Bearer "+s.randomText(), s.randomText(), "Basic YTpi", "Bearer",
			"Bearer  "+token,
			"bearer dvt_"+s.randomText(), "Bearer eyJhbGciOiJub25lIn0."+
				base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+token+`"}`))+"."))
	}
	out.changes = valid && op.kind == ast.Mutation && strings.HasPrefix(at, "/graphql")
	out.Request = httptest.NewRequest(method, "http://dvt.test/", strings.NewReader(out.body))
	out.Header, out.URL.Path, out.URL.RawQuery = header, at, ""
	// the server limits wrong tokens by address, so each request has another one
	out.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", s.r.IntN(256), s.r.IntN(256), s.r.IntN(256))
	out.stream = out.stream && strings.HasPrefix(at, "/graphql")
	if path, query, ok := strings.Cut(at, "?"); ok {
		out.URL.Path, out.URL.RawQuery = path, query
	}
	return out
}

// corruptBody changes the bytes of a body, so that it is mostly no valid JSON.
func (s *requestFuzzer) corruptBody(body []byte) []byte {
	switch s.r.IntN(24) {
	case 0:
		return body[:s.r.IntN(len(body))]
	case 1:
		body[s.r.IntN(len(body))] = byte(s.r.IntN(256))
	case 2:
		return append([]byte{0xef, 0xbb, 0xbf}, body...)
	case 3:
		return append(body, body...)
	case 4:
		return bytes.Replace(body, []byte(`"query":`), []byte(`"query":"{a}","query":`), 1)
	case 5:
		return append([]byte("["), append(body, ']')...)
	case 6:
		return bytes.ReplaceAll(body, []byte("a"), []byte(pickOne(s.r, `\ud800`, "\x00", "\xff", `\u0000`)))
	case 7:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body)
		_ = z.Close()
		return b.Bytes()
	case 8:
		if s.r.IntN(200) == 0 {
			return bytes.Replace(body, []byte(`{`), []byte(`{"x":"`+strings.Repeat("y", 1<<20)+`",`), 1)
		}
	}
	return body
}

func (s *requestFuzzer) corruptHeader(h http.Header) {
	switch s.r.IntN(20) {
	case 0:
		h.Set("Content-Type", pickOne(s.r, "", "text/plain", "application/x-www-form-urlencoded",
			"multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/json;;;", "*/*", s.randomText()))
	case 1:
		h.Set("Accept", pickOne(s.r, "text/html", "application/graphql-response+json", "*/*;q=0", ";;;",
			strings.Repeat("a/b,", 500), s.randomText()))
	case 2:
		h.Set("Content-Encoding", pickOne(s.r, "gzip", "br", "deflate", "identity", s.randomText()))
	case 3:
		h.Set("Cookie", "dvt_session="+s.randomText())
		h.Set("Origin", pickOne(s.r, "null", "http://dvt.test", "http://evil.example", "::", s.randomText()))
	case 4:
		h.Set(pickOne(s.r, "X-Request-Id", "Forwarded", "X-Forwarded-For", "Sec-Websocket-Key", "Content-Length",
			"Transfer-Encoding", "Range", "If-None-Match"), s.randomText())
	case 5:
		h.Set("Upgrade", "websocket")
		h.Set("Connection", pickOne(s.r, "Upgrade", "keep-alive"))
		h.Set("Sec-Websocket-Version", pickOne(s.r, "13", "99", ""))
	}
}

// randomPath returns a path other than /graphql.
func (s *requestFuzzer) randomPath() string {
	odd := s.randomText()
	return pickOne(s.r, "/engine/runs/"+odd+"/debug", "/engine/journal", "/engine/health", "/readyz", "/schema.graphqls",
		"/"+odd, "/auth/"+odd, "/auth/callback?code="+url.QueryEscape(odd)+"&state="+url.QueryEscape(odd),
		"/assets/"+odd, "/engine/runs/"+s.things["run"][0]+"/debug", "/dev/session", "/graphql/"+odd, "/../"+odd, "/sign-in/"+
			odd, "/engine/health/detailed")
}
