package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// startPeers starts the services that steps and plans name.
func (c *clinic) startPeers() {
	over := make(chan struct{})
	answer := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch status, err := strconv.Atoi(strings.TrimPrefix(q.URL.Path, "/")); {
		case q.URL.Path == "/hangs":
			<-over
		case q.URL.Path == "/hangs-up":
			panic(http.ErrAbortHandler)
		case status/100 == 3:
			http.Redirect(w, q, "http://169.254.169.254/", status)
		case err == nil:
			w.WriteHeader(status)
		}
	})
	plain, secure := httptest.NewServer(answer), httptest.NewUnstartedServer(answer)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	c.peer, c.tlsPeer = plain.URL, secure.URL
	c.trust = testserver.WriteFile(c.t, c.dir, "peer.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: secure.Certificate().Raw}))
	c.t.Cleanup(func() { close(over); plain.Close(); secure.Close() })
}

// class is one class of faults of a run.
type class struct {
	name, tenant, env string
	steps             []string
	ref               func(c *clinic, doc []byte) client.PlanRefInput // the plan is given by reference
	// inject breaks something once ready holds; without them the plan itself is the fault.
	ready  func(run.State) bool
	inject func(c *clinic, runID string)
	// The doctor is asked once, when shown holds and this time has gone since the fault was injected.
	shown func(run.State) bool
	after time.Duration
	// lasts is how long the fault lasts, 0 for as long as the run. A busy machine comes to the run after it; then a new
	// run is started.
	lasts time.Duration
	// want is the code of the first cause, "" for none; about is a word of its title.
	want, about string
	harms       bool // a retry may start work that still runs, or repeat work that is done
	long        bool // takes more than some seconds
	idle        bool // only waits after its injection, and that for long

	runID    string
	runs     int // runs that were started
	injected time.Time
}

// who returns the principal who starts the runs of the class and follows the advice.
func (x *class) who() string {
	if x.tenant == "acme" {
		return "ada"
	}
	return x.tenant
}

// asked returns a step with one attempt, as JSON. more are further members.
func asked(id, kind, inputs string, more ...string) string {
	return fmt.Sprintf(`{"stepId":%q,"type":%q,"inputs":%s,"timeout":"2m","retry":{"maxAttempts":1}%s}`, id, kind, inputs,
		strings.Join(more, ""))
}

func timedOut(step string) string {
	return strings.Replace(step, `"timeout":"2m"`, `"timeout":"2s"`, 1)
}

func shell(script string) string {
	return asked("s", "COMMAND", fmt.Sprintf(`{"argv":["sh","-c",%q]}`, script))
}

func call(url string) string { return asked("s", "HTTP_NOTIFY", fmt.Sprintf(`{"url":%q}`, url)) }

func dbt(kind, project string) string {
	return asked("s", kind, fmt.Sprintf(`{"projectDir":%q}`, project))
}

func hasFailed(st run.State) bool  { return st.Counts.Failed > 0 }
func hasEnded(st run.State) bool   { return st.Status.Terminal() }
func isUnderWay(st run.State) bool { return st.Counts.Running > 0 }
func hasBegun(st run.State) bool   { return st.StartedAt != nil }
func waits(st run.State) bool      { return st.StartedAt == nil }
func isAccepted(run.State) bool    { return true }

// writeProject writes a dbt project of one model, and returns its directory. Without a profile dbt finds none.
func (c *clinic) writeProject(name, model, profile string, tests ...string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	must(c.t, os.MkdirAll(filepath.Join(dir, "models"), 0o700))
	files := map[string]string{
		"dbt_project.yml": "name: shop\nversion: '1.0'\nconfig-version: 2\nprofile: shop\n", "models/m.sql": model,
		"profiles.yml": profile + ":\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: ':memory:'}\n"}
	for _, schema := range tests {
		files["models/schema.yml"] = schema
	}
	for file, text := range files {
		testserver.WriteFile(c.t, dir, file, []byte(text))
	}
	return name
}

// reference writes a plan below the plan roots and returns a reference to it.
func reference(uri func(c *clinic, path string) string, change func([]byte) []byte) func(*clinic,
	[]byte) client.PlanRefInput {
	return func(c *clinic, doc []byte) client.PlanRefInput {
		sum := sha256.Sum256(change(doc))
		name := hex.EncodeToString(sum[:8])
		path := testserver.WriteFile(c.t, c.dir, name+".json", change(doc))
		return client.PlanRefInput{Uri: uri(c, path), Sha256: hex.EncodeToString(sum[:]), SchemaVersion: "v1.2",
			PlanId: "by-reference", PlanVersion: "1.0"}
	}
}

