package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/dvt-engine/dvt/engine/executor/dbtlog"
	"github.com/dvt-engine/dvt/internal/errorline"
	"github.com/dvt-engine/dvt/run"
)

const (
	// RowsMark is the beginning of a message with the number of rows of a model: dvt.rows <model> <count>. A dbt project
	// logs it when its adapter does not report the number.
	RowsMark = "dvt.rows "

	maxCountedModels = 200
	maxRunResults    = 64 << 20 // bytes of run_results.json that are read
)

// ansi matches the escape sequences of colours.
var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

// dbtLog converts dbt's JSON lines to readable ones. It remembers the numbers of RowsMark. Safe for concurrent use.
type dbtLog struct {
	print func(stream, line string)
	nodes *dbtlog.Tracker
	// versionKnown is called once, with the version of dbt, by a goroutine that reads its output; nil calls nothing.
	versionKnown func(version string)

	mu   sync.Mutex
	rows map[string]int64
}

// line prints the message of one JSON line. It prints a line that is not of dbt's log unchanged, without colours.
func (l *dbtLog) line(stream, line string) {
	event, ok := dbtlog.Parse(line)
	if at := strings.Index(line, `{"`); !ok && at > 0 {
		// Text without a line break, for example a progress bar, may stand before an event in the same pipe.
		if event, ok = dbtlog.Parse(line[at:]); ok {
			l.print(stream, ansi.ReplaceAllString(line[:at], ""))
		}
	}
	if !ok {
		l.print(stream, ansi.ReplaceAllString(line, ""))
		return
	}
	if event.Version != "" {
		l.noteVersion(event.Version)
	}
	l.nodes.Line(event)
	if counted, ok := strings.CutPrefix(event.Text, RowsMark); ok {
		l.count(counted)
	}
	if event.Level == "error" {
		stream = "stderr"
	}
	for text := range strings.Lines(ansi.ReplaceAllString(event.Text, "")) {
		text = strings.TrimRight(text, " \r\n")
		if text != "" {
			l.print(stream, text)
		}
	}
}

// noteVersion calls versionKnown at its first call: a program can print such a line too.
func (l *dbtLog) noteVersion(version string) {
	l.mu.Lock()
	call := l.versionKnown
	l.versionKnown = nil
	l.mu.Unlock()
	if call != nil {
		call(version)
	}
}

// messageText returns a message of dbt without colours and trailing spaces. It keeps the lines, because a traceback on
// one line is unreadable.
func messageText(text string) string {
	lines := strings.Split(strings.TrimSpace(ansi.ReplaceAllString(text, "")), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return strings.Join(lines, "\n")
}

// count records the number of rows of a model from the text after RowsMark. It ignores malformed texts.
func (l *dbtLog) count(text string) {
	model, number, ok := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = map[string]int64{}
	}
	if ok && err == nil && len(l.rows) < maxCountedModels {
		l.rows[model] = n
	}
}

// rowCounts returns the numbers of rows by model.
func (l *dbtLog) rowCounts() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.rows)
}

// runResults is the part of dbt's run_results.json that a step reports.
type runResults struct {
	Elapsed float64     `json:"elapsed_time"` // seconds
	Results []dbtResult `json:"results"`
}

type dbtResult struct {
	UniqueID string                     `json:"unique_id"`
	Status   string                     `json:"status"`
	Message  string                     `json:"message"`
	Adapter  map[string]json.RawMessage `json:"adapter_response"`
	Failures *int64                     `json:"failures"`
	Seconds  *float64                   `json:"execution_time"`
}

// readRunResults reads a run_results.json of at most maxRunResults bytes.
func readRunResults(files workspace, path string) (runResults, error) {
	var r runResults
	body, err := files.read(path, maxRunResults)
	if err != nil {
		return r, fmt.Errorf("run_results.json: %w", err)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return runResults{}, fmt.Errorf("run_results.json: %w", err)
	}
	return r, nil
}

// summary returns the step's result: the number of nodes by kind and status, and the numbers of rows that the adapter
// or the project reported.
func (r runResults) summary(verb string, rows map[string]int64) json.RawMessage {
	counts := map[string]map[string]int{"model": {}, "test": {}, "seed": {}}
	var affected int64
	known := false
	for _, n := range r.Results {
		kind, _, _ := strings.Cut(n.UniqueID, ".")
		if kind == "unit_test" {
			kind = "test"
		}
		if counts[kind] != nil {
			counts[kind][n.Status]++
		}
		if n := dbtlog.Figure(n.Adapter, "rows_affected"); n != nil {
			affected, known = affected+*n, true
		}
	}
	out := map[string]any{
		"command": verb, "models": counts["model"], "tests": counts["test"], "seeds": counts["seed"],
		"elapsedMs": int64(r.Elapsed * 1000),
	}
	if known {
		out["rowsAffected"] = affected
	}
	if len(rows) > 0 {
		out["rows"] = rows
	}
	value, _ := json.Marshal(out) // maps of strings and numbers always marshal
	return value
}

// complete reports what the results say of nodes and the log did not: figures, errors, and nodes whose end was not
// logged. rows are the numbers of rows by model that the project reported.
func (r runResults) complete(nodes *dbtlog.Tracker, rows map[string]int64) {
	for _, n := range r.Results {
		out := run.StepNode{ID: n.UniqueID, Status: dbtlog.StatusOf(n.Status), Failures: n.Failures,
			Rows: dbtlog.Figure(n.Adapter, "rows_affected"), Bytes: dbtlog.Figure(n.Adapter, "bytes_processed")}
		if n.Seconds != nil && *n.Seconds >= 0 && out.Status != run.NodeSkipped {
			out.DurationMS = new(int64(math.Round(*n.Seconds * 1000)))
		}
		if out.Status == run.NodeFailed || out.Status == run.NodeWarn {
			out.Error = dbtlog.Message(n.Message)
		}
		kind, name, _ := strings.Cut(n.UniqueID, ".")
		// Some adapters say 0 of every table, so the project knows better.
		counted, ok := rows[name[strings.LastIndexByte(name, '.')+1:]]
		if ok && kind == "model" && (out.Rows == nil || *out.Rows == 0) {
			out.Rows = &counted
		}
		nodes.Result(out)
	}
}

// firstFailure returns the id and the message of the first node that failed, or "". It leaves out the header of the
// message, which only repeats the node, so that the first line is the one by which the log names the error.
func (r runResults) firstFailure() string {
	for _, n := range r.Results {
		switch n.Status {
		case "error", "fail", "runtime error":
			message := messageText(n.Message)
			if first, rest, ok := strings.Cut(message, "\n"); ok && errorline.IsReportHeader(first) {
				message = strings.TrimSpace(rest)
			}
			return strings.TrimSuffix(n.UniqueID+": "+message, ": ")
		}
	}
	return ""
}
