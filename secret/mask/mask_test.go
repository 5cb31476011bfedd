package mask_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/secret/mask"
)

var cases = flag.Int("mask-cases", 20_000, "random cases of the campaign")

func TestReplace_HidesEachFormAndNothingElse(t *testing.T) {
	t.Parallel()
	m := mask.New("hunter2-and-more", `pa"ss'wo$rd\1&`, "line one is long\nline two is long", "short")
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"password hunter2-and-more.", "password ***."},
		{"hunter2-and-morehunter2-and-more", "***"},
		{"hunter2-and-mor hunter3-and-more", "hunter2-and-mor hunter3-and-more"},
		{"short", "short"}, // fewer than eight bytes
		{`{"p":"pa\"ss'wo$rd\\1&"}`, `{"p":"***"}`},
		{`{"p":"pa\"ss'wo$rd\\1\u0026"}`, `{"p":"***"}`},
		{`x=pa%22ss%27wo%24rd%5C1%26`, `x=***`},
		{`x=pa%22ss%27wo%24rd%5c1%26`, `x=***`},
		{`export P='pa"ss'\''wo$rd\1&'`, `export P='***'`},
		{`select 'pa"ss''wo$rd\1&'`, `select '***'`},
		{"line two is long", "***"},
		{"a line one is long\nline two is long b", "a *** b"},
		{strings.ToUpper(hex.EncodeToString([]byte("hunter2-and-more"))), "***"},
	} {
		if diff := cmp.Diff(c.want, m.Replace(c.in)); diff != "" {
			t.Errorf("Replace(%q) (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestReplace_ValuesThatOverlapLeaveNothing(t *testing.T) {
	t.Parallel()
	m := mask.New("abcdefghij", "fghijklmnop", "ghijklmn")
	if diff := cmp.Diff("x***y", m.Replace("xabcdefghijklmnopy")); diff != "" {
		t.Errorf("two values (-want +got):\n%s", diff)
	}
	var none mask.Masker
	if got := none.Replace("anything"); got != "anything" {
		t.Errorf("a masker without values returned %q", got)
	}
}

func TestReader_PassesALineOnAtOnce(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	r := mask.New("secret-value").Reader(in)
	// The second and the third line end with the first digits of Base64 and of hexadecimal digits of the value.
	for _, line := range []string{"a line\n", "ends with c2Vjc\n", "ends with 736563\n"} {
		go func() { _, _ = out.Write([]byte(line)) }()
		got := make([]byte, 100)
		n, err := r.Read(got)
		if err != nil || string(got[:n]) != line {
			t.Errorf("read %q, %v, want %q", got[:n], err, line)
		}
	}
	_ = out.Close()
}

// wrap breaks a text into lines of n bytes, as base64 (76), openssl base64 (64) and xxd -p (60) do.
func wrap(text string, n int, end string) string {
	var b strings.Builder
	for len(text) > n {
		b.WriteString(text[:n] + end)
		text = text[n:]
	}
	return b.String() + text + end
}

// A program that encodes a file prints its digits in lines of a fixed width, which cut the value anywhere.
func TestReader_HidesDigitsInLines(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN PRIVATE KEY-----\n" + wrap(strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQ", 12), 64, "\n") +
		"-----END PRIVATE KEY-----\n"
	password := "correct horse battery staple"
	file := `{"host":"db.internal","port":5432,"user":"reader","password":"` + password + `","database":"sales"}` + "\n"
	m := mask.New(key, password)
	keyDigits := base64.StdEncoding.EncodeToString([]byte(key))
	for name, c := range map[string]struct{ digits, value string }{
		"base64 of a key":       {keyDigits, keyDigits},
		"base64 of a file":      {base64.StdEncoding.EncodeToString([]byte(file)), "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZ"},
		"hex digits of a key":   {hex.EncodeToString([]byte(key)), hex.EncodeToString([]byte(key))},
		"hex digits of a value": {hex.EncodeToString([]byte(file)), hex.EncodeToString([]byte(password))},
	} {
		for _, width := range []int{60, 64, 76} {
			for _, end := range []string{"\n", "\r\n"} {
				printed := "--\n" + wrap(c.digits, width, end) + "--\n"
				for cut, from := range map[string]io.Reader{"at once": strings.NewReader(printed),
					"by bytes": iotest.OneByteReader(strings.NewReader(printed))} {
					got, err := io.ReadAll(m.Reader(from))
					if err != nil {
						t.Fatal(err)
					}
					if piece := shown(string(got), c.value); piece != "" {
						t.Errorf("%s in lines of %d, read %s: %q of the value is shown in\n%s", name, width, cut, piece, got)
					}
					if !strings.HasPrefix(string(got), "--\n") || !strings.HasSuffix(string(got), "--\n") {
						t.Errorf("%s: the lines around the value changed:\n%s", name, got)
					}
				}
				if piece := shown(m.Replace(printed), c.value); piece != "" {
					t.Errorf("Replace of %s in lines of %d shows %q", name, width, piece)
				}
			}
		}
	}
}