func inFile(_ *clinic, path string) string { return "file://" + path }

func same(doc []byte) []byte { return doc }

// inTemporal breaks the execution of a run behind the back of dvt.
func (c *clinic) inTemporal(runID string, remove bool) {
	c.t.Helper()
	frontend, err := temporal.Dial(c.frontend.Addr, c.frontend.Namespace, slog.New(slog.DiscardHandler))
	must(c.t, err)
	defer frontend.Close()
	r, err := c.store.Get(c.t.Context(), runID)
	must(c.t, err)
	id := temporal.WorkflowID(r.Identity)
	if !remove {
		must(c.t, frontend.TerminateWorkflow(c.t.Context(), id, "", "injected"))
		return
	}
	_, err = frontend.WorkflowService().DeleteWorkflowExecution(c.t.Context(),
		&workflowservice.DeleteWorkflowExecutionRequest{Namespace: c.frontend.Namespace,
			WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}})
	must(c.t, err)
}

// failing returns a class whose plan is the fault: a step fails.
func failing(name, want, step string) *class {
	return &class{name: name, want: want, steps: []string{step}, shown: hasFailed}
}

// classes returns all classes.
func (c *clinic) classes() []*class {
	all := append(c.classesOfSteps(), c.classesOfRuns()...)
	for _, x := range all {
		if x.tenant == "" {
			x.tenant = "acme"
		}
		if x.env == "" {
			x.env = "dev"
		}
	}
	return all
}

