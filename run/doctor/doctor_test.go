package doctor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
	"github.com/dvt-engine/dvt/run/runtest"
)

type m = runtest.M

// after is the time at which the runs of these tests are looked at, since their last event.
const after = 10 * time.Minute

// facts returns the facts of a run with this log, in surroundings in which everything works.
func facts(t *testing.T, drafts ...run.Draft) doctor.Facts {
	t.Helper()
	evs := runtest.Log(drafts...)
	st := fold(t, evs)
	now := evs[len(evs)-1].PersistedAt.Add(after)
	ok := doctor.Workers{Count: 2, LastPoll: now.Add(-3 * time.Second), Watched: now.Add(-time.Hour)}
	f := doctor.Facts{
		Now: now, State: st, ControlQueue: "tq-control", Workers: map[string]doctor.Workers{"tq-control": ok,
			"tq-data": ok},
		LastGreen: &doctor.LastGreen{RunID: "green", PlanVersion: "1.0",
			Usual: map[string]time.Duration{"a": time.Second}},
	}
	if !st.Status.Terminal() && st.Status != run.Pending && st.Status != run.Approved {
		f.Engine = &doctor.Engine{Known: true, Status: "RUNNING"}
		beat := now.Add(-2 * time.Second)
		for _, s := range st.Steps {
			if s.Status == run.StepRunning && s.Substatus != run.WaitingManual {
				f.Engine.Pending = append(f.Engine.Pending, doctor.Activity{StepID: s.StepID, Attempt: 1,
					Started: true, LastHeartbeat: &beat})
			}
		}
	}
	return f
}

func fold(t *testing.T, evs []run.Event) run.State {
	t.Helper()
	st, _, _ := run.Fold(run.State{Header: run.Header{Identity: runtest.ID}}, evs)
	return st
}

// started returns RunStarted with the steps a, and b and c after it, which run on tq-data.
func started() run.Draft {
	step := func(id string, deps ...string) m {
		return m{"stepId": id, "type": "COMMAND", "taskQueue": "tq-data", "dependsOn": deps}
	}
	return runtest.Draft(run.RunStarted, "", 1, m{"steps": []m{step("a"), step("b", "a"), step("c", "a")}})
}

func begin(id string) run.Draft { return runtest.Draft(run.StepStartedEvent, id, 1) }

func fail(id, code, message string, more ...m) run.Draft {
	return runtest.Draft(run.StepFailedEvent, id, 1, append([]m{{"errorCode": code, "errorMessage": message}},
		more...)...)
}

// open is a run whose step a failed and which waits for a retry.
func open(code, message string, more ...m) []run.Draft {
	return []run.Draft{runtest.Draft(run.RunApproved, "", 1), started(), begin("a"), fail("a", code, message, more...)}
}

func ended(code string) []run.Draft {
	return []run.Draft{runtest.Draft(run.RunApproved, "", 1), started(),
		runtest.Draft(run.RunFailed, "", 1, m{"errorCode": code, "errorMessage": "it says " + code})}
}

func running() []run.Draft {
	return []run.Draft{runtest.Draft(run.RunApproved, "", 1), started(), begin("a")}
}

func ready() []run.Draft { return []run.Draft{runtest.Draft(run.RunApproved, "", 1), started()} }

func TestDiagnose_APauseWithoutAReasonSaysSo(t *testing.T) {
	t.Parallel()
	f := facts(t, append(ready(), runtest.Draft(run.SignalAccepted, "11111111-1111-4111-8111-111111111111", 1),
		runtest.Draft(run.RunPaused, "", 1))...)
	f.State.Pause.Reason = ""
	want := f.State.Pause.RequestedBy + " paused the run and gave no reason."
	if got := doctor.Diagnose(f)[0].Evidence[0].Text; got != want {
		t.Errorf("evidence of a pause without a reason is %q, want %q", got, want)
	}
}

// fault is one class of faults: the log that it leaves, and what it changes in the surroundings.
type fault struct {
	name  string
	log   []run.Draft
	with  func(*doctor.Facts)
	first doctor.Code
	// unsafe: a signal that the diagnosis must not call safe.
	unsafe run.SignalType
}

