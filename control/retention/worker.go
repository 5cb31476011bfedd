package retention

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ActionRetain is the action of the audit row that says what a pass deleted.
const ActionRetain = "RETAIN"

// cursorName is the lease of the pass: one process at a time works.
const cursorName = "retain"

const (
	leaseTTL   = time.Minute
	renewEvery = 15 * time.Second
	// busyAge is the age of an unpublished change from which on the projector counts as late.
	busyAge = 5 * time.Second
)

// WorkerConfig configures a Worker.
type WorkerConfig struct {
	Store     PassStore
	Archive   Archive
	Bucket    artifact.Remover
	Installed Installation
	Owner     string
	Alerts    *control.Alerts
	Now       func() time.Time
	Metrics   prometheus.Registerer
	Logger    *slog.Logger
}

// Worker archives and deletes what is older than the policies of the tenants say. It is safe for concurrent use.
type Worker struct {
	cfg     WorkerConfig
	metrics *passMetrics
	pace    time.Duration // between two runs
	cycle   *dutycycle.Cycle
	cursor  store.Cursor
	saved   time.Time
	next    time.Time // of the next run
	late    time.Time // since when the pass that ended last left something that is late; zero: nothing
}

type passMetrics struct {
	runs     *prometheus.CounterVec
	bytes    prometheus.Counter
	events   prometheus.Counter
	objects  prometheus.Counter
	failures prometheus.Counter
	paused   prometheus.Counter
	ended    prometheus.Gauge
	overdue  prometheus.Gauge
}

func newPassMetrics(r prometheus.Registerer) *passMetrics {
	register := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &passMetrics{
		runs: register.NewCounterVec(prometheus.CounterOpts{Name: "dvt_retention_runs_total",
			Help: "Runs that the retention worked on, by what it did."}, []string{"outcome"}),
		bytes:    counter("dvt_retention_archived_bytes_total", "Bytes of the archives that were written."),
		events:   counter("dvt_retention_deleted_events_total", "Events of archived runs that were deleted from the store."),
		objects:  counter("dvt_retention_removed_objects_total", "Step logs and artifacts that were removed from the bucket."),
		failures: counter("dvt_retention_failures_total", "Runs that could not be archived or deleted, and steps that failed."),
		paused:   counter("dvt_retention_pauses_total", "Pauses because the projector was late."),
		ended: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_retention_pass_ended_timestamp_seconds",
			Help: "When the last pass over all tenants ended in this process; 0 before the first."}),
		overdue: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_retention_overdue_seconds",
			Help: "How late the retention is: the age of the oldest thing that should be archived or deleted and could not, " +
				"or the delay of the pass; 0 in a process that does not work on it."}),
	}
}

// NewWorker makes a Worker.
func NewWorker(cfg WorkerConfig) *Worker {
	cfg.Installed.Every = cmp.Or(cfg.Installed.Every, time.Hour)
	cfg.Installed.DestinationsWait = cmp.Or(cfg.Installed.DestinationsWait, defaultWait)
	cfg.Installed.OverdueAfter = cmp.Or(cfg.Installed.OverdueAfter, 24*time.Hour)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &Worker{cfg: cfg, metrics: newPassMetrics(cfg.Metrics),
		pace: time.Minute / time.Duration(cmp.Or(cfg.Installed.RunsPerMinute, 600))}
	w.cycle = dutycycle.New(cmp.Or(cfg.Installed.Share, defaultShare), w.keepLease)
	return w
}

// errLeaseLost says that another process works now.
var errLeaseLost = errors.New("retention: the lease was lost")

// Run makes a pass after each interval until ctx ends. It waits while another process holds the lease or the store
// fails.
func (w *Worker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := renewEvery
		switch due, err := w.lease(ctx); {
		case errors.Is(err, store.ErrConflict):
			w.metrics.overdue.Set(0) // the process that works tells
		case err != nil && ctx.Err() == nil:
			w.cfg.Logger.WarnContext(ctx, "old runs are not archived until the store answers", slog.Any("error", err))
		case err == nil && !due:
			w.tellLate()
			w.release(ctx)
		case err == nil:
			if err := w.Pass(ctx); err != nil && ctx.Err() == nil {
				w.cfg.Logger.WarnContext(ctx, "a pass of the retention ended early; the next one continues",
					slog.Any("error", err))
			}
			w.release(ctx)
		}
		sleep(ctx, pause)
	}
	return nil
}

