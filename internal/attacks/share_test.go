package attacks_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// page is an answer to a request without a token.
type page struct {
	status int
	header http.Header
	body   string
}

// fetchPage requests a path without a token and follows no redirect.
func (w *world) fetchPage(t *testing.T, method, path string, headers ...string) page {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, nil)
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	res.Header.Del("Date")
	res.Header.Del("X-Request-Id") // differs in each answer
	return page{res.StatusCode, res.Header, string(body)}
}

func (p page) text() string { return fmt.Sprint(p.status, p.header, p.body) }

func (w *world) permitShares(t *testing.T, token string, hours int) {
	t.Helper()
	var none any
	ctx := context.WithoutCancel(t.Context()) // for the cleanup
	must(t, w.graphql(ctx, token, `mutation($i: SetShareLinksInput!) { setShareLinks(input: $i) { __typename } }`,
		map[string]any{"i": map[string]any{"requestId": fmt.Sprint("share", time.Now().UnixNano()), "hours": hours,
			"reason": "attacks"}}, &none))
}

func (w *world) share(t *testing.T, token, runID string) (path string, err error) {
	t.Helper()
	var out struct{ ShareRun struct{ Path string } }
	err = w.graphql(t.Context(), token, `mutation($i: ShareRunInput!) { shareRun(input: $i) { path } }`,
		map[string]any{"i": map[string]any{"requestId": "q", "runId": runID}}, &out)
	return out.ShareRun.Path, err
}

