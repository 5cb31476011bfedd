package storetest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var alertCases = []testCase{
	// contract: T197
	{"AlertsAreInsertOnly", testAlertsAreInsertOnly},
	{"AlertFoundAgainIsOneAlertWithACount", testAlertFoundAgainIsOneAlert},
	{"AlertRaisedByManyAtOnceIsOneAlert", testAlertRaisedByManyAtOnce},
	{"AlertReopensAsAnotherAlert", testAlertReopensAsAnotherAlert},
	{"AlertsOfEndedRunsAreResolved", testAlertsOfEndedRunsAreResolved},
	{"AlertsAreFiltered", testAlertsAreFiltered},
	{"AlertIsAcknowledged", testAlertIsAcknowledged},
	{"OpenAlertsAreBounded", testOpenAlertsAreBounded},
	{"SilencesCoverAlerts", testSilencesCoverAlerts},
	{"SilencesAreBounded", testSilencesAreBounded},
	{"HeartbeatsAreTheNewestOfEachDuty", testHeartbeats},
	{"HeartbeatsAreBounded", testHeartbeatsAreBounded},
	{"OverdueWorkIsMeasured", testOverdueWork},
}

func (f *fixture) raise(a store.Alert) store.AlertRaised {
	f.Helper()
	out, err := f.store.RaiseAlert(f.ctx(), a)
	f.ok(err)
	return out
}

func (f *fixture) alerts(af store.AlertFilter) []store.AlertState {
	f.Helper()
	out, err := f.store.ListAlerts(f.ctx(), af)
	f.ok(err)
	for _, a := range out {
		if a.At.IsZero() || a.LastSeen.IsZero() {
			f.Errorf("alert %+v has no time", a)
		}
	}
	n, err := f.store.CountAlerts(f.ctx(), af)
	f.ok(err)
	f.equal(len(out), n, "CountAlerts() of the same filter")
	return out
}

func alertUUID(n int) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(n)}).String() }

func alertOf(id run.Identity, n int, level store.AlertLevel) store.Alert {
	return store.Alert{
		ID: alertUUID(n), TenantID: id.TenantID, ProjectID: id.ProjectID, RunID: id.RunID, StepID: "s1", SignalID: "sig",
		Level: level, Code: run.CodeEngineLost, Subject: fmt.Sprintf("subject %d", n), Note: fmt.Sprintf("note %d", n),
		Actor: "ola",
	}
}

func alertNotes(alerts []store.AlertState) (notes []string) {
	for _, a := range alerts {
		notes = append(notes, fmt.Sprintf("%s %s %s", a.Level, a.Note, a.Code))
	}
	return notes
}

func testAlertsAreInsertOnly(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertLow))
	f.raise(alertOf(id, 2, store.AlertHigh))
	f.raise(alertOf(id, 1, store.AlertHigh)) // a known id changes nothing
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		return tx.Raise(f.ctx(), alertOf(id, 3, store.AlertMedium))
	}))
	f.wantError(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		f.ok(tx.Raise(f.ctx(), alertOf(id, 4, store.AlertHigh)))
		return store.ErrConflict // rolled back
	}), store.ErrConflict)
	foreign := alertOf(id, 5, store.AlertHigh)
	foreign.TenantID, foreign.RunID = "t2", "other"
	f.raise(foreign)
	f.equal([]string{"MEDIUM note 3 ENGINE_LOST", "HIGH note 2 ENGINE_LOST", "LOW note 1 ENGINE_LOST"},
		alertNotes(f.alerts(store.AlertFilter{TenantID: id.TenantID, RunID: id.RunID, Limit: 10})), "newest first")
	f.equal([]string{"HIGH note 2 ENGINE_LOST"}, alertNotes(f.alerts(store.AlertFilter{TenantID: id.TenantID,
		Before: alertUUID(3), Limit: 1})), "a page")
	f.equal([]string{"HIGH note 5 ENGINE_LOST"}, alertNotes(f.alerts(store.AlertFilter{TenantID: "t2"})), "another tenant")
	for _, change := range []string{`UPDATE alert SET note = 'x'`, `DELETE FROM alert`} {
		if f.db.Exec(f, change) == nil {
			f.Errorf("%s succeeded, want an error", change)
		}
	}
}

func (f *fixture) alertsRev() int64 {
	f.Helper()
	rev, err := f.store.AlertsRev(f.ctx())
	f.ok(err)
	return rev
}

