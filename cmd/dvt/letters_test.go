package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func beyondASCII(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > 127 })
}

func TestCharset_FollowsTheLocaleOfATerminal(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang, own string
		terminal, ascii       bool
	}{
		{"", "", "de_DE.UTF-8", "", true, false},
		{"", "C.utf8", "C", "", true, false},
		{"C", "C.UTF-8", "C.UTF-8", "", true, true},
		{"", "", "de_DE@euro", "", true, true},
		{"", "", "", "", true, true},
		{"C", "", "", "", false, false}, // a pipe gets the same bytes in each locale
		{"C", "", "", "0", true, false},
		{"C.UTF-8", "", "", "1", true, true},
		{"C.UTF-8", "", "", "1", false, true},
	} {
		for name, value := range map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang, "DVT_ASCII": c.own} {
			t.Setenv(name, value)
		}
		if got := console.CharsetOf(c.terminal); got.Ascii != c.ascii {
			t.Errorf("%+v: ASCII %t, want %t", c, got.Ascii, c.ascii)
		}
	}
}

func TestCharset_EverySymbolHasAnASCIIForm(t *testing.T) {
	t.Parallel()
	x := console.Charset{Ascii: true}
	seen := map[string]bool{}
	sign := func(s console.Span) {
		text := x.Replace(s.Text)
		if beyondASCII(text) || text == "" {
			t.Errorf("the ASCII form of %q is %q", s.Text, text)
		}
		seen[s.Text] = true
	}
	for _, s := range watchview.Signs {
		sign(s)
	}
	for _, s := range watchview.RunSigns {
		sign(s)
	}
	for _, s := range watchview.StepSigns {
		sign(s)
	}
	if len(seen) < 10 {
		t.Errorf("found %d symbols, want at least 10", len(seen))
	}
}

func TestRunWatch_TerminalWithoutUTF8GetsASCII(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 60, 20)
	t.Setenv("LC_ALL", "C")
	address, s := serveWatched(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1, runtest.M{"errorMessage": strings.Repeat("long ", 40)}))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s2", 1))
	stop := startWatch(t, tty.File, address)
	seen := tty.Await(`x FAILED[\s\S]*> RUNNING[\s\S]*Ctrl-C`)
	if beyondASCII(seen) || !strings.Contains(seen, "* LIVE") || !strings.Contains(seen, "...") {
		t.Errorf("the screen must be ASCII, with * LIVE and a cut line:\n%s", seen)
	}
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))
	tty.Await(`run FAILED`)
	if err := stop(); cmdline.ExitStatus(err) != 1 {
		t.Errorf("status %d, %v, want 1", cmdline.ExitStatus(err), err)
	}
	tty.Clean()
}

// Help must be readable on every terminal.
func TestHelp_IsASCII(t *testing.T) {
	t.Parallel()
	walk(root(), func(c *cobra.Command) {
		text := c.Short + c.Long + c.Example
		c.Flags().VisitAll(func(f *pflag.Flag) { text += f.Usage })
		if beyondASCII(text) {
			t.Errorf("the help of %s has characters beyond ASCII", c.CommandPath())
		}
	})
}
