package archtest_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrase is a word or a pattern that readers from the field stumble over, and the better form.
type phrase struct {
	// hints are literals, separated by |, and every match has one of them. Looking for them first is cheap.
	hints   string
	pattern *regexp.Regexp
	better  string
	// statement says that a question may use the phrase.
	statement bool
}

// phrases are the private idiom of this code base. Each has few other uses: a pattern that meets good sentences is not
// kept here.
var phrases = []phrase{
	{"ever", regexp.MustCompile(`(?i)\bwho(?:m|se)?ever\b`),
		"name who it is: the caller, the reader, a process that", false},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), "again", false},
	{"of which", regexp.MustCompile(`(?i)\bof which\b`), "two sentences, or: and … of them", false},
	{"that which", regexp.MustCompile(`(?i)\bthat which\b`), "the thing that", false},
	{"so ", regexp.MustCompile(`(?i)\bso (?:many|long)(?: |$)(?:[^at]|$|a[^s]|t[^h])`),
		"the number or the duration", false},
	{"as it is", regexp.MustCompile(`(?i)\bas it is[,.;]`), "unchanged", false},
	{" none", regexp.MustCompile(`(?i)\b(?:that|which|who) (?:is|are) none\b`),
		"that does not exist, or: which is not a …", false},
	{"to be ", regexp.MustCompile(`(?i)\b(?:is|are|was|were) to be (?:shown|done|told|asked|kept|said|had)\b`),
		"must be …, or the active form", false},
	{"here", regexp.MustCompile(`(?i)\b(?:thereof|whereof|therein|hereby|hereof)\b`), "of it, in it", false},
	{", for ", regexp.MustCompile(`(?i), for (?:it|they|he|she|nobody|nothing|there|that) ` +
		`(?:is|are|was|were|has|have|must|may|can|cannot|would|could|does|knows)\b`),
		"because", false},
	{"parcel|sighting|servant|goodbye", regexp.MustCompile(`(?i)\b(?:parcels?|sightings?|servants?|goodbyes?)\b`),
		"event, batch, delta, message, frame, worker", false},
	{"news", regexp.MustCompile(`(?i)\bnews\b`), "event, change or message", false},
	{"hat ", regexp.MustCompile(
		`(?:^|[.;:] )[Ww]hat (?:is|was|has|are|were|they|it|he|somebody|nobody|others?|waits|stands|comes|must|may|` +
			`cannot|can)\b[^.?!:;]*\b(?:is|are|was|were|has|have|goes|go|comes|come|stays|stay|counts|waits)\b[^.?!:;]*`),
		"a noun as the subject: the cached state, the rows", true},
	{"Who ", regexp.MustCompile(`(?:^|[.;] )Who [a-z]+ [^.?!:;]*[.;]`),
		"a noun as the subject: the reader, a caller that", true},
}

func TestLanguage_UsesNoPrivateIdiom(t *testing.T) {
	t.Parallel()
	_, files := repository(t)
	for _, name := range files {
		for _, f := range findPhrases(name, text(t, name)) {
			t.Errorf("%s:%d: %q: write %s", name, f.line, f.words, f.better)
		}
	}
}

type finding struct {
	line          int
	words, better string
}

