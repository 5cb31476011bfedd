package storetest

import (
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// termsWith returns terms without limits except for those that change sets.
func termsWith(change func(*store.Terms)) store.Terms {
	t := store.Unlimited()
	t.TTL = time.Minute
	change(&t)
	return t
}

// sameTerms returns a function that gives all tenants and projects the same terms.
func sameTerms(t store.Terms) func(string, string) store.Terms {
	return func(string, string) store.Terms { return t }
}

// requestedRun is a requested run: its identity, and its admission if it waits.
type requestedRun struct {
	run.Identity
	admission store.Admission // set if waiting
	waiting   bool
}

// request creates the next run of a project under terms t, as control does.
func (f *fixture) request(tenant, project string, t store.Terms, priority int) (requestedRun, error) {
	f.Helper()
	f.runs++
	id := identity(f.runs)
	id.TenantID, id.ProjectID = tenant, project
	return requestFrom(f, f.store, id, t, priority)
}

func requestFrom(f *fixture, s store.Store, id run.Identity, t store.Terms, priority int) (requestedRun, error) {
	a := requestedRun{Identity: id}
	n := newRun(id, runtest.Draft(run.RunApproved, "", 1))
	n.Enqueue = &store.Enqueue{Terms: t, Priority: priority}
	n.Wait = func(admission store.Admission) ([]run.Draft, error) {
		a.admission, a.waiting = admission, true
		return []run.Draft{runtest.Draft(run.RunQueued, "", 1, runtest.M{"queuePosition": admission.Position})}, nil
	}
	_, created, err := s.CreateRun(f.ctx(), n)
	if err == nil && !created {
		err = errors.New("the run existed already")
	}
	return a, err
}

func (f *fixture) mustRequest(tenant, project string, t store.Terms) requestedRun {
	f.Helper()
	a, err := f.request(tenant, project, t, 5)
	f.ok(err)
	return a
}

// mustWait requests n runs, which must wait.
func (f *fixture) mustWait(n int, tenant, project string, t store.Terms) (out []requestedRun) {
	f.Helper()
	for range n {
		a := f.mustRequest(tenant, project, t)
		if !a.waiting {
			f.Fatalf("%s of %s/%s was admitted, want it to wait", a.RunID, tenant, project)
		}
		out = append(out, a)
	}
	return out
}

func (f *fixture) admit(terms func(string, string) store.Terms, limit int) store.Admitted {
	f.Helper()
	a, err := f.store.AdmitWaiting(f.ctx(), terms, limit)
	f.ok(err)
	return a
}

// cancelRun cancels a run.
func (f *fixture) cancelRun(id run.Identity) {
	f.Helper()
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
}

func rowIDs(rows []store.QueueRow) (out []string) {
	for _, q := range rows {
		out = append(out, q.RunID)
	}
	return out
}

func idsOf(as []requestedRun) (out []string) {
	for _, a := range as {
		out = append(out, a.RunID)
	}
	return out
}

// checkLanes checks that the counts of every lane equal the numbers of their rows.
func (f *fixture) checkLanes() {
	f.Helper()
	for what, query := range map[string]string{
		"installation": `SELECT count(*) FROM lane l WHERE tenant_id = '' AND (active <> (SELECT count(*) FROM run_queue q WHERE CAST(q.slot AS integer) = 1)
			OR waiting <> (SELECT count(*) FROM run_queue q WHERE CAST(q.waiting AS integer) = 1))`,
		"tenants": `SELECT count(*) FROM lane l WHERE tenant_id <> '' AND project_id = '' AND (
			active <> (SELECT count(*) FROM run_queue q WHERE CAST(q.slot AS integer) = 1 AND q.tenant_id = l.tenant_id)
			OR waiting <> (SELECT count(*) FROM run_queue q WHERE CAST(q.waiting AS integer) = 1 AND q.tenant_id = l.tenant_id))`,
		"projects": `SELECT count(*) FROM lane l WHERE project_id <> '' AND (
			active <> (SELECT count(*) FROM run_queue q WHERE CAST(q.slot AS integer) = 1 AND q.tenant_id = l.tenant_id AND q.project_id = l.project_id)
			OR waiting <> (SELECT count(*) FROM run_queue q WHERE CAST(q.waiting AS integer) = 1 AND q.tenant_id = l.tenant_id AND q.project_id = l.project_id))`,
		"rows without a lane": `SELECT count(*) FROM run_queue q WHERE (CAST(q.slot AS integer) = 1 OR CAST(q.waiting AS integer) = 1)
			AND NOT EXISTS (SELECT 1 FROM lane l WHERE l.tenant_id = q.tenant_id AND l.project_id = q.project_id)`,
		"slots of runs that have ended": `SELECT count(*) FROM run_queue q JOIN run_head h ON h.run_id = q.run_id
			WHERE CAST(h.terminal AS integer) = 1 AND (CAST(q.slot AS integer) = 1 OR CAST(q.waiting AS integer) = 1)`,
	} {
		f.equal(0, f.db.Count(f, query), "lanes with wrong counts: "+what)
	}
}

// expireWaiting fails a waiting run as the reconciliation does after its time to live.
func (f *fixture) expireWaiting(id run.Identity) {
	f.Helper()
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		q, err := tx.Queue(f.ctx())
		if err != nil {
			return err
		}
		q.Status, q.LastError = store.QueueFailed, "ttl"
		if err := tx.SetQueue(f.ctx(), q); err != nil {
			return err
		}
		_, err = tx.Append(f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.RunFailed, "", 1)}})
		return err
	}))
}

func (f *fixture) wantRefused(err error, code run.Code) time.Duration {
	f.Helper()
	refused := (*store.RefusedError)(nil)
	if !errors.As(err, &refused) || refused.Code != code {
		f.Fatalf("error is %v, want %s", err, code)
	}
	return refused.RetryAfter
}

// drainBucket takes the only token of a bucket of size one: that of the project if own is set, else that of the tenant.
// A larger size that later terms give the bucket adds no token.
func (f *fixture) drainBucket(tenant, project string, own bool) {
	f.Helper()
	f.cancelRun(f.mustRequest(tenant, project, termsWith(func(t *store.Terms) {
		if own {
			t.Project.PerMinute = 1
		} else {
			t.Tenant.PerMinute = 1
		}
	})).Identity)
}

func (f *fixture) usage(tenant string) store.Usage {
	f.Helper()
	u, err := f.store.Usage(f.ctx(), tenant)
	f.ok(err)
	return u
}

func (f *fixture) activeRuns() int64 {
	f.Helper()
	n, err := f.store.ActiveRuns(f.ctx())
	f.ok(err)
	return n
}
