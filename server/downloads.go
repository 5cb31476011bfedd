package server

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// What steps wrote, as files: their artifacts and their logs. The content comes from programs of plans, so a browser
// must never execute it: logs are plain text and artifacts are downloads, in a sandbox without scripts.

// filePolicy keeps a browser from executing anything of a served file, also if a type were guessed wrongly.
const filePolicy = "default-src 'none'; sandbox; frame-ancestors 'none'"

const textType = "text/plain; charset=utf-8"

func (p *parts) downloadRoutes(mux *http.ServeMux) {
	artifacts := newArtifactServer(p)
	// Without the route for the exact path, ServeMux redirects it before a token is checked.
	mux.Handle("GET /artifacts/{runId}", artifacts)
	mux.Handle("GET /artifacts/{runId}/{path...}", artifacts)
	mux.HandleFunc("GET /logs/{runId}/{stepId}/{attempt}", p.serveLog)
}

// setFileHeaders sets the headers of a file from a step. Caches of others must not keep it, and the browser asks again,
// because rights may have changed.
func setFileHeaders(h http.Header, kind, name string, inline bool) {
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", disposition(name, inline))
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "private, no-cache")
}

// maxFileName bounds a file name in a header, in bytes.
const maxFileName = 200

// disposition returns the value of Content-Disposition. A name that is more than letters, digits, dots, dashes and
// underlines has two forms: one of ASCII for old programs, and one by RFC 5987. Path separators and invisible
// characters are replaced in both, because a program may save the file under this name, and people read it.
func disposition(name string, inline bool) string {
	kind := "attachment"
	if inline {
		kind = "inline"
	}
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	for len(name) > maxFileName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	plain := strings.TrimLeft(unusualInName.ReplaceAllString(name, "_"), ".")
	if plain == "" {
		plain, name = "file", "file"
	}
	if plain == name {
		return kind + "; filename=" + plain
	}
	return kind + `; filename="` + plain + `"; filename*=UTF-8''` + strings.ReplaceAll(url.QueryEscape(
		strings.TrimLeft(name, ".")), "+", "%20")
}

var unusualInName = regexp.MustCompile(`[^A-Za-z0-9._-]`)

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
