package control_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// allowedRoles reads who may do what of the table that the policy is tested with.
func allowedRoles(t *testing.T) map[run.SignalType]map[string]bool {
	t.Helper()
	f, err := os.Open("../authz/testdata/decisions.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[run.SignalType]map[string]bool{}
	for _, row := range must[[][]string](t)(csv.NewReader(f).ReadAll()) {
		if row[2] != "*" || row[3] != "*" || row[4] != "acme" {
			continue
		}
		sig := run.SignalType(row[0])
		if out[sig] == nil {
			out[sig] = map[string]bool{}
		}
		out[sig][strings.ToLower(row[1])] = row[7] == "allow"
	}
	return out
}

// catalogue is the nine signals and CANCEL.
var catalogue = []run.SignalType{
	run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride, run.EscalateAlert, run.UpdateTarget, run.EmergencyStop, run.Cancel,
}

func TestSignalRun_G02_T92_RoleMatrix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Limits.DenialsPerMinute = 100
	w.Service = control.New(w.config)
	may := allowedRoles(t)
	n := 0
	for _, sig := range catalogue {
		kind := "COMMAND s1"
		if sig == run.UpdateTarget {
			kind = "DBT_RUN s1"
		}
		id := w.steps("g02-"+string(sig), kind)
		w.finish(id, "s1", 1, run.StepFailedEvent)
		if sig == run.Resume {
			w.append(id, runtest.Draft(run.RunPaused, "", 1))
		}
		for _, role := range []string{"viewer", "operator", "engineer", "admin", "planner", "system", "sre"} {
			n++
			before := w.state(id)
			in := signal(id, fmt.Sprintf("sig-%d", n), sig)
			r, err := w.SignalRun(t.Context(), w.who("dev-"+role), in)
			after := w.state(id)
			if after.Status != before.Status || after.Seq != before.Seq+1 {
				t.Errorf("%s by %s: status %s seq %d, was %s %d", sig, role, after.Status, after.Seq, before.Status, before.Seq)
			}
			log := w.log(id)
			allowed, listed := may[sig][role]
			if !listed {
				t.Errorf("the table says nothing of %s by %s", sig, role)
			}
			if allowed {
				if err != nil || r.Rejected || r.AcceptedSeq != after.Seq || log[len(log)-1] != fmt.Sprintf("%d SignalAccepted(sig-%d)", after.Seq, n) {
					t.Errorf("%s by %s: %+v, %v; log ends %s", sig, role, r, err, log[len(log)-1])
				}
				if !w.audited("acme", fmt.Sprintf("dev-%s %s ACCEPTED  %s", role, sig, id)) {
					t.Errorf("%s by %s left no audit row", sig, role)
				}
				continue
			}
			e := refusal(t, err, run.CodeForbidden)
			if log[len(log)-1] != fmt.Sprintf("%d SignalRejected(sig-%d)", after.Seq, n) {
				t.Errorf("%s by %s: log ends %s", sig, role, log[len(log)-1])
			}
			could := "dev-admin"
			if sig == run.EscalateAlert {
				could = "dev-system"
			}
			if e.Denial == nil || e.Denial.Action != authz.Action(sig) || !strings.Contains(strings.Join(e.Denial.WhoCould, " "), could) {
				t.Errorf("%s by %s: denial %+v", sig, role, e.Denial)
			}
			if !w.audited("acme", fmt.Sprintf("dev-%s %s REJECTED FORBIDDEN %s", role, sig, id)) {
				t.Errorf("%s by %s left no audit row", sig, role)
			}
			// a repetition is refused again and leaves no second event (T222)
			_, err = w.SignalRun(t.Context(), w.who("dev-"+role), in)
			refusal(t, err, run.CodeForbidden)
			if got := w.state(id).Seq; got != after.Seq {
				t.Errorf("%s by %s again: seq %d, was %d", sig, role, got, after.Seq)
			}
		}
	}
}

