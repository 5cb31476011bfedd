package examples_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/examples"
	"github.com/dvt-engine/dvt/plan"
)

var queues = plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev", Known: []string{"tq-control-dev",
	"tq-data-dev"}}

func render(t *testing.T, name, data string) plan.Plan {
	t.Helper()
	doc, err := examples.Plan(name, examples.Values{NotifyURL: "http://127.0.0.1:8080/dev/notify", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(doc, queues)
	if err != nil {
		t.Fatalf("%s is not a valid plan: %v", name, err)
	}
	return p
}

// contract: T219
func TestShop_WritersFollowEachOther(t *testing.T) {
	t.Parallel()
	p := render(t, examples.Shop, "/data")
	before := map[string]map[string]bool{} // all steps that must have ended before a step
	var ancestors func(id string) map[string]bool
	byID := map[string]plan.Step{}
	for _, s := range p.Steps {
		byID[s.StepID] = s
	}
	ancestors = func(id string) map[string]bool {
		if before[id] == nil {
			before[id] = map[string]bool{}
			for _, d := range byID[id].DependsOn {
				before[id][d] = true
				for a := range ancestors(d) {
					before[id][a] = true
				}
			}
		}
		return before[id]
	}
	count := map[plan.StepType]int{}
	for _, a := range p.Steps {
		count[a.Type]++
		for _, b := range p.Steps {
			writers := strings.HasPrefix(string(a.Type), "DBT_") && strings.HasPrefix(string(b.Type), "DBT_")
			if writers && a.StepID != b.StepID && !ancestors(a.StepID)[b.StepID] && !ancestors(b.StepID)[a.StepID] {
				t.Errorf("%s and %s may run at once on one DuckDB file", a.StepID, b.StepID)
			}
		}
	}
	if count[plan.DBTCompile] != 1 || count[plan.DBTRun] != 2 || count[plan.DBTTest] != 1 ||
		count[plan.Command] < 3 || count[plan.Noop] != 1 || count[plan.HTTPNotify] != 1 {
		t.Errorf("steps by type: %v", count)
	}
}

// contract: T230
func TestBroken_OneAttemptAtItsSecondStep(t *testing.T) {
	t.Parallel()
	p := render(t, examples.Broken, "/data")
	if len(p.Steps) != 3 {
		t.Fatalf("%d steps", len(p.Steps))
	}
	for _, s := range p.Steps {
		if s.StepID == "need-file" && (s.Retry.MaxAttempts != 1 || len(s.DependsOn) != 1) {
			t.Errorf("need-file: %d attempts after %v", s.Retry.MaxAttempts, s.DependsOn)
		}
	}
	if w := p.Metadata.FailurePolicy.RetryWindowSeconds; w == nil || *w != 3600 {
		t.Error("the retry window must leave an hour for a newcomer")
	}
}

func TestPlan_ValuesAreEscaped(t *testing.T) {
	t.Parallel()
	const data = `/tmp/a "quoted" \ dir & {{.NotifyURL}}`
	p := render(t, examples.Broken, data)
	for _, s := range p.Steps {
		if s.StepID != "need-file" {
			continue
		}
		var in plan.CommandInputs
		if err := json.Unmarshal(s.Inputs, &in); err != nil || in.Argv[2] != data+"/fix-me.txt" {
			t.Errorf("argv %q, %v", in.Argv, err)
		}
	}
	if _, err := examples.Plan("../plans/shop", examples.Values{}); err == nil {
		t.Error("a plan was found by a path")
	}
}
