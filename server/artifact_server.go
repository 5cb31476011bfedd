package server

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/limit"
	"github.com/dvt-engine/dvt/run"
)

// Limits of downloads of artifacts from one server.
const (
	downloadsOfOne = 8             // at once, of one principal
	downloadsOfAll = 128           // at once
	downloadStall  = time.Minute   // in which a reader must take at least one part
	downloadMost   = 2 * time.Hour // a reader continues with a range
)

// The outcomes of a request for an artifact, the label of the metric.
const (
	downloadServed     = "served"     // the whole answer was written
	downloadRedirected = "redirected" // to the bucket
	downloadRemoved    = "removed"    // the content has expired or is gone
	downloadRefused    = "refused"
	downloadLimited    = "limited"
	downloadTorn       = "torn"   // the stored bytes are not those that the step reported
	downloadFailed     = "failed" // the bucket or the store failed
	downloadAborted    = "aborted"
)

// artifactServer serves the artifacts that runs reported, whole or in ranges, to callers who may read the run and to
// those who have a link. It holds one part of a file in memory for each download. It is safe for concurrent use.
type artifactServer struct {
	*parts
	rate      *limit.RequestRate // by principal
	addresses *limit.RequestRate
	outcomes  *prometheus.CounterVec
	bytes     prometheus.Counter
	open      prometheus.Gauge

	mu      sync.Mutex
	running map[string]int // downloads by principal; without downloads there is no entry
	total   int
}

// newArtifactServer makes an artifactServer. Call it once for a registry, because it registers metrics.
func newArtifactServer(p *parts) *artifactServer {
	s := &artifactServer{parts: p, running: map[string]int{},
		rate:      limit.NewRequestRate(p.cfg.RequestsPerMinute, "your account"),
		addresses: limit.NewRequestRate(p.cfg.AddressRequestsPerMinute, "your address"),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dvt_artifact_requests_total",
			Help: "Requests for artifacts, by outcome."}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "dvt_artifact_served_bytes_total",
			Help: "Bytes of artifacts that this process sent."}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dvt_artifact_downloads",
			Help: "Downloads of artifacts that this process serves now."}),
	}
	for _, outcome := range []string{downloadServed, downloadRedirected, downloadRemoved, downloadRefused,
		downloadLimited, downloadTorn, downloadFailed, downloadAborted} {
		s.outcomes.WithLabelValues(outcome)
	}
	p.registry.MustRegister(s.outcomes, s.bytes, s.open)
	return s
}

// ServeHTTP implements http.Handler. A download that fails after its headers were sent closes its connection, so that
// no reader takes a part for the whole.
func (s *artifactServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	outcome, broken := s.serve(w, r)
	s.outcomes.WithLabelValues(outcome).Inc()
	if broken {
		panic(http.ErrAbortHandler)
	}
}