func TestSignalRun_G03_OtherTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g03", "s1")
	before := w.log(id)
	mallory := w.who("dev-mallory")
	_, err := w.SignalRun(t.Context(), mallory, signal(id, "u1", run.Pause))
	refusal(t, err, run.CodeNotFound)
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("the victim's log moved:\n%s", diff)
	}
	if !w.audited("globex", "dev-mallory PAUSE DENIED NOT_FOUND "+id) {
		t.Errorf("audit of globex: %v", w.audit("globex"))
	}
	for _, row := range w.audit("acme") {
		if strings.Contains(row, "mallory") {
			t.Errorf("audit of acme: %s", row)
		}
	}
	// a flood is one row a minute, which the next one counts (T208)
	for range 20 {
		_, _ = w.SignalRun(t.Context(), mallory, signal(id, "u1", run.Pause))
	}
	if rows := w.audit("globex"); len(rows) != 1 {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
	w.clock.advance(time.Minute)
	_, _ = w.SignalRun(t.Context(), mallory, signal(id, "u1", run.Pause))
	if rows := w.audit("globex"); len(rows) != 2 || !strings.HasSuffix(rows[1], `{"repeatedBefore":20}`) {
		t.Errorf("rows %v", rows)
	}
}

// A run of another tenant, one in a place without a grant and one that does not
// exist answer word for word alike, for everything that names a run (T101).
func TestForeignAndMissingRunsAnswerAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("foreign", "s1")
	seq := run.Seq(1)
	calls := map[string]func(p authz.Principal, runID string) error{
		"Run":    func(p authz.Principal, r string) error { _, err := w.Run(t.Context(), p, r, nil); return err },
		"Run at": func(p authz.Principal, r string) error { _, err := w.Run(t.Context(), p, r, &seq); return err },
		"Events": func(p authz.Principal, r string) error {
			_, err := w.Events(t.Context(), p, r, control.EventPage{})
			return err
		},
		"Receipt":  func(p authz.Principal, r string) error { _, err := w.Receipt(t.Context(), p, r, "s"); return err },
		"Receipts": func(p authz.Principal, r string) error { _, err := w.Receipts(t.Context(), p, r, "s", 1); return err },
		"StepLog": func(p authz.Principal, r string) error {
			_, err := w.StepLog(t.Context(), p, control.StepLogQuery{RunID: r, StepID: "s1"})
			return err
		},
		"WatchRun": func(p authz.Principal, r string) error {
			_, err := w.WatchRun(t.Context(), p, control.WatchRun{RunID: r})
			return err
		},
		"WatchEvents": func(p authz.Principal, r string) error {
			_, err := w.WatchEvents(t.Context(), p, control.WatchRun{RunID: r})
			return err
		},
		"WatchReceipts": func(p authz.Principal, r string) error { _, err := w.WatchReceipts(t.Context(), p, r, ""); return err },
		"WatchReceipt":  func(p authz.Principal, r string) error { _, err := w.WatchReceipts(t.Context(), p, r, "s"); return err },
		"WatchStepLog": func(p authz.Principal, r string) error {
			_, err := w.WatchStepLog(t.Context(), p, control.StepLogQuery{RunID: r, StepID: "s1"})
			return err
		},
	}
	for _, sig := range []run.SignalType{run.Pause, run.Resume, run.RetryStep, run.Cancel} {
		calls[string(sig)] = func(p authz.Principal, r string) error {
			_, err := w.SignalRun(t.Context(), p, signal(r, "x", sig))
			return err
		}
	}
	missing := "00000000-0000-4000-8000-000000000000"
	for name, call := range calls {
		want := refusal(t, call(w.eng(), missing), run.CodeNotFound)
		for who, runID := range map[string]string{"dev-mallory": id, "nobody": id} {
			got := refusal(t, call(w.who(who), runID), run.CodeNotFound)
			if got.Error() != want.Error() || got.RetryAfter != want.RetryAfter || got.Denial != nil || got.RunSeq != 0 {
				t.Errorf("%s by %s: %+v, for a missing run %+v", name, who, got, want)
			}
		}
		for _, row := range []string{"dev-engineer", "dev-mallory", "nobody"} {
			tenant := map[bool]string{true: "globex", false: "acme"}[row == "dev-mallory"]
			if !w.audited(tenant, row+" ") {
				t.Errorf("%s by %s left no trace", name, row)
			}
		}
	}
	if got := w.log(id); len(got) != 2 {
		t.Errorf("the log moved: %v", got)
	}
}

