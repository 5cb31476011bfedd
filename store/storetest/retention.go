package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var retentionCases = []testCase{
	{"HoldsArePlacedAndLifted", testHoldsArePlacedAndLifted},
	// contract: T180
	{"EndedRunsNameTheirObstacles", testEndedRunsNameTheirObstacles},
	// contract: T180, T208
	{"ArchivedRunLosesItsEventsAndKeepsItsState", testArchivedRunLosesItsEvents},
	{"SignalsAfterTheArchiveStay", testSignalsAfterTheArchiveStay},
	// contract: T180
	{"OnlyEndedRunsAreTouched", testOnlyEndedRunsAreTouched},
	// contract: T208
	{"EventsOfOtherRunsCannotBeDeleted", testEventsOfOtherRunsCannotBeDeleted},
	{"HeldRunIsNeitherArchivedNorDeleted", testHeldRunIsNeitherArchivedNorDeleted},
	{"RecentRunCannotBeMarked", testRecentRunCannotBeMarked},
	{"RetentionEstimateIsBounded", testRetentionEstimateIsBounded},
	{"ArchivedRunsAreEstimated", testArchivedRunsAreEstimated},
	{"OldRowsAreTrimmed", testOldRowsAreTrimmed},
	{"RetentionTenantsAndPasses", testRetentionTenantsAndPasses},
	// contract: T208
	{"AuditIsCutAtItsRecord", testAuditIsCutAtItsRecord},
	{"AuditIsNotCutDuringAHoldOrAnErasure", testAuditIsNotCutDuringAHoldOrAnErasure},
}

// pastRun imports the log of a run of tenant t1 with its times, and marks it as published.
func (f *fixture) pastRun(parent string, events []run.Event) run.Identity {
	f.Helper()
	f.runs++
	return f.importPast(identity(f.runs), parent, events)
}

func (f *fixture) importPast(id run.Identity, parent string, events []run.Event) run.Identity {
	f.Helper()
	n := newRun(id)
	n.Run.ParentRunID, n.Run.CreatedAt = parent, runtest.Epoch
	f.ok(f.store.Import(f.ctx(), n, events))
	l := f.load(id)
	f.markPublished(id, l.Head.LastSeq, l.Head.OpsRev)
	return id
}

func endedLog() []run.Event {
	return runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1", "s2<s1"), stepStarted("s1", 1),
		stepCompleted("s1", 1), stepStarted("s2", 1), stepCompleted("s2", 1), runtest.Draft(run.RunCompleted, "", 1))
}

func openLog() []run.Event { return endedLog()[:4] }

func (f *fixture) markArchived(id run.Identity, head run.Seq) error {
	f.Helper()
	return f.store.MarkArchived(f.ctx(), store.ArchivedRun{RunID: id.RunID, Head: head, Location: "t1/" + id.RunID,
		SHA256: sha, Bytes: 100, Events: int64(head)})
}

// obstacle fails the test unless err is an obstacle of that kind.
func (f *fixture) obstacle(want store.ArchiveObstacle, err error, what string) {
	f.Helper()
	f.equal(want, store.ObstacleOf(err), what)
	f.wantError(err, store.ErrConflict)
}

func (f *fixture) emptyRun(id run.Identity, limit int) (calls int) {
	f.Helper()
	for {
		calls++
		n, err := f.store.DeleteArchivedEvents(f.ctx(), id.RunID, limit)
		f.ok(err)
		if n < limit {
			return calls
		}
	}
}

func (f *fixture) hold(kind store.HoldKind, subject string) store.Hold {
	f.Helper()
	h, placed, err := f.store.PlaceHold(f.ctx(), store.Hold{ID: "hold-" + subject, TenantID: "t1", Kind: kind,
		Subject: subject, Reason: "a case", PlacedBy: "ann"}, auditRow("t1"))
	f.ok(err)
	f.equal(true, placed, "placed")
	return h
}

