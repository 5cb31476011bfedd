package storeadmin_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

// contract: T30
func TestVerify_FindsNothingInRunsOfServers(t *testing.T) {
	onEach(t, func(d *db) {
		events := int64(0)
		for n := range 12 {
			id := d.createRandom(n)
			if n%3 > 0 {
				d.project(id.RunID)
			}
			events += int64(len(d.log(id.RunID)))
		}
		out := d.verify()
		if out.Differences+out.Notes > 0 || out.Runs != 12 || out.Events != events {
			d.Errorf("verified %+v, want 12 runs with %d events and no finding", out, events)
		}
		if one := d.verify("run-003"); one.Runs != 1 {
			d.Errorf("verified %+v, want only the named run", one)
		}
		_, err := storeadmin.Verify(d.Context(), d.Store, storeadmin.VerifyOptions{
			Runs: []string{"run-001", "nobody", "nothing"}}, nil)
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "nobody, no run nothing") {
			d.Errorf("error %v, want ErrNotFound that names both unknown runs", err)
		}
	})
}

// resetSample makes the store contain only run-001, so that each case can corrupt it.
func resetSample(d *db) string {
	d.Helper()
	for _, table := range []string{"run", "run_head", "event", "run_state", "step_state", "run_dirty", "signal",
		"delivery"} {
		must(d.T, d.exec(`DELETE FROM `+table))
	}
	runID := d.sample()
	d.project(runID)
	d.clean()
	return runID
}

func TestVerify_NamesEachCorruption(t *testing.T) {
	uuid := "00000000-0000-4000-8000-000000000000"
	cases := map[string]struct {
		do   []string
		want []string
	}{
		"another key": {[]string{`UPDATE event SET key = 'k' WHERE run_seq = 3`}, []string{"event.eventId", "event.key"}},
		"another eventId": {
			[]string{`UPDATE event SET event_id = '` + uuid + `' WHERE run_seq = 3`},
			[]string{"event.eventId"},
		},
		"key of another event": {
			[]string{`UPDATE event SET key = (SELECT key FROM event WHERE run_seq = 3) WHERE run_seq = 8`},
			[]string{"event.eventId", "event.key"},
		},
		"another type": {[]string{`UPDATE event SET type = 'StepCompleted', logical_attempt = 3 WHERE run_seq = 6`},
			[]string{"event.key", "steps[a].attempts", "steps[a].logicalAttemptId"}},
		"another attempt": {[]string{`UPDATE event SET logical_attempt = 7 WHERE run_seq = 3`},
			[]string{"event.key", "steps[a].attempts"}},
		"another payload": {
			[]string{`UPDATE event SET payload = DOC('{"errorCode":"OTHER","retryable":true}') WHERE run_seq = 4`},
			[]string{"steps[a].attempts[0].error.code"},
		},
		"payload is not an object": {
			[]string{`UPDATE event SET payload = DOC('[]') WHERE run_seq = 4`},
			[]string{"event.StepFailed"},
		},
		"missing event": {[]string{`DELETE FROM event WHERE run_seq = 4`}, []string{"event.runSeq", "head.running",
			"steps[a].attempts[0].status"}},
		"missing last event": {[]string{`DELETE FROM event WHERE run_seq = 8`}, []string{"checkpoint.seq", "head.lastSeq",
			"head.running"}},
		"event with another seq": {[]string{`UPDATE event SET run_seq = 12 WHERE run_seq = 8`}, []string{"checkpoint.seq",
			"head.lastSeq"}},
		"event after the head": {[]string{`UPDATE run_head SET last_seq = 7`}, []string{"checkpoint.seq", "head.lastSeq"}},
		"times that decrease": {[]string{
			`UPDATE event SET persisted_at = (SELECT persisted_at FROM event WHERE run_seq = 3) WHERE run_seq = 1`,
			`UPDATE event SET persisted_at = (SELECT persisted_at FROM event WHERE run_seq = 8) WHERE run_seq = 2`},
			[]string{"event.persistedAt"}},
		"two ends of an attempt": {
			[]string{`UPDATE event SET type = 'StepSkipped', logical_attempt = 1, payload = DOC('{"reasonCode":"OPERATOR_SKIP"}') WHERE run_seq = 7`},
			[]string{"event.StepSkipped", "event.key", "head.running"},
		},
		"two ends of the run": {
			[]string{`UPDATE event SET type = 'RunCompleted', step_id = '' WHERE run_seq IN (7, 8)`},
			[]string{"event.RunCompleted", "head.terminal", "header.status"},
		},
		"event after the end of the run": {[]string{`UPDATE event SET type = 'RunCompleted', step_id = '' WHERE run_seq = 7`},
			[]string{"event.StepStarted", "head.terminal"}},
		"head seq": {[]string{`UPDATE run_head SET last_seq = 9`}, []string{"head.lastSeq"}},
		"head time": {[]string{`UPDATE run_head SET last_at = (SELECT persisted_at FROM event WHERE run_seq = 1)`},
			[]string{"head.lastAt"}},
		"head terminal":            {[]string{`UPDATE run_head SET terminal = (1 = 1)`}, []string{"head.terminal"}},
		"head running":             {[]string{`UPDATE run_head SET running = 2`}, []string{"head.running"}},
		"head gate":                {[]string{`UPDATE run_head SET gate = 1`}, []string{"head.gate.paused"}},
		"missing head":             {[]string{`DELETE FROM run_head`}, []string{"head"}},
		"head signal number":       {[]string{`UPDATE run_head SET signal_no = 0`}, []string{"head.signalNo"}},
		"missing receipt":          {[]string{`DELETE FROM signal`}, []string{"receipt[sig-1]"}},
		"receipt of another event": {[]string{`UPDATE signal SET accepted_seq = 3`}, []string{"receipt[sig-1].acceptedSeq"}},
		"checkpoint ahead": {
			[]string{`UPDATE run_state SET header = replace(CAST(header AS text), '"seq":8', '"seq":88')::json`},
			[]string{"checkpoint.seq"}},
		"checkpoint status": {
			[]string{`UPDATE run_state SET header = replace(CAST(header AS text), 'RUNNING', 'PAUSED')::json`},
			[]string{"header.status"}},
		"checkpoint counts": {
			[]string{`UPDATE run_state SET header = replace(CAST(header AS text), '"running":1', '"running":2')::json`},
			[]string{"header.counts.running"}},
		"checkpoint step": {
			[]string{`UPDATE step_state SET body = replace(CAST(body AS text), 'RUNNING', 'FAILED')::json WHERE ord = 1`},
			[]string{"steps[b].attempts[0].status", "steps[b].status"}},
		"checkpoint without a step": {[]string{`DELETE FROM step_state WHERE ord = 1`}, []string{"steps"}},
		"unreadable checkpoint":     {[]string{`UPDATE step_state SET body = '[]' WHERE ord = 1`}, []string{"checkpoint"}},
	}
	onEach(t, func(d *db) {
		d.unlock()
		for name, c := range cases {
			runID := resetSample(d)
			for _, q := range c.do {
				must(d.T, d.exec(d.dialect(q)))
			}
			out := d.verify()
			got := paths(out.Found)
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					d.Errorf("%s: no finding names %s; findings:\n%v", name, want, out.Found)
				}
			}
			for _, f := range out.Found {
				if f.RunID != runID || f.Stored == f.Expected {
					d.Errorf("%s: finding %s, want one about %s with two different values", name, f, runID)
				}
			}
		}
	})
}