func TestSignalRun_G04_ConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g04", "s1")
	var all sync.WaitGroup
	var mu sync.Mutex
	first := 0
	for range 10 {
		all.Go(func() {
			r, err := w.SignalRun(context.Background(), w.eng(), signal(id, "u1", run.Pause))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || r.Rejected || r.No != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			if !r.Duplicate {
				first++
			}
		})
	}
	all.Wait()
	if first != 1 || w.count(id, run.SignalAccepted) != 1 {
		t.Errorf("%d answers are not duplicates; log %v", first, w.log(id))
	}
	w.spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	eventually(t, "delivered", func() bool { return len(w.engine.delivered(id)) == 1 })
}

func TestSignalRun_G05_IDConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g05", "s1")
	w.send(w.eng(), signal(id, "u1", run.Pause))
	before := w.log(id)
	other := signal(id, "u1", run.Pause)
	other.Payload = json.RawMessage(`{"reason":"another"}`)
	for _, in := range []control.SignalRun{signal(id, "u1", run.Resume), signal(id, "u1", run.RetryStep), other} {
		_, err := w.SignalRun(t.Context(), w.eng(), in)
		refusal(t, err, run.CodeSignalConflict)
	}
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
}

func TestDeliver_G06_CrashBetweenAcceptAndDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g06", "s1")
	for i, sig := range []run.SignalType{run.Pause, run.Resume, run.Pause} { // nobody delivers: the server dies here
		w.send(w.eng(), signal(id, fmt.Sprintf("u%d", i+1), sig))
	}
	fails := 2
	w.engine.set(func(e *fakeEngine) {
		e.signal = func(run.Identity, engine.Signal) error {
			if fails--; fails >= 0 {
				return engine.ErrUnavailable
			}
			return nil
		}
	})
	next := control.New(w.config)
	w.spawn(func(ctx context.Context) error { return next.Deliver(ctx, "next") })
	eventually(t, "three delivered", func() bool { return len(w.engine.delivered(id)) >= 3 })
	var got []string
	for _, s := range w.engine.delivered(id) {
		got = append(got, fmt.Sprintf("%d %s %s", s.No, s.ID, s.Type))
	}
	if diff := cmp.Diff([]string{"1 u1 PAUSE", "2 u2 RESUME", "3 u3 PAUSE"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := next.SignalRun(t.Context(), w.eng(), signal(id, "u1", run.Pause))
	if err != nil || !r.Duplicate || r.Application != run.SignalDelivered {
		t.Errorf("the client again: %+v, %v", r, err)
	}
}

func TestSignalRun_G10_NotApplicable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rejected := func(id, sig string, in control.SignalRun, code run.Code) {
		t.Helper()
		in.RunID, in.Signal.ID = id, sig
		r := w.send(w.eng(), in)
		log := w.log(id)
		if !r.Rejected || r.Rejection != code || r.No != 0 || !strings.HasSuffix(log[len(log)-1], "SignalRejected("+sig+")") {
			t.Errorf("%s: %+v; log ends %s", sig, r, log[len(log)-1])
		}
		again := w.send(w.eng(), in)
		if !again.Duplicate || again.Rejection != code || len(w.log(id)) != len(log) {
			t.Errorf("%s again: %+v", sig, again)
		}
	}
	queued := w.queued("g10-queued", "s1")
	rejected(queued, "a", signal("", "", run.Pause), run.CodeInvalidRunState)

	id := w.running("g10", "s1")
	w.append(id, runtest.Draft(run.RunPaused, "", 1))
	// NOOPs are accepted and delivered: the engine decides again, as an earlier
	// signal may not be applied yet
	if r := w.send(w.eng(), signal(id, "twice", run.Pause)); r.Rejected || r.No != 1 {
		t.Errorf("PAUSE of a paused run: %+v", r)
	}
	w.append(id, runtest.Draft(run.RunResumed, "", 1))
	if r := w.send(w.eng(), signal(id, "resume", run.Resume)); r.Rejected || r.No != 2 {
		t.Errorf("RESUME of a running run: %+v", r)
	}
	w.finish(id, "s1", 1, run.StepCompletedEvent)
	w.append(id, runtest.Draft(run.RunCompleted, "", 1))
	for _, sig := range []run.SignalType{run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.Cancel} {
		rejected(id, "late-"+string(sig), signal("", "", sig), run.CodeRunTerminal)
	}
	for _, sig := range []run.SignalType{run.UpdateParams, run.EmergencyStop} {
		r := w.send(w.who("dev-admin"), signal(id, "late-"+string(sig), sig))
		if r.Rejection != run.CodeRunTerminal {
			t.Errorf("%s of an ended run: %+v", sig, r)
		}
	}
	_, err := w.SignalRun(t.Context(), w.eng(), signal(id, "dance", "DANCE"))
	refusal(t, err, run.CodeNotSupported)
}

