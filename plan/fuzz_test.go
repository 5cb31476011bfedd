package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

// FuzzParse checks that Parse never panics and returns only documented errors, and that a valid plan and its skeleton
// survive a round trip through their encodings.
func FuzzParse(f *testing.F) {
	f.Add([]byte(apiPlan))
	f.Add(withSteps(steps("b", "a")...))
	f.Add(withSteps(noop("a", `,"order":1`), noop("b", `,"order":2,"dependsOn":["a"]`)))
	f.Add(withSteps(noop("a", `,"dependsOn":["b"]`), noop("b", `,"dependsOn":["a"]`), noop("a", "")))
	f.Add(withSteps(`{"stepId":"a","type":"COMMAND","timeout":1500,"inputs":{"argv":["\ud800<"],"env":{"A":"\u0001"}}}`))
	f.Add(withSteps(`{"stepId":"a","type":"HTTP_NOTIFY","timeout":"1h","inputs":{"url":"http://h","body":[{"a":1e400}],"expectStatus":200}}`))
	f.Add(withSteps(`{"stepId":"a","type":"SLEEP","timeout":"1ns","inputs":{"ms":0},"retry":{"backoffMultiplier":1.1},"secretRefs":[{"provider":"env","key":"K"}]}`))
	f.Add(withSteps(manual("a", `,"manual":{"sod":false,"timeout":"36h"}`), noop("b",
		`,"compensation":{"operation":"SLEEP","input":{"ms":1},"timeout":7}`)))
	f.Add([]byte(`{"schemaVersion":"v9"}`))
	f.Add([]byte("{\"a\":\"\\"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := plan.Parse(doc, queues)
		if err != nil {
			var invalid *plan.InvalidError
			if errors.As(err, &invalid) {
				if len(invalid.Violations) == 0 {
					t.Fatal("Parse() returned an InvalidError without violations")
				}
			} else if !errors.Is(err, plan.ErrTooLarge) && !errors.Is(err, plan.ErrUnsupportedSchema) {
				t.Fatalf("Parse() returned the undocumented error %v", err)
			}
			return
		}
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, mustParse(t, out)); diff != "" {
			t.Fatalf("the plan changed in a round trip through JSON (-want +got):\n%s", diff)
		}
		sk := p.Skeleton(queues)
		if diff := cmp.Diff(sk, roundTrip(t, sk)); diff != "" {
			t.Fatalf("the skeleton changed in a round trip (-want +got):\n%s", diff)
		}
	})
}

// FuzzSkeleton checks that UnmarshalBinary never panics, and that an accepted skeleton is usable and has exactly one
// binary form.
func FuzzSkeleton(f *testing.F) {
	for _, doc := range [][]byte{[]byte(apiPlan), withSteps(steps("a", "b", "c")...), realisticPlan(20),
		withSteps(manual("a", `,"manual":{"timeout":"1h"}`),
			noop("b", `,"compensation":{"operation":"COMMAND","input":{"argv":["x"]}}`))} {
		data, err := mustParse(f, doc).Skeleton(queues).MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var sk plan.Skeleton
		if sk.UnmarshalBinary(data) != nil {
			return
		}
		if children := sk.Children(); len(children) != len(sk.Steps) {
			t.Fatalf("Children() has %d lists, want one for each of %d steps", len(children), len(sk.Steps))
		}
		for i, s := range sk.Steps {
			if n, ok := sk.Ordinal(s.StepID); !ok || n != i {
				t.Fatalf("Ordinal(%s) = %d, %t; want %d", s.StepID, n, ok, i)
			}
		}
		first, err := sk.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		second, err := roundTrip(t, sk).MarshalBinary()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("the binary form changed in a round trip: %d and %d bytes, error %v", len(first), len(second), err)
		}
	})
}