// classesOfSteps are faults of programs and of services that steps call.
func (c *clinic) classesOfSteps() []*class {
	dbtClass := func(name, want, step string) *class {
		x := failing(name, want, step)
		x.long = true
		return x
	}
	about := func(x *class, word string) *class { x.about = word; return x }
	const good = "select 1 as id"
	return []*class{
		failing("command not found", "PROGRAM_NOT_FOUND", asked("s", "COMMAND", `{"argv":["no-such-program"]}`)),
		failing("exit status", "EXIT_STATUS", shell("echo '3 rows were rejected' >&2; exit 7")),
		failing("killed by a signal", "EXIT_STATUS", shell("kill -9 $$")),
		failing("out of memory", "STEP_OOM", shell("ulimit -v 200000; exec perl -e '$n = 1 << 30; $x = \"a\" x $n'")),
		failing("file too large", "STEP_DISK_LIMIT", shell("head -c 4000000 /dev/zero > big")),
		failing("disk full", "DISK_FULL", shell("cat /etc/passwd > /dev/full")),
		failing("timeout", "TIMEOUT", timedOut(asked("s", "COMMAND", `{"argv":["sleep","60"]}`))),
		failing("working directory missing", "DIR_NOT_FOUND", asked("s", "COMMAND", `{"argv":["true"],"dir":"nowhere"}`)),
		failing("working directory not allowed", "DIR_NOT_ALLOWED", asked("s", "COMMAND", `{"argv":["true"],"dir":"/root"}`)),
		failing("variable missing", "VARIABLE_MISSING", shell(`set -u; echo "$WAREHOUSE_HOST"`)),
		failing("database unreachable", "DEPENDENCY_UNREACHABLE",
			asked("s", "COMMAND", `{"argv":["bash","-c","exec 3<>/dev/tcp/127.0.0.1/1"]}`)),
		failing("password wrong", "CREDENTIALS_REFUSED",
			shell(`echo 'FATAL: password authentication failed for user "loader"' >&2; exit 2`)),
		failing("lock contention", "LOCK_CONTENTION", shell(`echo 'ERROR: deadlock detected' >&2; exit 1`)),
		failing("name unknown to curl", "DEPENDENCY_UNREACHABLE",
			asked("s", "COMMAND", `{"argv":["curl","-sS","http://db.invalid/"]}`)),
		failing("port closed to curl", "DEPENDENCY_UNREACHABLE",
			asked("s", "COMMAND", `{"argv":["curl","-sS","http://127.0.0.1:1/"]}`)),
		failing("certificate unknown to curl", "CERTIFICATE_REFUSED",
			asked("s", "COMMAND", fmt.Sprintf(`{"argv":["curl","-sS",%q]}`, c.tlsPeer))),
		failing("program may not be executed", "FILE_REFUSED", shell("touch load.sh; ./load.sh")),
		failing("database with too many connections", "RATE_LIMITED",
			shell(`echo 'psql: error: FATAL:  sorry, too many clients already' >&2; exit 2`)),
		failing("role missing", "CREDENTIALS_REFUSED", shell(`echo 'FATAL:  role "loader" does not exist' >&2; exit 2`)),
		failing("statement that takes too long", "STATEMENT_TIMEOUT",
			shell(`echo 'ERROR:  canceling statement due to statement timeout' >&2; exit 1`)),
		failing("row that is there already", "DATA_REFUSED",
			shell(`echo 'ERROR:  duplicate key value violates unique constraint "orders_pkey"' >&2; exit 1`)),
		about(failing("dbt project missing", "DIR_NOT_FOUND", dbt("DBT_RUN", "no-project")), "dbt project"),
		dbtClass("dbt profile wrong", "DBT_USAGE", dbt("DBT_RUN", c.writeProject("profile", good, "another"))),
		dbtClass("dbt variable missing", "VARIABLE_MISSING",
			dbt("DBT_RUN", c.writeProject("variable", "select '{{ env_var(\"SECRET\") }}' as id", "shop"))),
		dbtClass("dbt compile error", "CODE_BROKEN",
			dbt("DBT_COMPILE", c.writeProject("compile", "{{ no_macro() }}", "shop"))),
		dbtClass("dbt SQL error", "CODE_BROKEN", dbt("DBT_RUN", c.writeProject("sql", "select form where", "shop"))),
		dbtClass("dbt table missing", "OBJECT_MISSING",
			dbt("DBT_RUN", c.writeProject("table", "select * from raw_orders", "shop"))),
		dbtClass("dbt test failed", "DBT_FAILED", dbt("DBT_TEST", c.writeProject("test",
			"{{ config(materialized='ephemeral') }} select null as id", "shop",
			"models: [{name: m, columns: [{name: id, tests: [not_null]}]}]"))),
		failing("program of a script not found", "PROGRAM_NOT_FOUND", shell("load-orders --since yesterday")),
		failing("program of a script without its interpreter", "PROGRAM_NOT_FOUND",
			shell("printf '#!/opt/no/python\\n' > load.py; chmod +x load.py; ./load.py")),
		failing("archive cut short", "DATA_REFUSED",
			shell("head -c 100000 /dev/urandom | gzip | head -c 5000 > part.gz; gunzip -c part.gz > all")),
		failing("document that is no JSON", "DATA_REFUSED", shell(
			`echo 'json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)' >&2; exit 1`)),
		failing("program with a fault of its own", "CODE_BROKEN", shell(
			`printf 'Traceback (most recent call last):\n  File "load.py", line 3\nKeyError: '"'"'amount'"'"'\n' >&2; exit 1`)),
		about(failing("too many open files", "EXIT_STATUS", shell(
			`ulimit -n 16; exec perl -e 'for (1..99) { open($f[$_], "<", "/dev/null") or die "cannot open a file: $!\n" }'`)),
			"Too many open files"),
		failing("database starts up", "DEPENDENCY_UNREACHABLE",
			shell(`echo 'psql: error: FATAL:  the database system is starting up' >&2; exit 2`)),
		failing("host not permitted by the database", "CREDENTIALS_REFUSED",
			shell(`echo 'FATAL:  no pg_hba.conf entry for host "10.1.2.3", user "loader", database "shop", no encryption' >&2; exit 2`)),
		failing("host key unknown", "CERTIFICATE_REFUSED", shell(`echo 'Host key verification failed.' >&2; exit 255`)),
		failing("service hangs up", "DEPENDENCY_UNREACHABLE", call(c.peer+"/hangs-up")),
		failing("service refuses the connection", "DEPENDENCY_UNREACHABLE", call("http://127.0.0.1:1/")),
		failing("service answers 404", "HTTP_STATUS", call(c.peer+"/404")),
		failing("service answers 500", "HTTP_STATUS", call(c.peer+"/500")),
		failing("service answers 503", "DEPENDENCY_UNREACHABLE", call(c.peer+"/503")),
		failing("service answers 401", "CREDENTIALS_REFUSED", call(c.peer+"/401")),
		failing("service limits the rate", "RATE_LIMITED", call(c.peer+"/429")),
		failing("service redirects to the inside", "HTTP_STATUS", call(c.peer+"/302")),
		failing("service hangs", "TIMEOUT", timedOut(call(c.peer+"/hangs"))),
		failing("service has a wrong certificate", "HTTP_TRANSPORT", call(c.tlsPeer+"/200")),
		failing("address inside", "ADDRESS_REFUSED", call("http://169.254.169.254/latest")),
		{name: "a needed step failed", want: "EXIT_STATUS", shown: hasFailed, steps: []string{shell("exit 3"),
			asked("b", "COMMAND", `{"argv":["true"]}`, `,"dependsOn":["s"]`)}},
		{name: "attempts spent", want: "EXIT_STATUS", steps: []string{shell("exit 4")}, ready: hasFailed,
			inject: func(c *clinic, id string) { c.mustDvt("ada", "run", "retry", id, "s", "--no-wait") },
			shown: func(st run.State) bool {
				s, _ := st.Step("s")
				return s.LogicalAttempt == 2 && s.Status == run.StepFailed
			}},
	}
}

