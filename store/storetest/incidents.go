package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var incidentCases = []testCase{
	{"IncidentTakesTheAlertsOfItsGroup", testIncidentTakesItsGroup},
	{"IncidentIsOpenedOnceByManyAtOnce", testIncidentIsOpenedOnce},
	{"IncidentIsAcknowledgedNotedAndClosed", testIncidentIsClosed},
	{"IncidentIsRaisedAndLowered", testIncidentSeverity},
	{"IncidentIsRaisedByAWorseAlert", testIncidentIsRaisedByAWorseAlert},
	{"IncidentOfEachSharedThing", testIncidentOfEachSharedThing},
	{"IncidentsAreFiltered", testIncidentsAreFiltered},
	{"IncidentNotesAreBounded", testIncidentNotesAreBounded},
	{"QuietRunHasItsRootCause", testQuietRunHasItsRootCause},
	{"QuietRunHasItsDeadline", testQuietRunHasItsDeadline},
}

func severityOf(a store.AlertState) store.Severity {
	if a.Code == run.CodeStoreRegressed {
		return store.Sev1
	}
	return store.Sev2
}

func (f *fixture) openIncidents() []store.Incident {
	f.Helper()
	out, err := f.store.OpenIncidents(f.ctx(), store.MaxPage, severityOf)
	f.ok(err)
	return out
}

func (f *fixture) act(id string, act store.IncidentAct, text string, audit ...store.AuditRow) store.Incident {
	f.Helper()
	out, err := f.store.ActOnIncident(f.ctx(), id, store.IncidentNote{Actor: "ola", Act: act, Text: text}, audit...)
	f.ok(err)
	return out
}

func (f *fixture) incident(id string) store.Incident {
	f.Helper()
	out, err := f.store.GetIncident(f.ctx(), id)
	f.ok(err)
	return out
}

func testIncidentTakesItsGroup(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertMedium))
	f.equal(0, len(f.openIncidents()), "incidents of an alert that is not HIGH")
	f.raise(alertOf(id, 2, store.AlertHigh))
	opened := f.openIncidents()
	f.equal(1, len(opened), "incidents of the first alert")
	x := opened[0]
	f.equal(fmt.Sprint(id.TenantID, id.ProjectID, id.EnvironmentID, id.RunID, run.CodeEngineLost, store.Sev2, "note 2",
		1, 1),
		fmt.Sprint(x.TenantID, x.ProjectID, x.EnvironmentID, x.RunID, x.Code, x.Severity, x.Title, x.Alerts, x.OpenAlerts),
		"the incident")
	second := alertOf(id, 3, store.AlertHigh)
	f.raise(second)
	f.equal(0, len(f.openIncidents()), "incidents of the second alert of the group")
	regressed := alertOf(id, 4, store.AlertHigh)
	regressed.Code = run.CodeStoreRegressed
	f.raise(regressed)
	f.equal(store.Sev1, f.openIncidents()[0].Severity, "severity of another code")
	_, err := f.store.ResolveAlerts(f.ctx(), []string{second.Fingerprint()}, "over")
	f.ok(err)
	x = f.incident(x.ID)
	f.equal("2 1", fmt.Sprint(x.Alerts, x.OpenAlerts), "alerts and open alerts")
	alerts, err := f.store.IncidentAlerts(f.ctx(), x.ID)
	f.ok(err)
	f.equal([]string{"HIGH note 3 ENGINE_LOST", "HIGH note 2 ENGINE_LOST"}, alertNotes(alerts), "alerts of the incident")
	f.act(x.ID, store.IncidentClose, "done")
	f.equal(0, len(f.openIncidents()), "incidents of alerts that had one")
	f.raise(alertOf(id, 5, store.AlertHigh))
	f.equal(1, len(f.openIncidents()), "incidents of an alert after the end")
}

