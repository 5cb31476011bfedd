package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var destinationCases = []testCase{
	{"AlertChangesAreNumberedInOrder", testAlertChangesAreNumberedInOrder},
	{"AlertChangesOfManyWritersAreReadOnce", testAlertChangesOfManyWriters},
	{"DestinationStateAddsReports", testDestinationStateAddsReports},
	{"DeadDeliveriesAreBounded", testDeadDeliveriesAreBounded},
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
	f.ok(f.store.DisableDestination(f.ctx(), "a", "digest", "gone"))
	states, err := f.store.DestinationStates(f.ctx())
	f.ok(err)
	f.equal([]store.DestinationState{
		{Name: "a", DisabledFor: "digest", DisabledWhy: "gone"},
		{Name: "b", Sent: 5, Failed: 1, LastSent: &since, LastError: "no answer"},
	}, states, "states")
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
	dead, err := f.store.DeadDeliveries(f.ctx(), "hook", 0, 2)
	f.ok(err)
	f.equal(2, len(dead), "the first page")
	rest, err := f.store.DeadDeliveries(f.ctx(), "hook", dead[1].N, 2)
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
