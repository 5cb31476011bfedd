package executor

import (
	"encoding/json"
	"regexp"
	"sort"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/dvt-engine/dvt/internal/errorline"
	"github.com/dvt-engine/dvt/internal/secretvalue"
	"github.com/dvt-engine/dvt/secret/mask"
)

// secretName matches the names of variables and headers whose values must not be shown.
// The short names count as whole words only: COMPASS and BYPASS are no secrets.
var secretName = regexp.MustCompile(`(?i)TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|KEY|AUTHORIZATION|COOKIE` +
	`|(?:^|[^A-Z])(?:PASS|PWD|DSN)(?:[^A-Z]|$)|(?-i:[a-z0-9](?:Pass|Pwd|Dsn|DSN)(?:[^a-z]|$))`)

// shellDir is the variable that shells keep their directory in. To mask it would hide the paths of a log.
const shellDir = "PWD"

const (
	redacted       = "***"
	minSecretBytes = 4 // to replace shorter values would make texts unreadable
	// minSecretLineBytes bounds the lines of a value of several lines, because short ones may be punctuation.
	minSecretLineBytes = 8
)

// redactor masks the secret values of one step. Safe for concurrent use.
type redactor struct {
	secrets *mask.Masker      // those that the plan names
	values  *strings.Replacer // those that look like secrets
	later   *atomic.Pointer[mask.Masker]
}

func (r redactor) hide(text string) string {
	text = r.secrets.Replace(text)
	if m := r.later.Load(); m != nil {
		text = m.Replace(text)
	}
	return r.values.Replace(text)
}

// alsoHide adds values that an execution got after it had begun. It holds for all copies of the redactor.
func (r redactor) alsoHide(m *mask.Masker) { r.later.Store(m) }

// Replace returns text with a mask in place of each secret value. A program may print escape sequences or control
// characters inside a value, and readers of the text may remove them. Replace then returns the masked text without
// them. Other texts keep them.
func (r redactor) Replace(text string) string {
	text = r.hide(text)
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	shown := strings.Map(func(c rune) rune {
		if isControl(c) {
			return -1
		}
		return c
	}, errorline.StripEscapes(text))
	if masked := r.hide(shown); masked != shown {
		return masked
	}
	return text
}

// isControl reports whether c is a control character that a terminal does not show. Tabs and line breaks separate
// words and may be part of a value.
func isControl(c rune) bool { return unicode.IsControl(c) && c != '\t' && c != '\n' }

// newRedactor returns a redactor for the values of variables and headers with secret names, of the worker's extra
// environment and of the step, and for the values of inputs and parameters that every answer hides. Best effort: a
// secret under another name stays visible, unless the plan names it in secretRefs.
func newRedactor(extra map[string]string, inputs, params json.RawMessage, secrets *mask.Masker) redactor {
	var own struct{ Env, Headers map[string]string }
	_ = json.Unmarshal(inputs, &own) // the inputs of some step types have no such fields
	values := secretValues{}
	for _, set := range []map[string]string{extra, own.Env, own.Headers} {
		for name, v := range set {
			if !secretName.MatchString(name) || name == shellDir {
				continue
			}
			values.add(v)
			values.add(strings.TrimPrefix(v, "Bearer "))
		}
	}
	for _, doc := range []json.RawMessage{inputs, params} {
		for _, v := range secretvalue.Texts(doc) {
			values.add(v)
		}
	}
	return redactor{secrets, values.replacer(), &atomic.Pointer[mask.Masker]{}}
}

// secretValues are the texts that a redactor replaces.
type secretValues map[string]bool

// add adds a value, as it is and as a JSON text has it, because the parameters of a run are a JSON file. It adds each
// line of the value too, because programs print a value of several lines line by line.
func (s secretValues) add(value string) {
	if len(value) >= minSecretBytes {
		s[value] = true
		for _, escapeHTML := range []bool{false, true} {
			s[mask.InJSON(value, escapeHTML)] = true
		}
	}
	if !strings.Contains(value, "\n") {
		return
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= minSecretLineBytes {
			s[line] = true
		}
	}
}

func (s secretValues) replacer() *strings.Replacer {
	// The longest value comes first, so that a value which is part of another one does not leave the rest visible.
	longest := make([]string, 0, len(s))
	for v := range s {
		longest = append(longest, v)
	}
	sort.Slice(longest, func(i, j int) bool {
		return len(longest[i]) > len(longest[j]) || len(longest[i]) == len(longest[j]) && longest[i] < longest[j]
	})
	pairs := make([]string, 0, 2*len(longest))
	for _, v := range longest {
		pairs = append(pairs, v, redacted)
	}
	return strings.NewReplacer(pairs...)
}

// secretForms match texts that hold a secret by their form, whatever the name of the variable they come from. The
// groups stay.
var secretForms = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:password|passwd|passphrase|pwd)\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s"',;&)\]}]+)`),
	regexp.MustCompile(`(?i)("[\w.-]*(?:password|passwd|passphrase|pwd)"\s*:\s*)"(?:[^"\\]|\\.)*"?`),
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s:/?#@]*:)[^\s/@]+(@)`),
	regexp.MustCompile(`(?i)(\bbearer\s+)(?:[\w.~+/=-]*[0-9][\w.~+/=-]*|[\w.~+/=-]{16,})`),
	regexp.MustCompile(`(?i)(\bauthorization["']?\s*[:=]\s*["']?(?:basic|token|digest|negotiate)\s+)[^\s"',]+`),
	regexp.MustCompile(`(?i)((?:secret|token|api[_-]?key|access[_-]?key)=)[^\s"',;&)\]}]{8,}`),
	// Keys of AWS, tokens of GitHub, GitLab and Slack, and JWTs.
	regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`),
	regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-)[\w-]{16,}`),
	regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`),
}

// secretOption matches an option of a command line with its value: `--password X`, `--api-key="X"`.
var secretOption = regexp.MustCompile(
	`(?i)(--?[\w-]*(?:password|passwd|passphrase|secret|token|api-?key|access-?key))(\s+|=)` +
		`("[^"]*"?|'[^']*'?|[^\s"',;)\]}]+)`)

// proseWords follow the name of an option in a sentence about it, such as "--password is required".
var proseWords = map[string]bool{"is": true, "was": true, "are": true, "must": true, "may": true, "and": true,
	"or": true, "to": true, "not": true, "for": true, "in": true, "with": true, "without": true, "has": true,
	"needs": true, "requires": true, "required": true, "missing": true, "cannot": true, "option": true,
	"flag": true, "argument": true}

// maskForms masks well-known forms of secrets in the error of a step: passwords and tokens with their name, options of
// command lines, URLs with a password, headers and keys of large services. The log has them as they were printed, but
// an error leaves the log: lists, titles, events and the bus show it.
func maskForms(text string) string {
	for _, form := range secretForms {
		text = form.ReplaceAllString(text, "${1}"+redacted+"${2}") // a group that the form lacks is empty
	}
	return secretOption.ReplaceAllStringFunc(text, func(found string) string {
		part := secretOption.FindStringSubmatch(found)
		if part[2] != "=" && (proseWords[strings.ToLower(part[3])] || strings.HasPrefix(part[3], "-")) {
			return found
		}
		return part[1] + part[2] + redacted
	})
}
