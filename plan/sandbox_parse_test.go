package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

// program returns a COMMAND step with further members, as JSON.
func program(id, more string) string {
	return `{"stepId":"` + id + `","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"` + more + `}`
}

func TestParse_ReadsTheSandboxOfAStep(t *testing.T) {
	t.Parallel()
	all := `,"sandbox":{"read":["data","/opt/models"],"write":["out"],"connect":["5432","db.example:5432","10.0.0.1:80","[fd00::1]:443"],` +
		`"memory":536870912,"cpu":0.5,"pids":64,"disk":1048576,"require":["memory","pids"]}`
	want := &plan.Sandbox{
		Read: []string{"data", "/opt/models"}, Write: []string{"out"},
		Connect: []string{"5432", "db.example:5432", "10.0.0.1:80", "[fd00::1]:443"},
		Memory:  512 << 20, CPU: 0.5, PIDs: 64, Disk: 1 << 20, Require: []plan.SandboxPart{plan.SandboxMemory,
			plan.SandboxPIDs},
	}
	p := mustParse(t, withSteps(program("a", all), program("b", `,"sandbox":{}`), program("c",
		`,"sandbox":{"connect":[]}`), program("d", "")))
	for i, want := range []*plan.Sandbox{want, {}, {Connect: []string{}}, nil} {
		if diff := cmp.Diff(want, p.Steps[i].Sandbox); diff != "" {
			t.Errorf("sandbox of step %s (-want +got):\n%s", p.Steps[i].StepID, diff)
		}
	}
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, mustParse(t, doc)); diff != "" {
		t.Errorf("the plan read back from its own JSON differs (-want +got):\n%s", diff)
	}
}

func TestParse_HookInheritsTheSandboxOfItsStep(t *testing.T) {
	t.Parallel()
	hook := func(operation, more string) string {
		input := map[string]string{"COMMAND": `{"argv":["true"]}`, "NOOP": `{}`}[operation]
		return fmt.Sprintf(`,"sandbox":{"pids":7},"compensation":{"operation":%q,"input":%s%s}`, operation, input, more)
	}
	p := mustParse(t, withSteps(
		program("a", hook("COMMAND", "")), program("b", hook("COMMAND", `,"sandbox":{"pids":9}`)),
		program("c", hook("NOOP", ""))))
	for i, want := range []*plan.Sandbox{{PIDs: 7}, {PIDs: 9}, nil} {
		if diff := cmp.Diff(want, p.Steps[i].Compensation.Sandbox); diff != "" {
			t.Errorf("sandbox of the hook of step %s (-want +got):\n%s", p.Steps[i].StepID, diff)
		}
	}
	got := violations(t, withSteps(program("a", hook("NOOP", `,"sandbox":{}`))))
	if diff := cmp.Diff([]string{"INVALID steps[0].compensation.sandbox"}, got); diff != "" {
		t.Errorf("violations of a sandbox on a NOOP hook (-want +got):\n%s", diff)
	}
}