func testHoldsArePlacedAndLifted(f *fixture) {
	rows := f.db.Count(f, `SELECT count(*) FROM audit`)
	h := f.hold(store.HoldPlan, "sales")
	f.equal(false, h.PlacedAt.IsZero(), "a hold without a time")
	again, placed, err := f.store.PlaceHold(f.ctx(), store.Hold{ID: h.ID, TenantID: "t1", Kind: store.HoldRun,
		Subject: "other"}, auditRow("t1"))
	f.ok(err)
	f.equal(false, placed, "a repetition places a hold")
	f.equal(h, again, "the hold of a repetition")
	_, _, err = f.store.LiftHold(f.ctx(), "t2", h.ID, "bob", "", auditRow("t2"))
	f.wantError(err, store.ErrNotFound)
	lifted, done, err := f.store.LiftHold(f.ctx(), "t1", h.ID, "bob", "over", auditRow("t1"))
	f.ok(err)
	f.equal(true, done, "lifted")
	f.equal([]string{"bob", "over"}, []string{lifted.LiftedBy, lifted.LiftedFor}, "who lifted it and why")
	_, done, err = f.store.LiftHold(f.ctx(), "t1", h.ID, "eve", "again", auditRow("t1"))
	f.ok(err)
	f.equal(false, done, "a second lift changes the hold")
	for tenant, want := range map[string]int64{"t1": 1, "t2": 0} {
		n, err := f.store.CountLiftedHolds(f.ctx(), tenant)
		f.ok(err)
		f.equal(want, n, "lifted holds of "+tenant)
	}
	f.equal(2, f.db.Count(f, `SELECT count(*) FROM audit`)-rows, "audit rows: one for each change")
	other := f.hold(store.HoldRun, "run-7")
	for _, c := range []struct {
		filter store.HoldFilter
		want   []string
	}{
		{store.HoldFilter{TenantID: "t1"}, []string{other.ID, h.ID}},
		{store.HoldFilter{TenantID: "t1", Limit: 1}, []string{other.ID}},
		{store.HoldFilter{TenantID: "t1", Before: other.ID}, []string{h.ID}},
		{store.HoldFilter{TenantID: "t1", Open: true}, []string{other.ID}},
		{store.HoldFilter{TenantID: "t2"}, nil},
		{store.HoldFilter{TenantID: "t2", Before: other.ID}, nil},
		{store.HoldFilter{TenantID: "t1", Before: "nobody"}, nil},
	} {
		list, err := f.store.ListHolds(f.ctx(), c.filter)
		f.ok(err)
		var got []string
		for _, h := range list {
			got = append(got, h.ID)
		}
		f.equal(c.want, got, fmt.Sprintf("holds of %+v", c.filter))
	}
}

func testEndedRunsNameTheirObstacles(f *fixture) {
	free := f.pastRun("", endedLog())
	f.pastRun("", openLog())
	reused := f.pastRun("", endedLog())
	f.pastRun(reused.RunID, openLog())
	done := f.pastRun("", endedLog())
	f.pastRun(done.RunID, endedLog())
	held := f.pastRun("", endedLog())
	f.hold(store.HoldRun, held.RunID)
	f.runs++
	dirty := identity(f.runs)
	f.ok(f.store.Import(f.ctx(), newRun(dirty), endedLog()))
	archived := f.pastRun("", endedLog())
	f.ok(f.markArchived(archived, 7))
	got := map[string]store.ArchiveObstacle{}
	filter := store.EndedFilter{TenantID: "t1", Status: run.Completed, Before: time.Now(), Limit: 2}
	for {
		page, err := f.store.EndedRuns(f.ctx(), filter)
		f.ok(err)
		for _, r := range page {
			f.equal(run.Seq(7), r.Head, "head of "+r.RunID)
			f.equal(r.RunID == archived.RunID, r.Archived, "archived: "+r.RunID)
			got[r.RunID] = r.Obstacle
			filter.AfterAt, filter.AfterRun = r.EndedAt, r.RunID
		}
		if len(page) < filter.Limit {
			break
		}
	}
	f.equal(map[string]store.ArchiveObstacle{free.RunID: "", reused.RunID: store.ObstacleRerun, done.RunID: "",
		"run-006": "", held.RunID: store.ObstacleHeld, dirty.RunID: store.ObstacleUndelivered, archived.RunID: ""}, got,
		"runs that ended, with their obstacles")
	f.obstacle(store.ObstacleRerun, f.markArchived(reused, 7), "mark of a run that an open rerun needs")
	f.obstacle(store.ObstacleUndelivered, f.markArchived(dirty, 7), "mark of a run that is not published")
	f.obstacle(store.ObstacleUnknown, f.markArchived(identity(99), 7), "mark of an unknown run")
	f.obstacle(store.ObstacleMoved, f.markArchived(free, 6), "mark with a head that the log has passed")
	none, err := f.store.EndedRuns(f.ctx(), store.EndedFilter{TenantID: "t1", Status: run.Completed,
		Before: runtest.Epoch})
	f.ok(err)
	f.equal(0, len(none), "runs that ended before the first event")
	none, err = f.store.EndedRuns(f.ctx(), store.EndedFilter{TenantID: "t2", Status: run.Completed, Before: time.Now()})
	f.ok(err)
	f.equal(0, len(none), "runs of another tenant")
}

