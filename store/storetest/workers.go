package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/store"
)

var workerCases = []testCase{
	{"WorkerReportReplacesTheOneBefore", testWorkerReportReplacesTheOneBefore},
	{"WorkerReportsByQueueAndAge", testWorkerReportsByQueueAndAge},
	{"WorkerReportsAreBounded", testWorkerReportsAreBounded},
	{"WorkerReportWritesItsAuditInOneTransaction", testWorkerReportWritesItsAuditInOneTransaction},
	{"WorkerDrainIsOneAndOfAKnownWorker", testWorkerDrainIsOneAndOfAKnownWorker},
	{"WorkerDrainGoesWithItsReports", testWorkerDrainGoesWithItsReports},
	{"SecretReadsAreKeptOnce", testSecretReadsAreKeptOnce},
	{"SecretReadsByFilterAndCursor", testSecretReadsByFilterAndCursor},
	{"SecretReadsCannotBeChanged", testSecretReadsCannotBeChanged},
	{"SecretOrdersAreOneAndBounded", testSecretOrdersAreOneAndBounded},
	{"SecretAnswersCountOnce", testSecretAnswersCountOnce},
}

func reportOf(account, worker, queue, runtime string) store.WorkerReport {
	return store.WorkerReport{Account: account, Worker: worker, Queue: queue, Doc: json.RawMessage(`{"runtime":"` +
		runtime + `"}`)}
}

// workerReports reads the reports, checks the times that the store set, and clears them.
func (f *fixture) workerReports(age time.Duration, queues ...string) []store.WorkerReport {
	f.Helper()
	out, err := f.store.WorkerReports(f.ctx(), queues, age)
	f.ok(err)
	for i, r := range out {
		if d := time.Since(r.At); d < -time.Minute || d > time.Minute {
			f.Errorf("report of %s at %s, want about now", r.Worker, r.At)
		}
		out[i].At = time.Time{}
	}
	return out
}

func testWorkerReportReplacesTheOneBefore(f *fixture) {
	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("a", "w1", "q1", "process"),
		reportOf("a", "w1", "q2", "process")}))
	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("a", "w1", "q2", "docker")}))
	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("b", "w1", "q2", "gvisor")}))
	f.ok(f.store.PutWorkerReports(f.ctx(), nil))
	f.equal([]store.WorkerReport{
		reportOf("a", "w1", "q1", "process"), reportOf("a", "w1", "q2", "docker"), reportOf("b", "w1", "q2", "gvisor"),
	}, f.workerReports(time.Minute), "reports: a worker of another account with the same name has a row of its own")
}

func testWorkerReportsByQueueAndAge(f *fixture) {
	for _, queue := range []string{"q1", "q2", "q3"} {
		f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("a", "w", queue, "process")}))
	}
	f.equal([]store.WorkerReport{reportOf("a", "w", "q1", "process"), reportOf("a", "w", "q3", "process")},
		f.workerReports(time.Minute, "q3", "q1", "q9"), "of some queues")
	f.equal([]store.WorkerReport(nil), f.workerReports(time.Minute, "q9"), "of a queue without workers")
	f.equal(3, len(f.workerReports(time.Hour)), "reports of all queues")
	f.equal([]store.WorkerReport(nil), f.workerReports(-time.Minute), "reports with a negative maximum age")
}

func testWorkerReportsAreBounded(f *fixture) {
	many := func(account string, n int) (rows []store.WorkerReport) {
		for i := range n {
			rows = append(rows, reportOf(account, fmt.Sprintf("w%04d", i), "q", "process"))
		}
		return rows
	}
	f.ok(f.store.PutWorkerReports(f.ctx(), many("first", 10)))
	f.ok(f.store.PutWorkerReports(f.ctx(), many("greedy", store.MaxWorkerReports+1)))
	f.equal(store.MaxAccountReports+10, f.db.Count(f, `SELECT count(*) FROM worker_report`),
		"rows after an account wrote more than it may")
	f.ok(f.store.PutWorkerReports(f.ctx(), many("third", store.MaxAccountReports)))
	f.equal(store.MaxWorkerReports, f.db.Count(f, `SELECT count(*) FROM worker_report`), "rows of the installation")
	f.equal(0, f.db.Count(f, `SELECT count(*) FROM worker_report WHERE account = 'first'`), "rows of the oldest reports")
}

func testWorkerReportWritesItsAuditInOneTransaction(f *fixture) {
	row := auditRow("t1")
	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("a", "w", "q", "process")}, row, auditRow("t2")))
	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("a", "w", "q", "process")}, row))
	f.equal(2, f.auditCount(), "audit rows: a row with a known id is not written again")
}

