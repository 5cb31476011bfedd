// Package model contains the Go types of the public schema: the types that gqlgen generates from schema.graphqls, and
// the scalars with the wire formats that the schema documents. It contains no business rules.
package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

// Available returns the actions that a viewer may take on a run and its steps. It does no I/O, computes the result once
// and is safe for concurrent use.
type Available func() runs.Availability

// StepsOf maps the steps of one run. It does no I/O and is safe for concurrent use.
type StepsOf interface {
	// Steps returns all steps in plan order.
	Steps() []Step
	// Step returns the step with an id, or nil when there is none.
	Step(stepID string) *Step
}

// MarshalSeq writes a position as a JSON number. It is exact, because run.MaxSeq is 2^53-1 (contract T154).
func MarshalSeq(s run.Seq) graphql.Marshaler {
	return number(strconv.FormatInt(int64(s), 10))
}

// UnmarshalSeq reads a JSON number or a decimal string from 0 to 2^53-1. Its error is BAD_USER_INPUT (contract T154,
// T228).
func UnmarshalSeq(v any) (run.Seq, error) {
	n, ok := integer(v, true)
	if !ok || n < 0 || n > int64(run.MaxSeq) {
		return 0, badInput("A Seq is a whole number from 0 to %d, or the same as a decimal string.", run.MaxSeq)
	}
	return run.Seq(n), nil
}

// MarshalInt writes a GraphQL Int.
func MarshalInt(i int) graphql.Marshaler { return number(strconv.Itoa(i)) }

// UnmarshalInt reads a GraphQL Int: a whole number of 32 bits. Its error is BAD_USER_INPUT.
func UnmarshalInt(v any) (int, error) {
	n, ok := integer(v, false)
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, badInput("An Int is a whole number of 32 bits.")
	}
	return int(n), nil
}

func integer(v any, strings bool) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= float64(run.MaxSeq)
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n, true
		}
		f, err := v.Float64() // 1e3 is a whole number too
		return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) <= float64(run.MaxSeq)
	case string:
		n, err := strconv.ParseUint(v, 10, 63)
		return int64(n), strings && err == nil //nolint:gosec // 63 bits fit
	}
	return 0, false
}

// MarshalTime writes RFC 3339 in UTC with milliseconds or finer.
func MarshalTime(t time.Time) graphql.Marshaler { return number(string(AppendTime(nil, t))) }

// AppendTime appends the same bytes as MarshalTime writes.
func AppendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if ns := t.Nanosecond(); ns%int(time.Millisecond) != 0 || year < 0 || year > 9999 {
		layout := "2006-01-02T15:04:05.000Z"
		if ns%int(time.Millisecond) != 0 {
			layout = time.RFC3339Nano
		}
		return append(t.AppendFormat(append(b, '"'), layout), '"')
	}
	hour, minute, second := t.Clock()
	b = appendDigits(append(b, '"'), year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	b = appendDigits(append(b, '.'), t.Nanosecond()/int(time.Millisecond), 3)
	return append(b, 'Z', '"')
}

// appendDigits appends the last digits, at most 4, of a number that is not negative.
func appendDigits(b []byte, n, digits int) []byte {
	b = append(b, "0000"[:digits]...)
	for i := len(b) - 1; n > 0 && i >= len(b)-digits; i-- {
		b[i] += byte(n % 10)
		n /= 10
	}
	return b
}

// UnmarshalTime reads RFC 3339 with any offset. The moment must be in the years 1 to 9999 in UTC, because answers
// express no other. Its error is BAD_USER_INPUT.
func UnmarshalTime(v any) (time.Time, error) {
	s, _ := v.(string)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, badInput("A Time is RFC 3339, such as 2026-11-21T03:12:07.123Z.")
	}
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, badInput("A Time is in the years 1 to 9999 in UTC.")
	}
	return t, nil
}

// MarshalDuration writes milliseconds as a JSON number, with decimals for microseconds.
func MarshalDuration(d time.Duration) graphql.Marshaler {
	return number(string(AppendDuration(nil, d)))
}

// AppendDuration appends the same bytes as MarshalDuration writes.
func AppendDuration(b []byte, d time.Duration) []byte {
	if us := d.Microseconds(); us%1000 != 0 {
		return strconv.AppendFloat(b, float64(us)/1000, 'f', -1, 64)
	}
	return strconv.AppendInt(b, d.Milliseconds(), 10)
}

// UnmarshalDuration reads a whole number of milliseconds. Its error is BAD_USER_INPUT.
func UnmarshalDuration(v any) (time.Duration, error) {
	n, ok := integer(v, false)
	if !ok || n > int64(math.MaxInt64/time.Millisecond) || n < int64(math.MinInt64/time.Millisecond) {
		return 0, badInput("A Duration is a whole number of milliseconds.")
	}
	return time.Duration(n) * time.Millisecond, nil
}

// MarshalJSON writes the stored document without changes except line breaks, which Server-Sent Events cannot frame. An
// empty document is null.
func MarshalJSON(doc json.RawMessage) graphql.Marshaler {
	if len(doc) == 0 {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(AppendJSON(nil, doc)) })
}

// AppendJSON appends the same bytes as MarshalJSON writes.
func AppendJSON(b []byte, doc json.RawMessage) []byte {
	if len(doc) == 0 {
		return append(b, "null"...)
	}
	if bytes.ContainsAny(doc, "\r\n") {
		var line bytes.Buffer
		if json.Compact(&line, doc) == nil {
			doc = line.Bytes()
		}
	}
	return append(b, doc...)
}

// UnmarshalJSON encodes a decoded value of the request again. Numbers keep their digits, and the keys of objects are
// sorted. Its error is BAD_USER_INPUT.
func UnmarshalJSON(v any) (json.RawMessage, error) {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, badInput("This is not a JSON value.")
	}
	return bytes.TrimRight(doc.Bytes(), "\n"), nil
}

func number(s string) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, s) })
}

func badInput(format string, args ...any) error {
	return &control.Error{Code: run.CodeBadInput, Message: fmt.Sprintf(format, args...)}
}
