package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Forms returns the texts that give a value away: the value, its lines, and both of them as JSON (also in ASCII, and
// within a text of JSON), in HTML, in an address, for a shell, in SQL, as bytes that a program takes for Latin-1, as
// hexadecimal digits, and as Base64 at each of the three positions within a longer text. A value of fewer than MinBytes
// has none.
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
	out := append(jsonForms(text), htmlForms(text)...)
	if read := latin1(text); read != text {
		// Servers read the bytes of a header as Latin-1, and answer with them as UTF-8 or JSON.
		out = append(append(out, read, quotedBytes(text)), jsonForms(read)...)
	}
	return append(out,
		text,
		query, lowerEscapes(query), path, lowerEscapes(path), strings.ReplaceAll(query, "+", "%20"), all, lowerEscapes(all),
		strings.ReplaceAll(text, "'", `'\''`), strings.ReplaceAll(text, "'", `'"'"'`), // in quotes of a shell
		doubleQuoted.Replace(text), backslashed(text), strings.ReplaceAll(text, `\`, `\\`),
		strings.ReplaceAll(text, "'", "''"), strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text), // SQL
	)
}

// jsonForms returns a text as encoders of JSON write it. Python and PHP escape everything beyond ASCII, and PHP
// slashes. Each of these is also the text of a string within a JSON document, as a receiver repeats a body.
func jsonForms(text string) (out []string) {
	plain := InJSON(text, false)
	ascii := inASCII(plain)
	for _, form := range []string{plain, InJSON(text, true), ascii, upperEscapes(ascii)} {
		slashed := strings.ReplaceAll(form, "/", `\/`)
		out = append(out, form, slashed, InJSON(form, false), InJSON(slashed, false))
	}
	return append(out, inASCII(InJSON(plain, false)))
}

// inASCII escapes what is not ASCII in a text of JSON, by UTF-16 as JSON does.
func inASCII(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

var unicodeEscape = regexp.MustCompile(`\\u[0-9a-f]{4}`)

func upperEscapes(text string) string {
	return unicodeEscape.ReplaceAllStringFunc(text, func(e string) string { return e[:2] + strings.ToUpper(e[2:]) })
}

// htmlForms returns a text as pages of errors show it: the quotes have several names, and some pages leave them.
func htmlForms(text string) (out []string) {
	text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	for _, quote := range []string{`"`, "&quot;", "&#34;"} {
		for _, apostrophe := range []string{"'", "&#39;", "&#039;", "&#x27;", "&apos;"} {
			out = append(out, strings.NewReplacer(`"`, quote, "'", apostrophe).Replace(text))
		}
	}
	return out
}

// latin1 returns what a program reads that takes each byte of a text for a character.
func latin1(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.WriteRune(rune(c))
	}
	return b.String()
}

// quotedBytes escapes bytes beyond ASCII as Python and C print them.
func quotedBytes(text string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ReplaceAll(text, `\`, `\\`)) {
		if c < utf8.RuneSelf {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, `\x%02x`, c)
	}
	return b.String()
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
