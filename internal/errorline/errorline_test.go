package errorline_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/internal/errorline"
	"github.com/dvt-engine/dvt/internal/errorline/errorlinetest"
)

func TestChooser_NamesTheErrorOfRealOutputs(t *testing.T) {
	t.Parallel()
	for _, of := range errorlinetest.Outputs() {
		t.Run(of.Name, func(t *testing.T) {
			t.Parallel()
			var c errorline.Chooser
			for i, line := range of.Lines {
				c.Add(int64(i+1), line.Stream, line.Text)
			}
			got, ok := c.Line()
			if int(got.No) != of.Want || ok != (of.Want > 0) {
				t.Errorf("line %d %q, want line %d", got.No, got.Text, of.Want)
			}
			if named := !strings.HasPrefix(of.Name, "no error line") && of.Name != "colours"; ok && got.Named != named {
				t.Errorf("named %t, want %t", got.Named, named)
			}
			if strings.Contains(got.Text, "\x1b") || strings.TrimSpace(got.Text) != got.Text {
				t.Errorf("the text %q has escape sequences or blanks around it", got.Text)
			}
		})
	}
}

func TestChooser_IgnoresLinesOfDvt(t *testing.T) {
	t.Parallel()
	var c errorline.Chooser
	c.Add(1, "dvt", "ERROR: not of the program")
	if got, ok := c.Line(); ok {
		t.Errorf("chose %q, want no line", got.Text)
	}
}

func TestChooser_NamesTheRefusalOfTheSandboxBehindAnError(t *testing.T) {
	t.Parallel()
	const refusal = `sandbox (files): read of "/data/orders.csv" was refused: it is outside of the sandbox of the step`
	for name, test := range map[string]struct {
		stderr string
		want   errorline.Line
	}{
		"of the file in the error": {
			"wc: /data/orders.csv: No such file or directory", errorline.Line{No: 2, Text: refusal, Named: true}},
		"of another file": {
			"wc: /data/other.csv: No such file or directory",
			errorline.Line{No: 3, Text: "wc: /data/other.csv: No such file or directory", Named: true}},
	} {
		var c errorline.Chooser
		c.Add(1, "stdout", "reading")
		c.Add(2, "dvt", refusal)
		c.Add(3, "stderr", test.stderr)
		if got, _ := c.Line(); got != test.want {
			t.Errorf("%s: chose %+v, want %+v", name, got, test.want)
		}
	}
}

func TestChooser_CutsLongLinesBetweenCharacters(t *testing.T) {
	t.Parallel()
	var c errorline.Chooser
	c.Add(1, "output", "ERROR: "+strings.Repeat("ü", 1<<20))
	got, _ := c.Line()
	if len(got.Text) > errorline.MaxTextBytes || !utf8.ValidString(got.Text) || !strings.HasSuffix(got.Text, "…") {
		t.Errorf("%d bytes, valid %t, want at most %d with a mark of the cut", len(got.Text), utf8.ValidString(got.Text),
			errorline.MaxTextBytes)
	}
}

func BenchmarkChooser(b *testing.B) {
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = fmt.Sprintf("2026-11-27 21:03:07 loaded part %d of raw_orders: 1200 rows in 0.3 s, next is customers", i)
	}
	b.ReportAllocs()
	var c errorline.Chooser
	for i := 0; b.Loop(); i++ {
		c.Add(int64(i), "output", lines[i%len(lines)])
	}
}
