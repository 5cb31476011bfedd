package control

import "fmt"

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
