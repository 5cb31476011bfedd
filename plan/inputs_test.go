package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func TestParse_ChecksInputsOfEachType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, inputs string
		want        []string
	}{
		{"COMMAND", `{"argv":["make","check"],"env":{"A_1":"x"},"dir":"sub"}`, nil},
		{"COMMAND", `{}`, []string{"MISSING argv"}},
		{"COMMAND", `{"argv":[""]}`, []string{"INVALID argv"}},
		{"COMMAND", `{"argv":"make check"}`, []string{"INVALID argv"}},
		{"COMMAND", `{"argv":["a",1,"b\u0000"]}`, []string{"INVALID argv[1]", "INVALID argv[2]"}},
		{"COMMAND", `{"argv":["a"],"env":{"A=B":"x","OK":1},"dir":1,"shell":true}`, []string{`INVALID env["A=B"]`,
			"INVALID env.OK", "INVALID dir", "UNKNOWN shell"}},
		{"HTTP_NOTIFY", `{"url":"https://example.org/x","method":"PUT","headers":{"X-A":"b"},"body":{"a":1},"expectStatus":[200,204]}`, nil},
		{"HTTP_NOTIFY", `{"url":"http://127.0.0.1:8080/in","body":"text","expectStatus":202}`, nil},
		{"HTTP_NOTIFY", `{"url":"file:///etc/passwd","method":"BREW"}`, []string{"INVALID url", "UNKNOWN method"}},
		{"HTTP_NOTIFY", `{"url":"http://h","headers":{"a b":"x","c":"1\r\n2"},"expectStatus":[99,"200"]}`,
			[]string{`INVALID headers["a b"]`, "INVALID headers.c", "RANGE expectStatus[0]", "INVALID expectStatus[1]"}},
		{"HTTP_NOTIFY", `{}`, []string{"MISSING url"}},
		{"DBT_COMPILE", `{"projectDir":"p","profilesDir":"q","select":"+a","exclude":"b","vars":{"k":[1,{"x":null}]},"target":"dev","threads":4,"fullRefresh":true,"state":{"against":"LAST_GREEN"}}`, nil},
		{"DBT_RUN", `{}`, []string{"MISSING projectDir"}},
		{"DBT_TEST", `{"projectDir":"","vars":"k: v","threads":0,"fullRefresh":1,"models":"x"}`,
			[]string{"INVALID projectDir", "INVALID vars", "RANGE threads", "INVALID fullRefresh", "UNKNOWN models"}},
		{"DBT_RUN", `{"projectDir":"p","state":{"otherwise":"GUESS","x":1}}`,
			[]string{"MISSING state.against", "UNKNOWN state.otherwise", "UNKNOWN state.x"}},
		{"DBT_RUN", `{"projectDir":"p","state":{"against":"YESTERDAY"}}`, []string{"UNKNOWN state.against"}},
		{"SLEEP", `{"ms":0}`, nil},
		{"SLEEP", `{"ms":-1}`, []string{"RANGE ms"}},
		{"SLEEP", `{}`, []string{"MISSING ms"}},
		{"NOOP", `{}`, nil},
		{"NOOP", `{"ms":1}`, []string{"UNKNOWN ms"}},
		{"MANUAL", `{"instructions":"look","evidence":["ticket"]}`, nil},
		{"MANUAL", `{"instructions":1,"evidence":"x"}`, []string{"INVALID instructions", "INVALID evidence"}},
	} {
		t.Run(c.typ+" "+c.inputs, func(t *testing.T) {
			t.Parallel()
			doc := withSteps(`{"stepId":"a","type":"` + c.typ + `","timeout":"1m","inputs":` + c.inputs + `}`)
			if c.want == nil {
				mustParse(t, doc)
				return
			}
			var want []string
			for _, w := range c.want {
				code, path, _ := strings.Cut(w, " ")
				want = append(want, code+" steps[0].inputs."+path)
			}
			if diff := cmp.Diff(want, violations(t, doc)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
	for _, raw := range []string{`null`, `[]`, `"x"`} {
		doc := withSteps(`{"stepId":"a","type":"NOOP","timeout":"1m","inputs":` + raw + `}`)
		if diff := cmp.Diff([]string{"INVALID steps[0].inputs"}, violations(t, doc)); diff != "" {
			t.Errorf("violations of the inputs %s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestDecode_ReturnsTypedInputs(t *testing.T) {
	t.Parallel()
	command, err := plan.DecodeCommand(json.RawMessage(` {"argv":["a","b"],"env":{"K":"v"},"dir":"d"} `))
	wantInputs(t, plan.CommandInputs{Argv: []string{"a", "b"}, Env: map[string]string{"K": "v"}, Dir: "d"}, command, err)

	notify, err := plan.DecodeHTTP(
		json.RawMessage(`{"url":"http://h/x","headers":{"A":"b"},"body":{"a": 1},"expectStatus":202}`))
	wantInputs(t, plan.HTTPInputs{URL: "http://h/x", Method: "POST", Headers: map[string]string{"A": "b"},
		Body: json.RawMessage(`{"a":1}`), ExpectStatus: []int{202}}, notify, err)

	dbt, err := plan.DecodeDBT(
		json.RawMessage(`{"projectDir":"p","profilesDir":"q","select":"s","exclude":"e","vars":{"k":1},"target":"t","threads":2,"fullRefresh":true,"state":{"against":"LAST_GREEN","otherwise":"FULL"}}`))
	wantInputs(t, plan.DBTInputs{ProjectDir: "p", ProfilesDir: "q", Select: "s", Exclude: "e",
		Vars:   json.RawMessage(`{"k":1}`),
		Target: "t", Threads: 2, FullRefresh: true,
		State: &plan.DBTState{Against: plan.LastGreen, Otherwise: plan.FullWithoutState}}, dbt, err)

	sleep, err := plan.DecodeSleep(json.RawMessage(`{"ms":1e3}`))
	wantInputs(t, plan.SleepInputs{MS: 1000}, sleep, err)

	manual, err := plan.DecodeManual(json.RawMessage(`{"instructions":"look","evidence":["ticket"]}`))
	wantInputs(t, plan.ManualInputs{Instructions: "look", Evidence: []string{"ticket"}}, manual, err)
}

func wantInputs[T any](t *testing.T, want, got T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("decoding failed: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

// The overlays of a run may change inputs after Parse, so that decoding has to apply its rules again.
func TestDecode_RefusesInputsThatParseRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"ms":1,"x":2}`:  "UNKNOWN inputs.x",
		`{"ms":1,"ms":2}`: "DUPLICATE inputs.ms",
		`{"ms":`:          "INVALID inputs",
		``:                "INVALID inputs",
		`null`:            "INVALID inputs",
	} {
		_, err := plan.DecodeSleep(json.RawMessage(raw))
		if diff := cmp.Diff([]string{want}, violationsOf(t, err)); diff != "" {
			t.Errorf("violations of %s (-want +got):\n%s", raw, diff)
		}
	}
}