// findPhrases returns the phrases in the prose of a file, in the order of lines: comments and strings of Go, all of the
// text of other kinds.
func findPhrases(name, content string) (found []finding) {
	for _, block := range proseOf(name, content) {
		joined := strings.Join(block.lines, " ")
		for _, p := range phrases {
			if !p.hinted(joined) {
				continue
			}
			for _, at := range p.pattern.FindAllStringIndex(joined, -1) {
				if p.statement && strings.HasPrefix(strings.TrimLeft(joined[at[1]:], " "), "?") {
					continue
				}
				found = append(found, finding{block.lineAt(at[0]), strings.Trim(joined[at[0]:at[1]], " .;:"), p.better})
			}
		}
	}
	slices.SortFunc(found, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	return found
}

func (p phrase) hinted(text string) bool {
	for hint := range strings.SplitSeq(p.hints, "|") {
		if strings.Contains(text, hint) || strings.Contains(text, strings.ToUpper(hint[:1])+hint[1:]) {
			return true
		}
	}
	return false
}

// prose is lines of text that belong together.
type prose struct {
	first int // number of its first line
	lines []string
}

// lineAt returns the number of the line that has the given offset of the joined lines.
func (p prose) lineAt(offset int) int {
	for i, line := range p.lines {
		if offset -= len(line) + 1; offset < 0 {
			return p.first + i
		}
	}
	return p.first
}

var (
	// lawPages quote the source documents, and their wording is cited.
	lawPages = regexp.MustCompile(`^docs/contract/(?:acceptance|data-dictionary|decisions|numbers|requirements)\.md$`)
	ownTest  = regexp.MustCompile(
		`^internal/archtest/language_test\.go$|/testdata/|^NOTICE|^docs/images/|/gen/`)
	// generatedPart is written from Go, where its sentences are checked: the table of codes in docs/operations.md, and
	// docs/cli.md from its marker to its end.
	generatedPart = regexp.MustCompile(`(?s)<!-- codes: .*<!-- end of codes -->|(?m:^)<!-- commands: .*\z`)

	marker = regexp.MustCompile(`^\s*(?://+|--|\*+/?|/\*+|#)?\s*`)
	code   = regexp.MustCompile("`[^`]*`")
)

func proseOf(name, content string) []prose {
	if lawPages.MatchString(name) || ownTest.MatchString(name) ||
		strings.Contains(content[:min(len(content), 600)], "Code generated") {
		return nil
	}
	content = generatedPart.ReplaceAllStringFunc(content, func(part string) string { // keep the numbers of lines
		return strings.Repeat("\n", strings.Count(part, "\n"))
	})
	switch filepath.Ext(name) {
	case ".go":
		return goProse(name, content)
	case ".md":
		return blocks(content, true)
	case ".ts", ".tsx", ".sql", ".graphqls":
		return blocks(content, false)
	}
	return nil
}

// blocks are the paragraphs of a text: lines between blank ones. In Markdown blocks of code are left out, each row of a
// table and each item of a list is a block of its own, and code within a line is blanked.
func blocks(content string, markdown bool) (found []prose) {
	inCode, open := false, false
	for i, line := range strings.Split(content, "\n") {
		bare := strings.TrimSpace(marker.ReplaceAllString(line, ""))
		if markdown {
			bare = strings.TrimSpace(line)
			if strings.HasPrefix(bare, "```") {
				inCode, open = !inCode, false
				continue
			}
			bare = code.ReplaceAllString(bare, "_")
			if strings.HasPrefix(bare, "|") || strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, "* ") ||
				strings.HasPrefix(bare, "- ") {
				open = false
			}
		}
		if bare == "" || inCode {
			open = false
			continue
		}
		if !open {
			found = append(found, prose{first: i + 1})
		}
		open = true
		last := &found[len(found)-1]
		last.lines = append(last.lines, bare)
	}
	return found
}

func goProse(name, content string) (found []prose) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments)
	if err != nil {
		return nil // the compiler says it better
	}
	for _, group := range file.Comments {
		for _, block := range blocks(content[set.Position(group.Pos()).Offset:set.Position(group.End()).Offset], false) {
			block.first += set.Position(group.Pos()).Line - 1
			found = append(found, block)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found = append(found, prose{set.Position(lit.Pos()).Line, strings.Split(strings.Trim(lit.Value, "\"`"), "\n")})
		}
		return true
	})
	return found
}

func TestFindPhrases_NamesLineAndWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"comment.go":   {"package x\n\n// It gives what is kept to\n// whoever asks.\nvar a int\n", "4 whoever"},
		"string.go":    {"package x\n\nvar a = \"parsed anew\"\n", "3 anew"},
		"broken.go":    {"package x\n\n// There are ten of\n// which two ran.\n", "3 of which"},
		"page.md":      {"# T\n\nWhat is kept is dropped.\n", "3 What is kept is dropped"},
		"question.md":  {"# T\n\nWhat is kept, and is it safe?\n", ""},
		"code.md":      {"# T\n\n`whoever` is a name.\n\n```\nwhoever\n```\n", ""},
		"query.sql":    {"-- So many rows\nSELECT 1;\n", "1 So many r"},
		"long.md":      {"It waits so long as the gate is closed, and so many that it fails.\n", ""},
		"generated.go": {"// Code generated by x. DO NOT EDIT.\npackage x\n\n// whoever\n", ""},
	} {
		got := ""
		for _, f := range findPhrases(name, c.text) {
			got += fmt.Sprintf("%d %s", f.line, f.words)
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}
