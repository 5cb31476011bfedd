package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

// The cases are the examples of RFC 7396, appendix A, that patch objects, and a number that float64 cannot represent.
// contract: T197
func TestMergePatch_FollowsRFC7396(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{``, `{"a":12345678901234567890}`, `{"a":12345678901234567890}`},
		{`{"a":1}`, `[]`, `[]`},
	} {
		if got := string(plan.MergePatch(json.RawMessage(c.target), json.RawMessage(c.patch))); got != c.want {
			t.Errorf("MergePatch(%s, %s) = %s, want %s", c.target, c.patch, got, c.want)
		}
	}
}

// contract: T104
func TestCheckInputs_AppliesTheRulesOfParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ    plan.StepType
		inputs string
		want   []string
	}{
		{plan.Command, `{"argv":["make"]}`, nil},
		{plan.Command, `{"argv":"make","dir":1}`, []string{"INVALID inputs.argv", "INVALID inputs.dir"}},
		{plan.DBTRun, `{"projectDir":"p","vars":{"a":1}}`, nil},
		{plan.HTTPNotify, `{}`, []string{"MISSING inputs.url"}},
		{plan.Noop, `{}`, nil},
		{plan.Noop, `{"a":1}`, []string{"UNKNOWN inputs.a"}},
		{plan.Sleep, `[]`, []string{"INVALID inputs"}},
		{plan.Sleep, `{`, []string{"INVALID inputs"}},
	} {
		err := plan.CheckInputs(c.typ, json.RawMessage(c.inputs))
		var got []string
		if err != nil {
			got = violationsOf(t, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("violations of the inputs %s of %s (-want +got):\n%s", c.inputs, c.typ, diff)
		}
	}
}
