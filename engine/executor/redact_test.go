package executor_test

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
)

// Readers of a log and of an error line do not see escape sequences, so a secret around one must be masked.
func TestCommand_MasksSecretsThatEscapeSequencesSplit(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{"colour": `\033[0m`, "link": `\033]8;;http://shop.test\007`,
		"charset": `\033(B`, "bell": `\007`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := sh(`printf '\033[32mstarted\033[0m\nERROR: login with envsec` + code + `ret-77777 was refused\n'; exit 1`)
			in.Env = map[string]string{"API_TOKEN": "envsecret-77777"}
			j := newJournal(t, plan.Command, in)
			end := execute(t, t.Context(), worker(t, j, executor.Config{}))
			const line = "ERROR: login with *** was refused"
			if want := line + " (sh ended with exit status 1)"; end.Failed.ErrorMessage != want {
				t.Errorf("message %q, want %q", end.Failed.ErrorMessage, want)
			}
			if want := "output: \x1b[32mstarted\x1b[0m\noutput: " + line + "\n"; !strings.HasPrefix(j.log(), want) {
				t.Errorf("log %q, want it to begin with %q", j.log(), want)
			}
		})
	}
}