func TestParse_RefusesAWrongSandbox(t *testing.T) {
	t.Parallel()
	const at = " steps[0].sandbox"
	many := strings.TrimSuffix(func() (s string) {
		for i := range plan.MaxSandboxEntries + 2 {
			s += fmt.Sprintf(`"p%d",`, i)
		}
		return s
	}(), ",")
	for name, c := range map[string]struct {
		raw  string
		want []string
	}{
		"a list":           {`[]`, []string{"INVALID" + at}},
		"an unknown field": {`{"swap":1}`, []string{"UNKNOWN" + at + ".swap"}},
		"a key twice":      {`{"pids":1,"pids":2}`, []string{"DUPLICATE" + at + ".pids"}},
		"an empty path":    {`{"read":[""]}`, []string{"INVALID" + at + ".read[0]"}},
		"a NUL in a path":  {`{"read":["a\u0000b"]}`, []string{"INVALID" + at + ".read[0]"}},
		"a path that escapes": {`{"write":["a/../../b","/x/..","..","ok..x"]}`, []string{"INVALID" + at + ".write[0]",
			"INVALID" + at + ".write[1]", "INVALID" + at + ".write[2]"}},
		"a path twice":    {`{"write":["a","a/"]}`, []string{"DUPLICATE" + at + ".write[1]"}},
		"a path too long": {`{"read":["` + strings.Repeat("a", 4097) + `"]}`, []string{"INVALID" + at + ".read[0]"}},
		"too many paths":  {`{"read":[` + many + `]}`, []string{"RANGE" + at + ".read"}},
		"port 0":          {`{"connect":["0"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"port 65536":      {`{"connect":["h:65536"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"no host":         {`{"connect":[":80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"no port": {`{"connect":["h","h:"]}`, []string{"INVALID" + at + ".connect[0]", "INVALID" + at +
			".connect[1]"}},
		"v6 without brackets":   {`{"connect":["fd00::1:80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"v4 in brackets":        {`{"connect":["[10.0.0.1]:80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"a zone":                {`{"connect":["[fe80::1%eth0]:80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"an address mistyped":   {`{"connect":["10.0.0.256:80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"a URL":                 {`{"connect":["http://h:80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"a wildcard":            {`{"connect":["*.h:80"]}`, []string{"INVALID" + at + ".connect[0]"}},
		"a destination twice":   {`{"connect":["H.example:80","h.example.:80"]}`, []string{"DUPLICATE" + at + ".connect[1]"}},
		"a number for a port":   {`{"connect":[80]}`, []string{"INVALID" + at + ".connect[0]"}},
		"null for destinations": {`{"connect":null}`, []string{"INVALID" + at + ".connect"}},
		"an unknown part":       {`{"require":["gpu"]}`, []string{"UNKNOWN" + at + ".require[0]"}},
		"a part twice":          {`{"require":["pids","pids"]}`, []string{"DUPLICATE" + at + ".require[1]"}},
		"limits below their range": {`{"memory":16777215,"cpu":0.001,"pids":0,"disk":1048575}`,
			[]string{"RANGE" + at + ".memory", "RANGE" + at + ".cpu", "RANGE" + at + ".pids", "RANGE" + at + ".disk"}},
		"limits above their range": {`{"memory":1e18,"cpu":1025,"pids":32769,"disk":1e18}`,
			[]string{"RANGE" + at + ".memory", "RANGE" + at + ".cpu", "RANGE" + at + ".pids", "RANGE" + at + ".disk"}},
		"limits of the wrong kind": {`{"memory":"512MiB","cpu":"1","pids":1.5,"disk":true}`,
			[]string{"INVALID" + at + ".memory", "INVALID" + at + ".cpu", "INVALID" + at + ".pids", "INVALID" + at + ".disk"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, violations(t, withSteps(program("a", `,"sandbox":`+c.raw)))); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
	for _, step := range []string{manual("a", `,"sandbox":{}`), noop("a", `,"sandbox":{"pids":0}`)} {
		if diff := cmp.Diff([]string{"INVALID" + at}, violations(t, withSteps(step))); diff != "" {
			t.Errorf("violations of %s (-want +got):\n%s", step, diff)
		}
	}
}

func TestDestination_CoversNarrowerDestinations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wide, narrow string
		want         bool
	}{
		{"443", "443", true}, {"443", "h:443", true}, {"h:443", "443", false}, {"H:443", "h:443", true},
		{"443", "80", false}, {"[fd00:0::1]:443", "[fd00::1]:443", true},
	} {
		wide, err := plan.ParseDestination(c.wide)
		if err != nil {
			t.Fatal(err)
		}
		narrow, err := plan.ParseDestination(c.narrow)
		if err != nil {
			t.Fatal(err)
		}
		if got := wide.Covers(narrow); got != c.want {
			t.Errorf("Covers() of %s and %s = %t, want %t", c.wide, c.narrow, got, c.want)
		}
	}
}
