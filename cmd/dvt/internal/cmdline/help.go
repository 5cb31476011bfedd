package cmdline

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help texts in columns. Terminals are at least that wide.
const helpWidth = 80

// foldHelp makes the help of c and its subcommands fit into helpWidth columns.
func foldHelp(c *cobra.Command) {
	usual := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		usual(c, args)
		c.SetOut(out)
		fmt.Fprint(out, Fold(text.String()))
	})
}

// row is a line of a list in the help: a name, two or more spaces, and a text.
var row = regexp.MustCompile(`^ +\S.*?  +`)

// Fold breaks the lines of a help text at helpWidth columns. Sentences before the usage flow, and lists keep their
// columns. Usage lines and examples stay whole, so that people can copy them.
func Fold(text string) string {
	var out, prose []string
	flush := func() {
		out = append(out, foldLine(strings.Join(prose, " "), 0)...)
		prose = nil
	}
	begun, whole := false, false
	for _, line := range strings.Split(text, "\n") {
		if title := strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "); title {
			begun = begun || line == "Usage:"
			whole = line == "Usage:" || line == "Examples:"
		}
		if flows := !begun && line != "" && line[0] != ' '; flows {
			prose = append(prose, line)
			continue
		}
		if len(prose) > 0 {
			flush()
		}
		if !begun || whole {
			out = append(out, line)
			continue
		}
		out = append(out, foldLine(line, utf8.RuneCountInString(row.FindString(line)))...)
	}
	if len(prose) > 0 {
		flush()
	}
	return strings.Join(out, "\n")
}

// foldLine breaks a line between words. The lines behind the first are indented.
func foldLine(line string, indent int) (out []string) {
	for utf8.RuneCountInString(line) > helpWidth {
		letters := []rune(line)
		at := helpWidth
		for at > indent && letters[at] != ' ' {
			at--
		}
		if at <= indent {
			break // a word that is longer than the column
		}
		out = append(out, strings.TrimRight(string(letters[:at]), " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(string(letters[at:]), " ")
	}
	return append(out, line)
}