func faults() []fault {
	none := func(*doctor.Facts) {}
	noRetry := m{"retryable": false}
	queued := func(q doctor.Queue) func(*doctor.Facts) {
		return func(f *doctor.Facts) {
			q.Since = f.Now.Add(-5 * time.Minute)
			f.Queue = &q
		}
	}
	gone := func(queue string) func(*doctor.Facts) {
		return func(f *doctor.Facts) {
			f.Workers[queue] = doctor.Workers{Watched: f.Now.Add(-time.Hour),
				LastPoll: f.Now.Add(-10 * time.Minute), Waiting: 3}
		}
	}
	beat := func(ago time.Duration) func(*doctor.Facts) {
		return func(f *doctor.Facts) { at := f.Now.Add(-ago); f.Engine.Pending[0].LastHeartbeat = &at }
	}
	lost := m{"failureSource": "engine", "failureCategory": "TIMEOUT"}
	approved := runtest.Draft(run.RunApproved, "", 1)
	paused := append(running(), runtest.Draft(run.SignalAccepted, "11111111-1111-4111-8111-111111111111", 1),
		runtest.Draft(run.RunPaused, "", 1))
	return []fault{
		{"program fails", open("EXIT_STATUS", "ERROR: 3 rows rejected"), none, "EXIT_STATUS", run.SkipStep},
		{"dbt model fails", open("DBT_FAILED", "Got 12 results, configured to fail if != 0"), none, "DBT_FAILED",
			run.SkipStep},
		{"dbt used wrongly", open("DBT_USAGE", "Could not find profile named 'shop'", noRetry), none, "DBT_USAGE",
			run.RetryStep},
		{"database down", open("EXIT_STATUS", "psycopg2.OperationalError: connection to server at 10.0.0.7 "+
			"failed: Connection refused"), none, doctor.CodeUnreachable, ""},
		{"name not resolved", open("EXIT_STATUS", "curl: (6) Could not resolve: Name or service not known"), none,
			doctor.CodeUnreachable, ""},
		{"password wrong", open("DBT_FAILED", `FATAL: password authentication failed for user "loader"`), none,
			doctor.CodeCredentials, ""},
		{"grant missing", open("DBT_FAILED", "Database Error: permission denied for schema raw"), none,
			doctor.CodeCredentials, ""},
		{"disk full", open("EXIT_STATUS", "OSError: [Errno 28] No space left on device"), none, doctor.CodeDiskFull,
			""},
		{"table missing", open("DBT_FAILED", `relation "raw.orders" does not exist`), none,
			doctor.CodeMissingObject, ""},
		{"file refused by the sandbox", open("EXIT_STATUS",
			`sandbox (files): read of "/data/day.csv" was refused: it is outside of the sandbox of the step`), none,
			doctor.CodeSandboxRefused, ""},
		{"file missing", open("EXIT_STATUS", "cat: day.csv: No such file or directory"), none,
			doctor.CodeMissingObject, ""},
		{"deadlock", open("DBT_FAILED", "deadlock detected"), none, doctor.CodeContention, ""},
		{"file of another owner", open("EXIT_STATUS", "sh: 1: ./load.sh: Permission denied"), none,
			doctor.CodeFileRefused, ""},
		{"program of another owner", open("EXIT_STATUS",
			"sh: 1: ./load.sh: Permission denied (sh ended with exit status 126)"), none, doctor.CodeFileRefused, ""},
		{"key refused by ssh", open("EXIT_STATUS", "ola@host: Permission denied (publickey). (ssh ended with exit status 255)"),
			none, doctor.CodeCredentials, ""},
		{"read-only disk", open("EXIT_STATUS", "OSError: [Errno 30] Read-only file system: '/data/day.csv'"), none,
			doctor.CodeFileRefused, ""},
		{"name unknown to curl", open("EXIT_STATUS", "curl: (6) Could not resolve host: db.invalid"), none,
			doctor.CodeUnreachable, ""},
		{"port closed to curl", open("EXIT_STATUS",
			"curl: (7) Failed to connect to db port 1 after 30 ms: Couldn't connect to server"), none,
			doctor.CodeUnreachable, ""},
		{"port closed to node", open("EXIT_STATUS", "Error: connect ECONNREFUSED 10.0.0.1:5432"), none,
			doctor.CodeUnreachable, ""},
		{"name unknown to node", open("EXIT_STATUS", "Error: getaddrinfo ENOTFOUND db.invalid"), none,
			doctor.CodeUnreachable, ""},
		{"name unknown to Java", open("EXIT_STATUS", "java.net.UnknownHostException: db.invalid"), none,
			doctor.CodeUnreachable, ""},
		{"read that times out", open("EXIT_STATUS", "requests.exceptions.ReadTimeout: Read timed out. (read timeout=5)"),
			none, doctor.CodeUnreachable, ""},
		{"database with too many connections", open("EXIT_STATUS",
			"psql: error: FATAL:  sorry, too many clients already"), none, doctor.CodeRateLimited, ""},
		{"role missing", open("EXIT_STATUS", `FATAL:  role "loader" does not exist`), none, doctor.CodeCredentials, ""},
		{"login refused by Oracle", open("EXIT_STATUS", "ORA-01017: invalid username/password; logon denied"), none,
			doctor.CodeCredentials, ""},
		{"login refused by Snowflake", open("EXIT_STATUS",
			"250001 (08001): Failed to connect to DB: x. Incorrect username or password was specified."), none,
			doctor.CodeCredentials, ""},
		{"statement that takes too long", open("DBT_FAILED", "canceling statement due to statement timeout"), none,
			doctor.CodeStatementTimeout, ""},
		{"lock that takes too long", open("DBT_FAILED", "canceling statement due to lock timeout"), none,
			doctor.CodeContention, ""},
		{"row that is there already", open("DBT_FAILED",
			`duplicate key value violates unique constraint "orders_pkey"`), none, doctor.CodeDataRefused, ""},
		{"value of another type", open("DBT_FAILED", `invalid input syntax for type integer: "n/a"`), none,
			doctor.CodeDataRefused, ""},
		{"certificate that has expired", open("EXIT_STATUS",
			"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)"), none,
			doctor.CodeCertificate, ""},
		{"rate limit", open("HTTP_STATUS", "POST https://hooks.test answered 429 Too Many Requests"), none,
			doctor.CodeRateLimited, ""},
		{"service refuses", open("HTTP_STATUS", "POST https://hooks.test answered 401 Unauthorized", noRetry), none,
			doctor.CodeCredentials, run.RetryStep},
		{"service fails", open("HTTP_STATUS", "POST https://hooks.test answered 503 Service Unavailable"), none,
			doctor.CodeUnreachable, ""},
		{"service breaks", open("HTTP_STATUS", "POST https://hooks.test answered 500 Internal Server Error"), none,
			"HTTP_STATUS", ""},
		{"service silent", open("HTTP_TRANSPORT", "POST https://hooks.test: there was no answer in time"), none,
			doctor.CodeUnreachable, ""},
		{"service without a valid certificate", open("HTTP_TRANSPORT",
			"POST https://hooks.test: the certificate is not valid for this host"), none, "HTTP_TRANSPORT", ""},
		{"variable missing", open("EXIT_STATUS", "sh: 1: DB_HOST: parameter not set"), none, doctor.CodeMissingVariable,
			""},
		{"variable of a profile missing", open("DBT_USAGE", "Parsing Error: Env var required but not provided: 'PW'",
			noRetry), none, doctor.CodeMissingVariable, run.RetryStep},
		{"SQL wrong", open("DBT_FAILED", `Parser Error: syntax error at or near "form"`), none,
			doctor.CodeBrokenCode, ""},
		{"import missing", open("EXIT_STATUS", "ModuleNotFoundError: No module named 'pandas'"), none,
			doctor.CodeBrokenCode, ""},
		{"out of memory, said by the program", open("EXIT_STATUS", "MemoryError: cannot allocate memory"), none,
			run.CodeStepOOM, ""},
		{"out of memory, by the kernel", open("STEP_OOM", "256 MiB used"), none, run.CodeStepOOM, ""},
		{"too many processes", open("STEP_PROCESS_LIMIT", "64 used", noRetry), none, run.CodeStepProcessLimit,
			run.RetryStep},
		{"file too large", open("STEP_DISK_LIMIT", "1 GiB", noRetry), none, run.CodeStepDiskLimit, run.RetryStep},
		{"program missing", open("PROGRAM_NOT_FOUND", "dbt: not found", noRetry), none, "PROGRAM_NOT_FOUND",
			run.RetryStep},
		{"directory missing", open("DIR_NOT_FOUND", "/srv/shop"), none, "DIR_NOT_FOUND", ""},
		{"address refused", open("ADDRESS_REFUSED", "10.0.0.1 is private", noRetry), none, "ADDRESS_REFUSED",
			run.RetryStep},
		{"inputs wrong", open("INPUTS_INVALID", "url is missing", noRetry), none, "INPUTS_INVALID", run.RetryStep},
		{"too slow", open("TIMEOUT", "took longer than 1m0s"), none, run.CodeTimeout, ""},
		{"worker lost", open("TIMEOUT", "the engine received no heartbeat", lost), none, doctor.CodeWorkerLost,
			run.RetryStep},
		{"store slow at the end", open("STATE_WRITE_BUDGET_EXCEEDED", "The step completed, but"), none,
			run.CodeWriteBudget, run.RetryStep},
		{"result refused", open("EVENT_REJECTED", "too large", noRetry), none, run.CodeEventRejected, run.RetryStep},
		{"a person says it failed", open("MANUAL_FAILED", "numbers are wrong"), none, run.CodeManualFailed, ""},
		{"plan not to be had", ended("PLAN_FETCH_FAILED"), none, run.CodePlanFetchFailed, ""},
		{"plan changed under its hash", ended("PLAN_HASH_MISMATCH"), none, run.CodePlanHashMismatch, ""},
		{"engine refuses the start", ended("ENGINE_START_REJECTED"), none, run.CodeStartRejected, ""},
		{"waited too long", ended("QUEUE_TTL_EXCEEDED"), none, run.CodeQueueTTL, ""},
		{"engine lost it", running(), func(f *doctor.Facts) { f.Engine.Known, f.Engine.Pending = false, nil },
			run.CodeEngineLost, ""},
		{"ended in the engine", running(), func(f *doctor.Facts) {
			f.Engine.Closed, f.Engine.Status = true,
				"TERMINATED"
		}, run.CodeEngineTerminated, ""},
		{"engine down", running(), func(f *doctor.Facts) {
			f.Engine, f.Parts = nil, []doctor.Part{{Name: "Temporal", Message: "no answer", Engine: true}}
		}, doctor.CodePartDown, ""},
		{"store down", ready(), func(f *doctor.Facts) {
			f.Parts = []doctor.Part{{Name: "The state store", Message: "no answer", Store: true}}
		}, doctor.CodePartDown, ""},
		{"no data worker", ready(), gone("tq-data"), run.CodeNoWorker, ""},
		{"no control worker", running(), gone("tq-control"), run.CodeNoWorker, ""},
		{"workers busy", ready(), func(f *doctor.Facts) {
			w := f.Workers["tq-data"]
			w.Waiting = 40
			f.Workers["tq-data"] = w
		}, doctor.CodeWorkersBusy, run.Cancel},
		{"worker hangs", running(), beat(3 * time.Minute), doctor.CodeWorkerSilent, run.RetryStep},
		{"workers give it back", running(), func(f *doctor.Facts) {
			f.Engine.Pending[0] = doctor.Activity{StepID: "a", Attempt: 4}
		}, doctor.CodeStepGivenBack, ""},
		{"step slow", running(), none, doctor.CodeStepSlow, run.Cancel},
		{"pause never drains", paused, none, run.CodePauseDrain, run.Resume},
		{"paused", append(ready(), runtest.Draft(run.SignalAccepted, "11111111-1111-4111-8111-111111111111", 1),
			runtest.Draft(run.RunPaused, "", 1)), none, doctor.CodePaused, run.Resume},
		{"starts held", []run.Draft{approved}, queued(doctor.Queue{Held: true, Reason: "frozen"}), doctor.CodeHeld, ""},
		{"no slot", []run.Draft{approved}, queued(doctor.Queue{Limited: true, Position: 3,
			Reason: "3 of 3 active"}), doctor.CodeWaitsForSlot, ""},
		{"no dispatcher", []run.Draft{approved}, queued(doctor.Queue{Reason: "due"}), doctor.CodeNotDispatched, ""},
		{"approval missing", []run.Draft{runtest.Draft(run.RunQueued, "", 1)}, func(f *doctor.Facts) {
			f.Approval = &doctor.Approval{Given: 1, Required: 2, Since: f.Now.Add(-time.Hour),
				Expires: f.Now.Add(time.Hour)}
		}, doctor.CodeWaitsForApproval, ""},
		{"a person must act", append(running(), runtest.Draft(run.StepAwaitingManualCompletion, "a", 1)), none,
			doctor.CodeWaitsForPerson, run.SkipStep},
		{"signal not delivered", ready(), func(f *doctor.Facts) {
			f.Signals = []doctor.Signal{{Type: run.Cancel, AcceptedAt: f.Now.Add(-5 * time.Minute), Seq: 3}}
		}, doctor.CodeSignalUndelivered, run.Cancel},
		{"signal not applied", ready(), func(f *doctor.Facts) {
			at := f.Now.Add(-4 * time.Minute)
			f.Signals = []doctor.Signal{{Type: run.Cancel, AcceptedAt: at, Delivered: &at, Seq: 3}}
		}, doctor.CodeSignalUnapplied, run.Cancel},
		{"cancelled", append(running(), runtest.Draft(run.RunCancelled, "", 1)), none, doctor.CodeCancelledBy, ""},
	}
}

