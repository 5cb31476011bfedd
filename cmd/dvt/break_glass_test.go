package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBreakGlass_TakesARoleAndGivesItUp(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("grants:\n"+
		"  - {principal: dev-admin, role: ADMIN, projectId: '*', environmentId: '*'}\n"+
		"  - {principal: dev-engineer, role: ENGINEER, projectId: '*', environmentId: '*'}\n"+
		"breakGlass:\n  - {principal: dev-engineer, role: SRE, maxMinutes: 45}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, args string
		status      int
		says        string
	}{
		{"dev-engineer", "break-glass status", 0, "The policy lets you take no role."},
		{"dev-admin", "policy set " + policy + " --expected-version 0 --reason test", 0, "version 1 is in force"},
		{"dev-engineer", "break-glass status", 0, "SRE           45 minutes"},
		{"dev-engineer", "break-glass take sre --minutes 30", 2, "give a --reason"},
		{"dev-engineer", "break-glass take sre --reason x", 2, "give --minutes"},
		{"dev-engineer", "break-glass take sre --minutes 0 --reason x", 2, "--minutes must be 1 or more"},
		{"dev-engineer", "break-glass take boss --minutes 5 --reason x", 2, "ROLE must be one of"},
		{"dev-engineer", "break-glass take admin --minutes 5 --reason x", 3, "FORBIDDEN"},
		{"dev-engineer", "break-glass take sre --minutes 46 --reason x", 2, "BAD_USER_INPUT"},
		{"dev-engineer", "break-glass take sre --minutes 30 --reason fire", 0,
			"You have the role SRE on the whole tenant until "},
		{"dev-engineer", "break-glass status", 0, "dev-engineer has the role SRE by break-glass until "},
		{"dev-engineer", "whoami", 0, "(break-glass)"},
		{"dev-engineer", "break-glass end", 0, "You have no role by break-glass."},
		{"dev-engineer", "break-glass status", 0, "dev-engineer has no role by break-glass."},
		{"dev-engineer", "break-glass status -o json", 0, `"maxMinutes": 45`},
	} {
		out, status, err := dvt(t, address, c.token, strings.Fields(c.args)...)
		if said := out + text(err); status != c.status || !strings.Contains(said, c.says) {
			t.Errorf("dvt %s as %s: status %d, want %d and %q\n%s", c.args, c.token, status, c.status, c.says, said)
		}
	}
}