func testArchivedRunLosesItsEvents(f *fixture) {
	id, other := f.pastRun("", endedLog()), f.pastRun("", endedLog())
	before := f.load(id)
	f.obstacle(store.ObstacleNotArchived, f.store.DeleteArchivedRun(f.ctx(), id.RunID), "deletion of a run in the store")
	_, err := f.store.DeleteArchivedEvents(f.ctx(), id.RunID, 10)
	f.obstacle(store.ObstacleNotArchived, err, "deletion of events of a run in the store")
	_, err = f.store.DeleteArchivedReceipts(f.ctx(), id.RunID)
	f.obstacle(store.ObstacleNotArchived, err, "deletion of receipts of a run in the store")
	f.ok(f.markArchived(id, 7))
	f.ok(f.markArchived(id, 7)) // a repetition
	f.obstacle(store.ObstacleNotEmptied, f.store.DeleteArchivedRun(f.ctx(), id.RunID), "deletion before the events")
	f.equal(4, f.emptyRun(id, 2), "calls for 7 events, 2 at a time")
	f.equal(0, len(f.log(id)), "events that are left")
	f.equal(7, len(f.log(other)), "events of another run")
	after := f.load(id)
	f.equal(before.State, after.State, "the state of an archived run")
	f.equal(before.Head, after.Head, "the head of an archived run")
	list, err := f.store.ListArchived(f.ctx(), store.ArchivedFilter{TenantID: "t1", Part: store.PartReceipts,
		Before: time.Now()})
	f.ok(err)
	f.equal(1, len(list), "archived runs with receipts")
	a := list[0]
	f.equal(store.ArchivedRun{RunID: id.RunID, TenantID: "t1", Head: 7, Location: "t1/" + id.RunID, SHA256: sha,
		Bytes: 100, Events: 7, EndedAt: before.Head.LastAt, MarkedAt: a.MarkedAt, EmptiedAt: a.EmptiedAt}, a,
		"the archived run")
	f.equal(true, a.EmptiedAt != nil && time.Since(a.MarkedAt) < time.Hour, "times of the store")
	found, err := f.store.FindArchived(f.ctx(), id.RunID, other.RunID, "nobody")
	f.ok(err)
	f.equal(list, found, "archived runs by id")
	_, err = f.store.DeleteArchivedReceipts(f.ctx(), id.RunID)
	f.ok(err)
	for part, want := range map[store.ArchivedPart]int{store.PartEvents: 0, store.PartReceipts: 0,
		store.PartRun: 1} {
		list, err := f.store.ListArchived(f.ctx(), store.ArchivedFilter{TenantID: "t1", Part: part, Before: time.Now()})
		f.ok(err)
		f.equal(want, len(list), "archived runs that have "+string(part))
	}
	f.ok(f.store.DeleteArchivedRun(f.ctx(), id.RunID))
	_, err = f.store.Get(f.ctx(), id.RunID)
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Load(f.ctx(), id.RunID)
	f.wantError(err, store.ErrNotFound)
	for _, table := range []string{"run", "run_head", "run_state", "step_state", "event", "signal", "run_archive",
		"run_queue", "delivery"} {
		f.equal(0, f.db.Count(f, `SELECT count(*) FROM `+table+` WHERE run_id = '`+id.RunID+`'`), "rows of "+table)
	}
	f.equal(1, len(f.list(store.RunFilter{Limit: 10})), "runs in the list")
}