// TestDiagnose_NamesTheCauseFirst is the table of classes: the first cause is the fault, it has evidence, and no signal
// that could do harm is called safe.
func TestDiagnose_NamesTheCauseFirst(t *testing.T) {
	t.Parallel()
	table := faults()
	wrong := 0
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			f := facts(t, c.log...)
			c.with(&f)
			got := doctor.Diagnose(f)
			if len(got) == 0 || got[0].Code != c.first {
				wrong++
				t.Errorf("the first cause is wrong; want %s, got %s", c.first, codes(got))
				return
			}
			for _, cause := range got {
				if cause.Title == "" || len(cause.Evidence) == 0 || len(cause.Next) == 0 {
					t.Errorf("%s lacks a title, evidence or a next step: %+v", cause.Code, cause)
				}
				for _, next := range cause.Next {
					if next.Safe && next.Signal != "" && next.Signal == c.unsafe {
						t.Errorf("%s calls %s safe", cause.Code, next.Signal)
					}
				}
			}
		})
	}
	t.Logf("%d of %d classes have the right first cause", len(table)-wrong, len(table))
}

// TestDiagnose_KeepsTheCauseAmongOtherTrouble adds a second fault of lower rank and noise to each class.
func TestDiagnose_KeepsTheCauseAmongOtherTrouble(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	for _, c := range faults() {
		f := facts(t, c.log...)
		c.with(&f)
		if f.LastGreen != nil {
			f.LastGreen.Changed, f.LastGreen.Changes = 1, []string{"a (inputs.argv)"}
		}
		f.Parts = append(f.Parts, doctor.Part{Name: "The event bus", Message: "down"})
		f.Workers["tq-unrelated"] = doctor.Workers{Watched: f.Now.Add(-time.Hour), Waiting: r.Int64N(100)}
		got := doctor.Diagnose(f)
		if len(got) == 0 || got[0].Code != c.first {
			t.Errorf("%s: the first cause is wrong; want %s, got %s", c.name, c.first, codes(got))
		}
	}
}