func TestSignalRun_G19_RetryAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g19", "s1")
	w.finish(id, "s1", 1, run.StepFailedEvent)
	w.append(id, runtest.Draft(run.RunFailed, "", 1))
	before := w.state(id)
	r := w.send(w.eng(), signal(id, "u1", run.RetryStep))
	after := w.state(id)
	if r.Rejection != run.CodeRunTerminal || after.Status != run.Failed || after.Seq != before.Seq+1 {
		t.Errorf("%+v; %s at %d, was at %d", r, after.Status, after.Seq, before.Seq)
	}
	if log := w.log(id); log[len(log)-1] != fmt.Sprintf("%d SignalRejected(u1)", after.Seq) {
		t.Errorf("log %v", log)
	}
}

func TestSignalRun_G21_StepNotFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g21", "s1", "b", "c<b", "d", "e")
	w.finish(id, "s1", 1, run.StepCompletedEvent)
	w.begin(id, "b", 1)
	w.finish(id, "d", 1, run.StepFailedEvent, M{"retryable": false})
	w.finish(id, "e", 1, run.StepFailedEvent)
	for i, c := range []struct {
		step  string
		force bool
		want  run.Code
	}{
		{"s1", false, run.CodeStepNotFailed}, {"b", false, run.CodeStepNotFailed}, {"c", false, run.CodeStepNotFailed},
		{"b", true, run.CodeStepNotFailed}, {"x", false, run.CodeStepNotFound}, {"x", true, run.CodeStepNotFound},
		{"d", false, run.CodeRetryDenied}, {"d", true, ""}, {"e", false, ""},
	} {
		in := signal(id, fmt.Sprintf("u%d", i), run.RetryStep)
		in.Signal.StepID, in.Signal.Force = c.step, c.force
		r := w.send(w.eng(), in)
		if r.Rejected != (c.want != "") || r.Rejection != c.want {
			t.Errorf("%s force %t: %+v", c.step, c.force, r)
		}
		if !r.Rejected && r.Signal.ExpectedAttempt != 1 {
			t.Errorf("%s: the retry means attempt %d, want the latest at acceptance (T58)", c.step, r.Signal.ExpectedAttempt)
		}
	}
	v := must[control.RunView](t)(w.Run(t.Context(), w.eng(), id, nil))
	if diff := cmp.Diff(map[string]bool{"d": true, "e": true}, v.PendingRetry); diff != "" {
		t.Errorf("pending retries (-want +got):\n%s", diff)
	}
	actions := w.Actions(w.eng(), v)
	if a := actions.Steps["e"][0]; a.Outcome != "NOOP" {
		t.Errorf("retry of e again: %+v", a)
	}
	if a := actions.Steps["s1"][0]; a.Outcome != "REFUSED" || a.Code != run.CodeStepNotFailed {
		t.Errorf("retry of s1: %+v", a)
	}
}

