package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config/configtest"
)

// contract: R309
func TestLoad_ReadsTheNamespacesOfEnvironments(t *testing.T) {
	t.Parallel()
	c := configtest.MustLoad(t, false, "")
	if d := cmp.Diff([]string{"dvt"}, c.Strategy().All()); d != "" {
		t.Errorf("namespaces of the defaults (-want +got):\n%s", d)
	}
	c = configtest.MustLoad(t, false, `
temporal-namespace: main
temporal-namespaces:
  environments: {production: prod, staging: staging}
  tiers: {hospital: HIPAA}
  regulated: {production: prod-hipaa}
  former: [dvt]
  retentionDays: {staging: 14}
  archival: true
`)
	if d := cmp.Diff([]string{"main", "prod", "prod-hipaa", "staging", "dvt"}, c.Strategy().All()); d != "" {
		t.Errorf("namespaces (-want +got):\n%s", d)
	}
	if got := c.Strategy().Of(run.Identity{TenantID: "hospital", EnvironmentID: "production"}); got != "prod-hipaa" {
		t.Errorf("a regulated run is in %s, want prod-hipaa", got)
	}
}

func TestLoad_RefusesNamespacesThatCannotBeRight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dev        bool
		file, want string
	}{
		"unknown key": {false, "{environment: {production: prod}}", `unknown field "environment"`},
		"shared":      {false, "{regulated: {production: dvt}}", "temporal-namespaces: regulated.production"},
		"two":         {false, "{former: [dvt, ''], retentionDays: {dvt: 1}}", "temporal-namespaces: retentionDays.dvt"},
		"dev":         {true, "{environments: {production: prod}}", "dvt dev has one namespace"},
	} {
		_, err := configtest.Load(t, c.dev, "temporal-namespaces: "+c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the settings are refused with %v, want %q", name, err, c.want)
		}
	}
}