func testIncidentIsOpenedOnce(f *fixture) {
	id := f.run()
	for n := range 8 {
		f.raise(alertOf(id, n+1, store.AlertHigh))
	}
	var opened [4][]store.Incident
	var wait sync.WaitGroup
	for n := range opened {
		wait.Go(func() {
			out, err := f.store.OpenIncidents(f.ctx(), store.MaxPage, severityOf)
			if err != nil {
				f.Errorf("OpenIncidents: %v", err)
			}
			opened[n] = out
		})
	}
	wait.Wait()
	total := 0
	for _, some := range opened {
		total += len(some)
	}
	f.equal(1, total, "incidents that four callers opened")
	all, err := f.store.ListIncidents(f.ctx(), store.IncidentFilter{TenantID: id.TenantID, Limit: 10})
	f.ok(err)
	f.equal(1, len(all), "incidents")
	f.equal(8, all[0].Alerts, "alerts of the incident")
}

func testIncidentIsClosed(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertHigh))
	x := f.openIncidents()[0]
	f.equal("ola", f.act(x.ID, store.IncidentAcknowledge, "on it").AcknowledgedBy, "who has taken it on")
	f.act(x.ID, store.IncidentAddNote, "the disk is full")
	x = f.act(x.ID, store.IncidentClose, "more disk", store.AuditRow{ID: alertUUID(9), TenantID: id.TenantID, Actor: "ola",
		Action: "CLOSE_INCIDENT", Outcome: "ACCEPTED"})
	if x.ClosedAt == nil || x.ClosedBy != "ola" || x.AcknowledgedAt == nil || len(x.Notes) != 3 ||
		x.Notes[1].Text != "the disk is full" || x.Notes[2].Act != store.IncidentClose || x.Notes[0].At.IsZero() {
		f.Errorf("the closed incident is %+v, want who did what", x)
	}
	_, err := f.store.ActOnIncident(f.ctx(), x.ID, store.IncidentNote{Actor: "ola", Act: store.IncidentAddNote})
	f.wantError(err, store.ErrConflict)
	_, err = f.store.ActOnIncident(f.ctx(), alertUUID(77), store.IncidentNote{Actor: "ola", Act: store.IncidentAddNote})
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.GetIncident(f.ctx(), "no uuid")
	f.wantError(err, store.ErrNotFound)
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM audit WHERE action = 'CLOSE_INCIDENT'`), "audit rows")
}

func testIncidentSeverity(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertHigh))
	x := f.openIncidents()[0]
	set := func(severity store.Severity, text string) (store.Incident, error) {
		return f.store.ActOnIncident(f.ctx(), x.ID, store.IncidentNote{Actor: "ola", Act: store.IncidentSetSeverity,
			Severity: severity, Text: text})
	}
	_, err := set(store.Sev0, "data leaked")
	f.ok(err)
	f.act(x.ID, store.IncidentAddNote, "it did not")
	_, err = set(store.Sev3, "slow only")
	f.ok(err)
	notes, err := f.store.IncidentNotes(f.ctx(), x.ID)
	f.ok(err)
	var said []string
	for _, n := range notes {
		said = append(said, fmt.Sprint(n.Act, " ", n.Severity, " ", n.Text))
	}
	f.equal([]string{"SEVERITY SEV_0 data leaked", "NOTE  it did not", "SEVERITY SEV_3 slow only"}, said, "the notes")
	x = f.incident(x.ID)
	f.equal(store.Sev3, x.Severity, "the severity")
	f.equal(false, x.AcknowledgedAt != nil || x.ClosedAt != nil, "whether it is acknowledged or closed")
	f.act(x.ID, store.IncidentClose, "done")
	_, err = set(store.Sev1, "late")
	f.wantError(err, store.ErrConflict)
	f.equal(store.Sev3, f.incident(x.ID).Severity, "the severity after the end")
}

// A person lowered the severity. An alert that is worse raises it again, and says so; one that is not changes nothing.
func testIncidentIsRaisedByAWorseAlert(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertHigh))
	x := f.openIncidents()[0]
	raise := func(n int, severity store.Severity) []store.Incident {
		f.Helper()
		f.raise(alertOf(id, n, store.AlertHigh))
		out, err := f.store.OpenIncidents(f.ctx(), 10, func(store.AlertState) store.Severity { return severity })
		f.ok(err)
		return out
	}
	f.equal(0, len(raise(2, store.Sev3)), "incidents that an alert that is not worse opened or raised")
	f.equal(store.Sev2, f.incident(x.ID).Severity, "the severity after it")
	raised := raise(3, store.Sev1)
	f.equal(1, len(raised), "incidents that a worse alert raised")
	f.equal(x.ID, raised[0].ID, "the raised incident")
	notes, err := f.store.IncidentNotes(f.ctx(), x.ID)
	f.ok(err)
	f.equal(1, len(notes), "notes")
	f.equal("dvt SEVERITY SEV_1 A further alert is worse than SEV_2: note 3",
		fmt.Sprint(notes[0].Actor, " ", notes[0].Act, " ", notes[0].Severity, " ", notes[0].Text), "the note")
	f.equal(notes[0].Text, raised[0].Notes[0].Text, "the note of the result")
	x = f.incident(x.ID)
	f.equal("SEV_1 3 3", fmt.Sprint(x.Severity, " ", x.Alerts, " ", x.Affected), "severity, alerts and affected things")
	f.fillNotes(2)
	f.equal(1, len(raise(4, store.Sev0)), "incidents with all notes that a worse alert raised")
	f.equal(store.Sev0, f.incident(x.ID).Severity, "the severity of an incident with all notes")
	notes, err = f.store.IncidentNotes(f.ctx(), x.ID)
	f.ok(err)
	f.equal(store.MaxIncidentNotes, len(notes), "notes, which are bounded")
}

// Different people mend different queues. A further alert about the same queue belongs to its incident.
func testIncidentOfEachSharedThing(f *fixture) {
	id := f.run()
	no := 0
	queue := func(name string) store.Alert {
		no++
		a := alertOf(id, no, store.AlertHigh)
		a.Code, a.Subject, a.Shared = run.CodeNoWorker, name, true
		return a
	}
	f.raise(queue("tq-a"))
	f.raise(queue("tq-b"))
	f.equal(2, len(f.openIncidents()), "incidents of two queues")
	_, err := f.store.ResolveAlerts(f.ctx(), []string{queue("tq-a").Fingerprint()}, "over")
	f.ok(err)
	f.raise(queue("tq-a"))
	f.equal(0, len(f.openIncidents()), "incidents of a queue that fails again")
	for _, part := range []string{"temporal", "eventBus"} {
		f.raise(store.Alert{Level: store.AlertHigh, Code: run.CodeDependencyDown, Note: "down", Subject: part})
	}
	f.equal(2, len(f.openIncidents()), "incidents of two parts of the installation")
	for n := range 3 { // subjects that are runs do not make an incident each
		ended := alertOf(id, 10+n, store.AlertHigh)
		ended.Code, ended.Shared, ended.RunID = run.CodeRecoveryFailed, true, f.run().RunID
		ended.Subject, ended.Note = ended.RunID, fmt.Sprint("run ", n)
		f.raise(ended)
	}
	opened := f.openIncidents()
	f.equal(1, len(opened), "incidents of three runs")
	f.equal("3 3", fmt.Sprint(f.incident(opened[0].ID).Alerts, " ", f.incident(opened[0].ID).Affected),
		"its alerts and affected things")
}

func testIncidentsAreFiltered(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertHigh))
	a := f.openIncidents()[0]
	f.raise(store.Alert{Level: store.AlertHigh, Code: run.CodeWorkerAbsent, Subject: "worker", Note: "all"})
	b := f.openIncidents()[0]
	list := func(filter store.IncidentFilter) (ids []string) {
		f.Helper()
		filter.Limit = max(filter.Limit, 1)
		out, err := f.store.ListIncidents(f.ctx(), filter)
		f.ok(err)
		for _, x := range out {
			ids = append(ids, x.ID)
		}
		return ids
	}
	mine := store.IncidentFilter{TenantID: id.TenantID, Limit: 10}
	f.equal([]string{a.ID}, list(mine), "incidents of the tenant")
	f.equal(0, len(list(store.IncidentFilter{TenantID: "other", Limit: 10})), "incidents of another tenant")
	with := mine
	with.Installation = true
	f.equal([]string{b.ID, a.ID}, list(with), "with those of the installation")
	with.Before = b.ID
	f.equal([]string{a.ID}, list(with), "before the newest")
	scoped := mine
	scoped.Scopes = store.Scopes{{ProjectID: "elsewhere"}}
	f.equal(0, len(list(scoped)), "in another project")
	scoped.Scopes = store.Scopes{{ProjectID: id.ProjectID}}
	f.equal([]string{a.ID}, list(scoped), "in the project")
	of := store.IncidentFilter{TenantID: id.TenantID, RunID: id.RunID, Limit: 10}
	f.equal([]string{a.ID}, list(of), "of the run")
	of.RunID = "another"
	f.equal(0, len(list(of)), "of another run")
	f.act(a.ID, store.IncidentClose, "done")
	mine.OpenOnly = true
	f.equal(0, len(list(mine)), "open incidents")
}

// fillNotes gives each incident notes from a number up to the limit.
func (f *fixture) fillNotes(from int) {
	f.Helper()
	f.ok(f.db.Exec(f, fmt.Sprintf(`WITH RECURSIVE n(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM n WHERE n < %d)
		INSERT INTO incident_note (incident, n, at, actor, act, text) SELECT i.pos, n.n, i.opened_at, 'ola', 'NOTE', 'x'
		FROM n, incident i`, from, store.MaxIncidentNotes)))
}

func testIncidentNotesAreBounded(f *fixture) {
	id := f.run()
	f.raise(alertOf(id, 1, store.AlertHigh))
	x := f.openIncidents()[0]
	f.fillNotes(1)
	_, err := f.store.ActOnIncident(f.ctx(), x.ID, store.IncidentNote{Actor: "ola", Act: store.IncidentAddNote})
	f.wantError(err, store.ErrTooMany)
	f.equal(store.MaxIncidentNotes+1, len(f.act(x.ID, store.IncidentClose, "done").Notes), "notes with that of the end")
}

func testQuietRunHasItsRootCause(f *fixture) {
	id := f.run()
	f.equal(false, f.quietRuns(0, "", 10)[0].RootCause != nil, "root cause of a run without a failure")
	f.append(id, stepStarted("s1", 1), stepFailed("s1", 1))
	f.save(f.load(id))
	q := f.quietRuns(0, "", 10)[0]
	if q.RootCause == nil || q.RootCause.StepID != "s1" || q.RootCause.LogicalAttempt != 1 || q.RootCause.Error == nil ||
		q.StartedAt == nil || time.Since(*q.StartedAt) > 100*365*24*time.Hour {
		f.Errorf("the quiet run is %+v, want the failed attempt and the start", q)
	}
}

func testQuietRunHasItsDeadline(f *fixture) {
	due := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	policy := runtest.M{"retryWindowMs": 0, "drainTimeoutMs": 600_000, "maxParallelSteps": 1,
		"maxLogicalAttemptsManual": 3, "dueAt": due}
	f.create(newRun(identity(1), runtest.Draft(run.RunApproved, "", 1),
		runtest.Draft(run.RunStarted, "", 1, runtest.M{"policy": policy})))
	f.create(newRun(identity(2), runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")))
	for _, n := range []int{1, 2} {
		f.save(f.load(identity(n)))
	}
	rows := f.quietRuns(0, "", 10)
	f.equal(2, len(rows), "quiet runs")
	f.equal(true, rows[0].DueAt != nil && rows[0].DueAt.Equal(due), "the deadline of a run that has one")
	f.equal(true, rows[1].DueAt == nil, "no deadline of a run without one")
}
