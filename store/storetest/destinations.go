package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var destinationCases = []testCase{
	{"AlertChangesAreNumberedInOrder", testAlertChangesAreNumberedInOrder},
	{"AlertChangesOfManyWritersAreReadOnce", testAlertChangesOfManyWriters},
	{"DestinationStateAddsReports", testDestinationStateAddsReports},
	{"DestinationsAreSwitched", testDestinationsAreSwitched},
	{"RemovedDestinationsAreForgotten", testRemovedDestinationsAreForgotten},
	{"DeadDeliveriesAreBounded", testDeadDeliveriesAreBounded},
	{"DeadDeliveriesAreRedriven", testDeadDeliveriesAreRedriven},
	{"DestinationOrdersAreKept", testDestinationOrdersAreKept},
}

func testAlertChangesAreNumberedInOrder(f *fixture) {
	a := store.Alert{TenantID: "acme", Code: run.CodeLagHigh, Level: store.AlertLow, Note: "first", Subject: "x"}
	raised, err := f.store.RaiseAlert(f.ctx(), a)
	f.ok(err)
	_, err = f.store.RaiseAlert(f.ctx(), a) // counts and is no change
	f.ok(err)
	a.Level, a.Note = store.AlertHigh, "worse"
	_, err = f.store.RaiseAlert(f.ctx(), a)
	f.ok(err)
	_, err = f.store.AcknowledgeAlert(f.ctx(), raised.State.ID, "ann", "mine")
	f.ok(err)
	_, err = f.store.ResolveAlerts(f.ctx(), []string{a.Fingerprint()}, "gone")
	f.ok(err)

	changes, err := f.store.AlertChanges(f.ctx(), 0, 100)
	f.ok(err)
	var got []string
	for i, c := range changes {
		got = append(got, fmt.Sprintf("%s %s %s %d", c.Kind, c.Alert.Level, c.Alert.Note, c.Alert.Count))
		f.equal(raised.State.ID, c.Alert.ID, "the alert of a change")
		if i > 0 && c.N <= changes[i-1].N {
			f.Errorf("change %d has the number %d after %d; want it to grow", i, c.N, changes[i-1].N)
		}
		if c.At.IsZero() {
			f.Errorf("change %d has no time", i)
		}
	}
	f.equal([]string{"OPENED LOW first 1", "LEVEL HIGH worse 3", "ACKNOWLEDGED HIGH worse 3", "RESOLVED HIGH worse 3"},
		got, "changes with the level, note and count of their time")
	rest, err := f.store.AlertChanges(f.ctx(), changes[1].N, 1)
	f.ok(err)
	f.equal(1, len(rest), "changes of a page of 1")
	f.equal(changes[2].N, rest[0].N, "the first change after a number")
	f.ok(f.store.TrimAlertChanges(f.ctx(), time.Hour))
	rest, err = f.store.AlertChanges(f.ctx(), 0, 100)
	f.ok(err)
	f.equal(4, len(rest), "changes that are younger than the age of the trim")
	f.ok(f.store.TrimAlertChanges(f.ctx(), -time.Hour))
	_, err = f.store.RaiseAlert(f.ctx(), a)
	f.ok(err)
	rest, err = f.store.AlertChanges(f.ctx(), changes[3].N, 100)
	f.ok(err)
	f.equal(1, len(rest), "changes after the last number before a trim")
}

