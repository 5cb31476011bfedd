package namespaces_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/namespaces"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func example() namespaces.Strategy {
	return namespaces.Strategy{
		Default: "dvt", Environments: map[string]string{"production": "prod", "staging": "staging", "dev": "dev"},
		Tiers: map[string]string{"hospital": "HIPAA"}, Regulated: map[string]string{"production": "prod-hipaa"},
		Former: []string{"old"},
	}
}

// contract: R305, R308, R309
func TestStrategy_PutsARunIntoTheNamespaceOfItsEnvironmentAndTier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tenant, environment, want string }{
		{"acme", "production", "prod"}, {"acme", "dev", "dev"}, {"acme", "sandbox", "dvt"},
		{"hospital", "production", "prod-hipaa"}, {"hospital", "staging", "staging"},
	} {
		if got := example().Of(run.Identity{TenantID: c.tenant, EnvironmentID: c.environment}); got != c.want {
			t.Errorf("a run of %s in %s belongs into %s, want %s", c.tenant, c.environment, got, c.want)
		}
	}
	plain := namespaces.Strategy{Default: "dvt"}
	if got := plain.Of(run.Identity{TenantID: "hospital", EnvironmentID: "production"}); got != "dvt" {
		t.Errorf("without a strategy a run belongs into %s, want dvt", got)
	}
	if d := cmp.Diff([]string{"dvt"}, plain.All()); d != "" {
		t.Errorf("namespaces without a strategy (-want +got):\n%s", d)
	}
}

func TestStrategy_ServesAQueueWhereItsTasksMayWait(t *testing.T) {
	t.Parallel()
	q := plan.DefaultQueues()
	q.Known = []string{"tq-shared"}
	for queue, want := range map[string][]string{
		"tq-control-production":        {"prod", "prod-hipaa", "old"},
		"tq-data-dev":                  {"dev", "old"},
		"tq-isolation-acme-staging":    {"dvt", "staging", "old"},
		"tq-isolation-acme-production": {"dvt", "prod", "prod-hipaa", "old"},
		"tq-data-sandbox":              {"dvt", "old"},
		"tq-shared":                    {"dvt", "dev", "prod", "prod-hipaa", "staging", "old"},
	} {
		if d := cmp.Diff(want, example().Serving(queue, q)); d != "" {
			t.Errorf("namespaces of the queue %s (-want +got):\n%s", queue, d)
		}
	}
}

// Every run is started in a namespace that the workers of its queues serve.
func TestStrategy_ServesEveryNamespaceThatARunMayGet(t *testing.T) {
	t.Parallel()
	strategies := []namespaces.Strategy{example(), {Default: "dvt"},
		{Default: "dvt", Regulated: map[string]string{"qa": "reg"}, Tiers: map[string]string{"hospital": "HIPAA"}}}
	q := plan.DefaultQueues()
	q.IsolationTenants = []string{"hospital"}
	for i, s := range strategies {
		for _, tenant := range []string{"acme", "hospital"} {
			for _, environment := range []string{"production", "staging", "dev", "qa", "x-dev"} {
				id := run.Identity{TenantID: tenant, EnvironmentID: environment}
				of := q.For(tenant, environment)
				for _, queue := range []string{of.Control, of.Data} {
					if served := s.Serving(queue, q); !strings.Contains(","+strings.Join(served, ",")+",", ","+s.Of(id)+",") {
						t.Errorf("strategy %d: %s serves %q, and not %s of %+v", i, queue, served, s.Of(id), id)
					}
				}
			}
		}
	}
}

// contract: R310, R576
func TestStrategy_KeepsHistoriesByEnvironment(t *testing.T) {
	t.Parallel()
	s := example()
	s.Environments["qa"] = "dev"
	s.RetentionDays = map[string]int{"staging": 14}
	for namespace, days := range map[string]int{"prod": 90, "prod-hipaa": 90, "staging": 14, "dev": 30, "dvt": 0,
		"old": 0} {
		if got := s.Retention(namespace); got != time.Duration(days)*24*time.Hour {
			t.Errorf("the retention of %s is %v, want %d days", namespace, got, days)
		}
	}
	delete(s.Environments, "qa")
	if got := s.Retention("dev"); got != 7*24*time.Hour {
		t.Errorf("the retention of dev is %v, want 7 days", got)
	}
}

func TestStrategy_ChecksItsNames(t *testing.T) {
	t.Parallel()
	if err := example().Check(); err != nil {
		t.Fatalf("the example is refused: %v", err)
	}
	many := map[string]string{}
	for _, letter := range strings.Split("abcdefghijklmnop", "") {
		many[letter] = "n" + letter
	}
	for name, c := range map[string]struct {
		change func(*namespaces.Strategy)
		want   string
	}{
		"name":      {func(s *namespaces.Strategy) { s.Environments["dev"] = "a b" }, `environments.dev: "a b"`},
		"system":    {func(s *namespaces.Strategy) { s.Environments["dev"] = "temporal-system" }, "is not a name"},
		"id":        {func(s *namespaces.Strategy) { s.Environments["a/b"] = "x" }, `"a/b" is not an id`},
		"shared":    {func(s *namespaces.Strategy) { s.Regulated["production"] = "prod" }, "holds the runs of other tenants"},
		"former":    {func(s *namespaces.Strategy) { s.Former = []string{"prod"} }, "former: runs are started"},
		"days":      {func(s *namespaces.Strategy) { s.RetentionDays = map[string]int{"prod": 2} }, "between 3 and 3650"},
		"unused":    {func(s *namespaces.Strategy) { s.RetentionDays = map[string]int{"x": 9} }, `no setting uses`},
		"tier":      {func(s *namespaces.Strategy) { s.Tiers["hospital"] = "" }, "tiers:"},
		"too many":  {func(s *namespaces.Strategy) { s.Environments = many }, "the maximum is 16"},
		"emptiness": {func(s *namespaces.Strategy) { s.Former = []string{""} }, `former: ""`},
	} {
		s := example()
		c.change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the check says %v, want %q", name, err, c.want)
		}
	}
}