// serve answers a request and returns the outcome. broken reports that the answer ends early.
func (s *artifactServer) serve(w http.ResponseWriter, r *http.Request) (outcome string, broken bool) {
	if err := s.addresses.Take(authz.Network(s.address(r))); err != nil {
		return s.refuse(w, err), false
	}
	a, who, err := s.find(r)
	if err != nil {
		return s.refuse(w, err), false
	}
	leave, err := s.enter(who)
	if err != nil {
		return s.refuse(w, err), false
	}
	defer leave()
	if s.redirects(r) {
		at, err := a.Sign(r.Context())
		if err == nil {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.Redirect(w, r, at, http.StatusTemporaryRedirect)
			return downloadRedirected, false
		}
		if !errors.Is(err, artifact.ErrCannotSign) {
			return s.refuse(w, s.explain(r.Context(), a, err)), false
		}
	}
	body, err := a.Open(r.Context())
	if err != nil {
		return s.refuse(w, s.explain(r.Context(), a, err)), false
	}
	defer func() { _ = body.Close() }()
	setFileHeaders(w.Header(), "application/octet-stream", a.File, false)
	setDigest(w.Header(), a.SHA256)
	if !isOneRange(r.Header.Get("Range")) {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	out := &downloadWriter{ResponseWriter: w, control: http.NewResponseController(w), until: time.Now().Add(downloadMost),
		sent: s.bytes}
	in := &watchedBody{ReadSeeker: body}
	http.ServeContent(out, r, "", time.Time{}, in)
	switch {
	case in.err != nil:
		return outcomeOf(s.explain(r.Context(), a, in.err)), true
	case out.err != nil:
		return downloadAborted, true
	}
	return downloadServed, false
}

// isOneRange reports whether the header Range asks for one range of bytes. RFC 9110 lets a server ignore other headers:
// several ranges in one answer would read the object once for each, and malformed ones are no range.
func isOneRange(header string) bool {
	first, last, ok := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	if !ok || !strings.HasPrefix(header, "bytes=") {
		return false
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if first == "" { // the last bytes; http.ServeContent answers a wrong Content-Range to those of none
		n, err := strconv.ParseInt(last, 10, 64)
		return err == nil && n > 0
	}
	if err != nil || from < 0 || last == "" {
		return err == nil && from >= 0
	}
	to, err := strconv.ParseInt(last, 10, 64)
	return err == nil && to >= from
}

// find returns the artifact of a request, and the principal by whose rights it is read.
func (s *artifactServer) find(r *http.Request) (reads.Artifact, authz.Principal, error) {
	runID, path := r.PathValue("runId"), r.PathValue("path")
	if token := r.URL.Query().Get("link"); token != "" {
		return s.control.FindLinked(r.Context(), runID, path, token)
	}
	who, err := s.callers.Caller(r)
	if err != nil {
		return reads.Artifact{}, who, err
	}
	a, err := s.control.FindArtifact(r.Context(), who, runID, path)
	return a, who, err
}

// redirects reports whether the bucket may answer a request itself. The script of a page cannot read from another
// origin, and the signature of an address is for GET only.
func (s *artifactServer) redirects(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return s.cfg.SignedDownloads && r.Method == http.MethodGet && (mode == "" || mode == "navigate")
}

// enter counts a download until leave is called. Errors: REQUEST_RATE_LIMITED, TOO_MANY_OPERATIONS.
func (s *artifactServer) enter(who authz.Principal) (leave func(), err error) {
	key := who.TenantID + "/" + who.ID
	if err := s.rate.Take(key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most, whose := downloadsOfOne, "You have"
	if s.running[key] < downloadsOfOne {
		most, whose = downloadsOfAll, "This server has"
	}
	if s.running[key] >= downloadsOfOne || s.total >= downloadsOfAll {
		e := control.Later(control.Refuse(run.CodeTooManyOperations,
			"%s %d downloads of artifacts under way, the maximum. Wait for one to end.", whose, most), time.Second)
		e.Limit = int64(most)
		return nil, e
	}
	s.running[key]++
	s.total++
	s.open.Inc()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[key]--; s.running[key] == 0 {
			delete(s.running, key)
		}
		s.total--
		s.open.Dec()
	}, nil
}

// explain logs why the content cannot be read, and returns the error for the caller.
func (s *artifactServer) explain(ctx context.Context, a reads.Artifact, err error) *control.Error {
	refused, known := errors.AsType[*control.Error](err)
	switch {
	case errors.Is(err, artifact.ErrTorn):
		s.log.ErrorContext(ctx, "an artifact in the bucket is torn: restore the object, or run its step again",
			slog.String("uri", a.URI), slog.Any("error", err))
		return control.Refuse(run.CodeArtifactTorn, "The stored content is not what the step reported. Restore the object "+
			"in the bucket, or run the step again.")
	case known && refused.Code != run.CodeInternal:
		return refused
	case ctx.Err() == nil:
		s.log.WarnContext(ctx, "an artifact could not be read from the bucket", slog.String("uri", a.URI),
			slog.Any("error", err))
	}
	return control.Later(control.Refuse(run.CodeUnavailable, "The bucket of artifacts does not answer. Try again."),
		2*time.Second)
}

// refuse answers with an error and returns the outcome.
func (s *artifactServer) refuse(w http.ResponseWriter, err error) string {
	refusedHTTP(w, err)
	return outcomeOf(err)
}

// outcomeOf returns the outcome of a request that ended with an error.
func outcomeOf(err error) string {
	refused, known := errors.AsType[*control.Error](err)
	if !known {
		return downloadFailed
	}
	switch refused.Code {
	case run.CodeArtifactRemoved:
		return downloadRemoved
	case run.CodeArtifactTorn:
		return downloadTorn
	case run.CodeAuthRate, run.CodeRequestRate, run.CodeTooManyOperations:
		return downloadLimited
	case run.CodeUnavailable, run.CodeStoreUnavailable, run.CodeInternal:
		return downloadFailed
	}
	return downloadRefused
}

// setDigest sets the validator of the content, and its digest by RFC 9530.
func setDigest(h http.Header, sum string) {
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) == 0 {
		return
	}
	h.Set("ETag", strconv.Quote(sum))
	h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(raw)+":")
}

// downloadWriter gives a reader a minute for each part, so that a large file may take long and a reader that stops
// loses its connection.
type downloadWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	until   time.Time
	sent    prometheus.Counter
	err     error
}

func (d *downloadWriter) Write(part []byte) (int, error) {
	deadline := time.Now().Add(downloadStall)
	if deadline.After(d.until) {
		deadline = d.until
	}
	_ = d.control.SetWriteDeadline(deadline) // a test's recorder has none
	n, err := d.ResponseWriter.Write(part)
	d.sent.Add(float64(n))
	if err != nil {
		d.err = err
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (d *downloadWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// watchedBody remembers an error of reading, which http.ServeContent does not report.
type watchedBody struct {
	io.ReadSeeker
	err error
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
