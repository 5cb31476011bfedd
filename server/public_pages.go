package server

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/limit"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// publicPagePolicy lets a page that needs no sign-in load its style sheet and nothing else.
const publicPagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// docsIndex lists the pages that describe dvt to programmers.
const docsIndex = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>dvt documentation</title>
<link rel="stylesheet" href="/docs/api.css">
</head>
<body>
<p class="home"><a href="/">dvt</a></p>
<main>
<h1>dvt documentation</h1>
<dl>
<dt><a href="/docs/api">API reference</a></dt><dd><p>Every type, field and argument of the GraphQL API.</p></dd>
<dt><a href="/docs/api#errors">Error codes</a></dt><dd><p>What each code means and what to do.</p></dd>
<dt><a href="/graphiql">API explorer</a></dt><dd><p>Write and send operations. Sign-in is required.</p></dd>
<dt><a href="/schema.graphqls">GraphQL schema</a></dt><dd><p>For generators of clients.</p></dd>
<dt><a href="/schemas/plan/v1.2.json">JSON Schema of plans</a></dt><dd><p>For editors and validators.</p></dd>
</dl>
</main>
</body>
</html>
`

// apiPagePolicy lets the page of the API also run its one script.
const apiPagePolicy = publicPagePolicy + "; script-src 'self'; require-trusted-types-for 'script'"

// apiPageRoutes serves the page of the API. Like the schema it needs no sign-in, because it says nothing about tenants.
func (p *parts) apiPageRoutes(mux *http.ServeMux) {
	page, err := graph.APIPage()
	if err != nil {
		panic(err) // the schema of this binary does not parse; the test of the page finds that
	}
	docsRoutes(mux, page)
}

// docsRoutes serves the index of the documentation, the page of the API, and the addresses that people try.
func docsRoutes(mux *http.ServeMux, apiPage []byte) {
	serve := func(policy, kind string, body []byte) http.Handler {
		return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(body)
		}))
	}
	mux.Handle("GET /docs", serve(publicPagePolicy, "text/html; charset=utf-8", []byte(docsIndex)))
	mux.Handle("GET /docs/{$}", http.RedirectHandler("/docs", http.StatusPermanentRedirect))
	mux.Handle("GET /docs/codes", http.RedirectHandler("/docs/api#errors", http.StatusPermanentRedirect))
	mux.Handle("GET /docs/api", serve(apiPagePolicy, "text/html; charset=utf-8", apiPage))
	mux.Handle("GET /docs/api.js", serve(publicPagePolicy, "text/javascript; charset=utf-8", graph.APIScript))
	mux.Handle("GET /docs/api.css", serve(publicPagePolicy, "text/css; charset=utf-8", []byte(graph.APIStyle)))
}

// sharePage is the page of a share link. Chat tools read its Open Graph tags. It does not forward people, because chat
// tools follow redirects to pages that ask for sign-in.
var sharePage = template.Must(template.New("share").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex, nofollow">
<title>{{.Title}}</title>
<meta property="og:type" content="website">
<meta property="og:site_name" content="dvt">
<meta property="og:title" content="{{.Title}}">
<meta property="og:description" content="{{.Description}}">
{{with .URL}}<meta property="og:url" content="{{.}}">
{{end}}<link rel="stylesheet" href="/docs/api.css">
</head>
<body>
<p class="home">dvt</p>
<main>
<h1>{{.Title}}</h1>
<p>{{.Description}}</p>
<p><a href="{{.Run}}">Open the run</a> (sign-in is required)</p>
</main>
</body>
</html>
`))

// notShared is the body for every link that shows nothing, so that the reason cannot be told.
const notShared = "This link has expired, was revoked, or never existed.\n"

// Outcomes of a request for a share link, the label of the metric.
const (
	shareShown   = "shown"
	shareUnknown = "unknown"
	shareLimited = "limited"
	shareFailed  = "failed"
)

