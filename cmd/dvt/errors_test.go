package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/run"
)

// serveAnswer starts a server that gives the same answer to every request.
func serveAnswer(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestErrors_HaveAnExitStatusAndTellWhatToDo(t *testing.T) {
	address, _ := serve(t)
	isolateEnvironment(t)
	full := serveAnswer(t, 200, `{"errors":[{"message":"It is full.","extensions":{"code":"QUEUE_FULL","retryAfterMs":3000}}],"data":null}`)
	broken := serveAnswer(
		t, 200, `{"errors":[{"message":"Something went wrong inside dvt.","extensions":{"code":"INTERNAL","requestId":"req-7"}}],"data":null}`)
	denied := serveAnswer(
		t, 200, `{"errors":[{"message":"No.","extensions":{"code":"FORBIDDEN","denial":{"action":"CANCEL","rule":"prod-freeze","whoCould":["ana"]}}}],"data":null}`)
	other := serveAnswer(t, 404, `{}`)
	nameless := serveAnswer(t, 404, `{"errors":[{"message":"there is nothing here"}]}`)
	older := serveAnswer(
		t, 422, `{"errors":[{"message":"unknown field","path":["variable","filter","mine"],"extensions":{"code":"BAD_USER_INPUT"}}]}`)
	for _, c := range []struct {
		address, token, args string
		status               int
		says                 []string
	}{
		{address, "dev-viewer", "run list", 0, []string{"r1"}},
		{address, "dev-viewer", "run pause r1", 3, []string{"FORBIDDEN: ", "\n  Ask someone who can do this",
			"who can do this: "}},
		{address, "nobody", "run list", 3, []string{"UNAUTHENTICATED: ", "DVT_TOKEN"}},
		{address, "dev-viewer", "run show r2", 4, []string{"NOT_FOUND: "}},
		{address, "dev-viewer", "manual list --run r2", 4, []string{"NOT_FOUND: "}},
		{address, "dev-viewer", "run list --limit 0", 2, nil},
		{full, "t", "run list", 3, []string{"QUEUE_FULL: It is full.\n  Wait until some have started",
			"\n  try again in 3s"}},
		{denied, "t", "run list", 3, []string{"FORBIDDEN: No.\n  the rule \"prod-freeze\" denies it\n  who can do this: ana\n"}},
		{broken, "t", "run list", 1, []string{"INTERNAL: ", "\n  request id: req-7"}},
		{other, "t", "run list", 1, []string{"answered 404 Not Found", "check the address"}},
		{"http://127.0.0.1:1", "t", "run list", 1, []string{"no dvt answers at http://127.0.0.1:1: ", "connection refused",
			"dvt dev", "DVT_SERVER"}},
		{"http://127.0.0.1:1", "t", "run watch r1", 1, []string{"no dvt answers"}},
		{"http://127.0.0.1:1", "t", "workflow debug r1", 1, []string{"no dvt answers"}},
		{"http://no-such-host.invalid", "t", "run list", 1, []string{"no-such-host.invalid"}},
		{address, "dev-viewer", "run lst", 2, []string{`there is no command "dvt run lst"; did you mean list?`,
			"dvt run --help"}},
		{address, "dev-viewer", "run list --statu FAILED", 2, []string{"unknown flag: --statu; did you mean --status?",
			"dvt run list --help"}},
		{address, "dev-viewer", "run list r1", 2, []string{"usage: dvt run list"}},
		{address, "dev-viewer", "run list --limit x", 2, []string{`--limit must be a whole number, not "x"`}},
		{address, "dev-viewer", "run list --status failing", 2,
			[]string{"--status must be one of PENDING, ", `not "failing". Runs that wait`, "dvt run list --attention"}},
		{address, "dev-viewer", "run list --since yesterday", 2, []string{"--since must be a time such as "}},
		{address, "dev-viewer", "audit list", 2, []string{"there is no command \"dvt audit list\"\n"}},
		{address, "dev-viewer", "run alert r1 --level loud", 2, []string{"--level must be one of LOW"}},
		{address, "dev-viewer", "service mode sideways --reason r", 2, []string{"MODE must be one of "}},
		{address, "dev-viewer", "token create n --role god", 2, []string{"--role must be one of VIEWER, "}},
		{address, "dev-viewer", "bulk signal pause --status so --reason r", 2, []string{"--status must be one of "}},
		{address, "dev-viewer", "run start ../../go.sum", 2, []string{"go.sum is not a plan"}},
		{address, "dev-viewer", "run start testdata/watch.txt", 2, []string{"dvt plan new writes one"}},
		{"nowhere", "t", "run list", 2, []string{`address must be like https://dvt.example.com, not "nowhere"`}},
		{nameless, "t", "run list", 1, []string{"answered 404 Not Found", "check the address"}},
		{older, "t", "run list", 2, []string{"BAD_USER_INPUT: filter.mine: unknown field\n  Nothing was done."}},
		{address, "dev-viewer", "token create n", 2, []string{"give --role"}},
		{address, "dev-viewer", "run show r1 --at x", 2, []string{`--at must be a whole number, not "x"`}},
		{address, "dev-viewer", "run retry r1 s --timeout soon", 2, []string{"--timeout must be a duration such as"}},
		{address, "dev-viewer", "bulk signal pause --plan p", 2, []string{"give a --reason: it is kept in the audit"}},
		{address, "dev-viewer", "service mode normal", 2, []string{"give a --reason: it is kept in the audit"}},
		{address, "dev-viewer", "run stop r1 --preview", 3, []string{"You need the Admin role on shop / sandbox to stop a run in an emergency."}},
		{address, "dev-viewer", "run list --awaiting-approval --text a", 2, []string{"awaiting-approval"}},
		{address, "dev-admin", "policy set", 2, []string{"give FILE, --expected-version and --reason\n",
			"\n  --expected-version: the version that FILE is based on", "\n  usage: dvt policy set FILE"}},
		{address, "dev-admin", "run set-target r1", 2, []string{"give STEP and --reason; give one of --database, --schema\n"}},
		{address, "dev-engineer", "bulk signal pause", 2, []string{"give a --reason", "give one of --status, --project"}},
		{address, "dev-admin", "service mode sideways", 2, []string{"MODE must be one of ", "give a --reason"}},
		{address, "dev-viewer", "run restart r1", 2, []string{"did you mean rerun"}},
		{address, "dev-viewer", "logs r1 --failed", 2, []string{`there is no command "dvt logs"; did you mean dvt run logs?`}},
		{address, "dev-viewer", "run skip r1", 2, []string{"give STEP\n", "usage: dvt run skip RUN STEP"}},
		{address, "dev-viewer", "run tag", 2, []string{"give RUN\n"}},
		{address, "dev-viewer", "run list", 0, []string{"r1"}},
		{address, "dev-viewer", "run", 0, []string{"Available Commands", "watch"}},
	} {
		out, status, err := dvt(t, c.address, c.token, strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status {
			t.Errorf("dvt %s: status %d, want %d\n%s", c.args, status, c.status, out)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("dvt %s: want %q in\n%s", c.args, want, out)
			}
		}
	}
	for _, args := range []string{"rnu list", "runn"} {
		out, status, err := local(t, "", strings.Fields(args)...)
		if status != 2 || !strings.Contains(err.Error(), "did you mean run?") {
			t.Errorf("dvt %s: status %d, %v, want 2 and a suggestion\n%s", args, status, err, out)
		}
	}
}

func TestErrors_EveryCodeHasAnExitStatusAndAHint(t *testing.T) {
	t.Parallel()
	want := map[run.Code]int{
		run.CodeNotFound: 4, "STEP_NOT_FOUND": 4, run.CodeForbidden: 3, run.CodeUnauthenticated: 3, run.CodeTokenExpired: 3,
		"SOD_VIOLATION": 3, run.CodeRunMoved: 3, "SIGNAL_ID_CONFLICT": 3,
		"SIGNAL_RATE_LIMITED": 3, "INVALID_RUN_STATE": 3, "TENANT_FROZEN": 3, "ENGINE_READ_ONLY": 3, "BAD_USER_INPUT": 2,
		"PLAN_INVALID": 2, "PLAN_TOO_LARGE": 2, "SIGNAL_TOO_LARGE": 2,
		"STORE_UNAVAILABLE": 1, "INTERNAL": 1,
	}
	for _, c := range run.CodeTable() {
		var e *cmdline.Error
		err := cmdline.Failure(&client.Error{Code: string(c.Code), Message: "m"})
		if !errors.As(err, &e) || e.Status < 1 || e.Status > 4 || !strings.Contains(err.Error(), "\n  ") {
			t.Errorf("%s: %v, want a status from 1 to 4 and a hint", c.Code, err)
		}
		if status, is := want[c.Code]; is && e.Status != status {
			t.Errorf("%s: status %d, want %d", c.Code, e.Status, status)
		}
	}
}

func TestErrors_EachViolationHasALine(t *testing.T) {
	t.Parallel()
	e := &client.Error{
		Code: "PLAN_INVALID", Message: "m", Violations: []client.Violation{{Path: "steps[0]", Code: "MISSING", Message: "a"},
			{Path: "steps[1]", Code: "CYCLE", Message: "b"}},
		Denial: client.Denial{Action: "PAUSE", Rule: "r1", WhoCould: []string{"ana", "ben"}}, More: []string{"one\n  two"},
		RequestID: "q",
	}
	want := "PLAN_INVALID: m\n  MISSING steps[0]: a\n  CYCLE steps[1]: b\n  the rule \"r1\" denies it\n  who can do this: ana, ben\n " +
		" one\n    two\n  request id: q"
	if e.Error() != want {
		t.Errorf("the error is\n%s\nwant\n%s", e, want)
	}
}

// A group cannot run by itself, so its usage must not offer that.
func TestUsage_GroupsNeedASubcommand(t *testing.T) {
	t.Parallel()
	root().InitDefaultHelpCmd()
	out, status, _ := local(t, "", "run", "--help")
	if status != 0 || strings.Contains(out, "dvt run [flags]\n") || !strings.Contains(out, "dvt run [command]") {
		t.Errorf("dvt run --help: status %d, want 0 and no usage without a command\n%s", status, out)
	}
	walk(root(), func(c *cobra.Command) {
		// People run dvt dev itself far more often than its subcommands, and dvt queue has one only.
		if c.HasSubCommands() && c.CommandPath() != "dvt dev" && c.CommandPath() != "dvt queue" {
			t.Errorf("%s runs by itself and has subcommands, want only one of both", c.CommandPath())
		}
	})
}
