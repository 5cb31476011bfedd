// Package dbtlog reads the structured output of dbt (--log-format json) of dbt 1.10 to 1.12 and 2.0, and gives one
// contract for all of them: nodes that start and nodes that end. It tolerates events that it does not know, because
// every version of dbt adds some. It is pure.
package dbtlog

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Line is one line of the structured output.
type Line struct {
	Level string // debug, info, warn, error, …
	Text  string // for people
	// Node is what the line says of a node; nil when it says nothing of one. A Node without a Status is only an error of a
	// node, which some versions print before or after the end of the node.
	Node *run.StepNode
	// Version is the version of dbt, in its first line.
	Version string
	// Total is the number of nodes that dbt executes; 0 when the line does not say it.
	Total int
}

// document has the members of a line of dbt that are read. Versions differ in which of them they write.
type document struct {
	Info struct {
		Name  string `json:"name"`
		Level string `json:"level"`
		Msg   string `json:"msg"`
		TS    string `json:"ts"`
	} `json:"info"`
	Data json.RawMessage `json:"data"`
}

// The names of events whose meaning does not follow from the status of their node.
const (
	nameVersion  = "MainReportVersion"
	nameSkipping = "SkippingDetails"
	nameError    = "RunResultError"
	nameWarning  = "RunResultWarningMessage"
	nameGeneric  = "Generic"
)

type data struct {
	NodeInfo nodeInfo `json:"node_info"`
	Status   text     `json:"status"`
	Total    number   `json:"total"`
	Version  text     `json:"version"`
	Loaded   text     `json:"result_message"` // of a seed
	// ExecutionTime is in seconds.
	ExecutionTime *float64  `json:"execution_time"`
	NumFailures   *int64    `json:"num_failures"`
	Msg           text      `json:"msg"`
	RunResult     runResult `json:"run_result"`
}

type nodeInfo struct {
	UniqueID     text `json:"unique_id"`
	ResourceType text `json:"resource_type"`
	Status       text `json:"node_status"`
	StartedAt    text `json:"node_started_at"`
	FinishedAt   text `json:"node_finished_at"`
	Relation     struct {
		Name text `json:"relation_name"`
	} `json:"node_relation"`
}

type runResult struct {
	Status        text                       `json:"status"`
	Message       text                       `json:"message"`
	Failures      *int64                     `json:"failures"`
	ExecutionTime *float64                   `json:"execution_time"`
	Adapter       map[string]json.RawMessage `json:"adapter_response"`
}

// text is a string; a value of another type counts as "".
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// number is a count, also in quotes; a value of another type counts as 0.
type number int

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	if v, err := strconv.Atoi(strings.Trim(string(b), `"`)); err == nil && v > 0 {
		*n = number(v)
	}
	return nil
}

// Parse reads a line. It returns false for a line that is no event of dbt.
func Parse(line string) (Line, bool) {
	var doc document
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &doc) != nil || doc.Info.Level == "" {
		return Line{}, false
	}
	out := Line{Level: doc.Info.Level, Text: doc.Info.Msg}
	if len(doc.Data) == 0 {
		return out, true
	}
	var d data
	_ = json.Unmarshal(doc.Data, &d) // members of other types than expected count as missing
	if doc.Info.Name == nameVersion {
		out.Version = strings.TrimPrefix(string(d.Version), "=")
	}
	if id := string(d.NodeInfo.UniqueID); id != "" {
		if d.NodeInfo.ResourceType != "operation" { // hooks have a numbering of their own
			out.Total = int(d.Total)
		}
		out.Node = report(doc, d, id)
	}
	return out, true
}

