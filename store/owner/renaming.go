package owner

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minPart is the length, in bytes, from which on a name is replaced within longer texts. A shorter name is replaced
// only where it is the whole value, because it is part of too many words.
const minPart = 8

// Renaming replaces the name of a person by a pseudonym.
type Renaming struct{ Name, Pseudonym string }

// Text returns a text without the name. It replaces the name where it is the whole text or a word of it: the name of
// somebody else may contain it, as bo.ana@example.org contains ana@example.org.
func (r Renaming) Text(s string) string {
	if s == r.Name {
		return r.Pseudonym
	}
	var b strings.Builder
	done := 0
	for at := range r.words(s) {
		b.WriteString(s[done:at])
		b.WriteString(r.Pseudonym)
		done = at + len(r.Name)
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// Names reports whether a text or a document names the person, so that Value changes it.
func (r Renaming) Names(s string) bool { return r.Value(s) != s }

// words yields the positions at which the name is a word of s.
func (r Renaming) words(s string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if len(r.Name) < minPart {
			return
		}
		for from := 0; ; {
			i := strings.Index(s[from:], r.Name)
			if i < 0 {
				return
			}
			at := from + i
			if from = at + len(r.Name); !endsInWord(s[:at]) && !beginsWithWord(s[from:]) && !yield(at) {
				return
			}
		}
	}
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' }

// isJoint reports whether a character joins two parts of a name.
func isJoint(c rune) bool { return c == '.' || c == '-' || c == '+' }

func endsInWord(s string) bool {
	c, n := utf8.DecodeLastRuneInString(s)
	if isJoint(c) {
		c, _ = utf8.DecodeLastRuneInString(s[:len(s)-n])
	}
	return isWord(c) || c == '@'
}

func beginsWithWord(s string) bool {
	c, n := utf8.DecodeRuneInString(s)
	if isJoint(c) {
		c, _ = utf8.DecodeRuneInString(s[n:])
	}
	return isWord(c) || c == '@'
}

// Value returns a stored value without the name: a document of JSON keeps its form, and every other value is a text.
func (r Renaming) Value(s string) string {
	if trimmed := strings.TrimSpace(s); len(trimmed) > 0 && strings.ContainsRune(`{["`, rune(trimmed[0])) &&
		json.Valid([]byte(s)) {
		return string(r.JSON([]byte(s)))
	}
	return r.Text(s)
}

// ids are the members of documents whose values are no names of people, in lower case. A person may be named like a
// plan.
var ids = []string{"runid", "parentrunid", "planid", "planversion", "stepid", "signalid", "eventid", "tenantid",
	"projectid", "environmentid", "bulkid", "type", "status", "code", "queue", "sha256"}

// JSON returns a valid document without the name, in its values and in the names of its members. Every other byte
// stays.
func (r Renaming) JSON(doc []byte) []byte {
	type level struct {
		object bool
		member string
	}
	var out []byte
	levels, done, isName := []level{{}}, 0, false
	for i := 0; i < len(doc); i++ {
		top := &levels[len(levels)-1]
		switch doc[i] {
		case '{', '[':
			isName = doc[i] == '{'
			levels = append(levels, level{isName, top.member})
		case '}', ']':
			levels = levels[:max(len(levels)-1, 1)]
		case ',':
			isName = top.object
		case ':':
			isName = false
		case '"':
			end := i + 1
			for ; doc[end] != '"'; end++ {
				if doc[end] == '\\' {
					end++
				}
			}
			end++
			var text, renamed string
			_ = json.Unmarshal(doc[i:end], &text) // the document is valid
			switch {
			case isName:
				if top.member, renamed = text, text; text == r.Name {
					renamed = r.Pseudonym
				}
			case slices.Contains(ids, strings.ToLower(top.member)):
				renamed = text
			default:
				renamed = r.Text(text)
			}
			if renamed != text {
				out = append(append(out, doc[done:i]...), quoted(renamed)...)
				done = end
			}
			i = end - 1
		}
	}
	if done == 0 {
		return doc
	}
	return append(out, doc[done:]...)
}

// quoted returns a text as JSON.
func quoted(s string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string has a JSON form
	return strings.TrimSpace(b.String())
}