// shown returns 12 digits of a value that stand in a text, without regard to line breaks; "": there are none.
func shown(text, digits string) string {
	text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
	for at := 0; at+12 <= len(digits)-4; at++ { // the last digits depend on what follows
		if strings.Contains(text, digits[at:at+12]) {
			return digits[at : at+12]
		}
	}
	return ""
}

func TestReplace_KeepsLineBreaksBetweenValues(t *testing.T) {
	t.Parallel()
	m := mask.New("hunter2-and-more", "12345678")
	for in, want := range map[string]string{
		"hunter2-and-more\nhunter2-and-more\n": "***\n***\n",
		"1234\n5678\n":                         "1234\n5678\n", // two numbers are no secret
		"hunter2-\nand-more":                   "hunter2-\nand-more",
	} {
		if diff := cmp.Diff(want, m.Replace(in)); diff != "" {
			t.Errorf("Replace(%q) (-want +got):\n%s", in, diff)
		}
	}
}

// Each form is what a program printed: json.dumps and repr of Python, json_encode of PHP, a page of a proxy, and a
// receiver that repeats headers and body of a request.
func TestReplace_HidesTextBeyondASCIIAndTextWithinText(t *testing.T) {
	t.Parallel()
	m := mask.New(`grüße/"🔑&'x\9`)
	for name, in := range map[string]string{
		"Python JSON":             `{"p": "gr\u00fc\u00dfe/\"\ud83d\udd11&'x\\9"}`,
		"JSON with upper digits":  `{"p": "gr\u00FC\u00DFe/\"\uD83D\uDD11&'x\\9"}`,
		"PHP JSON":                `{"p": "gr\u00fc\u00dfe\/\"\ud83d\udd11&'x\\9"}`,
		"Go JSON":                 `{"p": "grüße/\"🔑\u0026'x\\9"}`,
		"JSON within JSON":        `{"p": "{\"q\":\"grüße/\\\"🔑&'x\\\\9\"}"}`,
		"JSON within ASCII JSON":  `{"p": "{\"q\":\"gr\u00fc\u00dfe/\\\"\ud83d\udd11&'x\\\\9\"}"}`,
		"ASCII JSON within JSON":  `{"p": "{\"q\":\"gr\\u00fc\\u00dfe/\\\"\\ud83d\\udd11&'x\\\\9\"}"}`,
		"a header in Python JSON": `{"p": "gr\u00c3\u00bc\u00c3\u009fe/\"\u00f0\u009f\u0094\u0091&'x\\9"}`,
		"a header as Latin-1":     "gr\u00c3\u00bc\u00c3\u009fe/\"\u00f0\u009f\u0094\u0091&'x\\9",
		"bytes of Python":         `gr\xc3\xbc\xc3\x9fe/"\xf0\x9f\x94\x91&'x\\9`,
		"HTML of Python":          `<p>grüße/&quot;🔑&amp;&#x27;x\9</p>`,
		"HTML of Go":              `<p>grüße/&#34;🔑&amp;&#39;x\9</p>`,
		"HTML without quotes":     `<p>grüße/"🔑&amp;'x\9</p>`,
	} {
		got := m.Replace(in)
		if !strings.Contains(got, mask.Hidden) || strings.Contains(got, "gr") {
			t.Errorf("%s: the value is shown: %s", name, got)
		}
	}
}