func testWorkerDrainIsOneAndOfAKnownWorker(f *fixture) {
	d := store.WorkerDrain{Account: "a", Worker: "w", RequestID: "r1", Actor: "sue", Reason: "a new kernel"}
	_, err := f.store.DrainWorker(f.ctx(), d, auditRow("t1"))
	f.wantError(err, store.ErrNotFound)
	f.wantError(f.store.EndWorkerDrain(f.ctx(), "a", "w", auditRow("t1")), store.ErrNotFound)
	f.equal(0, f.auditCount(), "audit rows of refused calls")

	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("a", "w", "q", "process"),
		reportOf("b", "w", "q", "process")}))
	first, err := f.store.DrainWorker(f.ctx(), d, auditRow("t1"))
	f.ok(err)
	other := d
	other.RequestID, other.Actor, other.Reason = "r2", "tom", "another reason"
	second, err := f.store.DrainWorker(f.ctx(), other, auditRow("t1"))
	f.ok(err)
	f.equal(first, second, "a second drain of the same worker")
	f.equal("sue", first.Actor, "actor")
	f.equal(1, f.auditCount(), "audit rows of two drains of one worker")
	for account, want := range map[string]int{"": 1, "a": 1, "b": 0} {
		list, err := f.store.WorkerDrains(f.ctx(), account)
		f.ok(err)
		f.equal(want, len(list), "drains of the account "+account)
	}

	f.ok(f.store.EndWorkerDrain(f.ctx(), "a", "w", auditRow("t1")))
	f.equal(2, f.auditCount(), "audit rows after the end")
	list, err := f.store.WorkerDrains(f.ctx(), "")
	f.ok(err)
	f.equal(0, len(list), "drains after the end")
}

func testWorkerDrainGoesWithItsReports(f *fixture) {
	report := []store.WorkerReport{reportOf("a", "w", "q", "process")}
	f.ok(f.store.PutWorkerReports(f.ctx(), report))
	_, err := f.store.DrainWorker(f.ctx(), store.WorkerDrain{Account: "a", Worker: "w", Actor: "sue"})
	f.ok(err)
	f.ok(f.store.PutWorkerReports(f.ctx(), report))
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM worker_drain`), "drains while the worker reports")
	f.ok(f.db.Exec(f, `DELETE FROM worker_report`))
	f.ok(f.store.PutWorkerReports(f.ctx(), []store.WorkerReport{reportOf("b", "x", "q", "process")}))
	f.equal(0, f.db.Count(f, `SELECT count(*) FROM worker_drain`), "drains when no report of the worker is left")
}

func secretRead(tenant, runID string, no int, key string) store.SecretRead {
	return store.SecretRead{TenantID: tenant, RunID: runID, StepID: "load", LogicalAttempt: 1, EngineAttempt: 2, No: no,
		Account: "w", Worker: "host-1", Provider: "vault", Key: key, Version: "3", Answered: "3", As: "env:TOKEN",
		Cached: true, Code: "SECRET_DENIED"}
}

// secretReads reads records, checks that their times and positions are set, and clears both.
func (f *fixture) secretReads(filter store.SecretReadFilter) []store.SecretRead {
	f.Helper()
	out, err := f.store.SecretReads(f.ctx(), filter)
	f.ok(err)
	for i, r := range out {
		if d := time.Since(r.At); d < -time.Minute || d > time.Minute || r.Pos <= 0 {
			f.Errorf("record %d has the time %s and the position %d, want about now and a number above 0", i, r.At, r.Pos)
		}
		out[i].At, out[i].Pos = time.Time{}, 0
	}
	return out
}

func testSecretReadsAreKeptOnce(f *fixture) {
	first, second := secretRead("t1", "r1", 1, "db#user"), secretRead("t1", "r1", 2, "db#password")
	f.ok(f.store.PutSecretReads(f.ctx(), []store.SecretRead{first, second}))
	other := first
	other.Key = "another"
	f.ok(f.store.PutSecretReads(f.ctx(), []store.SecretRead{other, secretRead("t1", "r2", 1, "x")}))
	f.ok(f.store.PutSecretReads(f.ctx(), nil))
	f.equal([]store.SecretRead{second, first}, f.secretReads(store.SecretReadFilter{TenantID: "t1", RunID: "r1"}),
		"records of the run: one that is known is not written again")
}

func testSecretReadsByFilterAndCursor(f *fixture) {
	for no := range 5 {
		f.ok(f.store.PutSecretReads(f.ctx(), []store.SecretRead{secretRead("t1", "r1", no+1, fmt.Sprint("k", no%2))}))
	}
	f.ok(f.store.PutSecretReads(f.ctx(), []store.SecretRead{secretRead("t2", "r2", 1, "k0")}))
	for name, c := range map[string]struct {
		filter store.SecretReadFilter
		want   int
	}{
		"of a tenant":    {store.SecretReadFilter{TenantID: "t1"}, 5},
		"of nobody":      {store.SecretReadFilter{}, 0},
		"another run":    {store.SecretReadFilter{TenantID: "t1", RunID: "r2"}, 0},
		"of a step":      {store.SecretReadFilter{TenantID: "t1", RunID: "r1", StepID: "load"}, 5},
		"of a key":       {store.SecretReadFilter{TenantID: "t1", Provider: "vault", Key: "k0"}, 3},
		"other provider": {store.SecretReadFilter{TenantID: "t1", Provider: "file"}, 0},
		"from":           {store.SecretReadFilter{TenantID: "t1", From: time.Now().Add(time.Hour)}, 0},
		"from and to": {store.SecretReadFilter{TenantID: "t1", From: time.Now().Add(-time.Hour),
			To: time.Now().Add(time.Hour)}, 5},
		"to": {store.SecretReadFilter{TenantID: "t1", To: time.Now().Add(-time.Hour)}, 0},
	} {
		f.equal(c.want, len(f.secretReads(c.filter)), "records "+name)
	}
	var numbers []int
	filter := store.SecretReadFilter{TenantID: "t1", Limit: 2}
	for {
		page, err := f.store.SecretReads(f.ctx(), filter)
		f.ok(err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			numbers = append(numbers, r.No)
		}
		filter.Before = store.SecretReadCursor(page[len(page)-1])
	}
	f.equal([]int{5, 4, 3, 2, 1}, numbers, "numbers of all pages")
	for _, cursor := range []string{"x", "[]", `[1,2,3,4,5,6]`, `["x","r","s",1,1,1]`,
		`["2026-01-01T00:00:00Z","r","s",1,1,99999999999]`, `["2026-01-01T00:00:00Z","a\u0000","s",1,1,1]`,
		`["2026-01-01T00:00:00Z","r","s",1,1,-1]`} {
		_, err := f.store.SecretReads(f.ctx(), store.SecretReadFilter{TenantID: "t1", Before: cursor})
		f.wantError(err, store.ErrCursor)
	}
}

func testSecretReadsCannotBeChanged(f *fixture) {
	f.ok(f.store.PutSecretReads(f.ctx(), []store.SecretRead{secretRead("t1", "r1", 1, "k")}))
	for _, statement := range []string{`UPDATE secret_read SET key = 'x'`, `DELETE FROM secret_read`,
		`DELETE FROM secret_read WHERE tenant_id = 't1'`} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM secret_read WHERE key = 'k'`), "records")
}