// tellLate sets the metric of how late the retention is: the oldest thing that a pass could not do, or the pass itself.
func (w *Worker) tellLate() {
	now, late := w.cfg.Now(), time.Duration(0)
	p := w.position()
	since := w.late
	if since.IsZero() {
		since = p.LateSince
	}
	if !since.IsZero() {
		late = now.Sub(since)
	}
	if !p.EndedAt.IsZero() {
		late = max(late, now.Sub(p.EndedAt)-w.cfg.Installed.Every)
	}
	w.metrics.overdue.Set(max(0, late.Seconds()))
}

// position is what the cursor keeps.
type position struct {
	Tenant  string    `json:"tenant"`            // finished last in the pass
	EndedAt time.Time `json:"endedAt,omitempty"` // of the last complete pass
	// LateSince is since when something was late at the end of the last complete pass.
	LateSince time.Time `json:"lateSince,omitzero"`
}

// lease takes the lease and reports whether a pass is due.
func (w *Worker) lease(ctx context.Context) (due bool, err error) {
	if w.cursor, err = w.cfg.Store.LeaseCursor(ctx, cursorName, w.cfg.Owner, leaseTTL); err != nil {
		return false, err
	}
	w.saved = time.Now()
	p := w.position()
	since := w.cfg.Now().Sub(p.EndedAt)
	// A clock that was ahead during a pass must not keep the duty from working until that time comes.
	return p.Tenant != "" || since >= w.cfg.Installed.Every || since < 0, nil
}

func (w *Worker) position() (p position) {
	if w.cursor.Position != "" && json.Unmarshal([]byte(w.cursor.Position), &p) != nil {
		return position{}
	}
	return p
}

func (w *Worker) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = w.cfg.Store.ReleaseCursor(ctx, w.cursor) // else the lease expires
}

// save stores the position and extends the lease.
func (w *Worker) save(ctx context.Context, p position) error {
	doc, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.cursor.Position = string(doc)
	return w.renew(ctx)
}

func (w *Worker) renew(ctx context.Context) error {
	err := w.cfg.Store.SaveCursor(ctx, w.cursor, leaseTTL)
	if errors.Is(err, store.ErrConflict) {
		return errLeaseLost
	}
	w.saved = time.Now()
	return err
}

// PassNow takes the lease and makes a whole pass, whether or not one is due. store.ErrConflict while another process
// works.
func (w *Worker) PassNow(ctx context.Context) error {
	if _, err := w.lease(ctx); err != nil {
		return err
	}
	defer w.release(ctx)
	return w.Pass(ctx)
}

// Pass works on all tenants, from where an earlier pass ended early. The caller holds the lease. A failure of one
// tenant does not stop the others. It works for Installation.Share of the time, in short pieces.
func (w *Worker) Pass(ctx context.Context) error {
	ctx = dutycycle.With(ctx, w.cycle)
	dutycycle.Begin(ctx)
	at := w.position()
	w.late = time.Time{}
	now, err := w.earlierClock(ctx)
	if err != nil {
		return err
	}
	for {
		tenants, err := w.cfg.Store.RetentionTenants(ctx, at.Tenant, pageRuns)
		if err != nil {
			return err
		}
		for _, tenant := range tenants {
			if err := w.passTenant(ctx, tenant, now); err != nil {
				return err
			}
			at.Tenant = tenant
			if err := w.save(ctx, at); err != nil {
				return err
			}
		}
		if len(tenants) < pageRuns {
			break
		}
	}
	w.metrics.ended.Set(float64(w.cfg.Now().Unix()))
	err = w.save(ctx, position{EndedAt: w.cfg.Now(), LateSince: w.late})
	w.tellLate()
	return err
}

