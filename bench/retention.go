package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

const (
	oldRuns   = 600 // that the retention archives and deletes
	runsOfDay = 1   // that end on one day: each pass archives, empties and deletes as many, and ends within a round
	oldSteps  = 20  // of each
	oldTenant = "old"
)

// unhurried is a store whose retention never waits for a projector: no projector runs in these figures.
type unhurried struct{ *postgres.Store }

// Dirty returns no run.
func (unhurried) Dirty(context.Context, time.Duration, int) ([]store.DirtyRun, error) {
	return nil, nil
}

// besideRetention measures calls while the retention archives and deletes old runs, at the pace of its defaults,
// against the same calls while it rests. Each of eight workers makes a call every interval.
func besideRetention(interval time.Duration, prepare func(context.Context, *postgres.Store) (
	func(context.Context, int) error, error)) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	const workers, turns, forTime = 8, 5, 4 * time.Second
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		s, _, err := r.Store(ctx, rig.OneMS, postgres.DefaultMaxConns)
		if err != nil {
			return nil, err
		}
		call, err := prepare(ctx, s)
		if err != nil {
			return nil, err
		}
		for n := range oldRuns {
			if err := importOldRun(ctx, s, n); err != nil {
				return nil, err
			}
		}
		bucket, err := artifact.Open(ctx, "file://"+filepath.Join(r.Dir, "retention")+"?create_dir=1")
		if err != nil {
			return nil, err
		}
		day := 1 // of the next pass
		p99 := func(deletes bool) rig.Measure {
			return func(ctx context.Context, _ int) (time.Duration, error) {
				var l rig.Latencies
				work := func(ctx context.Context) error {
					return rig.Paced(ctx, workers, interval, forTime, func(ctx context.Context, i int, due time.Time) error {
						err := call(ctx, i)
						l.Add(time.Since(due))
						return err
					})
				}
				var err error
				if deletes {
					err = whileItDeletes(ctx, s, bucket, &day, work)
				} else {
					err = work(ctx)
				}
				if err != nil {
					return 0, err
				}
				return l.Quantile(0.99)
			}
		}
		return &rig.Trial{Repeat: rig.Pairs(turns, p99(true), p99(false)),
			Done: func() error { return errors.Join(bucket.Close(), s.Close()) }}, nil
	}
}

// firstEnd is the time at which the first old run ended.
func firstEnd() time.Time { return time.Now().AddDate(0, 0, -oldRuns/runsOfDay-10) } //nolint:mnd // 10 days ago the last

// whileItDeletes does work while passes of the retention go on, each of them a day later by its clock. It returns an
// error when no pass ended meanwhile.
func whileItDeletes(ctx context.Context, s *postgres.Store, bucket *artifact.Store, day *int,
	work func(context.Context) error) error {
	days := func(n int) *int { return &n }
	doc := retention.KeepAll()
	doc.Runs = retention.RunDays{ArchiveAfterDays: days(1), DeleteArchiveAfterDays: days(2)}
	began := *day
	w := retention.NewWorker(retention.WorkerConfig{Store: unhurried{s}, Archive: archive.Archive{Store: s,
		Objects: bucket}, Bucket: bucket, Owner: "bench", Metrics: prometheus.NewRegistry(),
		Now: func() time.Time { return firstEnd().AddDate(0, 0, *day+1) }, Installed: retention.Installation{Document: doc}})
	background, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		for {
			if err := w.PassNow(background); err != nil {
				return err
			}
			*day++
		}
	})
	err := work(ctx)
	stop()
	if failed := g.Wait(); err == nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	if err == nil && (*day == began || *day > oldRuns/runsOfDay) {
		err = fmt.Errorf("the retention went from day %d to %d of %d: no pass ended, or nothing is left to delete", began,
			*day, oldRuns/runsOfDay)
	}
	return err
}

// importOldRun imports a run that ended at its time.
func importOldRun(ctx context.Context, s *postgres.Store, n int) error {
	id := runtest.ID
	id.RunID, id.TenantID = fmt.Sprintf("old-%05d", n), oldTenant
	var steps []string
	for i := range oldSteps {
		steps = append(steps, rig.StepName(i))
	}
	drafts := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(steps...)}
	for _, step := range steps {
		drafts = append(drafts, runtest.Draft(run.StepStartedEvent, step, 1),
			runtest.Draft(run.StepCompletedEvent, step, 1))
	}
	events := runtest.Log(append(drafts, runtest.Draft(run.RunCompleted, "", 1))...)
	shift := firstEnd().Add(time.Duration(n) * 24 * time.Hour / runsOfDay).Sub(runtest.Epoch)
	for i := range events {
		events[i].EmittedAt, events[i].PersistedAt = events[i].EmittedAt.Add(shift), events[i].PersistedAt.Add(shift)
	}
	err := s.Import(ctx, store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ola", CreatedAt: events[0].PersistedAt,
		TriggerSource: storeadmin.TriggerImport}}, events)
	if err != nil {
		return err
	}
	l, err := s.Load(ctx, id.RunID)
	if err != nil {
		return err
	}
	return s.MarkPublished(ctx, id.RunID, l.Head.LastSeq, l.Head.OpsRev)
}

// appendsBesideRetention appends to eight runs.
func appendsBesideRetention(ctx context.Context, s *postgres.Store) (func(context.Context, int) error, error) {
	const steps = 100
	ids, err := rig.MakeRuns(ctx, s, 8, steps)
	if err != nil {
		return nil, err
	}
	ws := rig.WritersOf(coalesced(s), ids, steps)
	return func(ctx context.Context, i int) error {
		_, err := ws[i].Append(ctx, 1)
		return err
	}, nil
}

// listsBesideRetention reads the first page of the runs of the tenant whose runs are archived.
func listsBesideRetention(_ context.Context, s *postgres.Store) (func(context.Context, int) error, error) {
	const page = 50
	return func(ctx context.Context, _ int) error {
		rows, err := s.List(ctx, store.RunFilter{TenantID: oldTenant, Limit: page})
		if err == nil && len(rows) < page {
			err = fmt.Errorf("the list has %d runs, want %d: too few are left", len(rows), page)
		}
		return err
	}, nil
}
