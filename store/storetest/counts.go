package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The test compares Count with a loop in Go over random runs and filters.
func testCountEqualsACountInGo(f *fixture) {
	r := rand.New(rand.NewPCG(3, 9))
	all := make([]run.State, 200)
	for n := range all {
		all[n] = f.createRandom(r, n)
	}
	var counted, failed int64
	for n := range 300 {
		filter := randomFilter(r, all)
		filter.Sort = "" // a count has no order
		filter.CreatedFrom = runtest.Epoch.Add(time.Duration(r.IntN(50)) * time.Minute)
		filter.CreatedTo = filter.CreatedFrom.Add(time.Duration(1+r.IntN(3600)) * time.Second)
		parts := pick(r, 1, 2, 7, 60, 200)
		got, err := f.store.Count(f.ctx(), filter, parts)
		f.ok(err)
		want := make([]store.RunCount, parts)
		width := filter.CreatedTo.Sub(filter.CreatedFrom)
		for _, s := range filterRuns(all, withoutPage(filter)) {
			c := &want[int64(s.CreatedAt.Sub(filter.CreatedFrom))*int64(parts)/int64(width)]
			c.Total++
			counted++
			if s.Status == run.Failed {
				c.Failed++
				failed++
			}
		}
		f.equal(want, got, fmt.Sprintf("count %d: %+v in %d parts", n, filter, parts))
	}
	if counted < 500 || failed < 50 {
		f.Errorf("%d runs were counted, %d of them failed, want at least 500 and 50 for a meaningful comparison", counted,
			failed)
	}
	if _, err := f.store.Count(f.ctx(), store.RunFilter{TenantID: "t1", ProjectIDs: slices.Clip([]string{})},
		1); err != nil {
		f.Errorf("Count() of no projects failed: %v", err)
	}
}

// withoutPage returns the filter without a page.
func withoutPage(f store.RunFilter) store.RunFilter {
	f.After, f.Before, f.Steps, f.Limit = nil, nil, false, 10_000
	return f
}