func TestSignalRun_G24_CancelQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("g24", "s1")
	in := signal(id, "u1", run.Cancel)
	in.Reason = "wrong data"
	r := w.send(w.eng(), in)
	if r.Application != run.SignalApplied || r.AppliedSeq != 3 || r.AcceptedSeq != 2 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"1 RunApproved", "2 SignalAccepted(u1)", "3 RunCancelled"}, w.log(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.spawn(func(ctx context.Context) error { return w.Reconcile(ctx, "a") })
	w.spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	other := w.queued("g24-other", "s1")
	eventually(t, "the other run started", func() bool { return w.engine.starts(other) == 1 })
	time.Sleep(50 * time.Millisecond)
	if w.engine.starts(id) != 0 || len(w.engine.delivered(id)) != 0 {
		t.Error("the engine was asked about a run that was cancelled in the queue")
	}
}

// Somebody is starting the run just now: the stop is an intent (T192).
func TestSignalRun_G24_CancelWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("g24", "s1")
	leased, release := make(chan struct{}), make(chan struct{})
	w.engine.set(func(e *fakeEngine) {
		e.start = func(run.Identity) error { close(leased); <-release; return nil }
		e.signal = func(run.Identity, engine.Signal) error {
			select {
			case <-release:
				return nil
			default:
				return engine.ErrNotStarted
			}
		}
	})
	w.spawn(func(ctx context.Context) error { return w.Reconcile(ctx, "a") })
	w.spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	<-leased
	r := w.send(w.eng(), signal(id, "u1", run.Cancel))
	if r.Application != run.SignalPending || r.No != 1 {
		t.Errorf("%+v", r)
	}
	heads, err := w.raw.Heads(t.Context(), []string{id})
	if err != nil || heads.ByRun[id].Gate&run.GateStopped == 0 || heads.ByRun[id].Terminal {
		t.Errorf("head %+v, %v: no stop intent", heads.ByRun[id], err)
	}
	close(release)
	eventually(t, "delivered after the start", func() bool { return len(w.engine.delivered(id)) == 1 })
}

// A start that failed may have reached the engine: a run that began is cancelled there.
func TestSignalRun_CancelOfAReleasedStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("released", "s1")
	rows, err := w.store.Lease(t.Context(), "a", time.Minute, 1)
	if err != nil || w.store.Release(t.Context(), id, rows[0].Generation, 0, "timeout") != nil {
		t.Fatal(err)
	}
	w.append(id, runtest.Start())
	w.begin(id, "s1", 1)
	if r := w.send(w.eng(), signal(id, "u1", run.Cancel)); r.Application != run.SignalPending || w.state(id).Status != run.Running {
		t.Errorf("%+v; log %v", r, w.log(id))
	}
}