// Strangers attack the links that show the status of a run without sign-in.
func TestShareLink_ShowsAStrangerTheStatusAndNothingElse(t *testing.T) {
	if oldBinary {
		t.Skip("the old binary has no share links")
	}
	w := installation(t)
	own := w.startRun(t, operator, "shop", command("hidden-step", queueData, "sh", "-c", "echo hidden-word >&2; exit 3"))
	other := w.startRun(t, foreign, "shop", noop("n"))
	w.expectEnd(t, operator, own, "FAILED", time.Minute)
	if _, err := w.share(t, operator, own); err == nil || !strings.Contains(err.Error(), "FORBIDDEN") {
		t.Fatalf("a link before the tenant permits it: %v, want FORBIDDEN", err)
	}
	w.permitShares(t, admin, 24)
	w.permitShares(t, foreignAdmin, 24)
	t.Cleanup(func() { w.permitShares(t, admin, 0) })
	if _, err := w.share(t, foreign, own); err == nil || !strings.Contains(err.Error(), "NOT_FOUND") {
		t.Errorf("a link to a run of another tenant: %v, want NOT_FOUND", err)
	}
	path, err := w.share(t, operator, own)
	must(t, err)
	foreignPath, err := w.share(t, foreign, other)
	must(t, err)

	shown := w.fetchPage(t, "GET", path)
	if shown.status != 200 || !strings.Contains(shown.body, `property="og:title" content="`+planName(t)+`@1.0: failed"`) ||
		!strings.Contains(shown.body, "1 step failed") || !strings.Contains(shown.body, `href="/runs/`+own+`"`) {
		t.Errorf("the link shows %s, want the plan, its failure and a link to the run", shown.text())
	}
	for _, secret := range []string{"hidden-step", "hidden-word", "exit 3", "olga", "acme", "shop", "exit status"} {
		if strings.Contains(shown.text(), secret) {
			t.Errorf("the link reveals %q: %s", secret, shown.text())
		}
	}
	for name, want := range map[string]string{"X-Robots-Tag": "noindex, nofollow", "Referrer-Policy": "no-referrer",
		"Cache-Control": "public, max-age=5", "X-Content-Type-Options": "nosniff"} {
		if got := shown.header.Get(name); got != want {
			t.Errorf("the header %s is %q, want %q", name, got, want)
		}
	}

	// Guesses, forgeries and an expired link with a true seal have the same answer.
	nothing := w.fetchPage(t, "GET", "/s/x")
	if nothing.status != 404 {
		t.Errorf("an unknown link answers %s, want 404", nothing.text())
	}
	token := strings.TrimPrefix(path, "/s/")
	text, seal, _ := strings.Cut(token, ".")
	sealed := func(purpose, text string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + w.keys.Seal(purpose, text)
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	must(t, err)
	later := fmt.Sprintf("1|%d|%s", time.Now().Add(1000*time.Hour).Unix(), own)
	bad := map[string]string{
		"a seal of nobody":      text + ".k1." + strings.Repeat("A", 43),
		"no seal":               text,
		"a longer life":         base64.RawURLEncoding.EncodeToString([]byte(later)) + "." + seal,
		"a seal for receipts":   sealed("receipt", string(plain)),
		"expired":               sealed("share", fmt.Sprintf("1|%d|%s", time.Now().Add(-time.Second).Unix(), own)),
		"an earlier setting":    sealed("share", strings.Replace(later, "1|", "0|", 1)),
		"a run that is missing": sealed("share", fmt.Sprintf("1|%d|absent", time.Now().Add(time.Hour).Unix())),
		"too long":              strings.Repeat("A", 4096),
	}
	if len(own) > 8 {
		bad["another run"] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(plain), own, other, 1))) +
			"." + seal
	}
	for name, forged := range bad {
		if got := w.fetchPage(t, "GET", "/s/"+forged); got.text() != nothing.text() {
			t.Errorf("%s: %s, want the answer for an unknown link", name, got.text())
		}
	}

	// Other methods, headers and hosts.
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECTX"} {
		got := w.fetchPage(t, method, path, "X-HTTP-Method-Override", "GET")
		if got.status < 400 || strings.Contains(got.body, "failed") {
			t.Errorf("%s: %s, want a refusal", method, got.text())
		}
	}
	for _, headers := range [][]string{{"Host", "evil.example"}, {"X-Forwarded-Host", "evil.example"},
		{"X-Forwarded-Proto", "javascript"}, {"Referer", "https://evil.example/"}} {
		if got := w.fetchPage(t, "GET", path, headers...); strings.Contains(got.text(), "evil.example") {
			t.Errorf("%v is repeated: %s", headers, got.text())
		}
	}
	for _, at := range []string{path + "?next=https://evil.example", path + "%0d%0aSet-Cookie:%20a=b",
		"/s/%0d%0aLocation:%20https:%2f%2fevil.example", "/s//evil.example", "//evil.example/s/" + token,
		"/s/..%2f..%2fevil.example", path + "/" + own} {
		got := w.fetchPage(t, "GET", at)
		to := got.header.Get("Location") // ServeMux cleans paths by a redirect within this server
		if got.header.Get("Set-Cookie") != "" || strings.HasPrefix(to, "//") || strings.Contains(to, "://") ||
			got.status < 300 && strings.Contains(got.body, "evil.example") {
			t.Errorf("%s: %s, want no header or address of the caller", at, got.text())
		}
	}

	// A plan whose name is markup, written past all checks.
	w.exec(t, `UPDATE run SET plan_id = $1 WHERE run_id = $2`, `"><script>alert(1)</script>`+"\u202e\r\nSet-Cookie: a=b",
		other)
	if got := w.fetchPage(t, "GET", foreignPath); strings.Contains(got.body, "<script") ||
		strings.Contains(got.body, `""`) || strings.Contains(got.body, "\u202e") || got.header.Get("Set-Cookie") != "" ||
		!strings.Contains(got.body, "&lt;script&gt;") {
		t.Errorf("the name of a plan is not escaped: %s", got.text())
	}

	// Replay after a revocation, which concerns one tenant alone.
	w.permitShares(t, foreignAdmin, 24)
	if got := w.fetchPage(t, "GET", foreignPath); got.text() != nothing.text() {
		t.Errorf("a revoked link answers %s, want the answer for an unknown link", got.text())
	}
	if got := w.fetchPage(t, "GET", path); got.status != 200 {
		t.Errorf("after a revocation in another tenant the link answers %s, want 200", got.text())
	}
	w.permitShares(t, foreignAdmin, 0)
	w.floodShares(t, path)
}

// floodShares sends requests from one address until they are limited. The API must go on answering meanwhile.
func (w *world) floodShares(t *testing.T, path string) {
	t.Helper()
	u, err := url.Parse(w.url)
	must(t, err)
	var senders sync.WaitGroup
	limited := make(chan struct{}, 8)
	for i := range 8 {
		senders.Go(func() {
			client := http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext}, Timeout: time.Minute}
			for n := range 20_000 {
				target := w.url + path
				if (n+i)%2 == 0 {
					target = "http://" + u.Host + "/s/" + strings.Repeat("A", 60) + fmt.Sprint(n)
				}
				res, err := client.Get(target)
				if err != nil {
					t.Errorf("request %d of the flood: %v", n, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode == http.StatusTooManyRequests {
					limited <- struct{}{}
					return
				}
			}
		})
	}
	var none any
	start := time.Now()
	must(t, w.graphql(t.Context(), operator, `{ viewer { principal } }`, nil, &none))
	if took := time.Since(start); took > patient(5*time.Second) {
		t.Errorf("the API took %s during the flood, want at most 5 s", took)
	}
	senders.Wait()
	if len(limited) != 8 {
		t.Errorf("%d of 8 senders were limited, want all", len(limited))
	}
}
