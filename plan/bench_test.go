package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/plan"
)

// BenchmarkParse parses documents of the maximum size: realistic ones, and ones that an attacker writes to make Parse
// slow. Each should take less than a second.
func BenchmarkParse(b *testing.B) {
	fill := func(unit string) string {
		return strings.TrimSuffix(strings.Repeat(unit, (plan.MaxDocumentBytes-2000)/len(unit)), ",")
	}
	keys := func(format string) string {
		var s strings.Builder
		for i := 0; s.Len() < plan.MaxDocumentBytes-2000; i++ {
			fmt.Fprintf(&s, format, i)
		}
		return strings.TrimSuffix(s.String(), ",")
	}
	dbt := func(vars string) []byte {
		return withSteps(`{"stepId":"a","type":"DBT_RUN","timeout":"1m","inputs":{"projectDir":"p","vars":` + vars + `}}`)
	}
	big := make([]string, plan.MaxSteps)
	dense := make([]string, 1200)
	ring := make([]string, plan.MaxSteps)
	for i := range big {
		big[i] = fmt.Sprintf(`{"stepId":"s%d","type":"COMMAND","timeout":"1m","inputs":{"argv":["echo",%q]}}`, i,
			strings.Repeat("x", 1900))
		ring[i] = noop(fmt.Sprintf("s%d", i), fmt.Sprintf(`,"dependsOn":["s%d"]`, (i+1)%len(ring)))
	}
	for i := range dense {
		var on []string
		for k := range i {
			on = append(on, fmt.Sprintf(`"s%d"`, k))
		}
		dense[i] = noop(fmt.Sprintf("s%d", i), `,"dependsOn":[`+strings.Join(on, ",")+`]`)
	}
	for _, c := range []struct {
		name string
		doc  []byte
	}{
		{"realistic 5000 steps", realisticPlan(plan.MaxSteps)},
		{"10 MiB of steps", withSteps(big...)},
		{"720,000 dependencies", withSteps(dense...)},
		{"a ring of 5000", withSteps(ring...)},
		{"dangling dependencies", withSteps(noop("a", `,"dependsOn":[`+fill(`"b",`)+`]`))},
		{"unknown keys", []byte(`{` + keys(`"k%d":0,`) + `}`)},
		{"one key repeated", []byte(`{` + fill(`"":0,`) + `}`)},
		{"numbers under 25 lists", dbt(`{"v":` + strings.Repeat("[", 25) + fill(`1,`) + strings.Repeat("]", 25) + `}`)},
		{"empty lists", dbt(`{"v":[` + fill(`[],`) + `]}`)},
		{"empty objects", dbt(`{"v":[` + fill(`{},`) + `]}`)},
		{"small objects", dbt(`{"v":[` + fill(`{"a":1},`) + `]}`)},
		{"objects under 25 lists", dbt(`{"v":` + strings.Repeat("[", 25) + fill(`{"a":1},`) + strings.Repeat("]", 25) + `}`)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.doc)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = plan.Parse(c.doc, queues)
			}
		})
	}
}
