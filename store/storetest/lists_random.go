package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The test compares List with a loop in Go over random runs, filters and cursors.
func testListEqualsAFilterInGo(f *fixture) {
	r := rand.New(rand.NewPCG(6, 8))
	all := make([]run.State, 320)
	for n := range all {
		all[n] = f.createRandom(r, n)
	}
	for n := range all { // some runs get a second checkpoint with another status
		if r.IntN(3) == 0 {
			f.appendRandom(r, all[n].Identity)
			l := f.load(all[n].Identity)
			if f.save(l) {
				all[n] = l.State
			}
		}
	}
	some, most := 0, 0
	for n := range 1200 {
		filter := randomFilter(r, all)
		want := filterRuns(all, filter)
		rows := f.list(filter)
		var got []run.State
		for _, row := range rows {
			got = append(got, run.State{Header: row.Header, Steps: row.Steps})
		}
		f.equal(want, got, fmt.Sprintf("filter %d: %+v", n, filter))
		if len(want) > 0 {
			some++
		}
		most = max(most, len(want))
	}
	if some < 400 || most < 20 {
		f.Errorf("%d lists had rows, the longest %d, want at least 400 and 20 for a meaningful comparison", some, most)
	}
}

// createRandom creates a random run. Its times, scope, plan and id are chosen from few values, so that they collide
// with those of other runs.
func (f *fixture) createRandom(r *rand.Rand, n int) run.State {
	f.Helper()
	id := run.Identity{
		RunID:     pick(r, "r-", "r-", "r-", "r-", "r-", "R-", "r", "rz", "plan-") + fmt.Sprintf("%03d", n),
		TenantID:  pick(r, "t1", "t1", "t1", "t1", "t1", "t1", "T1"),
		ProjectID: pick(r, "p1", "p1", "p1", "p2", "p3", "P1"), EnvironmentID: pick(r, "prod", "prod", "dev"),
		PlanID: pick(r, "nightly", "plan-a", "r-plan", "a_b", fmt.Sprint("plan-", r.IntN(60))), PlanVersion: "1",
	}
	made := newRun(id)
	made.Run.TriggeredBy = starterOf(id)
	made.Run.CreatedAt = runtest.Epoch.Add(time.Duration(r.IntN(60)) * time.Minute)
	made.Tags = tagsOf(id.RunID)
	f.ok(f.store.Import(f.ctx(), made, nil))
	f.appendRandom(r, id)
	l := f.load(id)
	if r.IntN(8) == 0 || !f.save(l) { // List shows the checkpoint, which lags
		at, err := f.store.At(f.ctx(), id.RunID, 0)
		f.ok(err)
		l = at
	}
	l.State.CreatedAt = made.Run.CreatedAt
	return l.State
}

// tagsOf returns the tags of a random run.
func tagsOf(runID string) []string {
	return [][]string{nil, nil, {"team:data"}, {"odd", "team:data"}, {"Odd"}}[runID[len(runID)-1]%5]
}

// starterOf returns the principal that started a run.
func starterOf(id run.Identity) string {
	return []string{"ana", "ana", "ana", "ben", "Ana"}[id.RunID[len(id.RunID)-1]%5]
}

// appendRandom appends some events to a run.
func (f *fixture) appendRandom(r *rand.Rand, id run.Identity) {
	f.Helper()
	of := runtest.M{"triggeredBy": starterOf(id), "planRef": runtest.M{"sha256": sha, "schemaVersion": "v1.2",
		"planId": id.PlanID, "planVersion": id.PlanVersion}}
	for i, d := range []run.Draft{
		runtest.Draft(run.RunApproved, "", 1), runtest.Draft(run.RunStarted, "", 1, of), stepStarted("s1", 1),
		runtest.Draft(run.RunPaused, "u1", 1), pick(r,
			runtest.Draft(run.RunCompleted, "", 1), runtest.Draft(run.RunCancelled, "", 1), runtest.Draft(run.RunFailed, "", 1)),
	} {
		if r.IntN(5) == 0 {
			return
		}
		if i == 3 && r.IntN(4) == 0 { // the retry window opens
			f.appendAny(failedAwaiting(id, runtest.Epoch.Add(time.Duration(1+r.IntN(3))*time.Hour)))
			return
		}
		if i == 4 { // few ends, so that runs have the same
			d.EmittedAt = runtest.Epoch.Add(time.Duration(r.IntN(9)) * (time.Minute + time.Microsecond))
		}
		f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{d}})
	}
}