// encodings are written apart from the package, as the programs of steps would encode a value.
var encodings = map[string]func(r *rand.Rand, v string) string{
	"raw": func(_ *rand.Rand, v string) string { return v },
	"base64": func(r *rand.Rand, v string) string {
		return base64.StdEncoding.EncodeToString([]byte(letters(r, r.IntN(6)) + v + letters(r, r.IntN(6))))
	},
	"base64url": func(r *rand.Rand, v string) string {
		return base64.URLEncoding.EncodeToString([]byte(letters(r, r.IntN(6)) + v + letters(r, r.IntN(6))))
	},
	"hex": func(r *rand.Rand, v string) string {
		if r.IntN(2) == 0 {
			return hex.EncodeToString([]byte(v))
		}
		return strings.ToUpper(hex.EncodeToString([]byte(v)))
	},
	"digits in lines": func(r *rand.Rand, v string) string {
		digits := hex.EncodeToString([]byte(v))
		if r.IntN(2) == 0 {
			digits = base64.StdEncoding.EncodeToString([]byte(v))
		}
		return wrap(digits, 1+r.IntN(76), []string{"\n", "\r\n"}[r.IntN(2)])
	},
	"url": func(r *rand.Rand, v string) string {
		if r.IntN(2) == 0 {
			return url.Values{"v": {v}}.Encode()
		}
		return (&url.URL{Scheme: "https", Host: "h", Path: "/a"}).JoinPath(url.PathEscape(v)).String()
	},
	"json": func(_ *rand.Rand, v string) string {
		doc, _ := json.Marshal(map[string]string{"v": v})
		return string(doc)
	},
	"shell": func(_ *rand.Rand, v string) string { return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" },
	"sql":   func(_ *rand.Rand, v string) string { return "'" + strings.ReplaceAll(v, "'", "''") + "'" },
}

func letters(r *rand.Rand, n int) string {
	const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_ %&'\"\\$<>.,:;{}!?~#"
	out := make([]byte, n)
	for i := range out {
		out[i] = all[r.IntN(len(all))]
	}
	return string(out)
}

// The campaign: a random value in a random encoding within random text, cut into random chunks. The text around it
// comes out byte for byte, and nothing of the value that would tell it does.
func TestReader_Campaign(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(22, 2))
	leaks, falseMasks := 0, 0
	for range *cases {
		value := letters(r, mask.MinBytes+r.IntN(40))
		other := letters(r, mask.MinBytes+r.IntN(40))
		for name, encode := range encodings {
			if r.IntN(len(encodings)) > 0 {
				continue
			}
			m := mask.New(value, other)
			before, after := "<"+letters(r, r.IntN(60))+"|", "|"+letters(r, r.IntN(60))+">"
			encoded := encode(r, value)
			got := readAll(t, m, r, before+encoded+after)
			if strings.Contains(got, encoded) || !strings.Contains(got, mask.Hidden) {
				leaks++
				t.Errorf("%s: the value %q is not hidden in %q", name, value, got)
			}
			if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
				falseMasks++
				t.Errorf("%s: the text around %q changed: %q", name, value, got)
			}
			plain := before + encode(r, letters(r, len(value))) + after
			if got := readAll(t, m, r, plain); got != plain {
				falseMasks++
				t.Errorf("%s: %q became %q", name, plain, got)
			}
		}
	}
	t.Logf("%d cases: %d leaks, %d texts masked that are no secret", *cases, leaks, falseMasks)
}

func readAll(t *testing.T, m *mask.Masker, r *rand.Rand, text string) string {
	t.Helper()
	var from io.Reader = &chunks{r: r, text: text}
	if r.IntN(4) == 0 {
		from = iotest.OneByteReader(strings.NewReader(text))
	}
	got, err := io.ReadAll(m.Reader(from))
	if err != nil {
		t.Fatal(err)
	}
	// A reader passes a complete line on, even when it ends with the first few digits of a value that goes on.
	if whole := m.Replace(text); whole != string(got) && !strings.Contains(text, "\n") {
		t.Errorf("the text in chunks %q and the whole %q differ", got, whole)
	}
	return string(got)
}

// chunks reads a text in random pieces.
type chunks struct {
	r    *rand.Rand
	text string
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p, c.text[:1+c.r.IntN(len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	values := make([]string, 10)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range values {
		values[i] = letters(r, 24)
	}
	text := bytes.Repeat([]byte("2026-11-28 08:00:00 INFO  loaded 12,480 rows of orders in 3.2 s (id 5f1c2a)\n"), 10_000)
	m := mask.New(values...)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = io.Copy(io.Discard, m.Reader(bytes.NewReader(text)))
	}
}
