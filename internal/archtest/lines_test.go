package archtest_test

import (
	"go/scanner"
	"go/token"
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

func TestGo_LinesAreAtMost120Columns(t *testing.T) {
	t.Parallel()
	_, files := repository(t)
	for _, name := range files {
		if filepath.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			continue
		}
		for _, number := range longGoLines(text(t, name)) {
			t.Errorf("%s:%d: the line has more than %d columns: break it", name, number, columns)
		}
	}
}

// longString is the length from which a literal excuses its line: broken, it could not be searched for.
const longString = 60

// longGoLines returns the numbers of the lines that are too long; a tab counts as one column. Generated code is left
// out, and so are lines with a long literal, a raw literal of several lines, a directive or a single word.
func longGoLines(source string) (numbers []int) {
	if strings.Contains(source[:min(len(source), 600)], "Code generated") {
		return nil
	}
	excused := literalLines(source)
	for i, line := range strings.Split(source, "\n") {
		comment := strings.TrimLeft(line, "\t /")
		fixed := strings.HasPrefix(line, "//go:") || strings.Contains(line, "//nolint:") || !strings.Contains(comment, " ")
		if utf8.RuneCountInString(line) > columns && !fixed && !excused[i+1] {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// literalLines returns the lines that a long literal or one of several lines stands on.
func literalLines(source string) map[int]bool {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING || len(literal) < longString {
			continue
		}
		first := set.Position(pos).Line
		for n := first; n <= first+strings.Count(literal, "\n"); n++ {
			lines[n] = true
		}
	}
}

func TestLongGoLines_ExcusesLiterals(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 25)
	source := strings.Join([]string{"package x", "// " + long, "var a = `" + long, long + "`", "var b = \"" + long + "\"",
		"var c = " + strings.Repeat("a + ", 30) + "a"}, "\n")
	if got, want := longGoLines(source), []int{2, 6}; !slices.Equal(got, want) {
		t.Errorf("long lines %v, want %v", got, want)
	}
}
