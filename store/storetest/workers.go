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