// passTenant makes a pass over one tenant and stores what it did, also when it ends early. now is the time at which the
// pass over all tenants began: a late tenant keeps things some minutes longer.
func (w *Worker) passTenant(ctx context.Context, tenant string, now time.Time) error {
	p := &passOf{w: w, tenant: tenant, now: now, held: map[string]int64{}, out: &Pass{StartedAt: w.cfg.Now(),
		Marks: map[string]Mark{}, ArtifactDays: map[string]int{}}}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	err := p.do(ctx)
	p.out.Held = p.heldRuns()
	end := w.cfg.Now()
	p.out.EndedAt = &end
	if p.out.Failed == 0 && err == nil {
		p.out.OverdueSince = nil
	}
	if since := p.out.OverdueSince; since != nil && (w.late.IsZero() || since.Before(w.late)) {
		w.late = *since
	}
	w.count(p.out)
	keep := context.WithoutCancel(ctx)
	doc, jsonErr := json.Marshal(p.out)
	if jsonErr == nil {
		jsonErr = w.cfg.Store.SaveRetentionPass(keep, tenant, doc)
	}
	return errors.Join(err, jsonErr, w.audit(keep, tenant, p.out), w.alert(ctx, p))
}

// clockAhead is the lead of this process's clock over the store's from which on a pass logs a warning.
const clockAhead = 5 * time.Minute

// earlierClock returns the earlier of the clocks of this process and of the store. Ages count from times of the store,
// and what a pass deletes cannot be brought back: a server whose clock jumped ahead must not delete what is young.
func (w *Worker) earlierClock(ctx context.Context) (time.Time, error) {
	heads, err := w.cfg.Store.Heads(ctx, []string{})
	if err != nil {
		return time.Time{}, err
	}
	now := w.cfg.Now()
	if !now.After(heads.Now) {
		return now, nil
	}
	if ahead := now.Sub(heads.Now); ahead > clockAhead {
		w.cfg.Logger.WarnContext(ctx, "the clock of this server is ahead of the store's, so the retention counts days by the "+
			"store's: correct the clock", slog.Duration("ahead", ahead))
	}
	return heads.Now, nil
}

// prepare reads the policy and what the last pass left. A policy that cannot be read deletes nothing.
func (p *passOf) prepare(ctx context.Context) error {
	rows, err := p.w.cfg.Store.SettingHistory(ctx, store.SettingRetention, p.tenant, 0, 1)
	if err != nil {
		return err
	}
	doc := Document{}
	if len(rows) > 0 {
		p.version = rows[0].Version
		if err := json.Unmarshal(rows[0].Doc, &doc); err != nil {
			p.fail(ctx, "", fmt.Errorf("%w: version %d: %w", errPolicy, rows[0].Version, err))
			p.unreadable = true
			doc = KeepAll()
			doc.Artifacts = map[string]int{}
			for _, kind := range kinds {
				doc.Artifacts[kind] = 0
			}
		}
	}
	p.days = p.w.cfg.Installed.effective(doc)
	last, err := p.w.cfg.Store.RetentionPass(ctx, p.tenant)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	old := Pass{}
	if err == nil && json.Unmarshal(last, &old) == nil && old.Marks != nil {
		p.out.Marks, p.out.Lifts, p.out.RewoundAt = old.Marks, old.Lifts, old.RewoundAt
		p.out.Terms, p.out.OverdueSince = old.Terms, old.OverdueSince
		if old.ArtifactDays != nil {
			p.out.ArtifactDays = old.ArtifactDays
		}
	}
	return p.rewind(ctx)
}

// rewind makes the pass begin from the start again: with everything after a hold was lifted, because marks lie behind
// the runs that it kept, and with whole runs once a week, because an import may have added old runs behind the marks.
func (p *passOf) rewind(ctx context.Context) error {
	lifts, err := p.w.cfg.Store.CountLiftedHolds(ctx, p.tenant)
	if err != nil {
		return err
	}
	if lifts != p.out.Lifts {
		p.out.Lifts, p.out.Marks = lifts, map[string]Mark{}
	}
	if p.now.Sub(p.out.RewoundAt) < rewindEvery {
		return nil
	}
	p.out.RewoundAt = p.now
	for _, name := range append(archiveMarks(), partMarks()...) {
		delete(p.out.Marks, name)
	}
	return nil
}