func randomFilter(r *rand.Rand, all []run.State) store.RunFilter {
	f := store.RunFilter{
		TenantID: pick(r, "t1", "t1", "t1", "t1", "T1", "nobody"), Limit: pick(r, 1, 3, 20, 201), Ascending: r.IntN(2) == 0,
		Steps: r.IntN(4) == 0,
	}
	maybe := func() bool { return r.IntN(4) == 0 }
	at := func() time.Time { return runtest.Epoch.Add(time.Duration(r.IntN(62)-1) * time.Minute) }
	place := func() *store.RunPos {
		if r.IntN(3) == 0 {
			return &store.RunPos{CreatedAt: at(), RunID: pick(r, "", "r-100", "zzz")}
		}
		s := all[r.IntN(len(all))]
		if p, ok := posIn(s, f.Sort); ok {
			return &p
		}
		return &store.RunPos{CreatedAt: runtest.Epoch.Add(4 * time.Minute), Took: time.Minute, RunID: s.RunID}
	}
	if maybe() {
		f.ProjectIDs = []string{}
		for range r.IntN(4) {
			f.ProjectIDs = append(f.ProjectIDs, pick(r, "p1", "p2", "p3", "P1", "none"))
		}
		if r.IntN(6) == 0 {
			for n := range 200 {
				f.ProjectIDs = append(f.ProjectIDs, fmt.Sprint("p", n))
			}
		}
	}
	if maybe() {
		f.EnvironmentID = pick(r, "prod", "dev", "none")
	}
	if maybe() {
		f.Scopes = store.Scopes{}
		for range r.IntN(4) {
			f.Scopes = append(f.Scopes, store.Scope{
				ProjectID: pick(r, "p1", "p2", "p3", "P1", ""), EnvironmentID: pick(r, "prod", "dev", "none", ""),
			})
		}
	}
	if maybe() {
		for range 1 + r.IntN(4) {
			f.Statuses = append(f.Statuses, pick(r, run.Pending, run.Approved, run.Running, run.Paused, run.Completed,
				run.Failed, run.Cancelled, "NONE"))
		}
	}
	if maybe() {
		f.AwaitingOperator = true
	}
	if r.IntN(16) == 0 {
		f.Tag = pick(r, "team:data", "odd", "none")
	}
	if maybe() {
		f.PlanID = pick(r, "nightly", "plan-a", "plan-7", "plan-", "a_b")
	}
	if maybe() {
		f.TriggeredBy = pick(r, "ana", "ana", "ben", "Ana", "an", "nobody")
	}
	if maybe() {
		f.Text = pick(r, "r", "r-", "r-1", "r-12", "R", "rz", "r\U0010FFFF", "plan", "plan-", "plan-1", "lan-1", "ig", "ö",
			"%", "_", "none", all[r.IntN(len(all))].RunID)
	}
	if maybe() {
		f.CreatedFrom = at()
	}
	if maybe() {
		f.CreatedTo = at()
	}
	if r.IntN(3) == 0 {
		f.Sort = pick(r, store.SortEnded, store.SortDuration, store.SortTimeLeft)
		f.Text, f.Tag = "", ""
		if f.Sort != store.SortTimeLeft {
			f.TriggeredBy, f.CreatedFrom, f.CreatedTo = "", time.Time{}, time.Time{}
		}
		if f.Sort == store.SortDuration && f.PlanID == "" {
			f.PlanID = pick(r, "nightly", "plan-a", "r-plan")
		}
	}
	if r.IntN(3) == 0 {
		f.After = place()
	}
	if r.IntN(3) == 0 {
		f.Before = place()
	}
	return f
}

func filterRuns(all []run.State, f store.RunFilter) (out []run.State) {
	order := func(s run.State, p store.RunPos) int {
		own, _ := posIn(s, f.Sort)
		c := cmp.Or(own.CreatedAt.Compare(p.CreatedAt), cmp.Compare(own.RunID, p.RunID))
		if f.Sort == store.SortDuration {
			c = cmp.Or(cmp.Compare(own.Took, p.Took), cmp.Compare(own.RunID, p.RunID))
		}
		if !f.Ascending {
			return -c
		}
		return c
	}
	for _, s := range all {
		if _, has := posIn(s, f.Sort); !has {
			continue
		}
		if s.TenantID != f.TenantID || f.ProjectIDs != nil && !slices.Contains(f.ProjectIDs, s.ProjectID) ||
			f.EnvironmentID != "" && s.EnvironmentID != f.EnvironmentID || !f.Scopes.Contains(s.ProjectID, s.EnvironmentID) ||
			(len(f.Statuses) > 0 || f.AwaitingOperator) && !slices.Contains(f.Statuses, s.Status) &&
				(!f.AwaitingOperator || s.Substatus() != run.AwaitingOperator) ||
			f.Tag != "" && !slices.Contains(tagsOf(s.RunID), f.Tag) ||
			f.PlanID != "" && s.PlanID != f.PlanID || f.TriggeredBy != "" && s.TriggeredBy != f.TriggeredBy ||
			!strings.HasPrefix(s.RunID, f.Text) && !strings.Contains(s.PlanID, f.Text) ||
			!f.CreatedFrom.IsZero() && s.CreatedAt.Before(f.CreatedFrom) || !f.CreatedTo.IsZero() &&
			!s.CreatedAt.Before(f.CreatedTo) ||
			f.After != nil && order(s, *f.After) <= 0 || f.Before != nil && order(s, *f.Before) >= 0 {
			continue
		}
		if !f.Steps {
			s.Steps = nil
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b run.State) int {
		other, _ := posIn(b, f.Sort)
		return order(a, other)
	})
	if n := len(out) - f.Limit; n > 0 && f.Before != nil && f.After == nil {
		return out[n:]
	} else if n > 0 {
		return out[:f.Limit]
	}
	return out
}

// posIn returns the position of a run in a list, and false if a list in that order does not have it.
func posIn(s run.State, by store.RunSort) (store.RunPos, bool) {
	p := store.RunPos{CreatedAt: s.CreatedAt, RunID: s.RunID}
	var at *time.Time
	switch by {
	case "":
		return p, true
	case store.SortDuration:
		took := s.Duration()
		if took == nil || !s.Status.Terminal() {
			return p, false
		}
		return store.RunPos{Took: max(0, *took), RunID: s.RunID}, true
	case store.SortEnded:
		at = s.CompletedAt
	case store.SortTimeLeft:
		at = s.AwaitingUntil()
	}
	if at == nil {
		return p, false
	}
	p.CreatedAt = *at
	return p, true
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }
