package server

import (
	"bufio"
	"fmt"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// What steps wrote, as files: their artifacts and their logs. The content comes from programs of plans, so a browser
// must never execute it: it is plain text, JSON or a download, in a sandbox without scripts.

// filePolicy keeps a browser from executing anything of a served file, also if a type were guessed wrongly.
const filePolicy = "default-src 'none'; sandbox; frame-ancestors 'none'"

// shownTypes are the types of files that a browser may show, by extension. Every other file is a download. Markup is
// shown as text: as HTML or SVG it would be a page of this origin.
var shownTypes = map[string]string{ //nolint:gochecknoglobals // a table
	".json": "application/json", ".csv": textType, ".html": textType, ".log": textType, ".md": textType,
	".sql": textType, ".txt": textType, ".xml": textType, ".yaml": textType, ".yml": textType, ".png": "image/png",
}

const textType = "text/plain; charset=utf-8"

func (p *parts) downloadRoutes(mux *http.ServeMux) {
	// Without the route for the exact path, ServeMux redirects it before a token is checked.
	mux.HandleFunc("GET /artifacts/{runId}", p.serveArtifact)
	mux.HandleFunc("GET /artifacts/{runId}/{path...}", p.serveArtifact)
	mux.HandleFunc("GET /logs/{runId}/{stepId}/{attempt}", p.serveLog)
}

// serveArtifact serves an artifact that a run reported, whole or in ranges, to callers who may read the run.
func (p *parts) serveArtifact(w http.ResponseWriter, r *http.Request) {
	var a reads.Artifact
	who, err := p.callers.Caller(r)
	if err == nil {
		a, err = p.control.OpenArtifact(r.Context(), who, r.PathValue("runId"), r.PathValue("path"))
	}
	if refusedHTTP(w, err) {
		return
	}
	defer func() { _ = a.Body.Close() }()
	kind, shown := shownTypes[strings.ToLower(path.Ext(a.File))]
	if !shown {
		kind = "application/octet-stream"
	}
	h := w.Header()
	setFileHeaders(h, kind, a.File, shown && !r.URL.Query().Has("download"))
	if a.SHA256 != "" {
		h.Set("ETag", strconv.Quote(a.SHA256))
	}
	http.ServeContent(w, r, "", time.Time{}, a.Body)
}

// setFileHeaders sets the headers of a file from a step. Caches of others must not keep it, and the browser asks again,
// because rights may have changed.
func setFileHeaders(h http.Header, kind, name string, inline bool) {
	disposition := "attachment"
	if inline {
		disposition = "inline"
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "private, no-cache")
}

// escapes matches the escape sequences and control characters that a terminal would interpret.
var escapes = regexp.MustCompile(
	"\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])|[\x00-\x08\x0b-\x1f\x7f]|\u009b")

// serveLog serves the log of one logical attempt as plain text without escape sequences, with the time in UTC and the
// stream before each line. It reads the log in pages, and each page checks the caller's rights.
func (p *parts) serveLog(w http.ResponseWriter, r *http.Request) {
	who, err := p.callers.Caller(r)
	q := reads.StepLogQuery{RunID: r.PathValue("runId"), StepID: r.PathValue("stepId"), First: reads.MaxLogLines}
	var page reads.StepLog
	if err == nil {
		q.Attempt, err = attemptOf(r.PathValue("attempt"))
	}
	if err == nil {
		page, err = p.control.StepLog(r.Context(), who, q)
	}
	if refusedHTTP(w, err) {
		return
	}
	setFileHeaders(w.Header(), textType, fmt.Sprintf("%s-%s-%d.log", q.RunID, q.StepID, q.Attempt),
		!r.URL.Query().Has("download"))
	out := bufio.NewWriter(w)
	for len(page.Lines) > 0 {
		for _, line := range page.Lines {
			writeLogLine(out, line)
		}
		q.FromLine = page.Lines[len(page.Lines)-1].No + 1
		if q.FromLine > page.Total {
			break
		}
		if page, err = p.control.StepLog(r.Context(), who, q); err != nil {
			panic(http.ErrAbortHandler) // otherwise a part of the log looks like all of it
		}
	}
	_ = out.Flush()
}

func attemptOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, control.Refuse(run.CodeNotFound, "There is no attempt %q: attempts have numbers from 1.", text)
	}
	return n, nil
}

func writeLogLine(out *bufio.Writer, line artifact.Line) {
	_, _ = fmt.Fprintf(out, "%s %s %s\n", line.At.UTC().Format("2006-01-02T15:04:05.000Z"), line.Stream,
		escapes.ReplaceAllString(line.Text, ""))
}
