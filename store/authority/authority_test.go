package authority_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

var now = time.Date(2026, 4, 1, 12, 0, 0, 123456789, time.UTC)

// log is a stored log and its head.
type log struct {
	evs  []run.Event
	head store.Head
}

func (l log) facts() authority.Facts {
	f := authority.Facts{Events: l.evs}
	for _, e := range l.evs {
		if e.Type.EndsRun() {
			f.End = &e
		}
	}
	return f
}

func decide(t *testing.T, l log, a store.Append) authority.Plan {
	t.Helper()
	b, err := authority.Prepare(runtest.ID, a)
	if err != nil {
		t.Fatal(err)
	}
	p, err := authority.Decide(l.head, b, l.facts(), now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// appendEach returns the log after each draft was appended in a batch of its own.
func appendEach(t *testing.T, drafts ...run.Draft) log {
	t.Helper()
	l := log{head: store.Head{RunID: runtest.ID.RunID}}
	for _, d := range drafts {
		p := decide(t, l, store.Append{Events: []run.Draft{d}})
		l.evs, l.head = append(l.evs, p.Insert...), p.Head
	}
	return l
}

func d(t run.EventType, subject string, attempt int) run.Draft {
	return runtest.Draft(t, subject, attempt)
}

// outcomes renders outcomes: the Seq of an inserted event ("3"), of a duplicate ("=3") or of a duplicate with another
// payload ("!3"), or the refusal with the Seq of the event that ended the subject ("INVALID_TRANSITION@2").
func outcomes(p authority.Plan) string {
	var out []string
	for _, o := range p.Outcomes {
		s := fmt.Sprint(o.Seq)
		switch {
		case o.Refused != "" && o.Existing != nil:
			s = fmt.Sprintf("%s@%d", o.Refused, o.Existing.Seq)
		case o.Refused != "":
			s = string(o.Refused)
		case o.PayloadMismatch:
			s = "!" + s
		case o.Deduplicated:
			s = "=" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// The cases are those of A03, A04, A07, A08, G19, T28, T42 and T47 of the contract too.
// contract: T228
func TestDecide_ChecksDuplicatesThenEndsAndNumbersWithoutHoles(t *testing.T) {
	t.Parallel()
	s1, s1done, s1failed := d(run.StepStartedEvent, "s1", 1), d(run.StepCompletedEvent, "s1", 1),
		d(run.StepFailedEvent, "s1", 1)
	manual := d(run.StepAwaitingManualCompletion, "s1", 1)
	cancel, finish, accepted := d(run.RunCancelled, "", 1), d(run.RunCompleted, "", 1), d(run.SignalAccepted, "u1", 1)
	other := runtest.Draft(run.StepCompletedEvent, "s1", 1, runtest.M{"durationMs": 42})
	for _, c := range []struct {
		name    string
		before  []run.Draft
		batch   []run.Draft
		want    string
		running int
		ends    bool
	}{
		{"inserts the first events", nil, []run.Draft{runtest.Start("s1"), s1}, "1 2", 1, false},
		{"returns a duplicate", []run.Draft{s1}, []run.Draft{s1}, "=1", 1, false},
		{"returns a duplicate within a batch", nil, []run.Draft{s1, s1, s1done, s1done}, "1 =1 2 =2", 0, false},
		{"keeps the first payload", []run.Draft{s1, s1done}, []run.Draft{other}, "!2", 0, false},
		{"refuses a second end of an attempt",
			[]run.Draft{s1, s1done}, []run.Draft{s1failed}, "INVALID_TRANSITION@2", 0, false},
		{"refuses a second end within a batch",
			[]run.Draft{s1}, []run.Draft{s1failed, s1done}, "2 INVALID_TRANSITION@2", 0, false},
		{"inserts the end of another attempt", []run.Draft{s1, s1failed},
			[]run.Draft{d(run.StepCompletedEvent, "s1", 2)}, "3", 0, false},
		{"refuses a second end of the run", []run.Draft{finish}, []run.Draft{cancel}, "INVALID_TRANSITION@1", 0, false},
		{"refuses an orphan", []run.Draft{s1, cancel}, []run.Draft{s1done}, "ORPHANED_TASK", 1, false},
		{"refuses an orphan after an end in its batch", []run.Draft{s1}, []run.Draft{cancel, s1done},
			"2 ORPHANED_TASK", 1, true},
		{"finds duplicates after the end of the run", []run.Draft{s1, s1done, cancel}, []run.Draft{s1done, s1failed, cancel},
			"=2 INVALID_TRANSITION@2 =3", 0, false},
		{"inserts decisions about signals after the end of the run", []run.Draft{cancel}, []run.Draft{accepted, s1},
			"2 ORPHANED_TASK", 0, false},
		{"gives no number to duplicates and refusals",
			[]run.Draft{s1, s1done}, []run.Draft{s1, s1failed, d(run.StepStartedEvent, "s2", 1)},
			"=1 INVALID_TRANSITION@2 3", 1, false},
		{"inserts a late StepStarted", []run.Draft{s1done}, []run.Draft{s1}, "2", 0, false},
		{"inserts an end without a StepStarted", nil, []run.Draft{s1done}, "1", 0, false},
		{"does not count a manual attempt as running", []run.Draft{s1}, []run.Draft{manual}, "2", 0, false},
		{"inserts the end of a manual attempt", []run.Draft{s1, manual}, []run.Draft{s1done}, "3", 0, false},
		{"does not count a manual attempt with a late StepStarted", []run.Draft{manual}, []run.Draft{s1}, "2", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := appendEach(t, c.before...)
			p := decide(t, l, store.Append{Events: c.batch})
			if got := outcomes(p); got != c.want {
				t.Errorf("outcomes %q, want %q", got, c.want)
			}
			if p.Head.Running != c.running || p.EndsRun != c.ends {
				t.Errorf("running %d, run ends %t; want %d, %t", p.Head.Running, p.EndsRun, c.running, c.ends)
			}
			if want := l.head.LastSeq + run.Seq(len(p.Insert)); p.Head.LastSeq != want {
				t.Errorf("last seq of the head %d, want %d", p.Head.LastSeq, want)
			}
			for _, e := range p.Insert {
				if e.PersistedAt != now.Truncate(authority.Precision) || e.EventID != e.Key.EventID() || e.Identity != runtest.ID {
					t.Errorf("event %+v: want PersistedAt of the clock, EventID of the key, Identity of the run", e)
				}
			}
		})
	}
}

// contract: A08
func TestDecide_ARepeatedOrphanHasTheSameAuditRow(t *testing.T) {
	t.Parallel()
	l := appendEach(t, d(run.RunCancelled, "", 1))
	orphan := d(run.StepCompletedEvent, "s1", 1)
	first, again := decide(t, l, store.Append{Events: []run.Draft{orphan}}), decide(t, l,
		store.Append{Events: []run.Draft{orphan}})
	if len(first.Audit) != 1 || first.Audit[0].ID != orphan.Key(runtest.ID).EventID() {
		t.Fatalf("audit rows %+v, want one with the id that the event would have had", first.Audit)
	}
	if diff := cmp.Diff(first.Audit, again.Audit); diff != "" {
		t.Errorf("audit rows of the repetition (-first +again):\n%s", diff)
	}
}

// contract: T18
func TestDecide_PersistedAtNeverDecreases(t *testing.T) {
	t.Parallel()
	l := appendEach(t, d(run.RunApproved, "", 1))
	l.head.LastAt = now.Add(time.Hour)
	p := decide(t, l, store.Append{Events: []run.Draft{runtest.Start("s1")}})
	if !p.Insert[0].PersistedAt.Equal(now.Add(time.Hour)) || !p.At.Equal(now.Add(time.Hour)) {
		t.Errorf("persisted at %v, plan at %v; want the time of the last event, although the clock is behind it",
			p.Insert[0].PersistedAt, p.At)
	}
}

// contract: T194
func TestDecide_RefusesALogShorterThanTheCallerKnows(t *testing.T) {
	t.Parallel()
	b, err := authority.Prepare(runtest.ID, store.Append{MinHead: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Decide(store.Head{LastSeq: 1}, b, authority.Facts{}, now); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("error %v, want ErrRegressed", err)
	}
}

func TestDecide_ChangesTheGateUnlessAllEventsAreDuplicates(t *testing.T) {
	t.Parallel()
	l := appendEach(t, d(run.StepStartedEvent, "s1", 1))
	l.head.Gate = run.GateFailing
	for _, c := range []struct {
		name   string
		drafts []run.Draft
		want   run.Gate
	}{
		{"no events", nil, run.GatePaused},
		{"an inserted event", []run.Draft{d(run.RunPaused, "u1", 1)}, run.GatePaused},
		{"only a duplicate", []run.Draft{d(run.StepStartedEvent, "s1", 1)}, run.GateFailing},
	} {
		p := decide(t, l, store.Append{Events: c.drafts, SetGate: run.GatePaused, ClearGate: run.GateFailing})
		if p.Head.Gate != c.want {
			t.Errorf("%s: gate %b, want %b", c.name, p.Head.Gate, c.want)
		}
	}
}

// contract: T221
func TestDecide_OpensTheRetryWindowWhenNothingRuns(t *testing.T) {
	t.Parallel()
	deadline := now.Add(time.Minute).Truncate(authority.Precision)
	start := d(run.StepStartedEvent, "s1", 1)
	fail, resume := d(run.StepFailedEvent, "s1", 1), d(run.RunResumed, "u1", 1)
	for _, c := range []struct {
		name   string
		before []run.Draft
		gate   run.Gate
		batch  []run.Draft
		want   string // type that carries the deadline
	}{
		{"the last running step fails", []run.Draft{start}, run.GateFailing, []run.Draft{fail}, "StepFailed"},
		{"a run without running steps is resumed",
			[]run.Draft{start, fail}, run.GateFailing, []run.Draft{resume}, "RunResumed"},
		{"only the last event of several carries it",
			[]run.Draft{start}, run.GateFailing, []run.Draft{fail, d(run.StepCompletedEvent, "s2", 1)},
			"StepCompleted"},
		{"not while the gate is open", []run.Draft{start}, 0, []run.Draft{fail}, ""},
		{"not while the run is paused", []run.Draft{start}, run.GateFailing | run.GatePaused, []run.Draft{fail}, ""},
		{"not while another step runs", []run.Draft{start, d(run.StepStartedEvent, "s2", 1)}, run.GateFailing,
			[]run.Draft{fail}, ""},
		{"not when the run ends", []run.Draft{start}, run.GateFailing, []run.Draft{fail, d(run.RunCancelled, "", 1)}, ""},
		{"not by a decision about a signal", []run.Draft{start, fail}, run.GateFailing,
			[]run.Draft{d(run.SignalAccepted, "u1", 1)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := appendEach(t, c.before...)
			p := decide(t, l, store.Append{Events: c.batch, SetGate: c.gate, RetryDeadline: deadline})
			got := ""
			for _, e := range p.Insert {
				if strings.Contains(string(e.Payload), "retryDeadline") {
					got += string(e.Type)
				}
			}
			if got != c.want || (p.WindowOpened != nil) != (c.want != "") {
				t.Errorf("stamped on %q, opened until %v; want it on %q", got, p.WindowOpened, c.want)
			}
			l.evs, l.head = append(l.evs, p.Insert...), p.Head
			if again := decide(t, l, store.Append{Events: c.batch, RetryDeadline: deadline.Add(time.Hour)}); cmp.Diff(
				p.WindowOpened, again.WindowOpened) != "" {
				t.Errorf("the repeated append opens until %v, want the first deadline %v", again.WindowOpened, p.WindowOpened)
			}
		})
	}
}

// contract: O11
func TestDecide_MovesReceiptsAndFindsWhenAPausedRunIsQuiescent(t *testing.T) {
	t.Parallel()
	l := appendEach(t, d(run.StepStartedEvent, "s1", 1), d(run.StepStartedEvent, "s2", 1),
		d(run.StepCompletedEvent, "s2", 1))
	p := decide(t, l, store.Append{
		Events:  []run.Draft{d(run.RunPaused, "u1", 1), d(run.StepSkippedEvent, "s2", 1)},
		SetGate: run.GatePaused,
		Outcomes: []store.SignalOutcome{
			{SignalID: "u1", Application: run.SignalApplied, AppliedBy: 0},
			{SignalID: "u2", Application: run.SignalApplied, AppliedBy: 1},
			{SignalID: "u3", Application: run.SignalNoop, Reason: "ALREADY_IN_STATE", AppliedBy: -1},
		},
	})
	want := []authority.Move{
		{SignalID: "u1", Application: run.SignalApplied, AppliedSeq: 4},
		{SignalID: "u2", Application: run.SignalNotApply, Reason: "INVALID_TRANSITION"},
		{SignalID: "u3", Application: run.SignalNoop, Reason: "ALREADY_IN_STATE"},
	}
	if diff := cmp.Diff(want, p.Moves); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if p.QuiescentSeq != 0 {
		t.Errorf("quiescent at %d while s1 runs, want 0", p.QuiescentSeq)
	}
	l.evs, l.head = append(l.evs, p.Insert...), p.Head
	p = decide(t, l, store.Append{Events: []run.Draft{d(run.StepCompletedEvent, "s1", 1), d(run.SignalAccepted, "u9", 1)}})
	if p.QuiescentSeq != 5 {
		t.Errorf("quiescent at %d, want 5, the end of s1", p.QuiescentSeq)
	}
}

// contract: T185
func TestDecideStart_GrantsParksOrReturnsTheEnd(t *testing.T) {
	t.Parallel()
	s1, done, end := d(run.StepStartedEvent, "s1", 1), d(run.StepCompletedEvent, "s1", 1), d(run.RunCancelled, "", 1)
	for _, c := range []struct {
		name   string
		before []run.Draft
		gate   run.Gate
		pass   bool
		want   store.StartVerdict
		insert int
	}{
		{"granted while the gate is open", nil, 0, false, store.StartGranted, 1},
		{"parked while the run is paused", nil, run.GatePaused, true, store.StartParked, 0},
		{"parked while the run is failing", nil, run.GateFailing, false, store.StartParked, 0},
		{"a retry is granted while the run is failing", nil, run.GateFailing, true, store.StartGranted, 1},
		{"a retry is parked after a stop", nil, run.GateStopped | run.GateFailing, true, store.StartParked, 0},
		{"granted when started before the pause", []run.Draft{s1}, run.GatePaused, false, store.StartGranted, 0},
		{"done after its end", []run.Draft{s1, done}, run.GatePaused, false, store.StartDone, 0},
		{"done after its end and the end of the run", []run.Draft{s1, done, end}, 0, false, store.StartDone, 0},
		{"run terminal when not started", []run.Draft{end}, run.GatePaused, false, store.StartRunTerminal, 0},
		{"run terminal when started and not ended", []run.Draft{s1, end}, 0, false, store.StartRunTerminal, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := appendEach(t, c.before...)
			l.head.Gate = c.gate
			b, err := authority.PrepareStart(runtest.ID, store.StartAttempt{StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1,
				EmittedAt: now, PassFailing: c.pass, SignalID: "u1"})
			if err != nil {
				t.Fatal(err)
			}
			p, got := authority.DecideStart(l.head, b, l.facts(), now)
			if got.Verdict != c.want || len(p.Insert) != c.insert || got.Head != p.Head {
				t.Errorf("verdict %s with %d inserted, want %s with %d", got.Verdict, len(p.Insert), c.want, c.insert)
			}
			if (len(p.Moves) == 1) != (c.want == store.StartGranted) {
				t.Errorf("moves %+v, want one exactly when the start is granted", p.Moves)
			}
		})
	}
}

// contract: T40
func TestImported_CountsTheHeadOfTheLog(t *testing.T) {
	t.Parallel()
	evs := runtest.Log(runtest.Start("s1", "s2"), d(run.StepStartedEvent, "s1", 1), d(run.StepStartedEvent, "s2", 1),
		d(run.StepCompletedEvent, "s1", 1), d(run.RunPaused, "u1", 1))
	evs[4].Seq = 9 // imported logs may have holes
	h := authority.HeadOfImport(runtest.ID.RunID, evs)
	want := store.Head{RunID: runtest.ID.RunID, LastSeq: 9, LastAt: evs[4].PersistedAt, Running: 1, Gate: run.GatePaused}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
}