func (w *Worker) count(p *Pass) {
	w.metrics.runs.WithLabelValues("archived").Add(float64(p.Archived))
	w.metrics.runs.WithLabelValues("deleted").Add(float64(p.Deleted))
	w.metrics.runs.WithLabelValues("held").Add(float64(p.Held))
	w.metrics.runs.WithLabelValues("waiting").Add(float64(p.Waiting))
	w.metrics.bytes.Add(float64(p.Bytes))
	w.metrics.events.Add(float64(p.Events))
	w.metrics.objects.Add(float64(p.Objects))
	w.metrics.failures.Add(float64(p.Failed))
}

// audit writes what a pass deleted.
func (w *Worker) audit(ctx context.Context, tenant string, p *Pass) error {
	if p.Archived+p.Deleted+p.Receipts+p.Rows+p.Objects == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]int64{"archived": p.Archived, "deleted": p.Deleted, "events": p.Events,
		"receipts": p.Receipts, "objects": p.Objects, "rows": p.Rows})
	if err != nil {
		return err
	}
	return w.cfg.Store.Audit(ctx, store.AuditRow{ID: uuid.NewString(), TenantID: tenant, Actor: control.EngineActor,
		Action: ActionRetain, Outcome: "ACCEPTED", Detail: detail})
}

// alert raises or resolves the alert about the retention of a tenant.
func (w *Worker) alert(ctx context.Context, p *passOf) error {
	if w.cfg.Alerts == nil || ctx.Err() != nil {
		return nil //nolint:nilerr // the process ends
	}
	if err := w.alertLate(ctx, p); err != nil {
		return err
	}
	a := store.Alert{TenantID: p.tenant, Level: store.AlertMedium, Code: run.CodeRetentionFailing, Subject: "retention"}
	if p.out.Failed == 0 {
		return w.cfg.Alerts.Resolve(ctx, "A pass ended without a failure.", a)
	}
	a.Note = fmt.Sprintf("The last pass of the retention had %s, and what failed is kept. The first failure: %s",
		control.Plural(int(p.out.Failed), "failure", "failures"), run.Text(p.out.Error, 500))
	_, err := w.cfg.Alerts.Raise(ctx, a)
	return err
}

// alertLate raises or resolves the alert about things that are kept for much longer than the policy says.
func (w *Worker) alertLate(ctx context.Context, p *passOf) error {
	a := store.Alert{TenantID: p.tenant, Level: store.AlertHigh, Code: run.CodeRetentionOverdue, Subject: "retention"}
	since := p.out.OverdueSince
	if since == nil || p.now.Sub(*since) <= w.cfg.Installed.OverdueAfter {
		return w.cfg.Alerts.Resolve(ctx, "Nothing is late any more.", a)
	}
	a.Note = fmt.Sprintf("Something that the policy no longer keeps is late since %s and still there. The first failure of "+
		"the last pass: %s", since.UTC().Format("2006-01-02 15:04 UTC"), run.Text(p.out.Error, 500))
	_, err := w.cfg.Alerts.Raise(ctx, a)
	return err
}

// keepLease extends the lease when it is time.
func (w *Worker) keepLease(ctx context.Context) error {
	if time.Since(w.saved) <= renewEvery {
		return nil
	}
	if err := w.renew(ctx); err != nil {
		return err
	}
	w.tellLate()
	return nil
}

// turn waits until the next run may be worked on: for the pace, and while the projector is late. It extends the lease.
func (w *Worker) turn(ctx context.Context) error {
	if wait := time.Until(w.next); wait > 0 {
		sleep(ctx, wait)
	}
	w.next = time.Now().Add(w.pace)
	defer dutycycle.Begin(ctx)
	for {
		if err := w.keepLease(ctx); err != nil {
			return err
		}
		late, err := w.isLate(ctx)
		if err != nil || !late || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		w.metrics.paused.Inc()
		sleep(ctx, time.Second)
	}
}

// isLate reports whether changes wait to be published for so long that the store has too much to do.
func (w *Worker) isLate(ctx context.Context) (bool, error) {
	late, err := w.cfg.Store.Dirty(ctx, busyAge, 1)
	return len(late) > 0, err
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
