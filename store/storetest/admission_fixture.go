package storetest

import (
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// quota is terms of a tenant that has no limit but those that change sets.
func quota(change func(*store.Terms)) store.Terms {
	t := store.Unlimited()
	t.TTL = time.Minute
	change(&t)
	return t
}

// always gives everybody the same terms.
func always(t store.Terms) func(string, string) store.Terms {
	return func(string, string) store.Terms { return t }
}

// asked is a run that was asked for: its identity, and what it was told if it waits.
type asked struct {
	run.Identity
	told    store.Admission
	waiting bool
}

// ask creates the next run of a place under terms, as control does.
func (f *fixture) ask(tenant, project string, t store.Terms, priority int) (asked, error) {
	f.Helper()
	f.runs++
	id := identity(f.runs)
	id.TenantID, id.ProjectID = tenant, project
	return askFor(f, f.store, id, t, priority)
}

func askFor(f *fixture, s store.Store, id run.Identity, t store.Terms, priority int) (asked, error) {
	a := asked{Identity: id}
	n := newRun(id, runtest.Draft(run.RunApproved, "", 1))
	n.Enqueue = &store.Enqueue{Terms: t, Priority: priority}
	n.Wait = func(told store.Admission) ([]run.Draft, error) {
		a.told, a.waiting = told, true
		return []run.Draft{runtest.Draft(run.RunQueued, "", 1, runtest.M{"queuePosition": told.Position})}, nil
	}
	_, created, err := s.CreateRun(f.ctx(), n)
	if err == nil && !created {
		err = errors.New("it was there already")
	}
	return a, err
}

func (f *fixture) mustAsk(tenant, project string, t store.Terms) asked {
	f.Helper()
	a, err := f.ask(tenant, project, t, 5)
	f.ok(err)
	return a
}

// wait asks for n runs that must wait.
func (f *fixture) mustWait(n int, tenant, project string, t store.Terms) (out []asked) {
	f.Helper()
	for range n {
		a := f.mustAsk(tenant, project, t)
		if !a.waiting {
			f.Fatalf("%s of %s/%s does not wait", a.RunID, tenant, project)
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

// end ends a run that has begun.
func (f *fixture) end(id run.Identity) {
	f.Helper()
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
}

func rowIDs(rows []store.QueueRow) (out []string) {
	for _, q := range rows {
		out = append(out, q.RunID)
	}
	return out
}

func idsOf(as []asked) (out []string) {
	for _, a := range as {
		out = append(out, a.RunID)
	}
	return out
}

// lanesHold compares the counts of every lane with the rows that it counts.
func (f *fixture) lanesHold() {
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
		"places of runs that have ended": `SELECT count(*) FROM run_queue q JOIN run_head h ON h.run_id = q.run_id
			WHERE CAST(h.terminal AS integer) = 1 AND (CAST(q.slot AS integer) = 1 OR CAST(q.waiting AS integer) = 1)`,
	} {
		f.equal(0, f.db.Count(f, query), "lanes that count wrong: "+what)
	}
}

// failWaiting is what the sweep does with one that waited too long (T131).
func (f *fixture) failWaiting(id run.Identity) {
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

func (f *fixture) refused(err error, code run.Code) time.Duration {
	f.Helper()
	refused := (*store.RefusedError)(nil)
	if !errors.As(err, &refused) || refused.Code != code {
		f.Fatalf("error is %v, want %s", err, code)
	}
	return refused.RetryAfter
}

// drained leaves the bucket of a project's runs under terms of its tenant, or its own, without a token:
// the only one of a bucket of one was taken, and a fuller minute makes no more of it.
func (f *fixture) drained(tenant, project string, own bool) {
	f.Helper()
	f.end(f.mustAsk(tenant, project, quota(func(t *store.Terms) {
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

func (f *fixture) active() int64 {
	f.Helper()
	n, err := f.store.ActiveRuns(f.ctx())
	f.ok(err)
	return n
}