// shareRoutes serves share links. They need no sign-in.
func (p *parts) shareRoutes(mux *http.ServeMux) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_share_requests_total", Help: "Requests for share links, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range []string{shareShown, shareUnknown, shareLimited, shareFailed} {
		requests.WithLabelValues(outcome)
	}
	p.registry.MustRegister(requests)
	perAddress := limit.NewRequestRate(p.cfg.AddressRequestsPerMinute, "your address")
	mux.HandleFunc("GET "+graph.SharePath+"{token}", func(w http.ResponseWriter, r *http.Request) {
		requests.WithLabelValues(p.serveShare(w, r, perAddress.Take)).Inc()
	})
}

// serveShare answers a request for a share link and returns the outcome.
func (p *parts) serveShare(w http.ResponseWriter, r *http.Request, take func(address string) error) string {
	h := w.Header()
	h.Set("Content-Security-Policy", publicPagePolicy)
	h.Set("Referrer-Policy", "no-referrer") // the address of the page is the secret
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	answer := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
	if take(p.address(r)) != nil {
		h.Set("Retry-After", "1")
		answer(http.StatusTooManyRequests, "Too many requests came from your address. Try again.\n")
		return shareLimited
	}
	token := r.PathValue("token")
	shared, err := p.control.Shared(r.Context(), token)
	if errors.Is(err, runs.ErrNotShared) {
		answer(http.StatusNotFound, notShared)
		return shareUnknown
	}
	var page bytes.Buffer
	if err == nil {
		err = sharePage.Execute(&page, p.sharedPage(shared, token))
	}
	if err != nil {
		p.log.Warn("a share link could not be answered", slog.Any("error", err))
		h.Set("Retry-After", "2")
		answer(http.StatusServiceUnavailable, "dvt cannot answer now. Try again.\n")
		return shareFailed
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=5")
	_, _ = w.Write(page.Bytes())
	return shareShown
}

type sharedPage struct{ Title, Description, URL, Run string }

func (p *parts) sharedPage(s runs.SharedRun, token string) sharedPage {
	status, failed := shareWords(s)
	name := run.Text(s.PlanID+"@"+s.PlanVersion, maxSharedName)
	page := sharedPage{Title: strings.ReplaceAll(name, "\n", " ") + ": " + status, Run: "/runs/" + url.PathEscape(s.RunID)}
	var facts []string
	if s.StartedAt == nil {
		facts = append(facts, "Not started")
	} else {
		end, took := s.AsOf, "running for "
		if s.EndedAt != nil {
			end, took = *s.EndedAt, "took "
		}
		facts = append(facts, "Started "+s.StartedAt.UTC().Format("2006-01-02 15:04 UTC"),
			took+plan.DurationWords(end.Sub(*s.StartedAt)))
	}
	if failed != "" {
		facts = append(facts, failed)
	}
	page.Description = strings.Join(append(facts, "as of "+s.AsOf.UTC().Format("15:04:05 UTC")), " · ")
	if p.cfg.PublicURL != "" {
		page.URL = strings.TrimSuffix(p.cfg.PublicURL, "/") + graph.SharePath + token
	}
	return page
}

// maxSharedName bounds the name of a plan in a title, in bytes.
const maxSharedName = 200

// shareWords returns the status in words, and how many steps failed, "" for none.
func shareWords(s runs.SharedRun) (status, failed string) {
	status = map[run.Status]string{
		run.Pending: "waiting for approval", run.Approved: "waiting to start", run.Running: "running", run.Paused: "paused",
		run.Completed: "completed", run.Failed: "failed", run.Cancelled: "cancelled",
	}[s.Status]
	switch s.Substatus {
	case run.Queued:
		status = "waiting to start"
	case run.AwaitingOperator:
		status = "failed, waiting for a retry"
	case run.WaitingManual:
		status = "waiting for a person"
	}
	switch {
	case s.FailedSteps == 1:
		failed = "1 step failed"
	case s.FailedSteps > 1:
		failed = fmt.Sprintf("%d steps failed", s.FailedSteps)
	}
	return status, failed
}