func codes(causes []doctor.Cause) string {
	var out []doctor.Code
	for _, c := range causes {
		out = append(out, c.Code)
	}
	return fmt.Sprint(out)
}

// TestDiagnose_FindsNothingWrongInHealthyRuns looks at prefixes of random logs that have no failure, at the time of
// their last event.
func TestDiagnose_FindsNothingWrongInHealthyRuns(t *testing.T) {
	t.Parallel()
	healthy := 0
	for seed := uint64(1); healthy < 1000; seed++ {
		log := runtest.RandomLog(seed)
		r := rand.New(rand.NewPCG(seed, 3))
		evs := log[:1+r.IntN(len(log))]
		failed := func(e run.Event) bool {
			return e.Type == run.StepFailedEvent || e.Type == run.RunFailed || e.Type == run.RunCancelled
		}
		if slices.ContainsFunc(evs, failed) {
			continue
		}
		healthy++
		f := doctor.Facts{Now: evs[len(evs)-1].PersistedAt.Add(time.Duration(r.IntN(20)) * time.Second),
			State:        fold(t, evs),
			ControlQueue: "q", Workers: map[string]doctor.Workers{}}
		poll := func(queue string) {
			f.Workers[queue] = doctor.Workers{Count: 1, LastPoll: f.Now.Add(-time.Minute),
				Watched: f.Now.Add(-time.Hour), Waiting: r.Int64N(4)}
		}
		poll("q")
		f.Engine = &doctor.Engine{Known: true}
		for _, s := range f.State.Steps {
			poll(s.TaskQueue)
			beat := f.Now.Add(-time.Duration(r.IntN(25)) * time.Second)
			f.Engine.Pending = append(f.Engine.Pending, doctor.Activity{StepID: s.StepID, Attempt: 1, Started: true,
				LastHeartbeat: &beat})
		}
		for _, c := range doctor.Diagnose(f) {
			if c.Kind == doctor.Fault {
				t.Errorf("seed %d: a healthy run has the fault %s: %s", seed, c.Code, c.Title)
			}
		}
	}
}