func TestSignalRun_T193_RunMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("moved", "s1", "b", "c")
	w.finish(id, "s1", 1, run.StepFailedEvent)
	seen := w.state(id).Seq
	w.finish(id, "b", 1, run.StepCompletedEvent) // unrelated progress
	at := func(in control.SignalRun, seq run.Seq) control.SignalRun { in.ExpectedRunSeq = &seq; return in }
	if r := w.send(w.eng(), at(signal(id, "pause", run.Pause), seen)); r.Rejected {
		t.Errorf("PAUSE after unrelated progress: %+v", r)
	}
	if r := w.send(w.eng(), at(signal(id, "retry", run.RetryStep), seen)); r.Rejected {
		t.Errorf("RETRY_STEP after unrelated progress: %+v", r)
	}
	before := w.log(id)
	check := func(in control.SignalRun) {
		t.Helper()
		_, err := w.SignalRun(t.Context(), w.eng(), in)
		if e := refusal(t, err, run.CodeRunMoved); e.RunSeq != w.state(id).Seq {
			t.Errorf("%s: current %d, want %d", in.Signal.Type, e.RunSeq, w.state(id).Seq)
		}
	}
	check(at(signal(id, "cancel", run.Cancel), seen)) // the run is what a cancel concerns
	check(at(signal(id, "retry-early", run.RetryStep), seen-1))
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
	if !w.audited("acme", "dev-engineer CANCEL REJECTED RUN_MOVED "+id) {
		t.Errorf("audit: %v", w.audit("acme"))
	}
	w.append(id, runtest.Draft(run.RunPaused, "", 1))
	check(at(signal(id, "resume", run.Resume), seen)) // the status moved
	// a repetition answers with its receipt whatever moved
	if r := w.send(w.eng(), at(signal(id, "pause", run.Pause), seen)); !r.Duplicate {
		t.Errorf("%+v", r)
	}
}

// Each of the signals is compared with what it concerns, and nothing but the audit
// row is left of one that comes too late (O10, T193).
func TestSignalRun_O10_ExpectedRunSeqOfEverySignal(t *testing.T) {
	t.Parallel()
	for _, sig := range catalogue {
		w := newWorld(t)
		kind := "COMMAND s1"
		if sig == run.UpdateTarget {
			kind = "DBT_RUN s1"
		}
		id := w.steps("o10", kind, "NOOP other")
		w.finish(id, "s1", 1, run.StepFailedEvent)
		if sig == run.Resume {
			w.append(id, runtest.Draft(run.RunPaused, "", 1))
		}
		seen := w.state(id).Seq
		who := w.who("dev-admin")
		if sig == run.EscalateAlert {
			who = w.who("dev-system")
		}
		in := signal(id, "late", sig)
		w.begin(id, "other", 1) // unrelated to the step and to the status, but not to the run
		concerns := map[run.SignalType]bool{run.Pause: true, run.Resume: true, run.RetryStep: true, run.SkipStep: true}
		if in.ExpectedRunSeq = &seen; concerns[sig] {
			switch sig {
			case run.Pause:
				w.append(id, runtest.Draft(run.RunPaused, "", 1))
			case run.Resume:
				w.append(id, runtest.Draft(run.RunResumed, "", 1))
			default:
				w.begin(id, "s1", 2)
			}
		}
		before := w.log(id)
		_, err := w.SignalRun(t.Context(), who, in)
		if e := refusal(t, err, run.CodeRunMoved); e.RunSeq != w.state(id).Seq {
			t.Errorf("%s: current %d, want %d", sig, e.RunSeq, w.state(id).Seq)
		}
		if diff := cmp.Diff(before, w.log(id)); diff != "" {
			t.Errorf("%s: the log moved:\n%s", sig, diff)
		}
		_, err = w.Receipt(t.Context(), who, id, "late")
		refusal(t, err, run.CodeNotFound)
		if !w.audited("acme", fmt.Sprintf("%s %s REJECTED RUN_MOVED %s", who.ID, sig, id)) {
			t.Errorf("%s left no audit row", sig)
		}
		now := w.state(id).Seq
		in.ExpectedRunSeq = &now
		if _, err := w.SignalRun(t.Context(), who, in); err != nil {
			t.Errorf("%s at the head: %v", sig, err)
		}
	}
}

