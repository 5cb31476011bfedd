package archtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// MarksFile says of each requirement, table of fields and number what is built. People keep it.
	MarksFile = ContractDir + "/marks.txt"
	// StatusFile is the page that `go run ./internal/cmd/contract status` writes from MarksFile.
	StatusFile = ContractDir + "/status.md"
)

// states are the words of a mark, in the order of the page, with what each means.
var states = []struct{ word, meaning string }{
	{"built", "the product does it, and the evidence shows it"},
	{"part", "the product does some of it; the text says what is missing"},
	{"open", "the product does not do it"},
	{"unshown", "no test and no citation shows it"},
	{"replaced", "a ruling or a decision won over it"},
	{"note", "informative, or a rule for people"},
}

// Mark is one line of MarksFile.
type Mark struct {
	State string
	IDs   []string // R001, DD-1, N1
	Text  string   // evidence, or what is missing
}

var (
	requirement = regexp.MustCompile(`(?m)^- \*\*(R\d{3})\*\*`)
	fieldTable  = regexp.MustCompile(`(?m)^### (DD-\d+) `)
	numberRow   = regexp.MustCompile(`(?m)^\| (\d+) \|`)
	quoted      = regexp.MustCompile("`([^`]+)`")
	// checkRange finds an acceptance check, or a range such as "O01 to O04".
	checkRange = regexp.MustCompile(`\b([APSGLQCBXHMZOEW]-?)(\d{1,2})\b(?: to ([APSGLQCBXHMZOEW]-?)(\d{1,2})\b)?`)
)

// LoadMarks reads MarksFile. Errors: a line that is not `state | ids | text`, an unknown state, an id that stands twice
// or not at all, an id that docs/contract does not have.
func LoadMarks(root string) ([]Mark, error) {
	text, _, err := ReadText(root, MarksFile)
	if err != nil {
		return nil, err
	}
	due, err := markedIDs(root)
	if err != nil {
		return nil, err
	}
	var marks []Mark
	for number, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		parts := strings.SplitN(line, "|", 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s:%d: want state | ids | text", MarksFile, number+1)
		}
		mark := Mark{State: strings.TrimSpace(parts[0]), IDs: strings.Fields(parts[1]), Text: strings.TrimSpace(parts[2])}
		if !slices.ContainsFunc(states, func(s struct{ word, meaning string }) bool { return s.word == mark.State }) {
			return nil, fmt.Errorf("%s:%d: %q is no state", MarksFile, number+1, mark.State)
		}
		for _, id := range mark.IDs {
			if !due[id] {
				return nil, fmt.Errorf("%s:%d: %s is marked twice, or is not in the contract", MarksFile, number+1, id)
			}
			delete(due, id)
		}
		marks = append(marks, mark)
	}
	if len(due) > 0 {
		return nil, fmt.Errorf("%s does not mark %v", MarksFile, slices.Sorted(maps.Keys(due)))
	}
	return marks, nil
}

// markedIDs returns the ids that MarksFile must mark.
func markedIDs(root string) (map[string]bool, error) {
	ids := map[string]bool{}
	for _, page := range []struct {
		name    string
		pattern *regexp.Regexp
		prefix  string
	}{
		{"requirements.md", requirement, ""}, {"data-dictionary.md", fieldTable, ""}, {"numbers.md", numberRow, "N"},
	} {
		text, _, err := ReadText(root, ContractDir+"/"+page.name)
		if err != nil {
			return nil, err
		}
		for _, m := range page.pattern.FindAllStringSubmatch(text, -1) {
			ids[page.prefix+m[1]] = true
		}
	}
	return ids, nil
}

// CheckMarks returns what the marks claim and the repository does not bear out: evidence that does not exist, checks
// without a test, and things that are said to be lacking and exist. tested are the ids that tests prove.
func CheckMarks(root string, marks []Mark, names Names, tested map[string]bool) (wrong []string) {
	for _, mark := range marks {
		claimed, lacking, _ := strings.Cut(mark.Text, "lacks ")
		for _, m := range quoted.FindAllStringSubmatch(claimed, -1) {
			if kind, name, named := names.Split(m[1]); named {
				if !names.Has(kind, name) {
					wrong = append(wrong, fmt.Sprintf("%v: there is no %s", mark.IDs, m[1]))
				}
			} else if strings.Contains(m[1], "/") || mark.State == "built" && !strings.Contains(m[1], " ") {
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
					wrong = append(wrong, fmt.Sprintf("%v: there is no file %s", mark.IDs, m[1]))
				}
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(lacking, -1) {
			kind, name, named := names.Split(m[1])
			if !named || names.Has(kind, name) {
				wrong = append(wrong,
					fmt.Sprintf("%v: %s is said to be lacking, and it exists or is of no known kind", mark.IDs, m[1]))
			}
		}
		if mark.State != "built" {
			continue
		}
		for _, id := range checksIn(claimed) {
			if !tested[id] {
				wrong = append(wrong, fmt.Sprintf("%v: no test has a contract line with %s", mark.IDs, id))
			}
		}
	}
	return wrong
}

// checksIn returns the acceptance checks that text names, ranges written out.
func checksIn(text string) (ids []string) {
	for _, m := range checkRange.FindAllStringSubmatch(quoted.ReplaceAllString(text, ""), -1) {
		first, last := atoi(m[2]), atoi(m[2])
		if m[4] != "" {
			last = atoi(m[4])
		}
		for n := first; n <= last; n++ {
			id := fmt.Sprintf("%s%02d", m[1], n)
			if m[1] == "W-" {
				id = fmt.Sprintf("%s%d", m[1], n)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

func atoi(digits string) (n int) {
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// StatusPage writes StatusFile's text.
func StatusPage(marks []Mark) string {
	var page strings.Builder
	page.WriteString("# What is built of the contract\n\n" +
		"Code generated by `go run ./internal/cmd/contract status` from [marks.txt](marks.txt). DO NOT EDIT.\n\n" +
		"R: [requirements.md](requirements.md). DD: [data-dictionary.md](data-dictionary.md). N: the rows of\n" +
		"[numbers.md](numbers.md). `make contract` lists the acceptance checks with their tests.\n\n" +
		"| State | Means | R | DD | N |\n|---|---|---:|---:|---:|\n")
	for _, s := range states {
		count := map[byte]int{}
		for _, mark := range marks {
			for _, id := range mark.IDs {
				if mark.State == s.word {
					count[id[0]]++
				}
			}
		}
		fmt.Fprintf(&page, "| %s | %s | %d | %d | %d |\n", s.word, s.meaning, count['R'], count['D'], count['N'])
	}
	for _, s := range states {
		heading := strings.ToUpper(s.word[:1]) + s.word[1:]
		fmt.Fprintf(&page, "\n## %s\n\n| Ids | Evidence, or what is missing |\n|---|---|\n", heading)
		for _, mark := range marks {
			if mark.State == s.word {
				fmt.Fprintf(&page, "| %s | %s |\n", strings.Join(mark.IDs, ", "), mark.Text)
			}
		}
	}
	return page.String()
}
