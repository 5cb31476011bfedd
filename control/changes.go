package control

import (
	"fmt"

	"github.com/dvt-engine/dvt/run"
)

// MaxChangedLines bounds the lines that ChangedLines returns, without the one that counts the rest.
const MaxChangedLines = 50

// ChangedLines compares two documents, each as one line for each of its parts. It returns the lines that are gone, each
// after "- ", then the new ones, each after "+ ". It takes linear time, because a policy may have 10,000 parts.
func ChangedLines(before, after []string) []string {
	out := []string{}
	add := func(sign string, lines, others []string) {
		known := make(map[string]bool, len(others))
		for _, line := range others {
			known[line] = true
		}
		for _, line := range lines {
			if !known[line] {
				out = append(out, sign+line)
			}
		}
	}
	add("- ", before, after)
	add("+ ", after, before)
	if more := len(out) - MaxChangedLines; more > 0 {
		out = append(out[:MaxChangedLines], fmt.Sprintf("and %d more", more))
	}
	return out
}

// Limits of the lines in the detail of an audit row.
const (
	auditedLines = 10
	auditedLine  = 200 // bytes
)

// ClipLines bounds the lines of a change for the detail of its audit row.
func ClipLines(lines []string) []string {
	out := make([]string, 0, min(len(lines), auditedLines+1))
	for _, line := range lines[:min(len(lines), auditedLines)] {
		out = append(out, run.Text(line, auditedLine))
	}
	if more := len(lines) - auditedLines; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