func TestSignalRun_T102_DenialLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("t102", "s1")
	viewer := w.who("dev-viewer")
	for i := range 10 {
		_, err := w.SignalRun(t.Context(), viewer, signal(id, fmt.Sprintf("u%d", i), run.Pause))
		refusal(t, err, run.CodeForbidden)
	}
	before := w.log(id)
	for i := range 5 {
		_, err := w.SignalRun(t.Context(), viewer, signal(id, fmt.Sprintf("v%d", i), run.Pause))
		if e := refusal(t, err, run.CodeSignalRate); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
			t.Errorf("retry after %s", e.RetryAfter)
		}
	}
	if diff := cmp.Diff(before, w.log(id)); diff != "" || w.count(id, run.SignalRejected) != 10 {
		t.Errorf("the log moved past ten denials:\n%s", diff)
	}
	rows := 0
	for _, row := range w.audit("acme") {
		if strings.HasPrefix(row, "dev-viewer PAUSE DENIED SIGNAL_RATE_LIMITED") {
			rows++
		}
	}
	if rows != 1 {
		t.Errorf("%d coalesced audit rows, want 1: %v", rows, w.audit("acme"))
	}
	// an answer that is stored costs nothing, others have their own budget, and it returns
	_, err := w.SignalRun(t.Context(), viewer, signal(id, "u3", run.Pause))
	refusal(t, err, run.CodeForbidden)
	_, err = w.SignalRun(t.Context(), w.who("dev-sre"), signal(id, "w", run.Pause))
	refusal(t, err, run.CodeForbidden)
	w.clock.advance(time.Minute)
	_, err = w.SignalRun(t.Context(), viewer, signal(id, "v0", run.Pause))
	refusal(t, err, run.CodeForbidden)
	if r := w.send(w.eng(), signal(id, "ok", run.Pause)); r.Rejected {
		t.Errorf("%+v", r)
	}
}

func TestSignalRun_G08_Size(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("g08", "s1")
	reason := strings.Repeat("x", 65536-len(`{"reason":""}`))
	in := signal(id, "fits", run.Pause)
	in.Reason, in.Payload = reason, json.RawMessage(`{"reason":"`+reason+`"}`)
	if r := w.send(w.eng(), in); r.Rejected || len(r.Payload) != 65536 {
		t.Errorf("65,536 bytes: %s, %d bytes kept", r.Rejection, len(r.Payload))
	}
	before := w.log(id)
	in.Signal.ID, in.Payload = "large", json.RawMessage(`{"reason":"x`+reason+`"}`)
	_, err := w.SignalRun(t.Context(), w.eng(), in)
	if e := refusal(t, err, run.CodeSignalTooLarge); e.Limit != 65536 {
		t.Errorf("limit %d", e.Limit)
	}
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
	_, err = w.Receipt(t.Context(), w.eng(), id, "large")
	refusal(t, err, run.CodeNotFound)
	for _, bad := range []string{"", ".x", "a b", strings.Repeat("x", 129)} {
		_, err := w.SignalRun(t.Context(), w.eng(), signal(id, bad, run.Pause))
		if e := refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 || e.Violations[0].Path != "signalId" {
			t.Errorf("%q: %+v", bad, e.Violations)
		}
	}
}

func TestStoreDown_MutationsSaySo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("down", "s1")
	eng := w.eng()
	if err := w.raw.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := w.SignalRun(t.Context(), eng, signal(id, "u1", run.Pause))
	e := refusal(t, err, run.CodeStoreUnavailable)
	if e.RetryAfter <= 0 || strings.Contains(e.Message, "sql") || !errors.Is(e, store.ErrUnavailable) {
		t.Errorf("%+v", e)
	}
	_, err = w.StartRun(t.Context(), eng, startOf("down-2", document(nil, "s1")))
	refusal(t, err, run.CodeStoreUnavailable)
	_, err = w.Run(t.Context(), eng, id, nil)
	refusal(t, err, run.CodeStoreUnavailable)
}