// testAlertChangesOfManyWriters reads while others write: a reader that continues after the last number misses none.
func testAlertChangesOfManyWriters(f *fixture) {
	const writers, each = 4, 15
	failed := make(chan error, writers)
	for w := range writers {
		s := f.db.Open(f.T)
		go func() {
			var err error
			for i := range each {
				if err == nil {
					_, err = s.RaiseAlert(f.ctx(), store.Alert{TenantID: fmt.Sprint("t", w), Code: run.CodeLagHigh,
						Level: store.AlertLow, Subject: fmt.Sprint(i)})
				}
			}
			failed <- err
		}()
	}
	seen, last, running := map[string]bool{}, int64(0), writers
	for running > 0 || len(seen) < writers*each {
		drained := running == 0
		changes, err := f.store.AlertChanges(f.ctx(), last, 7)
		f.ok(err)
		for _, c := range changes {
			seen[c.Alert.ID], last = true, c.N
		}
		if drained && len(changes) == 0 {
			break
		}
		select {
		case err := <-failed:
			f.ok(err)
			running--
		default:
		}
	}
	f.equal(writers*each, len(seen), "alerts whose opening the reader saw")
}

func testDestinationStateAddsReports(f *fixture) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: "b", Sent: 2, Failed: 1, FailingSince: &since,
		LastError: "no answer"}))
	f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: "b", Sent: 3, LastSent: &since}))
	f.ok(f.store.SwitchDestination(f.ctx(), store.DestinationSwitch{Name: "a", For: "digest", Why: "gone"}))
	oldest, begins := since.Add(time.Hour), since.Add(time.Minute)
	f.ok(f.store.CountMissedRun(f.ctx(), "b", "no-such-destination"))
	f.ok(f.store.CountMissedRun(f.ctx(), "b"))
	f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: "b", Waiting: 3, OldestWaiting: &oldest,
		BeginsAt: &begins, Entry: json.RawMessage(`{"kind":"webhook"}`), Digest: "d1"}))
	want := store.DestinationState{Name: "b", Sent: 5, Failed: 1, LastSent: &since, LastError: "no answer", Waiting: 3,
		OldestWaiting: &oldest, BeginsAt: &begins, Entry: json.RawMessage(`{"kind":"webhook"}`), Digest: "d1",
		MissedRuns: 2}
	f.equal([]store.DestinationState{{Name: "a", DisabledFor: "digest", DisabledWhy: "gone"}, want},
		withoutTimes(f.destinations()), "states")
	one, err := f.store.GetDestination(f.ctx(), "b")
	f.ok(err)
	if one.ReportedAt == nil {
		f.Errorf("a destination that was reported has no time of its report")
	}
	_, err = f.store.GetDestination(f.ctx(), "c")
	f.wantError(err, store.ErrNotFound)
}

// destinations lists the states of all destinations.
func (f *fixture) destinations() []store.DestinationState {
	f.Helper()
	states, err := f.store.DestinationStates(f.ctx())
	f.ok(err)
	return states
}

// withoutTimes removes the times that the store sets.
func withoutTimes(states []store.DestinationState) []store.DestinationState {
	for i := range states {
		states[i].ReportedAt, states[i].RemovedAt, states[i].DisabledAt = nil, nil, nil
	}
	return states
}

func testDestinationsAreSwitched(f *fixture) {
	f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: "hook", Digest: "d1"}))
	change := func(s store.DestinationSwitch, want string) {
		f.Helper()
		s.Name = "hook"
		f.ok(f.store.SwitchDestination(f.ctx(), s, destinationAudit("SWITCH", "switch")))
		d, err := f.store.GetDestination(f.ctx(), "hook")
		f.ok(err)
		f.equal(want, fmt.Sprintf("%s %s %s %v", d.DisabledFor, d.DisabledWhy, d.DisabledBy, d.DisabledAt != nil),
			"the state after a switch")
	}
	change(store.DestinationSwitch{For: "d1", Why: "gone"}, "d1 gone  true")
	change(store.DestinationSwitch{For: store.DisabledByPerson, Why: "noise", By: "ann"}, "* noise ann true")
	change(store.DestinationSwitch{For: "d1", Why: "gone"}, "* noise ann true") // dvt does not replace a person's decision
	change(store.DestinationSwitch{By: "bob"}, "  bob false")
}

