// Package runtext formats parts of a run for tables and lines.
package runtext

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Status returns the status of a run with its substatus, or with what it waits for.
func Status(r client.RunRow) string {
	if w := r.WaitsForApprovals; w != nil {
		return fmt.Sprintf("%s (waits for approval, %d of %d)", r.StatusRaw, w.Given, w.Required)
	}
	return r.StatusRaw + Substatus(r.Substatus) + late(r)
}

// late returns the word for a run that still runs after its deadline, or that missed it, behind a comma.
func late(r client.RunRow) string {
	h := run.Header{Status: run.Status(r.StatusRaw), CompletedAt: r.CompletedAt, Policy: &run.Policy{DueAt: r.Deadline}}
	switch h.Lateness(time.Now()) {
	case run.Late:
		return ", late"
	case run.Missed:
		return ", missed its deadline"
	}
	return ""
}

// Substatus returns a substatus in brackets, behind a space; "" for none.
func Substatus(is *client.RunSubstatus) string {
	if is == nil {
		return ""
	}
	return " (" + substatuses[*is] + ")"
}

// substatuses says what a run does besides its status.
var substatuses = map[client.RunSubstatus]string{
	client.RunSubstatusDraining: "draining", client.RunSubstatusAwaitingOperator: "failed, waiting",
	client.RunSubstatusWaitingManual: "waits for a manual step", client.RunSubstatusCompensating: "compensating",
	client.RunSubstatusQueued: "queued", client.RunSubstatusUnknown: "unknown",
}

// Words returns a value of an enum as words for a sentence: "retry step" for RETRY_STEP.
func Words[T ~string](value T) string {
	return strings.ToLower(strings.ReplaceAll(string(value), "_", " "))
}

// StepStatus returns the status of a step for people. The log says FAILED of a step that was stopped with its run, but
// it has not failed by itself.
func StepStatus(statusRaw string, code *string) string {
	if statusRaw == string(client.StepStatusFailed) && IsStop(Deref(code)) {
		return string(client.RunStatusCancelled)
	}
	return statusRaw
}

