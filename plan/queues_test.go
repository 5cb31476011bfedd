package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

// templates are the default names of an installation in which acme is isolated.
var templates = plan.Queues{
	Control: "tq-control-{env}", Data: "tq-data-{env}", Isolation: "tq-isolation-{tenant}-{env}",
	IsolationTenants: []string{"acme"},
	Known:            []string{"tq-gpu-{env}", "tq-own-{tenant}:{env}", "tq-control-big-{env}"},
}

// inScope returns a plan of one step for a tenant and an environment.
func inScope(tenant, env, step string) []byte {
	return []byte(strings.NewReplacer(`"tenantId":"t"`, `"tenantId":"`+tenant+`"`, `"environmentId":"e"`,
		`"environmentId":"`+env+`"`).Replace(string(withSteps(step))))
}

func command(more string) string {
	return `{"stepId":"s","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"` + more + `}`
}

func onQueue(name string) string { return fmt.Sprintf(`,"dispatch":{"taskQueue":%q}`, name) }

func TestQueues_NamesComeFromTenantAndEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tenant, env string
		want        plan.Queues
	}{
		{"globex", "prod", plan.Queues{
			Control: "tq-control-prod", Data: "tq-data-prod", Known: []string{"tq-gpu-prod", "tq-own-globex:prod",
				"tq-control-big-prod"},
		}},
		{"acme", "dev", plan.Queues{
			Control: "tq-control-dev", Data: "tq-isolation-acme-dev", Known: []string{"tq-own-acme:dev", "tq-control-big-dev"},
		}},
	} {
		got := templates.For(c.tenant, c.env)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("queues of %s in %s (-want +got):\n%s", c.tenant, c.env, diff)
		}
		if diff := cmp.Diff(got, got.For(c.tenant, c.env)); diff != "" {
			t.Errorf("a second expansion changes the names (-first +second):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{"tq-control-dev", "tq-data-dev"}, queues.For("any", "thing").Names()); diff != "" {
		t.Errorf("names without placeholders are the same for all (-want +got):\n%s", diff)
	}
}

// contract: T218
func TestParse_PermitsOnlyQueuesOfTheTenantAndEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, tenant, env, queue, want string }{
		{"its data queue", "globex", "prod", "tq-data-prod", ""},
		{"a known queue", "globex", "prod", "tq-gpu-prod", ""},
		{"its isolation queue", "acme", "prod", "tq-isolation-acme-prod", ""},
		{"a known queue of its own", "acme", "prod", "tq-own-acme:prod", ""},
		{"a queue of another environment", "globex", "prod", "tq-data-dev",
			"use one of tq-data-prod, tq-gpu-prod, tq-own-globex:prod"},
		{"another environment's known queue", "globex", "prod", "tq-gpu-dev",
			"use one of tq-data-prod, tq-gpu-prod, tq-own-globex:prod"},
		{"a queue of another tenant", "globex", "prod", "tq-isolation-acme-prod",
			"use one of tq-data-prod, tq-gpu-prod, tq-own-globex:prod"},
		{"its isolation queue while it is not isolated", "globex", "prod", "tq-isolation-globex-prod",
			"use one of tq-data-prod"},
		{"the shared queue while it is isolated", "acme", "prod", "tq-data-prod",
			"use one of tq-isolation-acme-prod, tq-own-acme:prod"},
		{"a shared known queue while it is isolated", "acme", "prod", "tq-gpu-prod",
			"use one of tq-isolation-acme-prod, tq-own-acme:prod"},
		{"a template", "globex", "prod", "tq-data-{env}", "use one of tq-data-prod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.Parse(inScope(c.tenant, c.env, command(onQueue(c.queue))), templates)
			if c.want == "" {
				if err != nil {
					t.Fatalf("Parse() = %v, want no error", err)
				}
				if got := p.Skeleton(templates).Steps[0].TaskQueue; got != c.queue {
					t.Errorf("the task queue of the step is %s, want %s", got, c.queue)
				}
				return
			}
			if diff := cmp.Diff([]string{"UNKNOWN steps[0].dispatch.taskQueue"}, violationsOf(t, err)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if m := message(t, err, 0); !strings.Contains(m, c.want) || !strings.Contains(m, "environment "+c.env) {
				t.Errorf("message %q, want %q and the environment in it", m, c.want)
			}
		})
	}
}