func testSignalsAfterTheArchiveStay(f *fixture) {
	id := f.pastRun("", endedLog())
	f.ok(f.markArchived(id, 7))
	reject := runtest.Draft(run.SignalRejected, "", 1)
	reject.SignalID = "22222222-2222-4222-8222-222222222222"
	reject.Payload = json.RawMessage(`{"signalId":"` + reject.SignalID + `","signalType":"CANCEL","actor":"ola","code":"INVALID_TRANSITION"}`)
	f.append(id, reject)
	f.emptyRun(id, 3)
	f.equal([]string{"8 SignalRejected"}, lines(f.log(id)), "events that are not in the archive")
	f.obstacle(store.ObstacleRecent, f.store.DeleteArchivedRun(f.ctx(), id.RunID), "deletion of a run with a recent event")
}

// Random logs are imported and everything is deleted that can be. A run without an end keeps every row.
func testOnlyEndedRunsAreTouched(f *fixture) {
	r := rand.New(rand.NewPCG(22, 4))
	open := map[string]int{}
	ended := 0
	for range 60 {
		events := runtest.RandomLog(r.Uint64())
		id := f.pastRun("", events)
		head := f.head(id)
		if !head.Terminal {
			open[id.RunID] = len(events)
		}
		steps := []func() error{
			func() error { return f.markArchived(id, head.LastSeq) },
			func() error { _, err := f.store.DeleteArchivedEvents(f.ctx(), id.RunID, 1+r.IntN(50)); return err },
			func() error { _, err := f.store.DeleteArchivedReceipts(f.ctx(), id.RunID); return err },
			func() error { return f.store.DeleteArchivedRun(f.ctx(), id.RunID) },
		}
		for range 12 {
			if err := steps[r.IntN(len(steps))](); err != nil && store.ObstacleOf(err) == "" {
				f.Fatalf("unexpected error: %v", err)
			}
		}
		if _, err := f.store.Get(f.ctx(), id.RunID); err != nil {
			ended++
		}
	}
	if len(open) < 5 || ended < 5 {
		f.Fatalf("%d open runs and %d deleted ones, want at least 5 of each", len(open), ended)
	}
	for id, want := range open {
		events, err := f.store.Events(f.ctx(), id, 0, store.MaxPage)
		f.ok(err)
		f.equal(want, len(events), "events of open run "+id)
		f.equal(want, int(f.load(run.Identity{RunID: id}).State.Seq), "state of open run "+id)
		f.obstacle(store.ObstacleOpen, f.markArchived(run.Identity{RunID: id}, run.Seq(want)), "mark of open run "+id)
		found, err := f.store.FindArchived(f.ctx(), id)
		f.ok(err)
		f.equal(0, len(found), "archives of open run "+id)
	}
}

func testEventsOfOtherRunsCannotBeDeleted(f *fixture) {
	id := f.pastRun("", endedLog())
	if err := f.db.Exec(f, `DELETE FROM event WHERE run_id = '`+id.RunID+`'`); err == nil {
		f.Error("DELETE of the events of a run that is not archived succeeded, want an error")
	}
	f.equal(7, len(f.log(id)), "events")
}