func testAlertFoundAgainIsOneAlert(f *fixture) {
	id := f.run()
	a := alertOf(id, 1, store.AlertLow)
	a.ID = ""
	first := f.raise(a)
	f.equal(true, first.Opened, "the first finding opens the alert")
	f.equal(id.EnvironmentID, first.State.EnvironmentID, "environment of the run")
	f.equal(id.PlanID, first.State.PlanID, "plan of the run")
	const found = 1000
	for range found - 1 {
		a.Level, a.Note = store.AlertHigh, "still so"
		if again := f.raise(a); again.Opened || again.State.ID != first.State.ID {
			f.Fatalf("a repeated finding is %+v, want the open alert %s", again, first.State.ID)
		}
	}
	got := f.alerts(store.AlertFilter{TenantID: id.TenantID})
	f.equal(1, len(got), "alerts after the same state was found 1,000 times")
	f.equal(int64(found), got[0].Count, "count")
	f.equal("HIGH still so ENGINE_LOST", alertNotes(got)[0], "level and note of the newest finding")
	if got[0].LastSeen.Before(got[0].At) {
		f.Errorf("last seen at %s, before the opening at %s", got[0].LastSeen, got[0].At)
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM alert WHERE note = 'note 1' AND level = 'LOW'`), "rows of openings")
}

func testAlertRaisedByManyAtOnce(f *fixture) {
	id := f.run()
	a := alertOf(id, 1, store.AlertHigh)
	a.ID = ""
	const servers = 8
	errs := make(chan error, servers)
	for range servers {
		go func() {
			_, err := f.store.RaiseAlert(f.ctx(), a)
			errs <- err
		}()
	}
	for range servers {
		f.ok(<-errs)
	}
	got := f.alerts(store.AlertFilter{TenantID: id.TenantID})
	f.equal(1, len(got), "alerts after servers found the same state at once")
	f.equal(int64(servers), got[0].Count, "count")
}

func testAlertReopensAsAnotherAlert(f *fixture) {
	id := f.run()
	a := alertOf(id, 1, store.AlertHigh)
	a.ID = ""
	before := f.alertsRev()
	first := f.raise(a)
	raised := f.alertsRev()
	gone, err := f.store.ResolveAlerts(f.ctx(), []string{"unknown", a.Fingerprint()}, "a worker is back")
	f.ok(err)
	f.equal(1, len(gone), "resolved alerts")
	f.equal("a worker is back", gone[0].Resolution, "resolution")
	f.equal(store.AlertResolved, gone[0].Stage(), "stage")
	resolved := f.alertsRev()
	if before >= raised || raised >= resolved {
		f.Errorf("AlertsRev() was %d, %d after the raise, %d after the end; want it to grow", before, raised, resolved)
	}
	gone, err = f.store.ResolveAlerts(f.ctx(), []string{a.Fingerprint()}, "again")
	f.ok(err)
	f.equal(0, len(gone), "alerts resolved twice")
	f.equal(resolved, f.alertsRev(), "AlertsRev() after a call that changed nothing")
	second := f.raise(a)
	if !second.Opened || second.State.ID == first.State.ID || second.State.Count != 1 {
		f.Errorf("after its end the state is %+v, want another alert", second)
	}
	f.equal(2, len(f.alerts(store.AlertFilter{TenantID: id.TenantID})), "alerts in all")
}

func testAlertsOfEndedRunsAreResolved(f *fixture) {
	open, ended := f.run(), f.run()
	f.raise(alertOf(open, 1, store.AlertHigh))
	f.raise(alertOf(ended, 2, store.AlertHigh))
	shared := alertOf(ended, 3, store.AlertHigh)
	shared.Shared = true
	f.raise(shared)
	f.append(ended, runtest.Draft(run.RunFailed, "", 1))
	gone, err := f.store.ResolveEndedAlerts(f.ctx(), "The run has ended.")
	f.ok(err)
	f.equal([]string{"HIGH note 2 ENGINE_LOST"}, alertNotes(gone), "resolved: not the alert that other runs share")
	gone, err = f.store.ResolveEndedAlerts(f.ctx(), "The run has ended.")
	f.ok(err)
	f.equal(0, len(gone), "resolved again")
}

func testAlertsAreFiltered(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertLow))
	tenantWide := store.Alert{TenantID: id.TenantID, Level: store.AlertHigh, Code: run.CodeAuditUnlinked, Note: "tenant"}
	f.raise(tenantWide)
	f.raise(store.Alert{Level: store.AlertMedium, Code: run.CodeProjectorAbsent, Note: "installation"})
	all := store.AlertFilter{TenantID: id.TenantID}
	list := func(change func(*store.AlertFilter)) []string {
		f.Helper()
		af := all
		change(&af)
		return alertNotes(f.alerts(af))
	}
	const ofRun, ofTenant = "LOW note 1 ENGINE_LOST", "HIGH tenant AUDIT_UNLINKED"
	const ofAll = "MEDIUM installation PROJECTOR_ABSENT"
	f.equal([]string{ofTenant, ofRun}, list(func(*store.AlertFilter) {}), "of a tenant")
	f.equal([]string{ofAll, ofTenant, ofRun}, list(func(a *store.AlertFilter) { a.Installation = true }),
		"with those of the installation")
	for _, scope := range []store.Scope{{ProjectID: id.ProjectID}, {EnvironmentID: id.EnvironmentID},
		{ProjectID: id.ProjectID, EnvironmentID: id.EnvironmentID}} {
		f.equal([]string{ofRun}, list(func(a *store.AlertFilter) { a.Scopes = store.Scopes{scope} }),
			fmt.Sprintf("in the scope %+v: not the alerts of the whole tenant", scope))
	}
	f.equal([]string{ofAll}, list(func(a *store.AlertFilter) {
		a.Installation, a.Scopes = true, store.Scopes{{ProjectID: "other"}}
	}), "in another scope")
	f.equal([]string(nil), list(func(a *store.AlertFilter) { a.Scopes = store.Scopes{} }), "in no scope")
	f.equal([]string{ofTenant}, list(func(a *store.AlertFilter) { a.Levels = []store.AlertLevel{store.AlertHigh} }),
		"HIGH")
	f.equal([]string{ofTenant}, list(func(a *store.AlertFilter) { a.Code = run.CodeAuditUnlinked }), "of a code")
	f.equal([]string{ofRun}, list(func(a *store.AlertFilter) { a.RunID = id.RunID }), "of a run")
	f.equal([]string{ofRun}, list(func(a *store.AlertFilter) { a.ProjectID = id.ProjectID }), "of a project")
	f.equal([]string(nil), list(func(a *store.AlertFilter) { a.Since = time.Now().Add(time.Hour) }), "since later")
	f.equal([]string{ofTenant, ofRun}, list(func(a *store.AlertFilter) { a.Since = time.Now().Add(-time.Hour) }), "since")
	_, err := f.store.ResolveAlerts(f.ctx(), []string{tenantWide.Fingerprint()}, "gone")
	f.ok(err)
	f.equal([]string{ofRun}, list(func(a *store.AlertFilter) { a.States = []store.AlertStage{store.AlertOpen} }), "OPEN")
	f.equal([]string{ofTenant}, list(func(a *store.AlertFilter) {
		a.States = []store.AlertStage{store.AlertAcknowledged, store.AlertResolved}
	}), "ACKNOWLEDGED or RESOLVED")
	open, err := f.store.ListOpenAlerts(f.ctx(), []run.Code{run.CodeProjectorAbsent, run.CodeAuditUnlinked}, 10)
	f.ok(err)
	f.equal([]string{ofAll}, alertNotes(open), "open alerts of two codes, of every tenant")
}

func testAlertIsAcknowledged(f *fixture) {
	id := f.run()
	a := f.raise(alertOf(id, 1, store.AlertHigh))
	got, err := f.store.AcknowledgeAlert(f.ctx(), a.State.ID, "ola", "on it", auditRow("t1"))
	f.ok(err)
	f.equal([]string{"ola", "on it", "ACKNOWLEDGED"}, []string{got.AcknowledgedBy, got.AckNote, string(got.Stage())},
		"acknowledgement")
	f.equal(1, f.auditCount(), "audit rows")
	read, err := f.store.GetAlert(f.ctx(), a.State.ID)
	f.ok(err)
	f.equal(got, read, "the alert as GetAlert() reads it")
	_, err = f.store.AcknowledgeAlert(f.ctx(), alertUUID(9), "ola", "", auditRow("t1"))
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.GetAlert(f.ctx(), "no uuid")
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.ResolveAlerts(f.ctx(), []string{got.Fingerprint()}, "gone")
	f.ok(err)
	_, err = f.store.AcknowledgeAlert(f.ctx(), a.State.ID, "ola", "", auditRow("t1"))
	f.wantError(err, store.ErrConflict)
	f.equal(1, f.auditCount(), "audit rows after refused acknowledgements")
}

func testOpenAlertsAreBounded(f *fixture) {
	f.raise(store.Alert{TenantID: "t1", Level: store.AlertLow, Subject: "0"})
	f.ok(f.db.Exec(f, fmt.Sprintf(`INSERT INTO alert_state (pos, tenant_id, project_id, environment_id, plan_id, run_id, code,
		subject, shared, fingerprint, level, note, last_seen)
		WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT n.i, s.tenant_id, '', '', '', '', '', '', s.shared, 'many ' || n.i, s.level, '', s.last_seen
		FROM n, alert_state s`, 1000+store.MaxOpenAlerts-2)))
	over := store.Alert{TenantID: "t1", Level: store.AlertLow, Code: run.CodeTimeout, Subject: "over",
		Note: "one too many"}
	// The rows above are those of another process: this one counted before they were there.
	f.equal(run.CodeAlertsOverflow, f.raise(over).State.Code, "code of the alert that counts the rest")
	over.Subject = "over 2"
	f.equal(int64(2), f.raise(over).State.Count, "count of the rest")
	f.equal(store.MaxOpenAlerts+1, f.db.Count(f, `SELECT count(*) FROM alert_state`), "rows")
	f.equal(int64(2), f.raise(store.Alert{TenantID: "t1", Level: store.AlertLow, Subject: "0"}).State.Count,
		"an open alert is still counted")
	other := over
	other.TenantID = "t2"
	f.equal(true, f.raise(other).Opened, "the limit is of one tenant")
}

func silenceOf(n int, until time.Time) store.AlertSilence {
	return store.AlertSilence{ID: alertUUID(n), TenantID: "t1", Code: run.CodeEngineLost, Actor: "ola", Reason: "known",
		Until: until}
}

func testSilencesCoverAlerts(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertLow))
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	silenced := func() bool {
		f.Helper()
		all := f.alerts(store.AlertFilter{TenantID: id.TenantID})
		open := f.alerts(store.AlertFilter{TenantID: id.TenantID, Unsilenced: true})
		f.equal(all[0].SilencedUntil == nil, len(open) == 1, "the filter agrees with the alert")
		return len(open) == 0
	}
	for i, x := range []struct {
		name   string
		change func(*store.AlertSilence)
		want   bool
	}{
		{"of the code", func(*store.AlertSilence) {}, true},
		{"of another code", func(s *store.AlertSilence) { s.Code = run.CodeTimeout }, false},
		{"of the project", func(s *store.AlertSilence) { s.Code, s.ProjectID = "", id.ProjectID }, true},
		{"of the run", func(s *store.AlertSilence) { s.Code, s.RunID = "", id.RunID }, true},
		{"of the plan", func(s *store.AlertSilence) { s.PlanID = id.PlanID }, true},
		{"of another plan", func(s *store.AlertSilence) { s.PlanID = "other" }, false},
		{"of another tenant", func(s *store.AlertSilence) { s.TenantID = "t2" }, false},
	} {
		s := silenceOf(10+i, later)
		x.change(&s)
		before := f.alertsRev()
		got, err := f.store.Silence(f.ctx(), s, auditRow("t1"))
		f.ok(err)
		s.At = got.At
		f.equal(s, got, "stored silence")
		f.equal(x.want, silenced(), "silence "+x.name)
		f.ok(f.store.EndSilence(f.ctx(), s.TenantID, s.ID, auditRow("t1")))
		f.equal(false, silenced(), "after the end of the silence "+x.name)
		f.equal(before+2, f.alertsRev(), "AlertsRev()")
	}
	f.wantError(f.store.EndSilence(f.ctx(), "t1", alertUUID(10), auditRow("t1")), store.ErrNotFound)
	other, err := f.store.Silence(f.ctx(), silenceOf(30, later))
	f.ok(err)
	f.wantError(f.store.EndSilence(f.ctx(), "t2", other.ID), store.ErrNotFound)
	again := silenceOf(30, later.Add(time.Hour))
	got, err := f.store.Silence(f.ctx(), again)
	f.ok(err)
	f.equal(other, got, "a known silence does not change")
	_, err = f.store.Silence(f.ctx(), silenceOf(31, time.Now().Add(-time.Second)))
	f.ok(err)
	list, err := f.store.ListSilences(f.ctx(), "t1")
	f.ok(err)
	f.equal([]store.AlertSilence{other}, list, "silences that have not ended")
}

func testSilencesAreBounded(f *fixture) {
	_, err := f.store.Silence(f.ctx(), silenceOf(200, time.Now().Add(-time.Second))) // has ended
	f.ok(err)
	for i := range store.MaxSilences {
		_, err := f.store.Silence(f.ctx(), silenceOf(i, time.Now().Add(time.Hour)))
		f.ok(err)
	}
	_, err = f.store.Silence(f.ctx(), silenceOf(201, time.Now().Add(time.Hour)))
	f.wantError(err, store.ErrTooMany)
	f.equal(store.MaxSilences, f.db.Count(f, `SELECT count(*) FROM alert_silence`), "rows")
}

func testHeartbeats(f *fixture) {
	f.ok(f.store.Beat(f.ctx(), "a/1", []string{"project", "dispatch"}))
	f.ok(f.store.Beat(f.ctx(), "b/1", []string{"project"}))
	f.ok(f.store.Beat(f.ctx(), "a/1", []string{"dispatch"}))
	beats, err := f.store.Heartbeats(f.ctx())
	f.ok(err)
	var got []string
	for _, h := range beats {
		got = append(got, h.Duty+" "+h.Process)
		if h.Age < 0 || h.Age > time.Minute || time.Since(h.At).Abs() > time.Minute {
			f.Errorf("heartbeat %+v, want it to be about now", h)
		}
	}
	f.equal([]string{"dispatch a/1", "project b/1"}, got, "newest heartbeats")
}

func testHeartbeatsAreBounded(f *fixture) {
	for i := range store.MaxHeartbeats/100 + 1 {
		var duties []string
		for n := range 100 {
			duties = append(duties, fmt.Sprintf("duty %03d", n))
		}
		f.ok(f.store.Beat(f.ctx(), fmt.Sprintf("host/%d", i), duties))
	}
	f.ok(f.store.Beat(f.ctx(), "last", []string{"duty 000"}))
	if n := f.db.Count(f, `SELECT count(*) FROM duty_heartbeat`); n > store.MaxHeartbeats+100 {
		f.Errorf("%d heartbeats are stored, want at most about %d", n, store.MaxHeartbeats)
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM duty_heartbeat WHERE process = 'last'`), "the newest row")
}

