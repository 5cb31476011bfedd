package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/run"
)

func TestCleanWriter_PassesTextAndOwnEscapesOnly(t *testing.T) {
	t.Parallel()
	const text = "a\x1b]52;c;eA==\x07b\u009b2J\x00é\xff\u202e\r\nx\ry\tz\n"
	const want = "a\uFFFD]52;c;eA==\uFFFDb\uFFFD2J\uFFFDé\uFFFD\uFFFD\r\nx\uFFFDy\tz\n"
	own := console.Line{{Text: "bad", Style: console.Bad}}.Render(true)
	for size := 1; size <= len(text)+len(own); size++ { // for each way to split the text into calls
		var out bytes.Buffer
		w := console.NewCleanWriter(&out)
		in := text + own + "\n"
		for len(in) > 0 {
			n := min(size, len(in))
			if got, err := w.Write([]byte(in[:n])); got != n || err != nil {
				t.Fatalf("Write returns %d, %v; want %d", got, err, n)
			}
			in = in[n:]
		}
		if out.String() != want+"\x1b[31mbad\x1b[0m\n" {
			t.Fatalf("in pieces of %d bytes: %q, want %q", size, out.String(), want)
		}
	}
}

// serveHostile starts a server that answers every call with control sequences for terminals.
func serveHostile(t *testing.T) string {
	t.Helper()
	const bad = `\u001b]52;c;eA==\u0007\u009b2J\u202e`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(b.String(), "revokeToken") {
			fmt.Fprintf(w, `{"data":{"revokeToken":{"token":{"tokenId":"t1","name":"n%s","principal":"p%s","createdBy":"c","scopes":[],
				"createdAt":"2026-01-01T00:00:00Z","expiresAt":"2026-01-01T00:00:00Z"}}}}`, bad, bad)
			return
		}
		fmt.Fprintf(w, `{"errors":[{"message":"m%s","extensions":{"code":%q}}]}`, bad, run.CodeForbidden)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCommands_ReplaceControlCharactersOfTheServer(t *testing.T) {
	address := serveHostile(t)
	out, said, status := runSplit(t, address, "x", "token", "revoke", "t1", "--reason", "lost")
	if status != 0 || !strings.Contains(out, "is revoked") {
		t.Fatalf("status %d, %q, %q; want the token revoked", status, out, said)
	}
	var failed bytes.Buffer
	c := root()
	c.SetOut(console.NewCleanWriter(&failed))
	c.SetErr(console.NewCleanWriter(&failed))
	c.SetArgs([]string{"run", "show", "00000000-0000-4000-8000-000000000000", "--server", address, "--token", "x"})
	report(c, c.ExecuteContext(t.Context()), nil)
	if !strings.Contains(failed.String(), "error: ") {
		t.Fatalf("%q, want the error of the command", failed.String())
	}
	for _, text := range []string{out, failed.String()} {
		if i := strings.IndexFunc(text, func(r rune) bool {
			return r != '\n' && unicode.IsControl(r) ||
				r == '\u202e'
		}); i >= 0 {
			t.Errorf("%q holds a control character at %d", text, i)
		}
	}
}

func TestAuditExport_QuotesFormulasInRows(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	write, flush, err := (&session{out: &out}).auditWriter("csv")
	if err != nil {
		t.Fatal(err)
	}
	e := auditEntry{}
	if err := json.Unmarshal([]byte(`{"no":1,"row":{"at":"2026-01-01T00:00:00Z","actor":"@a","reason":"=1+1"}}`),
		&e); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(e), flush()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ",'@a,") || !strings.Contains(out.String(), ",'=1+1,") {
		t.Errorf("the row is %q, want apostrophes before @a and =1+1", out.String())
	}
}

func TestCell_QuotesEveryBeginningOfAFormula(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`=HYPERLINK("x")`: `'=HYPERLINK("x")`, "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1",
		"\r=1":    "'\r=1",
		"because": "because", "": "", "a=1": "a=1", "'quoted": "'quoted",
	} {
		if got := cell(in); got != want {
			t.Errorf("cell %q is %q, want %q", in, got, want)
		}
	}
}
