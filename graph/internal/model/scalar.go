// Package model is the Go shape of the public schema: the types that gqlgen
// writes from schema.graphqls, and the scalars, which keep the wire forms that
// the schema promises. It holds no rule of the product.
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

// Available gives what a viewer may do to a run and its steps. It does no I/O
// and computes once.
type Available func() runs.Availability

// StepsOf makes the steps of one run, in plan order. It does no I/O and is safe
// for concurrent use.
type StepsOf interface {
	Steps() []Step
	// Step is the one named, nil when there is none.
	Step(stepID string) *Step
}

// MarshalSeq writes a position as a JSON number (T154).
func MarshalSeq(s run.Seq) graphql.Marshaler {
	return number(strconv.FormatInt(int64(s), 10))
}

// UnmarshalSeq reads a JSON number or a decimal string from 0 to 2^53-1 (T154, T228).
func UnmarshalSeq(v any) (run.Seq, error) {
	n, ok := integer(v, true)
	if !ok || n < 0 || n > int64(run.MaxSeq) {
		return 0, badInput("A Seq is a whole number from 0 to %d, or the same as a decimal string.", run.MaxSeq)
	}
	return run.Seq(n), nil
}

// MarshalInt writes a GraphQL Int.
func MarshalInt(i int) graphql.Marshaler { return number(strconv.Itoa(i)) }

// UnmarshalInt reads a GraphQL Int: a whole number of 32 bits.
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

// AppendTime appends what MarshalTime writes.
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

// appendDigits appends the last digits of a number that is not negative.
func appendDigits(b []byte, n, digits int) []byte {
	b = append(b, "0000"[:digits]...)
	for i := len(b) - 1; n > 0 && i >= len(b)-digits; i-- {
		b[i] += byte(n % 10)
		n /= 10
	}
	return b
}

// UnmarshalTime reads RFC 3339 with any offset. The moment must be in the years 1 to 9999 in UTC, or no answer could
// write it.
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

// MarshalDuration writes milliseconds, with what is finer behind the point.
func MarshalDuration(d time.Duration) graphql.Marshaler {
	return number(string(AppendDuration(nil, d)))
}

// AppendDuration appends what MarshalDuration writes.
func AppendDuration(b []byte, d time.Duration) []byte {
	if us := d.Microseconds(); us%1000 != 0 {
		return strconv.AppendFloat(b, float64(us)/1000, 'f', -1, 64)
	}
	return strconv.AppendInt(b, d.Milliseconds(), 10)
}

// UnmarshalDuration reads milliseconds.
func UnmarshalDuration(v any) (time.Duration, error) {
	n, ok := integer(v, false)
	if !ok || n > int64(math.MaxInt64/time.Millisecond) || n < int64(math.MinInt64/time.Millisecond) {
		return 0, badInput("A Duration is a whole number of milliseconds.")
	}
	return time.Duration(n) * time.Millisecond, nil
}

// MarshalJSON writes the stored document as it is, on one line so that every
// transport can frame it.
func MarshalJSON(doc json.RawMessage) graphql.Marshaler {
	if len(doc) == 0 {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(AppendJSON(nil, doc)) })
}

// AppendJSON appends what MarshalJSON writes.
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

// UnmarshalJSON gives back the document that the request carried: numbers keep
// their digits, objects have their keys in order of the alphabet.
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