func testOverdueWork(f *fixture) {
	f.equal(store.OverdueWork{}, f.overdueWork(), "work of an empty store")
	n := newRun(identity(500), runtest.Draft(run.RunApproved, "", 1))
	n.Enqueue = &store.Enqueue{Terms: store.Unlimited()}
	id := f.create(n)
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		_, err := tx.PutReceipt(f.ctx(), run.SignalReceipt{RunID: id.RunID, Signal: run.Signal{ID: "sig", Type: run.Pause},
			Actor: "ola", Application: run.SignalPending}, true)
		return err
	}))
	time.Sleep(20 * time.Millisecond)
	work := f.overdueWork()
	if work.Project <= 0 || work.Dispatch <= 0 || work.Deliver <= 0 || work.OpenRuns {
		f.Errorf("overdue work is %+v, want a waiting projection, start and delivery, and no started run", work)
	}
	rows, err := f.store.Lease(f.ctx(), "me", time.Minute, 10)
	f.ok(err)
	f.ok(f.store.MarkStarted(f.ctx(), id.RunID, rows[0].Generation))
	_, err = f.store.LeaseDeliveries(f.ctx(), "me", time.Minute, 10)
	f.ok(err)
	f.ok(f.store.MarkPublished(f.ctx(), id.RunID, 100, 100))
	f.equal(store.OverdueWork{OpenRuns: true}, f.overdueWork(), "work that was taken")
	f.append(id, runtest.Start("s1"), runtest.Draft(run.RunFailed, "", 1))
	f.equal(false, f.overdueWork().OpenRuns, "a run that has ended is open")
}

func (f *fixture) overdueWork() store.OverdueWork {
	f.Helper()
	out, err := f.store.OverdueWork(f.ctx())
	f.ok(err)
	return out
}