func testHeldRunIsNeitherArchivedNorDeleted(f *fixture) {
	id := f.pastRun("", endedLog())
	for kind, subject := range map[store.HoldKind]string{store.HoldRun: id.RunID, store.HoldPlan: id.PlanID,
		store.HoldSubject: "ola"} {
		h := f.hold(kind, subject)
		f.obstacle(store.ObstacleHeld, f.markArchived(id, 7), "mark with a hold of kind "+string(kind))
		_, _, err := f.store.LiftHold(f.ctx(), "t1", h.ID, "ann", "over", auditRow("t1"))
		f.ok(err)
	}
	f.ok(f.markArchived(id, 7))
	f.hold(store.HoldRun, id.RunID+" ") // another run
	f.emptyRun(id, 100)
	h, _, err := f.store.PlaceHold(f.ctx(), store.Hold{ID: "late", TenantID: "t1", Kind: store.HoldRun, Subject: id.RunID,
		PlacedBy: "ann"}, auditRow("t1"))
	f.ok(err)
	_, err = f.store.DeleteArchivedEvents(f.ctx(), id.RunID, 10)
	f.obstacle(store.ObstacleHeld, err, "deletion of events of a held run")
	_, err = f.store.DeleteArchivedReceipts(f.ctx(), id.RunID)
	f.obstacle(store.ObstacleHeld, err, "deletion of receipts of a held run")
	f.obstacle(store.ObstacleHeld, f.store.DeleteArchivedRun(f.ctx(), id.RunID), "deletion of a held run")
	_, _, err = f.store.LiftHold(f.ctx(), "t1", h.ID, "ann", "over", auditRow("t1"))
	f.ok(err)
	f.ok(f.store.DeleteArchivedRun(f.ctx(), id.RunID))
}

func testRecentRunCannotBeMarked(f *fixture) {
	id := f.run()
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	l := f.load(id)
	f.markPublished(id, l.Head.LastSeq, l.Head.OpsRev)
	f.obstacle(store.ObstacleRecent, f.markArchived(id, l.Head.LastSeq), "mark of a run that ended now")
}

func testRetentionEstimateIsBounded(f *fixture) {
	for range 5 {
		f.pastRun("", endedLog())
	}
	f.pastRun("", openLog())
	f.hold(store.HoldRun, f.pastRun("", endedLog()).RunID)
	e, err := f.store.EstimateEnded(f.ctx(), "t1", time.Now(), 100)
	f.ok(err)
	f.equal([]int64{5, 35, 1}, []int64{e.Runs, e.Events, e.Held}, "runs, events and held runs")
	f.equal(true, e.Bytes > 35*300 && e.Bytes < 35*2000 && !e.More,
		fmt.Sprintf("bytes are %d, more is %t", e.Bytes, e.More))
	e, err = f.store.EstimateEnded(f.ctx(), "t1", time.Now(), 3)
	f.ok(err)
	f.equal(true, e.More && e.Runs+e.Held <= 4, "more than 3 runs are marked as more")
	e, err = f.store.EstimateEnded(f.ctx(), "t2", time.Now(), 3)
	f.ok(err)
	f.equal(store.RetentionEstimate{}, e, "the estimate of another tenant")
}

func testArchivedRunsAreEstimated(f *fixture) {
	for n := range 4 {
		id := f.pastRun("", endedLog())
		f.ok(f.markArchived(id, f.load(id).Head.LastSeq))
		if n == 0 {
			f.hold(store.HoldRun, id.RunID)
		}
	}
	f.pastRun("", endedLog())
	e, err := f.store.EstimateArchived(f.ctx(), "t1", time.Now(), 100)
	f.ok(err)
	f.equal([]any{int64(3), int64(1), false, true, true}, []any{e.Runs, e.Held, e.More, e.Bytes > 0, e.Events > 0},
		"archived runs, held ones, whether there are more, bytes and events")
	e, err = f.store.EstimateArchived(f.ctx(), "t1", time.Now(), 2)
	f.ok(err)
	f.equal(true, e.More && e.Runs+e.Held <= 3, "more than 2 runs are marked as more")
	e, err = f.store.EstimateArchived(f.ctx(), "t1", time.Now().AddDate(-20, 0, 0), 2)
	f.ok(err)
	f.equal(store.RetentionEstimate{}, e, "the estimate of a time before all runs")
	e, err = f.store.EstimateArchived(f.ctx(), "t2", time.Now(), 3)
	f.ok(err)
	f.equal(store.RetentionEstimate{}, e, "the estimate of another tenant")
}

