package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The first row of the chain that made a run or a signal. Only a row that names the object counts, because a row
// without its digest could not tell a forged object.
const (
	runMadeSQL = `LEFT JOIN audit m ON m.id = (SELECT a.id FROM audit a ` + linkJoin + `
		WHERE a.run_id = r.run_id AND a.run_id <> '' AND a.signal_id = '' AND a.tenant_id = r.tenant_id AND a.outcome = 'ACCEPTED'
			AND a.object = 'run/' || r.run_id
		ORDER BY l.no IS NULL, l.no, a.at, a.id LIMIT 1)
		LEFT JOIN audit_link ml ON ml.id = m.id AND ml.tenant_id = m.tenant_id AND ml.no > 0 AND ml.no < 4611686018427387904`
	signalMadeSQL = `LEFT JOIN audit m ON m.id = (SELECT a.id FROM audit a ` + linkJoin + `
		WHERE a.run_id = s.run_id AND a.run_id <> '' AND a.signal_id = s.signal_id AND a.tenant_id = r.tenant_id
			AND a.object = 'signal/' || s.run_id || '/' || s.signal_id
		ORDER BY l.no IS NULL, l.no, a.at, a.id LIMIT 1)
		LEFT JOIN audit_link ml ON ml.id = m.id AND ml.tenant_id = m.tenant_id AND ml.no > 0 AND ml.no < 4611686018427387904`
	madeColumns = `coalesce(ml.no, 0), coalesce(m.id, ''), coalesce(m.at, 0), coalesce(m.actor, ''), coalesce(m.action, ''), coalesce(m.reason, ''),
		m.detail, coalesce(m.object, ''), coalesce(m.digest, '')`
)

// scanMade scans madeColumns behind the columns of targets.
func scanMade(row scanner, targets ...any) (made store.AuditLink, err error) {
	var r store.AuditRow
	var at int64
	err = row.Scan(append(targets, &made.No, &r.ID, &at, &r.Actor, &r.Action, &r.Reason, (*[]byte)(&r.Detail), &r.Object,
		&r.Digest)...)
	r.At = instant(at)
	made.ID, made.Row = r.ID, &r
	return made, err
}

// auditRunsSQL reads no member of the column plan_ref, because a damaged one would fail the whole page.
const auditRunsSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, coalesce(r.request_key, ''), r.request_id,
		r.plan_ref, r.triggered_by, r.trigger_source, r.parent_run_id, r.params, r.policy, r.created_at,
	coalesce(ap.required, 0), h.run_id IS NOT NULL, coalesce(h.terminal, 0), coalesce(h.last_seq, 0),
	EXISTS (SELECT 1 FROM event e WHERE e.run_id = r.run_id AND e.type IN ('RunCompleted', 'RunFailed', 'RunCancelled')),
	coalesce((SELECT max(e.run_seq) FROM event e WHERE e.run_id = r.run_id), 0), ` + madeColumns + `
	FROM (SELECT * FROM run WHERE tenant_id = ?1 AND run_id > ?2 ORDER BY run_id LIMIT ?3) r
	LEFT JOIN run_head h ON h.run_id = r.run_id LEFT JOIN approval ap ON ap.run_id = r.run_id ` + runMadeSQL + ` ORDER BY r.run_id`

// auditRuns pages by run id. It reads at most store.MaxCheckedRuns runs, because each one may need the hash of a plan.
// A plan that is stored between the two reads is found by the second.
func (s *Store) auditRuns(ctx context.Context, f store.AuditObjectFilter) (out []store.AuditObject, err error) {
	runs, err := readAll(ctx, s, "audit runs", scanCheckedRun, auditRunsSQL, f.TenantID, f.After,
		min(clamp(f.Limit, store.MaxPage), store.MaxCheckedRuns))
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	_, err = readAll(ctx, s, "audit plans", func(row scanner) (struct{}, error) {
		var digest, sum string
		err := row.Scan(&digest, &sum)
		sums[digest] = sum
		return struct{}{}, err
	}, `SELECT sha256, dvt_sha256(body) FROM plan_body WHERE sha256 IN (SELECT value FROM json_each(?1))`,
		array(store.PlanDigests(runs)))
	for _, c := range runs {
		c.PlanSum = sums[c.Run.PlanRef.SHA256]
		out = append(out, c.Check())
	}
	return out, err
}

func scanCheckedRun(row scanner) (c store.CheckedRun, err error) {
	var created int64
	r := &c.Run
	c.Made, err = scanMade(row, &r.RunID, &r.TenantID, &r.ProjectID, &r.EnvironmentID, &r.PlanID, &r.PlanVersion,
		&r.RequestKey, &r.RequestID, (*[]byte)(&c.PlanRef), &r.TriggeredBy, &r.TriggerSource, &r.ParentRunID,
		(*[]byte)(&r.Params), (*[]byte)(&c.Policy), &created, &c.Approvals, &c.HasHead, &c.HeadEnded, &c.HeadSeq, &c.LogEnded,
		&c.LogSeq)
	r.CreatedAt = instant(created)
	c.Decode()
	return c, err
}

// timeOfEventSQL reports whether a signal that arrived later than its row says has the time of an event of its run. It
// reads events only for such a signal, because no index has their times.
const timeOfEventSQL = `CASE WHEN s.received_at > m.at + 300000000
	THEN EXISTS (SELECT 1 FROM event e WHERE e.run_id = s.run_id AND e.persisted_at = s.received_at) ELSE 0 END`

// auditSignalsSQL qualifies the columns of signal, because run has columns with the same names.
const auditSignalsSQL = `SELECT s.run_id, s.signal_id, s.type, s.step_id, s.expected_attempt, s.force, s.payload, s.actor, s.reason, s.no,
	s.rejected, s.rejection, s.reject_text, s.accepted_seq, s.received_at, ` + timeOfEventSQL + `, ` + madeColumns + `
	FROM run r JOIN signal s ON s.run_id = r.run_id ` + signalMadeSQL + `
	WHERE r.tenant_id = ?1 AND r.run_id >= ?2 AND (r.run_id > ?2 OR s.signal_id > ?3) ORDER BY r.run_id, s.signal_id LIMIT ?4`

// auditSignals pages by the key of a signal and not by its position, because a forged row may share the position of
// another signal. Error: store.ErrCursor.
func (s *Store) auditSignals(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	runID, signalID, err := store.ParseSignalCursor(f.After)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "audit signals", func(row scanner) (store.AuditObject, error) {
		var r run.SignalReceipt
		var received int64
		var eventTime bool
		made, err := scanMade(row, &r.RunID, &r.Signal.ID, &r.Signal.Type, &r.Signal.StepID, &r.Signal.ExpectedAttempt,
			&r.Signal.Force, (*[]byte)(&r.Payload), &r.Actor, &r.Reason, &r.No, &r.Rejected, &r.Rejection, &r.RejectText,
			&r.AcceptedSeq, &received, &eventTime)
		r.ReceivedAt = instant(received)
		o := store.CheckSignal(f.TenantID, r, made, eventTime)
		o.Cursor = store.SignalCursor(r.RunID, r.Signal.ID)
		return o, err
	}, auditSignalsSQL, f.TenantID, runID, signalID, clamp(f.Limit, store.MaxPage))
}
