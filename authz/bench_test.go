package authz_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// The budget of a decision is 50 us at p99 with 10^4 principals and 10^3 policy rows, and twice that of the smaller
// policy at 10^5 and 10^4. It does no I/O and must not allocate.
func BenchmarkDecide_PolicyOfATenant(b *testing.B) {
	for _, size := range []struct{ principals, rows int }{{10_000, 1000}, {100_000, 10_000}} {
		b.Run(fmt.Sprintf("%d/%d", size.principals, size.rows), func(b *testing.B) {
			doc := authz.Document{Rules: authz.DefaultPolicy()}
			actions := authz.Actions()
			for i := range size.rows {
				doc.Rules = append(doc.Rules, authz.Rule{
					Role: authz.Viewer, Action: actions[i%len(actions)], ProjectID: fmt.Sprintf("p%d", i%100),
					EnvironmentID: fmt.Sprintf("e%d", i/100),
				})
			}
			for i := range size.principals {
				doc.Grants = append(doc.Grants, holder(fmt.Sprintf("u%d", i), authz.Roles()[i%4], fmt.Sprintf("p%d", i%100), "*"))
			}
			began := time.Now()
			a := loaded(b, clock, given(doc))
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "load-ms")
			var took []time.Duration
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				i := n * 7 % size.principals
				p := authz.Principal{ID: fmt.Sprintf("u%d", i), TenantID: "acme"}
				o := authz.Object{TenantID: "acme", ProjectID: fmt.Sprintf("p%d", i%100), EnvironmentID: "e0"}
				at := time.Now()
				if _, err := a.Decide(p, authz.Pause, o); err != nil {
					b.Fatal(err)
				}
				if len(took) < 1<<20 {
					took = append(took, time.Since(at))
				}
				n++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