func testSecretOrdersAreOneAndBounded(f *fixture) {
	order := store.SecretOrder{ID: "o1", Kind: store.SecretCheck, TenantID: "t1", Actor: "ann", RequestID: "q1",
		Reason: "why", Doc: json.RawMessage(`{"a":1}`)}
	first, err := f.store.PutSecretOrder(f.ctx(), order, auditRow("t1"))
	f.ok(err)
	again := order
	again.Actor = "bob"
	second, err := f.store.PutSecretOrder(f.ctx(), again, auditRow("t1"))
	f.ok(err)
	f.equal(first, second, "a repeated order")
	f.equal(1, f.auditCount(), "audit rows")
	for i := range store.MaxSecretChecks - 1 {
		order.ID = fmt.Sprint("more", i)
		_, err := f.store.PutSecretOrder(f.ctx(), order)
		f.ok(err)
	}
	order.ID = "too many"
	_, err = f.store.PutSecretOrder(f.ctx(), order, auditRow("t1"))
	f.wantError(err, store.ErrTooMany)
	f.equal(1, f.auditCount(), "audit rows after an order that was refused")
	order.Kind = store.SecretRevocation
	_, err = f.store.PutSecretOrder(f.ctx(), order)
	f.ok(err) // checks do not keep anybody from a revocation
	order.ID, order.Kind, order.TenantID = "other tenant", store.SecretCheck, "t2"
	_, err = f.store.PutSecretOrder(f.ctx(), order)
	f.ok(err)
	open, err := f.store.OpenSecretOrders(f.ctx())
	f.ok(err)
	f.equal(store.MaxSecretChecks+2, len(open), "open orders")
	f.equal(first, open[0], "the oldest order")
}

func testSecretAnswersCountOnce(f *fixture) {
	answer := store.SecretAnswer{OrderID: "o1", Account: "a", Worker: "w2", Doc: json.RawMessage(`{"n":1}`)}
	f.wantError(f.store.PutSecretAnswer(f.ctx(), answer), store.ErrNotFound)
	_, err := f.store.PutSecretOrder(f.ctx(), store.SecretOrder{ID: "o1", Kind: store.SecretRevocation, TenantID: "t1",
		Doc: json.RawMessage(`{}`)})
	f.ok(err)
	f.ok(f.store.PutSecretAnswer(f.ctx(), answer))
	later := answer
	later.Doc = json.RawMessage(`{"n":2}`)
	f.ok(f.store.PutSecretAnswer(f.ctx(), later))
	other := answer
	other.Worker = "w1"
	f.ok(f.store.PutSecretAnswer(f.ctx(), other))
	got, err := f.store.SecretAnswers(f.ctx(), "o1")
	f.ok(err)
	for i := range got {
		got[i].At = time.Time{}
	}
	f.equal([]store.SecretAnswer{other, answer}, got, "answers: the first one of a worker counts")
}
