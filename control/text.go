package control

import (
	"fmt"
	"regexp"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

const maxChangeReason = 1000 // bytes

// CheckReason adds a violation unless a reason has from 1 to 1,000 bytes of clean text.
func CheckReason(vs []plan.Violation, reason string) []plan.Violation {
	if reason == "" || len(reason) > maxChangeReason {
		vs = append(vs, plan.Violation{Path: "reason", Code: "INVALID", Message: fmt.Sprintf("must have 1 to %d bytes",
			maxChangeReason)})
	}
	return CheckText(vs, "reason", reason)
}

// CheckText adds a violation for text that has control characters, which a terminal would execute, or that is not
// UTF-8, which a row cannot hold. People read the text later in a terminal.
func CheckText(vs []plan.Violation, path, text string) []plan.Violation {
	if !run.IsText(text) {
		vs = append(vs, plan.Violation{
			Path: path, Code: "INVALID", Message: "must be UTF-8 without control characters; tabs and line breaks may " +
				"stand in it",
		})
	}
	return vs
}

// Clip shortens and cleans unchecked text for the audit row of its refusal.
func Clip(text string) string { return run.Text(text, maxChangeReason) }

// IdPattern matches the ids that clients may choose (contract T13, T228).
var IdPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// CheckID adds a violation unless id matches IdPattern.
func CheckID(vs []plan.Violation, path, id string) []plan.Violation {
	if IdPattern.MatchString(id) {
		return vs
	}
	return append(vs, plan.Violation{
		Path: path, Code: "INVALID",
		Message: "must be 1 to 128 characters of A-Z a-z 0-9 _ . - and not begin with . or -",
	})
}

// Plural returns n with one or many, such as "1 signal is" or "3 signals are".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// TimeWords returns a time as a sentence for people names it, such as "2026-11-21 03:12:07 UTC".
func TimeWords(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