func testRemovedDestinationsAreForgotten(f *fixture) {
	for _, name := range []string{"kept", "removed"} {
		f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: name}))
		f.ok(f.store.BuryDelivery(f.ctx(), store.DeadDelivery{Destination: name, MessageID: "m",
			Message: json.RawMessage(`{}`)}, 3))
	}
	removed := func() (out []string) {
		f.Helper()
		for _, d := range f.destinations() {
			out = append(out, fmt.Sprint(d.Name, " ", d.RemovedAt != nil))
		}
		return out
	}
	f.ok(f.store.MarkDestinationsRemoved(f.ctx(), []string{"kept"}, time.Hour, time.Hour))
	f.equal([]string{"kept false", "removed false"}, removed(), "a destination that another process reports")
	f.ok(f.store.MarkDestinationsRemoved(f.ctx(), []string{"kept"}, -time.Hour, time.Hour))
	f.equal([]string{"kept false", "removed true"}, removed(), "a destination that no process has in its file")
	f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: "removed"}))
	f.equal([]string{"kept false", "removed false"}, removed(), "a destination that came back")
	f.ok(f.store.MarkDestinationsRemoved(f.ctx(), []string{"kept"}, -time.Hour, -time.Hour))
	f.equal([]string{"kept false"}, removed(), "a destination that was removed long ago")
	dead, err := f.store.DeadDeliveries(f.ctx(), store.DeadDeliveryFilter{Destination: "removed", Limit: 5})
	f.ok(err)
	f.equal(0, len(dead), "dead letters of a destination that is forgotten")
}

func testDeadDeliveriesAreRedriven(f *fixture) {
	for i, tenant := range []string{"acme", "", "other"} {
		f.ok(f.store.BuryDelivery(f.ctx(), store.DeadDelivery{Destination: "hook", MessageID: fmt.Sprint("m", i),
			TenantID: tenant, Message: json.RawMessage(`{}`)}, 10))
	}
	ids := func(filter store.DeadDeliveryFilter) (out []string, n []int64) {
		f.Helper()
		filter.Destination, filter.Limit = "hook", 10
		dead, err := f.store.DeadDeliveries(f.ctx(), filter)
		f.ok(err)
		for _, d := range dead {
			out, n = append(out, d.MessageID), append(n, d.N)
		}
		return out, n
	}
	all, n := ids(store.DeadDeliveryFilter{})
	f.equal([]string{"m2", "m1", "m0"}, all, "all dead letters")
	got, _ := ids(store.DeadDeliveryFilter{TenantID: "acme"})
	f.equal([]string{"m1", "m0"}, got, "dead letters of a tenant and of the installation")
	got, _ = ids(store.DeadDeliveryFilter{IDs: []int64{n[0], n[2], 999_999}})
	f.equal([]string{"m2", "m0"}, got, "dead letters by number")
	got, _ = ids(store.DeadDeliveryFilter{After: n[2], OldestFirst: true})
	f.equal([]string{"m1", "m2"}, got, "dead letters after a number, the oldest first")
	got, _ = ids(store.DeadDeliveryFilter{IDs: []int64{}})
	f.equal(0, len(got), "dead letters of no number")
	f.ok(f.store.EndDeadDelivery(f.ctx(), "hook", "m1"))
	f.ok(f.store.EndDeadDelivery(f.ctx(), "hook", "m1")) // again, after a crash
	f.ok(f.store.EndDeadDelivery(f.ctx(), "hook", "unknown"))
	f.equal([]store.DestinationState{{Name: "hook", Dead: 3, Redriven: 1}}, withoutTimes(f.destinations()), "counts")
}

