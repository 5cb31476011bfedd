package controltest

import (
	"strings"

	"github.com/dvt-engine/dvt/run/runtest"
)

// M is a JSON object.
type M = map[string]any

// Document returns a plan of NOOP steps. A step "b<a" depends on a, and "b<" depends on nothing. If no step has a "<",
// each step depends on the one before.
func Document(change M, steps ...string) []byte {
	var list []M
	for _, s := range steps {
		id, deps, says := strings.Cut(s, "<")
		m := M{"stepId": id, "type": "NOOP", "inputs": M{}, "timeout": "1m"}
		if says {
			m["dependsOn"] = strings.FieldsFunc(deps, func(r rune) bool { return r == ',' })
		}
		list = append(list, m)
	}
	doc := M{
		"schemaVersion": "v1.2",
		"metadata": M{"planId": "plan-3", "planVersion": "1.0", "createdAt": "2026-01-01T00:00:00Z", "createdBy": "test",
			"schemaVersion": "v1.2"},
		"scope": M{"tenantId": "acme", "projectId": "shop", "environmentId": "dev",
			"repoSha": strings.Repeat("0", 40)},
		"steps": list,
	}
	for k, v := range change {
		at, path := doc, strings.Split(k, ".")
		for _, p := range path[:len(path)-1] {
			at = at[p].(M)
		}
		at[path[len(path)-1]] = v
	}
	return runtest.JSON(doc)
}

// inputsOf returns valid inputs for a step of the type.
func inputsOf(stepType string) M {
	switch stepType {
	case "COMMAND":
		return M{"argv": []string{"true"}, "env": M{"KEPT": "1"}}
	case "DBT_RUN":
		return M{"projectDir": "shop", "vars": M{"own": true}}
	case "HTTP_NOTIFY":
		return M{"url": "https://hook.example.test/"}
	}
	return M{}
}

// ManualPlan returns a plan with steps that wait for a person. sod of a step is false when its id ends with "-any".
func ManualPlan(steps ...string) []byte {
	var list []M
	for _, id := range steps {
		step := M{"stepId": id, "type": "MANUAL", "name": "Step " + id, "timeout": "1m",
			"inputs": M{"instructions": "look at " + id, "evidence": []string{"ticket"}}}
		if strings.HasSuffix(id, "-any") {
			step["manual"] = M{"sod": false}
		}
		list = append(list, step)
	}
	return Document(M{"steps": list})
}