// TestDiagnose_OneCauseForStepsThatFailAlike names one cause with all its steps, and a retry for each.
func TestDiagnose_OneCauseForStepsThatFailAlike(t *testing.T) {
	t.Parallel()
	log := append(open("EXIT_STATUS", "ERROR: bad row"), begin("b"), fail("b", "EXIT_STATUS", "connection refused"),
		begin("c"),
		fail("c", "EXIT_STATUS", "connection refused"))
	got := doctor.Diagnose(facts(t, log...))
	if len(got) != 2 || got[0].Code != doctor.CodeUnreachable {
		t.Fatalf("what lies outside the steps is not first: %s", codes(got))
	}
	if diff := cmp.Diff([]string{"b", "c"}, got[0].Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	var retried []string
	for _, n := range got[0].Next {
		if n.Signal == run.RetryStep {
			retried = append(retried, n.StepID)
		}
	}
	if diff := cmp.Diff([]string{"b", "c"}, retried); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
}

// TestDiagnose_IsBounded gives a run in which everything failed.
func TestDiagnose_IsBounded(t *testing.T) {
	t.Parallel()
	var steps []m
	var log []run.Draft
	for i := range 500 {
		id := fmt.Sprintf("s%d", i)
		steps = append(steps, m{"stepId": id, "type": "COMMAND", "taskQueue": "tq-data"})
		log = append(log, begin(id), fail(id, "EXIT_STATUS", fmt.Sprintf("error %d", i%20)))
	}
	log = append([]run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Draft(run.RunStarted, "", 1,
		m{"steps": steps})}, log...)
	f := facts(t, log...)
	got := doctor.Diagnose(f)
	if len(got) > doctor.MaxCauses {
		t.Errorf("%d causes, more than %d", len(got), doctor.MaxCauses)
	}
	for _, c := range got {
		if len(c.Steps) > doctor.MaxNamed || len(c.Evidence) > doctor.MaxNamed || len(c.Next) > doctor.MaxNamed {
			t.Errorf("%s names more than %d: %d steps, %d evidence, %d next", c.Code, doctor.MaxNamed, len(c.Steps),
				len(c.Evidence), len(c.Next))
		}
		if c.More+len(c.Steps) != 25 {
			t.Errorf("%s counts %d steps, want 25", c.Code, c.More+len(c.Steps))
		}
	}
	if diff := cmp.Diff(got, doctor.Diagnose(f), cmp.AllowUnexported(doctor.Cause{})); diff != "" {
		t.Errorf("the same facts have other causes:\n%s", diff)
	}
}