// Steps returns how many steps of a run succeeded, of how many, and how many failed, were cancelled, skipped and kept.
func Steps(r client.RunRow) string {
	n := r.StepCounts
	if n.Total == 0 {
		return "-"
	}
	out := fmt.Sprintf("%d/%d", n.Success, n.Total)
	for _, part := range []struct {
		n    int
		word string
	}{{n.Failed - n.Stopped, "failed"}, {n.Stopped, "cancelled"}, {n.Skipped, "skipped"}, {n.Kept, "kept"}} {
		if part.n > 0 {
			out += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	return out
}

// Nodes returns how many nodes of a step ended, of how many, and how many failed, warned and were skipped; "" for a
// step without nodes.
func Nodes(n *client.StepRowNodeCountsStepNodeCounts) string {
	if n == nil {
		return ""
	}
	out := fmt.Sprintf("%d of %d nodes", n.Success+n.Warn+n.Failed+n.Skipped, n.Total)
	for _, part := range []struct {
		n    int
		word string
	}{{n.Failed, "failed"}, {n.Warn, "with warnings"}, {n.Skipped, "skipped"}, {n.Unfinished, "unfinished"}} {
		if part.n > 0 {
			out += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	return out
}

// Moment returns a time in UTC, to the second; "-" for none.
func Moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Duration returns how long a run has taken; "-" before it started. For a run that has not ended, it is the time until
// now, to the second, and begins with "≥".
func Duration(r client.RunRow, now time.Time) string {
	switch {
	case r.TotalDurationMs != nil:
		return Milliseconds(*r.TotalDurationMs)
	case r.StartedAt == nil:
		return "-"
	}
	return "≥" + plan.DurationText(max(now.Sub(*r.StartedAt), 0).Truncate(time.Second))
}

// Cause returns the step and the code of the root cause of a failure; "" for none.
func Cause(r client.RunRow) string {
	if r.RootCause == nil {
		return ""
	}
	return strings.TrimPrefix(Deref(r.RootCause.StepId)+": "+r.RootCause.Code, ": ")
}

// ErrorOf returns the first line of the error of a run with its step, and the code when the error has no text; "" for
// none. Lists show it, because most failures have the same code.
func ErrorOf(r client.RunRow) string {
	if r.RootCause == nil || r.RootCause.Message == nil {
		return Cause(r)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(*r.RootCause.Message), "\n")
	if line == "" {
		return Cause(r)
	}
	if step := Deref(r.RootCause.StepId); step != "" {
		line += " (" + step + ")"
	}
	return line
}

// IsStop reports whether an error code means that a step was cancelled, stopped or paused and did not fail by itself.
func IsStop(code string) bool {
	return code == "CANCELLED" || code == "CANCELLED_BY_PAUSE" || code == "TERMINATED"
}

// Deref returns the text, or "" for nil.
func Deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Milliseconds formats a duration that the API gives in milliseconds; from a minute on in seconds, because nobody acts
// on the rest.
func Milliseconds(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	if d >= time.Minute {
		return plan.DurationText(d.Round(time.Second))
	}
	return plan.DurationText(d.Round(time.Millisecond))
}

// skipReasons says why a step was skipped, as the web UI does.
var skipReasons = map[string]string{
	"FAIL_FAST":          "not started, because another step failed",
	"DEPENDENCY_FAILED":  "not started, because a step that it needs failed",
	"DEPENDENCY_SKIPPED": "not started, because a step that it needs was skipped",
	"CONDITION_FALSE":    "not started, because its condition is false",
	"OPERATOR_SKIP":      "skipped by a person",
}

// NeverStarted is why a step of a run that ended did not begin.
const NeverStarted = "never started, because the run ended"

// SkipReason returns why a step was skipped; the code itself when it comes from a newer server.
func SkipReason(code string) string { return cmp.Or(skipReasons[code], code) }

// CompareIDs orders ids as people count: model_2 before model_10. Ids that differ only in leading zeros are ordered by
// their text.
func CompareIDs(a, b string) int {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	for x, y := a, b; x != "" && y != ""; {
		n, m := digits(x), digits(y)
		if n == 0 || m == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		left, right := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
		if out := cmp.Or(cmp.Compare(len(left), len(right)), cmp.Compare(left, right)); out != 0 {
			return out
		}
		x, y = x[n:], y[m:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// StepTitle returns a step as people and commands know it: "Look for a file (need-file)", or its id when it has no
// other name.
func StepTitle(stepID, name string) string {
	if name == "" || name == stepID {
		return stepID
	}
	return fmt.Sprintf("%s (%s)", name, stepID)
}

// Held returns how many steps cannot start because of failed steps, and how many of them need the one that failed
// first; "" for none, or when the server does not say.
func Held(cause *client.RunRowRootCauseRunError) string {
	if cause == nil || cause.HeldSteps == 0 {
		return ""
	}
	wait := fmt.Sprintf("%d steps wait", cause.HeldSteps)
	if cause.HeldSteps == 1 {
		wait = "1 step waits"
	}
	out := "Nothing new starts: " + wait
	step := Deref(cause.StepId)
	switch {
	case step == "" || cause.BlockedSteps == 0:
		return out
	case cause.HeldSteps == 1:
		return out + " for " + step
	case cause.BlockedSteps >= cause.HeldSteps:
		return out + ", all of them need " + step
	case cause.BlockedSteps == 1:
		return out + ", 1 of them needs " + step
	}
	return out + fmt.Sprintf(", %d of them need %s", cause.BlockedSteps, step)
}

// CancelledBy returns who cancelled or stopped a run, and why.
func CancelledBy(c *client.RunRowCancellation) string {
	out := "cancelled by " + cmp.Or(Deref(c.Actor), "dvt")
	if c.SignalType != nil && *c.SignalType == client.SignalTypeEmergencyStop {
		out = "stopped by an emergency stop of " + cmp.Or(Deref(c.Actor), "dvt")
	}
	switch Deref(c.Code) {
	case "APPROVAL_REJECTED":
		out = "cancelled: " + cmp.Or(Deref(c.Actor), "somebody") + " declined its approval"
	case "APPROVAL_EXPIRED":
		out = "cancelled: nobody approved it in time"
	}
	if why := Deref(c.Reason); why != "" {
		out += ": " + why
	}
	return out
}

// shortRunID is the number of characters of a run's id in commands that are shown. Ids are random, so that it is nearly
// always enough.
const shortRunID = 8

// NextCommand is a command that people are likely to need next.
type NextCommand struct{ Name, Command string }

// NextCommands returns the commands for a run whose step failed: to retry the step, or to rerun a run that has ended,
// and to read the log.
func NextCommands(r client.RunRow, step string) []NextCommand {
	id := r.RunId[:min(len(r.RunId), shortRunID)]
	next := NextCommand{"retry", "dvt run retry " + id + " " + step}
	switch r.Status {
	case client.RunStatusCompleted, client.RunStatusFailed, client.RunStatusCancelled:
		next = NextCommand{"rerun", "dvt run rerun " + id}
	}
	return []NextCommand{next, {"log", "dvt run logs " + id + " " + step}}
}