// classesOfRuns are faults of plans, people, limits, workers and the engine.
func (c *clinic) classesOfRuns() []*class {
	nap := asked("s", "COMMAND", `{"argv":["sleep","100"]}`)
	pause := func(c *clinic, id string) { c.mustDvt("ada", "run", "pause", id, "--reason", "injected", "--no-wait") }
	holder := &class{name: "holder of the other slot", tenant: "umbrella", shown: isUnderWay,
		steps: []string{asked("s", "SLEEP", `{"ms":300000}`)}}
	atPeer := func(path string) func(*clinic, string) string {
		return func(c *clinic, _ string) string { return c.tlsPeer + path }
	}
	return []*class{
		{name: "plan host answers 404", want: "PLAN_FETCH_FAILED", steps: []string{nap}, ref: reference(atPeer("/404"), same),
			shown: hasEnded},
		{name: "plan host hangs", want: "PLAN_LOADS", steps: []string{nap}, ref: reference(atPeer("/hangs"), same),
			shown: isAccepted, after: 3 * time.Second, lasts: 20 * time.Second},
		{name: "plan has another hash", want: "PLAN_HASH_MISMATCH", steps: []string{nap}, ref: func(c *clinic,
			doc []byte) client.PlanRefInput {
			ref := reference(inFile, same)(c, doc)
			ref.Sha256 = strings.Repeat("0", 64)
			return ref
		}, shown: hasEnded},
		{name: "plan too large", want: "PLAN_TOO_LARGE", steps: []string{nap}, shown: hasEnded,
			ref: reference(inFile, func(doc []byte) []byte { return append(doc, bytes.Repeat([]byte(" "), 11<<20)...) })},
		{name: "plan invalid", want: "PLAN_INVALID", steps: []string{nap}, ref: reference(inFile, func(doc []byte) []byte {
			return []byte(strings.Replace(string(doc), "COMMAND", "COMMANDS", 1))
		}), shown: hasEnded},
		{name: "approval missing", want: "WAITS_FOR_APPROVAL", env: "gated", steps: []string{nap}, shown: isAccepted},
		{name: "approver may not", want: "WAITS_FOR_APPROVAL", env: "gated", steps: []string{nap}, shown: isAccepted,
			inject: func(c *clinic, id string) {
				if out, err := c.dvt("ada", "run", "approve", id); err == nil {
					c.t.Errorf("the requester approves the own run:\n%s", out)
				}
			}},
		{name: "manual task waits", want: "WAITS_FOR_PERSON", steps: []string{asked("s", "MANUAL", `{}`)}, shown: isUnderWay},
		{name: "manual task expired", want: "TIMEOUT", shown: hasFailed,
			steps: []string{asked("s", "MANUAL", `{}`, `,"manual":{"timeout":"1s"}`)}},
		{name: "a person says that it failed", want: "MANUAL_FAILED", steps: []string{asked("s", "MANUAL", `{}`)},
			ready: isUnderWay, shown: hasFailed, inject: func(c *clinic, id string) {
				c.mustDvt("bea", "manual", "complete", id, "s", "--outcome", "failed", "--notes", "no", "--no-wait")
			}},
		{name: "paused by a person", want: "RUN_PAUSED", steps: []string{asked("s", "MANUAL", `{}`)}, ready: isUnderWay,
			inject: pause, shown: func(st run.State) bool { return st.Pause != nil }},
		{name: "pause that drains", want: "PAUSE_DRAIN_TIMEOUT", steps: []string{nap}, ready: isUnderWay, inject: pause,
			shown: isUnderWay, after: 11 * time.Second, lasts: 90 * time.Second},
		{name: "cancelled by a person", want: "RUN_CANCELLED", steps: []string{nap}, ready: isUnderWay,
			inject: func(c *clinic, id string) {
				c.mustDvt("ada", "run", "cancel", id, "-y", "--reason", "enough", "--no-wait")
			}, shown: hasEnded},
		{name: "ended in Temporal", want: "ENGINE_TERMINATED", steps: []string{nap}, ready: isUnderWay, shown: isAccepted,
			after: time.Second, inject: func(c *clinic, id string) { c.inTemporal(id, false) }},
		{name: "removed from Temporal", want: "ENGINE_LOST", steps: []string{nap}, ready: isUnderWay, shown: isAccepted,
			after: 4 * time.Second, inject: func(c *clinic, id string) { c.inTemporal(id, true) }},
		{name: "holder of the slot", tenant: "globex", steps: []string{asked("s", "SLEEP", `{"ms":300000}`)},
			shown: isUnderWay},
		{name: "no slot", tenant: "globex", want: "WAITS_FOR_SLOT", steps: []string{nap}, shown: isAccepted,
			after: 2 * time.Second},
		{name: "first start of the minute", tenant: "initech", shown: isUnderWay,
			steps: []string{asked("s", "SLEEP", `{"ms":300000}`)}},
		{name: "starts of the minute used up", tenant: "initech", want: "WAITS_FOR_SLOT", steps: []string{nap},
			shown: waits, after: 2 * time.Second, lasts: 45 * time.Second},
		{name: "heavy steps of the minute used up", tenant: "hooli", want: "WAITS_FOR_QUOTA", after: 5 * time.Second,
			lasts: 45 * time.Second, ready: isUnderWay,
			steps: []string{asked("a", "COMMAND", `{"argv":["sleep","100"]}`, `,"dispatch":{"resourceClass":"heavy"}`),
				asked("b", "COMMAND", `{"argv":["sleep","100"]}`, `,"dispatch":{"resourceClass":"heavy"},"dependsOn":[]`)},
			shown: func(st run.State) bool { return isUnderWay(st) && st.Counts.Pending > 0 }},
		holder,
		{name: "tenant frozen", tenant: "umbrella", want: "STARTS_HELD", steps: []string{nap}, shown: isAccepted,
			after: 3 * time.Second, inject: func(c *clinic, _ string) {
				waitUntil(c.t, "the slot is taken", time.Minute, func() bool { return isUnderWay(c.readState(holder.runID)) })
				_, err := client.FreezeTenant(c.t.Context(), client.New(c.url, tokenOf("umbrella")), client.FreezeTenantInput{
					RequestId: "freeze", Frozen: true, Reason: "injected"})
				must(c.t, err)
			}},
		{name: "worker killed with a step", env: "lost", want: "WORKER_LOST", steps: []string{nap}, ready: isUnderWay,
			inject: func(c *clinic, _ string) { c.lost.kill() }, shown: hasFailed, harms: true},
		{name: "workers busy", env: "busy", want: "WORKERS_BUSY", ready: isUnderWay, shown: hasBegun, long: true, idle: true,
			after: 45 * time.Second, steps: []string{asked("a", "COMMAND", `{"argv":["sleep","115"]}`),
				asked("b", "COMMAND", `{"argv":["sleep","115"]}`, `,"dependsOn":[]`)}},
		{name: "worker does not reach the server", env: "cut", want: "JOURNAL_UNREACHABLE", steps: []string{
			asked("a", "SLEEP", `{"ms":40000}`), asked("b", "COMMAND", `{"argv":["true"]}`, `,"dependsOn":["a"]`)},
			ready: isUnderWay, inject: func(c *clinic, _ string) { c.cut.Stop() }, shown: hasBegun, after: 70 * time.Second,
			long: true, idle: true},
		{name: "worker with a wrong token", env: "wrong", want: "NO_WORKER_FOR_QUEUE", steps: []string{nap}, ready: hasBegun,
			shown: hasBegun, after: 135 * time.Second, long: true, idle: true, about: "tq-data-wrong"},
		{name: "worker absent", env: "empty", want: "NO_WORKER_FOR_QUEUE", steps: []string{nap}, ready: hasBegun,
			shown: hasBegun, after: 135 * time.Second, long: true, idle: true, about: "tq-data-empty"},
		{name: "queue misspelt", want: "NO_WORKER_FOR_QUEUE", about: "misspelt-data", ready: hasBegun, shown: hasBegun,
			after: 135 * time.Second, long: true, idle: true,
			steps: []string{asked("s", "COMMAND", `{"argv":["true"]}`, `,"dispatch":{"taskQueue":"misspelt-data"}`)}},
		{name: "control worker absent", env: "orphan", want: "NO_WORKER_FOR_QUEUE", about: "tq-control-orphan",
			steps: []string{nap}, shown: isAccepted, after: 135 * time.Second, long: true, idle: true},
	}
}

