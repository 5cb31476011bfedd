package retention

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/store"
)

// ActionRetain is the action of the audit row that says what a pass deleted.
const ActionRetain = "RETAIN"

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
