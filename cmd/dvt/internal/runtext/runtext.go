// Package runtext words parts of a run for tables and lines.
package runtext

import (
	"strings"
	"time"

	"github.com/dvt-engine/dvt/client"
)

func Status(r client.RunRow) string {
	return r.StatusRaw + Substatus(r.Substatus)
}

func Substatus(is *client.RunSubstatus) string {
	if is == nil {
		return ""
	}
	return " (" + string(*is) + ")"
}

func Moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func Duration(r client.RunRow) string {
	if r.TotalDurationMs == nil {
		return "-"
	}
	return Milliseconds(*r.TotalDurationMs)
}

func Cause(r client.RunRow) string {
	if r.RootCause == nil {
		return ""
	}
	return strings.TrimPrefix(Deref(r.RootCause.StepId)+": "+r.RootCause.Code, ": ")
}

func Deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func Milliseconds(ms float64) string {
	return (time.Duration(ms * float64(time.Millisecond))).Round(time.Millisecond).String()
}
