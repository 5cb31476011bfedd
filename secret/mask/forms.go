package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

// Forms returns the texts that give a value away: the value, its lines, and both of them as JSON, in an address, for a
// shell, in SQL, as hexadecimal digits, and as Base64 at each of the three positions within a longer text. A value of
// fewer than MinBytes has none.
func Forms(value string) []string {
	exact, broken := forms(value)
	return append(exact, broken...)
}

// forms returns the texts of Forms: those that are printed as they are, and digits that programs print with line breaks
// anywhere.
func forms(value string) (exact, broken []string) {
	for _, text := range withLines(value) {
		if len(text) >= MinBytes {
			exact, broken = append(exact, exactForms(text)...), append(broken, digitForms(text)...)
		}
	}
	return exact, broken
}

// withLines returns a value and, when it has several lines, each of them: programs print such a value line by line.
func withLines(value string) []string {
	texts := []string{value}
	if !strings.Contains(value, "\n") {
		return texts
	}
	for line := range strings.Lines(value) {
		texts = append(texts, strings.TrimSpace(line))
	}
	return append(texts, strings.TrimSpace(value))
}

func exactForms(text string) []string {
	query, path, all := url.QueryEscape(text), url.PathEscape(text), percent(text)
	return []string{
		text,
		query, lowerEscapes(query), path, lowerEscapes(path), strings.ReplaceAll(query, "+", "%20"), all, lowerEscapes(all),
		InJSON(text, true), InJSON(text, false),
		strings.ReplaceAll(text, "'", `'\''`), strings.ReplaceAll(text, "'", `'"'"'`), // in quotes of a shell
		doubleQuoted.Replace(text), backslashed(text), strings.ReplaceAll(text, `\`, `\\`),
		strings.ReplaceAll(text, "'", "''"), strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text), // SQL
	}
}

// digitForms returns a text as hexadecimal digits and as Base64.
func digitForms(text string) []string {
	digits := hex.EncodeToString([]byte(text))
	out := []string{digits, strings.ToUpper(digits)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			out = append(out, within(encoding, text, before))
		}
	}
	return out
}

// within returns the part of the Base64 text that depends on the value alone, when before (mod 3) bytes stand in front
// of it and any bytes behind it.
func within(encoding *base64.Encoding, text string, before int) string {
	encoded := encoding.EncodeToString(append(make([]byte, before), text...))
	whole := (before + len(text)) * 8 / 6
	return encoded[(before*8+5)/6 : whole]
}

// doubleQuoted escapes what has a meaning between the double quotes of a shell.
var doubleQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")

// backslashed returns a text as `printf %q` of a shell writes it.
func backslashed(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if !isPlain(c) && c < 0x80 && !strings.ContainsRune("%+,:=@^{}~]", rune(c)) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isPlain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' ||
		c == '/'
}

var escape = regexp.MustCompile(`%[0-9A-F]{2}`)

func lowerEscapes(text string) string { return escape.ReplaceAllStringFunc(text, strings.ToLower) }

// percent escapes every byte but letters, digits and the four marks that RFC 3986 leaves as they are.
func percent(text string) string {
	var b bytes.Buffer
	for _, c := range []byte(text) {
		if isPlain(c) && c != '/' || c == '~' {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
	}
	return b.String()
}

// InJSON returns a text as it is between the quotes of a JSON document. escapeHTML also escapes <, > and &.
func InJSON(text string, escapeHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(text) != nil {
		return text // cannot happen: a text has a JSON form
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}