// breakParts breaks parts of the whole installation, one after the other, while a run sleeps.
func (c *clinic) breakParts(long bool) {
	c.t.Helper()
	patient := &class{name: "patient", tenant: "acme", env: "dev", steps: []string{asked("s", "SLEEP", `{"ms":100000}`)}}
	c.start(patient)
	waitUntil(c.t, "the patient runs", time.Minute, func() bool { return isUnderWay(c.readState(patient.runID)) })
	signal := func(pid int, sig syscall.Signal) { must(c.t, syscall.Kill(pid, sig)) }
	engine := c.frontend.PID()
	broken := c.artifacts + ".away"
	for _, part := range []struct {
		name         string
		damage, mend func()
		args         []string
		says         string
		long         bool
	}{
		{"Temporal frozen", func() { signal(engine, syscall.SIGSTOP) }, func() { signal(engine, syscall.SIGCONT) },
			[]string{"doctor", patient.runID}, "PART_DOWN", false},
		{"Temporal frozen, without a run", func() { signal(engine, syscall.SIGSTOP) },
			func() { signal(engine, syscall.SIGCONT) }, []string{"doctor"}, "temporal: ", false},
		{"Redis stopped", func() { c.bus.Stop() }, func() { c.bus.Pass() }, []string{"doctor"}, "eventBus: ", false},
		{"directory of artifacts gone", func() {
			must(c.t, os.Rename(c.artifacts, broken))
			must(c.t, os.WriteFile(c.artifacts, nil, 0o600))
		}, func() { must(c.t, os.Remove(c.artifacts)); must(c.t, os.Rename(broken, c.artifacts)) }, []string{"doctor"},
			"artifactStore: ", true},
		{"PostgreSQL frozen", func() { c.db.Hold() }, func() { c.db.Pass() }, []string{"doctor", patient.runID},
			"stateStore: ", false},
		{"PostgreSQL stopped", func() { c.db.Stop() }, func() { c.db.Pass() }, []string{"doctor", patient.runID},
			"stateStore: ", false},
		{"Temporal stopped", func() { c.frontend.Kill(c.t) }, func() { c.frontend.Restart(c.t) },
			[]string{"doctor", patient.runID}, "PART_DOWN", false},
	} {
		pause := 1500 * time.Millisecond // an answer of the health is shared for a second
		if part.long {
			pause = 16 * time.Second // and a successful write of the artifacts proves their health for 15 s
		}
		if part.long && !long {
			continue
		}
		waitUntil(c.t, "everything answers before "+part.name, time.Minute, func() bool {
			out, err := c.dvt("ada", "doctor")
			return err == nil && strings.HasPrefix(out, "Everything that dvt depends on answers.")
		})
		part.damage()
		time.Sleep(pause)
		began := time.Now()
		out, _ := c.dvt("ada", part.args...)
		took := time.Since(began)
		part.mend()
		said, right := part.says, strings.Contains(out, part.says)
		if !right {
			said = "another"
			c.t.Logf("%s: %s", part.name, out)
		}
		if took > testtime.Of(5*time.Second) && strings.HasPrefix(part.name, "Temporal") {
			c.t.Errorf("%s: dvt %s took %s, want 5 s or less", part.name, part.args[0], took)
		}
		c.note(part.name, part.says, said, "answered after "+took.Round(100*time.Millisecond).String(), right)
	}
}