// What the doctor quotes of an output is found in the log as it stands; the executor's ending is not in it.
func TestDiagnose_QuotesTheLineOfTheLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, code, message, title, line string }{
		{"one line", "EXIT_STATUS", `ERROR: relation "raw" does not exist (sh ended with exit status 1)`,
			"A table, column or file that the step needs does not exist.", `ERROR: relation "raw" does not exist`},
		{"several lines", "DBT_FAILED", "Database Error in model marts\n  relation \"raw\" does not exist",
			"A table, column or file that the step needs does not exist.", "Database Error in model marts"},
		{"a line without a sign", "EXIT_STATUS", "no rows for today (sh ended with exit status 2)",
			"The step failed: no rows for today", ""},
		{"nothing printed", "EXIT_STATUS", "sh ended with exit status 2",
			"The program of the step ended with a status other than 0.", ""},
	} {
		got := doctor.Diagnose(facts(t, open(c.code, c.message)...))[0]
		if got.Title != c.title {
			t.Errorf("%s: the title is %q, want %q", c.name, got.Title, c.title)
		}
		at := slices.IndexFunc(got.Evidence, func(e doctor.Evidence) bool { return e.Source == doctor.FromOutput })
		if (at >= 0) != (c.line != "") || at >= 0 && got.Evidence[at].Text != c.line {
			t.Errorf("%s: the evidence is %+v, want the line %q", c.name, got.Evidence, c.line)
		}
	}
}

