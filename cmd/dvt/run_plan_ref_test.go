package main

import (
	"fmt"
	"strings"
	"testing"
)

// contract: DD-10
func TestRunShow_SaysWhatAReferenceToAPlanSays(t *testing.T) {
	isolateEnvironment(t)
	const at, mirror = "https://plans.example/p.json", "https://mirror.example/p.json"
	for _, c := range []struct {
		name, ref string
		want, not string
	}{
		{"one address", `"uri":"` + at + `"`, "plan from " + at + "\n", "mirror"},
		{"mirrors that nobody asked", `"uri":"` + at + `","mirrors":["` + mirror + `"]`,
			"plan from " + at + ", mirrors: " + mirror + "\n", "because"},
		{"a mirror that answered", `"uri":"` + at + `","mirrors":["` + mirror + `"],"answeredBy":"` + mirror + `"`,
			"plan from the mirror " + mirror + ", because " + at + " did not give it\n", "mirrors:"},
		{"compressed, with an end", `"uri":"` + at + `","compression":"gzip","expiresAt":"2026-11-21T02:12:07Z"`,
			"plan from " + at + ", gzip, the reference expires 2026-11-21 02:12:07Z\n", ""},
		{"a plan of the request", `"uri":"dvt:plan/ab"`, "STEP", "plan from"},
		{"a path and a migration", `"uri":"` + at + `","schemaEvolutionPath":"v1.1 to v1.2",` +
			`"migrationHint":{"sourceVersion":"v1.1","targetVersion":"v1.2","transformScript":"up.py"}`,
			"schema evolution: v1.1 to v1.2\nmigration: v1.1 to v1.2 by up.py\n", ""},
		{"a deprecated schema", `"schemaVersion":"v1.1","schemaEnd":"2027-01-01"`,
			"schema v1.1 of the plan is deprecated: dvt reads it until 2027-01-01\n", "plan from"},
		{"a line break in an address", `"uri":"` + at + `\nRUN forged"`, "plan from ", "\nRUN forged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := serveAnswer(t, 200, fmt.Sprintf(`{"data":{"run":{"runId":"r1","status":"RUNNING","plan":{"planId":"p",`+
				`"planVersion":"1",%s},"steps":[{"stepId":"s","type":"COMMAND","status":"SUCCESS","statusRaw":"SUCCESS"}]}}}`,
				c.ref))
			out, _, status := runSplit(t, address, "t", "run", "show", "r1")
			if status != 0 || !strings.Contains(out, c.want) {
				t.Errorf("exit status %d, want 0 and %q in\n%s", status, c.want, out)
			}
			if c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("want no %q in\n%s", c.not, out)
			}
		})
	}
}
