package executor_test

import (
	"encoding/json"
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

func TestCommand_MasksVariablesByTheWordsOfTheirNames(t *testing.T) {
	t.Parallel()
	const value = "hunter2value"
	for name, hidden := range map[string]bool{"DB_PASS": true, "PASS": true, "DB_PWD": true, "dbPwd": true,
		"SSH_PASSPHRASE": true, "SENTRY_DSN": true, "DSN_2": true, "COMPASS": false, "PASSENGER": false, "PWDX": false} {
		in := sh(`printf 'value %s\n' "$` + name + `"`)
		in.Env = map[string]string{name: value}
		j := newJournal(t, plan.Command, in)
		execute(t, t.Context(), worker(t, j, executor.Config{}))
		if want := map[bool]string{true: "***", false: value}[hidden]; j.log() != "output: value "+want+"\n" {
			t.Errorf("%s: log %q, want the value %s", name, j.log(), want)
		}
	}
}

// An error is shown in many more places than the log it comes from.
func TestCommand_ErrorMasksKnownFormsOfSecrets(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		`password=hunter2secret of bob`:                           `password=*** of bob`,
		`DB_PASSWORD='hunter2 secret'`:                            `DB_PASSWORD=***`,
		`{"day":1,"db_password":"pw\"123456","n":2}`:              `{"day":1,"db_password":***,"n":2}`,
		`no route to postgres://bob:hunter2secret@db/shop`:        `no route to postgres://bob:***@db/shop`,
		`Authorization: Bearer eyJhbGciOiJI.e30.x-_`:              `Authorization: Bearer ***`,
		`bearer authentication of http://db:5432 failed`:          `bearer authentication of http://db:5432 failed`,
		`password authentication failed`:                          `password authentication failed`,
		`usage: load --password argvsecret-99 --day 3`:            `usage: load --password *** --day 3`,
		`load --api-key="two words" -v`:                           `load --api-key=*** -v`,
		`Authorization: Basic Ym9iOmh1bnRlcjI=`:                   `Authorization: Basic ***`,
		`authorization=Token 0123456789abcdef`:                    `authorization=Token ***`,
		`AKIAIOSFODNN7EXAMPLE may not list the bucket`:            `*** may not list the bucket`,
		`the token ghp_` + strings.Repeat("aB3", 12) + ` expired`: `the token *** expired`,
		`remote: github_pat_11ABCDEFG0123456789_abcdefgh`:         `remote: ***`,
		`slack xoxb-123456789012-abcdefghijkl`:                    `slack ***`,
		`jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSM`:        `jwt ***`,
		`API_TOKEN=tok-12345678 and token=x`:                      `API_TOKEN=*** and token=x`,
		`--password is required`:                                  `--password is required`,
		`authorization: failed for bob`:                           `authorization: failed for bob`,
		`TASKIAIOSFODNN7EXAMPLE`:                                  `TASKIAIOSFODNN7EXAMPLE`,
	} {
		j := newJournal(t, plan.Command, sh(`printf '%s\n' "$1"; exit 1`, "ERROR: "+printed))
		end := execute(t, t.Context(), worker(t, j, executor.Config{}))
		if want := "ERROR: " + want + " (sh ended with exit status 1)"; end.Failed.ErrorMessage != want {
			t.Errorf("message %q, want %q", end.Failed.ErrorMessage, want)
		}
		if want := "output: ERROR: " + printed + "\n"; !strings.HasPrefix(j.log(), want) {
			t.Errorf("log %q, want the line as it was printed", j.log())
		}
	}
}

func TestCommand_MasksEachLineOfASecret(t *testing.T) {
	t.Parallel()
	in := sh(`printf '%s\n' "$PRIVATE_KEY"; echo "ERROR: cannot read MIIEfirst1"; exit 1`)
	in.Env = map[string]string{"PRIVATE_KEY": "-----BEGIN KEY-----\r\nMIIEfirst1\n  MIIEsecond\nshort\n"}
	j := newJournal(t, plan.Command, in)
	end := execute(t, t.Context(), worker(t, j, executor.Config{}))
	if want := "ERROR: cannot read *** (sh ended with exit status 1)"; end.Failed.ErrorMessage != want {
		t.Errorf("message %q, want %q", end.Failed.ErrorMessage, want)
	}
	if strings.Contains(j.log(), "MIIE") || strings.Contains(j.log(), "BEGIN") || !strings.Contains(j.log(), "short") {
		t.Errorf("log %q, want lines of at least 8 bytes masked", j.log())
	}
}

// Answers show *** for these parameters, so the log and the error must not have their values.
func TestCommand_MasksHiddenParameters(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh(`echo "ERROR: $(cat "$DVT_PARAMS_FILE") and super\"secret&99"; exit 1`))
	j.params = json.RawMessage(`{"api_token":"super\"secret&99","day":2026,"db_pass":"pw-123456","secrets":["one-1","two-2"],` +
		`"nested":{"password":123456}}`)
	end := execute(t, t.Context(), worker(t, j, executor.Config{}))
	const line = `ERROR: {"api_token":"***","day":2026,"db_pass":"***","secrets":["***","***"],"nested":{"password":***}} and ***`
	if want := line + " (sh ended with exit status 1)"; end.Failed.ErrorMessage != want {
		t.Errorf("message %q, want %q", end.Failed.ErrorMessage, want)
	}
	if want := "output: " + line + "\n"; !strings.HasPrefix(j.log(), want) {
		t.Errorf("log %q, want it to begin with %q", j.log(), want)
	}
}