// contract: T04
func TestVerify_ForeignKeysOfImportsAreNotes(t *testing.T) {
	onEach(t, func(d *db) {
		n := newRun(identity(1))
		n.Run.TriggerSource = storeadmin.TriggerImport
		log := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"))
		log[0].Key = runtest.Draft(run.RunApproved, "", 1).Key(n.Run.Identity)
		log[0].EventID = log[0].Key.EventID()
		log[1].Key, log[1].Seq = "d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26", 5
		log[1].EventID = "01234567-89ab-cdef-0123-456789abcdef"
		must(d.T, d.Import(d.Context(), n, log))
		out := d.verify()
		if out.Differences > 0 || !slices.Equal(paths(out.Noted), []string{"event.eventId", "event.key", "event.runSeq"}) {
			d.Errorf("verified %+v, want no difference and notes about the foreign eventId, key and seq", out)
		}
		must(d.T, d.exec(`UPDATE run SET trigger_source = 'api'`))
		if out := d.verify(); out.Differences != 3 || out.Notes != 0 {
			d.Errorf("the same run, not imported: verified %+v, want 3 differences and no note", out)
		}
	})
}

// With TEST_LONG the run has 100,000 events: 500 steps that fail 99 times each and then succeed. Without it they fail
// 19 times.
func TestVerify_ChecksALongRun(t *testing.T) {
	t.Parallel()
	d := newSQLite(t)
	const steps = 500
	attempts := 20
	if os.Getenv("TEST_LONG") != "" {
		attempts = 100
	}
	names := make([]string, steps)
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
	}
	drafts := []run.Draft{runtest.Start(names...)}
	for attempt := 1; attempt <= attempts; attempt++ {
		for _, name := range names {
			end := run.StepFailedEvent
			if attempt == attempts {
				end = run.StepCompletedEvent
			}
			drafts = append(drafts, runtest.Draft(run.StepStartedEvent, name, attempt), runtest.Draft(end, name, attempt))
		}
	}
	log := runtest.Log(drafts...)
	for i := range log {
		log[i].RunID = identity(1).RunID
		log[i].Key = drafts[i].Key(identity(1))
		log[i].EventID = log[i].Key.EventID()
	}
	must(t, d.Import(t.Context(), newRun(identity(1)), log))
	began, want := time.Now(), int64(1+2*steps*attempts)
	out := d.verify()
	if out.Differences+out.Notes > 0 || out.Events != want {
		t.Errorf("%d events, %d differences such as %v; want %d events and none", out.Events, out.Differences,
			out.Found[:min(3, len(out.Found))], want)
	}
	t.Logf("%d events in %v", out.Events, time.Since(began))
	must(t, d.exec(`UPDATE step_state SET body = replace(body, '"s77"', '"s78"') WHERE ord = 77`))
	if out := d.verify(); !slices.Equal(paths(out.Found), []string{"steps[s77].stepId"}) {
		t.Errorf("findings %v, want one about the stepId of s77", out.Found)
	}
	if _, err := storeadmin.Rebuild(t.Context(), d.Store, nil, nil); err != nil {
		t.Error(err)
	}
	d.clean()
}