// report returns what an event says of a node; nil for an event that says neither that it started nor that it ended.
func report(doc document, d data, id string) *run.StepNode {
	word := string(d.NodeInfo.Status)
	status := StatusOf(word)
	switch name := doc.Info.Name; {
	case name == nameSkipping:
		status = run.NodeSkipped
	case name == nameError, name == nameWarning, status == "" && name == nameGeneric && doc.Info.Level == "error":
		text := string(d.Msg)
		if text == "" {
			text = doc.Info.Msg
		}
		return &run.StepNode{ID: id, Error: Message(text)}
	case status == "":
		return nil
	}
	out := &run.StepNode{ID: id, Type: string(d.NodeInfo.ResourceType), Status: status,
		Relation: string(d.NodeInfo.Relation.Name)}
	stamp := d.NodeInfo.StartedAt
	if status.Ended() {
		stamp = d.NodeInfo.FinishedAt
	}
	if out.At = instant(string(stamp)); out.At.IsZero() {
		out.At = instant(doc.Info.TS)
	}
	if !status.Ended() {
		return out
	}
	seconds := d.ExecutionTime
	if seconds == nil {
		seconds = d.RunResult.ExecutionTime
	}
	out.DurationMS = milliseconds(seconds)
	if started := instant(string(d.NodeInfo.StartedAt)); out.DurationMS == nil && !started.IsZero() &&
		!out.At.Before(started) && status != run.NodeSkipped {
		ms := out.At.Sub(started).Milliseconds()
		out.DurationMS = &ms
	}
	if out.Failures = d.NumFailures; out.Failures == nil {
		out.Failures = d.RunResult.Failures
	}
	if out.Rows = statusFigure(string(d.Status)); out.Rows == nil {
		out.Rows = statusFigure(string(d.Loaded))
	}
	if rows := Figure(d.RunResult.Adapter, "rows_affected"); rows != nil {
		out.Rows = rows
	}
	if bytes := Figure(d.RunResult.Adapter, "bytes_processed"); bytes != nil {
		out.Bytes = bytes
	}
	if status == run.NodeFailed || status == run.NodeWarn {
		out.Error = Message(string(d.RunResult.Message))
	}
	return out
}

// StatusOf returns the status for a word of dbt; "" for words that say neither that a node started nor that it ended.
func StatusOf(word string) run.NodeStatus {
	switch strings.ToLower(word) {
	case "started", "compiling", "executing":
		return run.NodeRunning
	case "success", "pass", "passed", "no-op", "noop", "reused":
		return run.NodeSuccess
	case "warn", "warned":
		return run.NodeWarn
	case "error", "fail", "failed", "runtime error", "partial success":
		return run.NodeFailed
	case "skipped":
		return run.NodeSkipped
	}
	return ""
}

// Figure returns a number of an adapter's response, nil when the adapter does not report it.
func Figure(adapter map[string]json.RawMessage, key string) *int64 {
	var v int64
	if json.Unmarshal(adapter[key], &v) != nil || v < 0 {
		return nil
	}
	return &v
}

// statusRows matches the status of a model as adapters write it: "SELECT 5" and "INSERT 0 5" of PostgreSQL,
// "SUCCESS 5" of Snowflake, "CREATE TABLE (5.0 rows, 2.3 MiB processed)" of BigQuery, which rounds large numbers, and
// "INSERT 5" of a seed.
var statusRows = regexp.MustCompile(
	`^(?:SELECT|INSERT(?: 0)?|SUCCESS|MERGE|UPDATE|DELETE) (\d{1,15})$|\((\d{1,3})\.0 rows`)

// statusFigure returns the rows of a node from the status in its line; nil when it has none.
func statusFigure(status string) *int64 {
	m := statusRows.FindStringSubmatch(status)
	if m == nil {
		return nil
	}
	n, err := strconv.ParseInt(m[1]+m[2], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// milliseconds converts seconds; nil and negative numbers give nil.
func milliseconds(seconds *float64) *int64 {
	if seconds == nil || *seconds < 0 || *seconds > 1e9 {
		return nil
	}
	ms := int64(*seconds*1000 + 0.5)
	return &ms
}

// instant parses a time of dbt, which has no zone in some versions and is then in UTC.
func instant(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 1970 && t.Year() < 9999 {
			return t.UTC()
		}
	}
	return time.Time{}
}

var (
	ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")
	// stackLine is the first line of a stack trace behind an error: that of Rust begins with its frame 0.
	stackLine = regexp.MustCompile(
		`^\s*(?:(?i:stack backtrace):|Traceback \(most recent call last\):|0: (?:<unknown>|0x[0-9a-f]+|\w+::))`)
	// errorMark stands before the errors of dbt 2.
	errorMark = regexp.MustCompile(`^\[error\] `)
)

// Message returns an error of dbt without colours, stack traces, empty lines at its ends and trailing spaces, of at
// most run.MaxNodeText bytes. It keeps the line breaks.
func Message(s string) string {
	lines := strings.Split(errorMark.ReplaceAllString(strings.TrimSpace(ansi.ReplaceAllString(s, "")), ""), "\n")
	for i, line := range lines {
		if i > 0 && stackLine.MatchString(line) {
			lines = lines[:i]
			break
		}
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return run.Text(strings.TrimSpace(strings.Join(lines, "\n")), run.MaxNodeText)
}