func testOldRowsAreTrimmed(f *fixture) {
	id := f.run()
	f.refusePublish(id, 2, 0)
	f.equal(true, f.addDeadLetter(id, 2), "dead letter")
	f.ok(f.store.BuryDelivery(f.ctx(), store.DeadDelivery{Destination: "d", MessageID: "m", TenantID: "t1",
		RunID: id.RunID, Message: json.RawMessage(`{}`)}, 10))
	a := store.Alert{TenantID: "t1", Code: run.CodeLagHigh, Level: store.AlertLow, Note: "old", Subject: "x"}
	open := store.Alert{TenantID: "t1", Code: run.CodeLagHigh, Level: store.AlertLow, Note: "open", Subject: "y"}
	for _, a := range []store.Alert{a, open} {
		_, err := f.store.RaiseAlert(f.ctx(), a)
		f.ok(err)
	}
	_, err := f.store.ResolveAlerts(f.ctx(), []string{a.Fingerprint()}, "gone")
	f.ok(err)
	rows := func() []int {
		return []int{f.db.Count(f, `SELECT count(*) FROM dead_letter`),
			f.db.Count(f, `SELECT count(*) FROM destination_dead`),
			f.db.Count(f, `SELECT count(*) FROM alert`), f.db.Count(f, `SELECT count(*) FROM alert_state`)}
	}
	trim := func(kind store.TrimKind, before time.Time) int {
		f.Helper()
		n, err := f.store.TrimRows(f.ctx(), kind, "t1", before, 100)
		f.ok(err)
		return n
	}
	for _, kind := range []store.TrimKind{store.TrimDeadLetters, store.TrimAlerts} {
		f.equal(0, trim(kind, time.Now().Add(time.Hour)), "rows younger than a day that a server may trim")
	}
	f.equal([]int{1, 1, 2, 2}, rows(), "rows before")
	age := func(table, column string) { // in the dialect of each database
		f.Helper()
		set := `UPDATE ` + table + ` SET ` + column + ` = ` + column
		if err := f.db.Exec(f, set+` - interval '3 days'`); err != nil {
			f.ok(f.db.Exec(f, set+` - 259200000000`))
		}
	}
	age("dead_letter", "created_at")
	age("destination_dead", "at")
	age("alert_state", "resolved_at")
	yesterday := time.Now().Add(-30 * time.Hour)
	f.equal(0, trim(store.TrimAlerts, yesterday.AddDate(0, 0, -10)), "rows that are younger than the time")
	n, err := f.store.TrimRows(f.ctx(), store.TrimDeadLetters, "t2", yesterday, 100)
	f.ok(err)
	f.equal(0, n, "rows of another tenant")
	n, err = f.store.TrimRows(f.ctx(), store.TrimDeadLetters, "t1", yesterday, 1)
	f.ok(err)
	f.equal(1, n, "rows with a limit of 1")
	f.equal(1, trim(store.TrimDeadLetters, yesterday), "the rest of the dead letters")
	f.equal(1, trim(store.TrimAlerts, yesterday), "resolved alerts")
	f.equal([]int{0, 0, 1, 1}, rows(), "rows after: the open alert stays")
}

func testRetentionTenantsAndPasses(f *fixture) {
	for n, tenant := range []string{"t3", "t1", "t1", "t2"} {
		id := identity(n + 1)
		id.TenantID = tenant
		f.create(newRun(id))
	}
	for _, c := range []struct {
		after string
		limit int
		want  []string
	}{{"", 10, []string{"t1", "t2", "t3"}}, {"t1", 1, []string{"t2"}}, {"t3", 10, nil}} {
		got, err := f.store.RetentionTenants(f.ctx(), c.after, c.limit)
		f.ok(err)
		f.equal(c.want, got, "tenants after "+c.after)
	}
	_, err := f.store.RetentionPass(f.ctx(), "t1")
	f.wantError(err, store.ErrNotFound)
	for _, doc := range []string{`{"n":1}`, `{"n":2}`} {
		f.ok(f.store.SaveRetentionPass(f.ctx(), "t1", json.RawMessage(doc)))
		got, err := f.store.RetentionPass(f.ctx(), "t1")
		f.ok(err)
		f.equal(doc, string(got), "the last pass")
	}
}
