package archtest_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the longest line of Go and Markdown. Longer lines make a diff of one word unreadable.
const columns = 120

// longPages are generated from texts that break elsewhere.
var longPages = []string{"docs/cli.md"}

func TestMarkdown_LinesAreAtMost120Columns(t *testing.T) {
	t.Parallel()
	_, files := repository(t)
	for _, name := range files {
		if filepath.Ext(name) != ".md" || slices.Contains(longPages, name) {
			continue
		}
		for _, number := range longMarkdownLines(text(t, name)) {
			t.Errorf("%s:%d: the line has more than %d columns: break it", name, number, columns)
		}
	}
}

// longMarkdownLines returns the numbers of the lines that are too long and could be broken. Tables, headings, code
// blocks and pictures cannot; neither can a line whose first word reaches the limit, such as a link.
func longMarkdownLines(page string) (numbers []int) {
	inCode := false
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			inCode = !inCode
		}
		fixed := inCode || trimmed == "" || strings.ContainsAny(trimmed[:1], "|#") || strings.HasPrefix(trimmed, "![") ||
			strings.HasPrefix(trimmed, "<!--")
		if !fixed && utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimLeft(trimmed, "*-> "), " ") {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func TestLongMarkdownLines_FindsProseOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 25)
	page := strings.Join([]string{"# " + long, "| " + long, "```", long, "```", "* " + long, "short", long,
		"* [" + strings.Repeat("x", 130) + "](y)"}, "\n")
	if got, want := longMarkdownLines(page), []int{6, 8}; !slices.Equal(got, want) {
		t.Errorf("long lines %v, want %v", got, want)
	}
}