func TestDiagnose_NamesWhoMayApprove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		of   doctor.Approval
		want string
	}{
		{"enough people", doctor.Approval{Given: 1, Required: 2, WhoCould: []string{"ann", "bob"}},
			"Ask one of those who may approve: ann, bob."},
		{"nobody is left", doctor.Approval{Given: 1, Required: 2},
			"Nobody can approve it. Change the policy, or cancel the run: dvt run cancel " + runtest.ID.RunID},
		{"too few", doctor.Approval{Required: 2, WhoCould: []string{"ann"}},
			"Only ann can approve, which is not enough. Change the policy, or cancel the run: dvt run cancel " +
				runtest.ID.RunID},
	} {
		f := facts(t, runtest.Draft(run.RunApproved, "", 1))
		f.Approval = &c.of
		if got := doctor.Diagnose(f)[0].Next[0].Text; got != c.want {
			t.Errorf("%s: the advice is %q, want %q", c.name, got, c.want)
		}
	}
}

// A drained worker polls no more, or has just polled; in both cases its drain is the cause, at once.
func TestDiagnose_NamesTheDrainThatHoldsStepsUp(t *testing.T) {
	t.Parallel()
	for _, w := range []doctor.Workers{{}, {Count: 1, Waiting: 2}} {
		f := facts(t, ready()...)
		f.Now = f.Now.Add(time.Second - after)
		f.Workers["tq-data"] = w
		f.Drains = map[string][]doctor.Drain{"tq-data": {{Worker: "engine/vm", By: "dev-sre", Reason: "new kernel",
			Since: f.Now.Add(-2 * time.Minute)}}}
		got := doctor.Diagnose(f)
		if len(got) != 1 || got[0].Title != "The only worker of the queue tq-data is drained." ||
			got[0].Evidence[0].Text != "engine/vm was drained by dev-sre 2 min ago: new kernel" ||
			!strings.HasSuffix(got[0].Next[0].Text, "dvt service undrain engine/vm") {
			t.Errorf("with %+v the causes are %+v, want the drain alone", w, got)
		}
		f.Drains["tq-data"][0] = doctor.Drain{Since: f.Now}
		if got := doctor.Diagnose(f)[0]; got.Next[0].Text != "Ask the people who operate this installation." {
			t.Errorf("without the right to know the advice is %+v", got.Next)
		}
	}
}