func message(t *testing.T, err error, i int) string {
	t.Helper()
	var invalid *plan.InvalidError
	if !errors.As(err, &invalid) || i >= len(invalid.Violations) {
		t.Fatalf("got %v, want an *InvalidError", err)
	}
	return invalid.Violations[i].Message
}

func TestSkeleton_AnIsolatedTenantHasItsOwnDataQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tenant, want string }{{"acme", "tq-isolation-acme-dev"}, {"globex", "tq-data-dev"}} {
		p, err := plan.Parse(
			inScope(c.tenant, "dev", command(`,"compensation":{"operation":"COMMAND","input":{"argv":["undo"]}}`)), templates)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Skeleton(templates).Steps[0]
		if s.TaskQueue != c.want || s.CompensationQueue != c.want {
			t.Errorf("%s: task queue of the step %s and of its hook %s, want %s for both", c.tenant, s.TaskQueue,
				s.CompensationQueue, c.want)
		}
	}
}

// contract: T203
func TestParse_RefusesProgramsAndCallsOnAControlQueue(t *testing.T) {
	t.Parallel()
	inputs := map[string]string{
		"COMMAND": `{"argv":["true"]}`, "HTTP_NOTIFY": `{"url":"http://h"}`, "DBT_COMPILE": `{"projectDir":"p"}`,
		"DBT_RUN":  `{"projectDir":"p"}`,
		"DBT_TEST": `{"projectDir":"p"}`, "NOOP": `{}`, "SLEEP": `{"ms":1}`, "MANUAL": `{}`,
	}
	var steps, want []string
	for i, c := range []struct {
		kind    string
		refused bool
	}{
		{"COMMAND", true}, {"HTTP_NOTIFY", true}, {"DBT_COMPILE", true}, {"DBT_RUN", true}, {"DBT_TEST", true},
		{"NOOP", false}, {"SLEEP", false}, {"MANUAL", false},
	} {
		for j, queue := range []string{"tq-control-dev", "tq-control-big-dev", "tq-data-dev"} {
			steps = append(steps, fmt.Sprintf(`{"stepId":"s%d_%d","type":%q,"inputs":%s,"timeout":"1m"%s}`, i, j, c.kind,
				inputs[c.kind], onQueue(queue)))
			if c.refused && queue != "tq-data-dev" {
				want = append(want, fmt.Sprintf("INVALID steps[%d].dispatch.taskQueue", len(steps)-1))
			}
		}
	}
	doc := strings.Replace(string(withSteps(steps...)), `"environmentId":"e"`, `"environmentId":"dev"`, 1)
	_, err := plan.Parse([]byte(doc), templates)
	if diff := cmp.Diff(want, violationsOf(t, err)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if m := message(t, err, 0); !strings.Contains(m, "COMMAND") || !strings.Contains(m,
		"use one of tq-data-dev, tq-gpu-dev, tq-own-t:dev") {
		t.Errorf("message %q, want the type and the permitted queues in it", m)
	}
}

func TestParse_RefusesProgramsIfTheDataQueueIsAControlQueue(t *testing.T) {
	t.Parallel()
	wrong := plan.Queues{Control: "tq-control-dev", Data: "tq-control-data"}
	_, err := plan.Parse(withSteps(
		command(""), noop("a", `,"compensation":{"operation":"DBT_RUN","input":{"projectDir":"p"}}`),
		noop("b", `,"compensation":{"operation":"NOOP","input":{}}`),
	), wrong)
	if diff := cmp.Diff([]string{"INVALID steps[0].type", "INVALID steps[1].compensation.operation"},
		violationsOf(t, err)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestParse_RefusesAnEnvironmentThatHasTheLogQueueOfAnother(t *testing.T) {
	t.Parallel()
	_, err := plan.Parse(inScope("acme", "dev-log", command("")), templates)
	if diff := cmp.Diff([]string{"RESERVED scope.environmentId"}, violationsOf(t, err)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if _, err := plan.Parse(inScope("acme", "dev-log", command("")), queues); err != nil {
		t.Errorf("Parse() = %v, want no error where all environments share the control queue", err)
	}
}

func TestQueues_CheckFindsInvalidAndCollidingNames(t *testing.T) {
	t.Parallel()
	with := func(change func(*plan.Queues)) plan.Queues {
		q := plan.DefaultQueues()
		change(&q)
		return q
	}
	for _, c := range []struct {
		name   string
		change func(*plan.Queues)
		want   string // in the error; "" for none
	}{
		{"the defaults", func(*plan.Queues) {}, ""},
		{"an isolated tenant", func(q *plan.Queues) { q.IsolationTenants = []string{"acme", "globex"} }, ""},
		{"one name for all", func(q *plan.Queues) { q.Control, q.Data = "tq-control-dev", "tq-data-dev" }, ""},
		{"known queues that repeat the defaults", func(q *plan.Queues) { q.Known = []string{q.Control, q.Data} }, ""},
		{"further queues", func(q *plan.Queues) { q.Known = []string{"tq-gpu-{env}", "tq-own-{tenant}/{env}", "tq-all"} },
			""},
		{"a control queue without the prefix", func(q *plan.Queues) { q.Control = "control-{env}" },
			"control-queue must begin with tq-control-"},
		{"a data queue with the prefix of control queues", func(q *plan.Queues) { q.Data = "tq-control-data" },
			"data-queue must not begin with tq-control-"},
		{"an isolation queue with the prefix of control queues", func(q *plan.Queues) {
			q.IsolationTenants, q.Isolation = []string{"acme"}, "tq-control-{tenant}"
		}, "isolation-queue must not begin with tq-control-"},
		{"an isolation queue for all tenants", func(q *plan.Queues) {
			q.IsolationTenants, q.Isolation = []string{"acme"},
				"tq-isolated-{env}"
		}, "must have {tenant}"},
		{"no data queue", func(q *plan.Queues) { q.Data = "" }, "data-queue must be the name of a queue"},
		{"an unknown placeholder", func(q *plan.Queues) { q.Data = "tq-data-{region}" },
			"placeholder that dvt does not know"},
		{"the queue of a log", func(q *plan.Queues) { q.Control = "tq-control-{env}-log" }, "must not end with -log"},
		{"a tenant with an invalid id", func(q *plan.Queues) { q.IsolationTenants = []string{"a b"} }, "is not an id"},
		{"two tenants whose queues have the same name", func(q *plan.Queues) {
			q.IsolationTenants = []string{"acme", "globex", "acme-x"} // acme in x-prod, acme-x in prod
		}, "isolation-queue of acme (tq-isolation-acme-{env}) and isolation-queue of acme-x"},
		{"the same tenants with a separator that ids do not have", func(q *plan.Queues) {
			q.IsolationTenants, q.Isolation = []string{"acme", "acme-x"}, "tq-isolation-{tenant}:{env}"
		}, ""},
		{"tenant and environment without a separator", func(q *plan.Queues) { q.Known = []string{"tq-own-{tenant}-{env}"} },
			"does not tell tenants from environments"},
		{"a known queue that the environment gpu-dev would have",
			func(q *plan.Queues) { q.Known = []string{"tq-data-gpu-{env}"} },
			"data-queue (tq-data-{env}) and known-queues (tq-data-gpu-{env})"},
		{"an environment with the name of a workload after a colon", func(q *plan.Queues) {
			q.Data, q.Known = "tq-data", []string{"tq-data:{env}"} // the environment http has the queue of HTTP_NOTIFY steps
		}, "known-queues (tq-data:{env}) can be the name that the DBT steps of data-queue (tq-data) have in the engine"},
		{"a known queue with the suffix of a workload", func(q *plan.Queues) {
			q.Known = []string{"tq-data-prod:http"}
		}, "the HTTP_NOTIFY steps of data-queue (tq-data-{env})"},
		{"an isolation queue with the suffix of a workload", func(q *plan.Queues) {
			q.IsolationTenants, q.Isolation, q.Known = []string{"acme"}, "tq-{tenant}:{env}", []string{"tq-acme"}
		}, "isolation-queue of acme (tq-acme:{env}) can be the name that the DBT steps of known-queues (tq-acme)"},
		{"a colon without the suffix of a workload", func(q *plan.Queues) {
			q.Known = []string{"tq-own:gpu", "tq-{tenant}:{env}:x"}
		}, ""},
		{"a fixed name that one environment also has", func(q *plan.Queues) { q.Known = []string{"tq-data-dev"} },
			"can give queues of the same name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := with(c.change).Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check() = %v, want an error that contains %q, or none if empty", err, c.want)
			}
		})
	}
}
