package postgres

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// insertRunsSQL inserts in the order of the arrays, which queueRuns sorts by request key. Transactions that create runs
// of the same requests then lock these in one order, so they cannot deadlock.
const insertRunsSQL = `INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
  request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
SELECT id, tenant, project, environment, plan, version, nullif(key, ''), request, ref::json, by, source, parent, params::json, policy::json,
  coalesce(at, clock_timestamp())
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
  $12::text[], $13::text[], $14::text[], $15::timestamptz[]) WITH ORDINALITY
  u (id, tenant, project, environment, plan, version, key, request, ref, by, source, parent, params, policy, at, n) ORDER BY n
ON CONFLICT DO NOTHING RETURNING run_id, coalesce(request_key, ''), created_at`

// queueRuns queues the insert into run. After the batch has run, each creation has either its CreatedAt or exists set.
func queueRuns(b *pgx.Batch, runs []*creation) error {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *creation) int {
		return cmp.Or(cmp.Compare(a.Run.RequestKey, b.Run.RequestKey), cmp.Compare(a.Run.RunID, b.Run.RunID))
	})
	var columns [12][]string
	var refs, params, policies []*string
	var at []*time.Time
	for _, c := range runs {
		r := &c.Run
		ref, err := json.Marshal(r.PlanRef)
		if err != nil {
			return err
		}
		policy, err := json.Marshal(r.Policy)
		if err != nil {
			return err
		}
		for i, v := range [...]string{
			r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion, string(r.RequestKey), r.RequestID,
			r.TriggeredBy, r.TriggerSource, r.ParentRunID,
		} {
			columns[i] = append(columns[i], v)
		}
		refs, params, policies = append(refs, text(ref)), append(params, text(r.Params)), append(policies, text(policy))
		at = append(at, nilIfZero(r.CreatedAt))
		c.exists = true
	}
	c := &columns
	b.Queue(insertRunsSQL, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], refs, c[8], c[9], c[10], params, policies, at).
		Query(func(rows pgx.Rows) error {
			defer rows.Close()
			for next := 0; rows.Next(); next++ {
				var id, key string
				var at time.Time
				if err := rows.Scan(&id, &key, utc{&at}); err != nil {
					return err
				}
				for next < len(runs) && (runs[next].Run.RunID != id || string(runs[next].Run.RequestKey) != key) {
					next++
				}
				if next == len(runs) {
					return errors.New("the database returned a run that was not inserted")
				}
				runs[next].exists, runs[next].now, runs[next].Run.CreatedAt = false, at, at
			}
			return rows.Err()
		})
	return nil
}

// queuePlans queues the bodies of plans, each once and sorted by digest, so that concurrent transactions cannot
// deadlock.
func queuePlans(b *pgx.Batch, runs []*creation) {
	bodies := map[string][]byte{}
	for _, c := range runs {
		if c.Plan != nil {
			bodies[c.Run.PlanRef.SHA256] = c.Plan
		}
	}
	for _, sha := range slices.Sorted(maps.Keys(bodies)) {
		b.Queue(putPlanSQL, sha, bodies[sha])
	}
}

// newRows collects the rows of new runs by column, for all tables except run.
type newRows struct {
	heads struct {
		id            []string
		seq, opsRev   []int64
		lastAt, at    []time.Time
		terminal      []bool
		gate, running []int32
	}
	states struct {
		id, tenant, project, status, header []string
		seq                                 []int64
		rev                                 []int32
	}
	events []run.Event
	audit  []store.AuditRow
}

// add adds the rows of a run. Rows that few runs have are queued as separate statements.
func (n *newRows) add(b *pgx.Batch, c *creation) error {
	plan, err := authority.Decide(store.Head{RunID: c.Run.RunID}, c.batch, authority.Facts{}, c.now)
	if err != nil {
		return err
	}
	h := plan.Head
	if c.Enqueue != nil || c.NeedApproval != nil {
		h.OpsRev = 1
	}
	if c.NeedApproval != nil {
		if err := queueApproval(b, c.Run, c.NeedApproval); err != nil {
			return err
		}
	}
	n.audit = append(append(n.audit, c.Audit...), plan.Audit...)
	n.events = append(n.events, plan.Insert...)
	at := c.now
	if h.LastAt.After(at) {
		at = h.LastAt
	}
	x := &n.heads
	x.id, x.seq, x.opsRev, x.lastAt, x.at = append(x.id, h.RunID), append(x.seq, int64(h.LastSeq)),
		append(x.opsRev, h.OpsRev), append(x.lastAt, h.LastAt), append(x.at, at)
	x.terminal, x.gate, x.running = append(x.terminal, h.Terminal), append(x.gate, int32(h.Gate)),
		append(x.running, int32(h.Running))
	l, err := n.checkpoint(b, c.Run, plan.Insert)
	c.written = store.Loaded{State: l.State, Head: h, CheckpointAt: l.State.Seq, Now: at}
	return err
}

// checkpoint adds the state of a new run, so that lists show it before a projector has seen it.
func (n *newRows) checkpoint(b *pgx.Batch, r store.Run, evs []run.Event) (store.Loaded, error) {
	l := authority.Fold(store.Loaded{}, authority.Base(r), evs)
	st := l.State
	if len(st.Steps) > 0 {
		args, err := saveArgs(st, l.Changes, nil, nil)
		if err == nil {
			b.Queue(saveSQL, args...)
		}
		return l, err
	}
	header, err := authority.Encode(st.Header)
	x := &n.states
	x.id, x.tenant, x.project = append(x.id, r.RunID), append(x.tenant, r.TenantID), append(x.project, r.ProjectID)
	x.status, x.header = append(x.status, string(st.Status)), append(x.header, string(header))
	x.seq, x.rev = append(x.seq, int64(st.Seq)), append(x.rev, int32(st.Rev))
	return l, err
}

const (
	insertHeadsSQL = `WITH head AS (
  INSERT INTO run_head (run_id, last_seq, last_at, terminal, gate, running, ops_rev)
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::boolean[], $5::smallint[], $6::int[], $7::bigint[])
)
INSERT INTO run_dirty (run_id, head_seq, ops_rev, since)
SELECT run, seq, rev, at FROM unnest($1::text[], $2::bigint[], $7::bigint[], $8::timestamptz[]) u (run, seq, rev, at) WHERE seq > 0 OR rev > 0
ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(run_dirty.head_seq, excluded.head_seq), ops_rev = greatest(run_dirty.ops_rev, excluded.ops_rev)`

	insertStatesSQL = `INSERT INTO run_state (run_id, tenant_id, project_id, status, seq, rev, header)
SELECT run, tenant, project, status, seq, rev, header::json FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::text[])
  u (run, tenant, project, status, seq, rev, header)`
)

func (n *newRows) queue(b *pgx.Batch) {
	queueAudit(b, n.audit)
	queueEvents(b, n.events)
	if h := &n.heads; len(h.id) > 0 {
		b.Queue(insertHeadsSQL, h.id, h.seq, h.lastAt, h.terminal, h.gate, h.running, h.opsRev, h.at)
	}
	if s := &n.states; len(s.id) > 0 {
		b.Queue(insertStatesSQL, s.id, s.tenant, s.project, s.status, s.seq, s.rev, s.header)
	}
}