func testDestinationOrdersAreKept(f *fixture) {
	f.ok(f.store.ReportDestination(f.ctx(), store.DestinationReport{Name: "hook"}))
	put := func(id, name string) (store.DestinationOrder, error) {
		return f.store.PutDestinationOrder(f.ctx(), store.DestinationOrder{ID: id, Destination: name,
			Kind: store.OrderReplay, TenantID: "acme", Actor: "ann", RequestID: "r-" + id, Reason: "why",
			Doc: json.RawMessage(`{"since":1}`)}, destinationAudit("REPLAY", id))
	}
	first, err := put("o0", "hook")
	f.ok(err)
	again, err := put("o0", "hook")
	f.ok(err)
	f.equal(first, again, "a repeated order")
	f.equal(1, f.auditCount(), "audit rows of an order and its repetition")
	for i := 1; i < store.MaxOpenOrders; i++ {
		_, err = put(fmt.Sprint("o", i), "hook")
		f.ok(err)
	}
	_, err = put("over", "hook")
	f.wantError(err, store.ErrTooMany)
	_, err = put("other", "other")
	f.ok(err)

	done := first
	done.State, done.Messages, done.Sent, done.Failed, done.Error = store.OrderDone, 5, 4, 1, "one failed"
	f.ok(f.store.ReportDestinationOrder(f.ctx(), done))
	late := done
	late.State, late.Sent = store.OrderRunning, 1
	f.ok(f.store.ReportDestinationOrder(f.ctx(), late)) // of a process that lost its lease
	got, err := f.store.GetDestinationOrder(f.ctx(), "o0")
	f.ok(err)
	if got.EndedAt == nil {
		f.Errorf("an order that is done has no end")
	}
	done.EndedAt = got.EndedAt
	f.equal(done, got, "an order that is done")
	open, err := f.store.OpenDestinationOrders(f.ctx(), "hook")
	f.ok(err)
	f.equal(store.MaxOpenOrders-1, len(open), "open orders")
	f.equal("o1", open[0].ID, "the oldest open order")
	newest, err := f.store.DestinationOrders(f.ctx(), []string{"hook", "other", "none"}, 2)
	f.ok(err)
	of := map[string][]string{}
	for _, o := range newest {
		of[o.Destination] = append(of[o.Destination], o.ID)
	}
	f.equal(map[string][]string{"hook": {"o19", "o18"}, "other": {"other"}}, of, "the newest orders of each")
	_, err = f.store.GetDestinationOrder(f.ctx(), "unknown")
	f.wantError(err, store.ErrNotFound)
}

func testDeadDeliveriesAreBounded(f *fixture) {
	bury := func(name, id string) {
		f.Helper()
		f.ok(f.store.BuryDelivery(f.ctx(), store.DeadDelivery{Destination: name, MessageID: id, TenantID: "acme",
			RunID: "r1", Tries: 10, Error: "no answer", Message: json.RawMessage(`{"ID":"` + id + `"}`)}, 3))
	}
	bury("other", "m1")
	for i := range 5 {
		bury("hook", fmt.Sprint("m", i))
	}
	bury("hook", "m4") // again, after a crash
	dead, err := f.store.DeadDeliveries(f.ctx(), store.DeadDeliveryFilter{Destination: "hook", Limit: 2})
	f.ok(err)
	f.equal(2, len(dead), "the first page")
	rest, err := f.store.DeadDeliveries(f.ctx(), store.DeadDeliveryFilter{Destination: "hook", Before: dead[1].N,
		Limit: 2})
	f.ok(err)
	var ids []string
	for _, d := range append(dead, rest...) {
		ids = append(ids, d.MessageID)
	}
	f.equal([]string{"m4", "m3", "m2"}, ids, "the newest dead letters")
	states, err := f.store.DestinationStates(f.ctx())
	f.ok(err)
	f.equal([]store.DestinationState{{Name: "hook", Dead: 5, Dropped: 2}, {Name: "other", Dead: 1}}, states, "counts")
}

// destinationAudit is the audit row of a change of a destination.
func destinationAudit(action, id string) store.AuditRow {
	return store.AuditRow{ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(id)).String(), TenantID: "acme", Actor: "ann",
		Action: action, Outcome: "ACCEPTED"}
}
