package retention_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// month is a store and a bucket on which days pass: the runs of a day are imported with their times.
type month struct {
	*testing.T
	store   store.Store
	reading store.Store
	bucket  *artifact.Store
	dir     string // of the bucket
	size    func() int64
	began   time.Time
	day     int
	runs    int
	samples int // days for which samples are kept
}

const monthDays = 30

// now is the time at the end of the simulated day. The last day ends now.
func (m *month) now() time.Time { return m.began.AddDate(0, 0, m.day) }

func newMonth(t *testing.T, s store.Store, size func() int64) *month {
	t.Helper()
	dir := t.TempDir()
	bucket, err := artifact.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	return &month{T: t, store: s, reading: archive.Reading(s, bucket), bucket: bucket, dir: dir, size: size, samples: 2,
		began: time.Now().UTC().Truncate(time.Second).AddDate(0, 0, -monthDays)}
}

func (m *month) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatalf("day %d: unexpected error: %v", m.day, err)
	}
}

func (m *month) worker(owner string) *retention.Worker {
	return retention.NewWorker(retention.WorkerConfig{
		Store: m.store, Archive: archive.Archive{Store: m.store, Objects: m.bucket}, Bucket: m.bucket, Owner: owner,
		Now: m.now, Metrics: prometheus.NewRegistry(),
		Installed: retention.Installation{RunsPerMinute: 1_000_000, Share: 1, Document: retention.Document{
			Runs:     retention.RunDays{ArchiveAfterDays: days(3), DeleteArchiveAfterDays: days(10)},
			StepLogs: days(5), Receipts: days(4), DeadLetters: days(5), Alerts: days(5),
			Artifacts: map[string]int{"dataset-sample": m.samples, retention.KindOther: 6},
		}},
	})
}

// run adds a run that ended on this day, with a step log and two artifacts.
func (m *month) run() run.Identity {
	m.Helper()
	m.runs++
	id := runtest.ID
	id.RunID = fmt.Sprintf("run-%05d", m.runs)
	var refs []run.ArtifactRef
	for _, kind := range []string{"dataset-sample", "custom"} {
		name := artifact.Name(artifact.AttemptID{TenantID: id.TenantID, RunID: id.RunID, StepID: "s1", LogicalAttempt: 1}, 1,
			kind)
		uri, sum, size, err := m.bucket.Put(m.Context(), name, bytes.NewReader(bytes.Repeat([]byte(kind), 100)))
		m.ok(err)
		refs = append(refs, run.ArtifactRef{URI: uri, Kind: run.ArtifactKind(kind), SHA256: sum, SizeBytes: size})
		if kind == "dataset-sample" && m.samples > 0 {
			refs[len(refs)-1].ExpiresAt = new(m.now().AddDate(0, 0, m.samples))
		}
	}
	done := runtest.Draft(run.StepCompletedEvent, "s1", 1)
	done.Payload = runtest.JSON(map[string]any{"durationMs": 1000, "artifactRefs": refs,
		"result": map[string]string{"text": string(bytes.Repeat([]byte("row "), 200))}})
	events := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1", "s2<s1"),
		runtest.Draft(run.StepStartedEvent, "s1", 1), done, runtest.Draft(run.StepStartedEvent, "s2", 1),
		runtest.Draft(run.StepCompletedEvent, "s2", 1), runtest.Draft(run.RunCompleted, "", 1))
	shift := m.now().Add(-time.Hour).Sub(runtest.Epoch)
	for i := range events {
		events[i].EmittedAt, events[i].PersistedAt = events[i].EmittedAt.Add(shift), events[i].PersistedAt.Add(shift)
	}
	m.ok(m.store.Import(m.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ola", PlanRef: plan.Ref{
		PlanID: id.PlanID, PlanVersion: id.PlanVersion}, CreatedAt: events[0].PersistedAt,
		TriggerSource: storeadmin.TriggerImport}}, events))
	l, err := m.store.Load(m.Context(), id.RunID)
	m.ok(err)
	m.ok(m.store.MarkPublished(m.Context(), id.RunID, l.Head.LastSeq, l.Head.OpsRev))
	m.ok(m.bucket.Append(m.Context(), artifact.AttemptID{TenantID: id.TenantID, RunID: id.RunID, StepID: "s1",
		LogicalAttempt: 1}, 1, 1, []artifact.Line{{No: 1, At: m.now(), Text: "a line of the step"}}))
	return id
}

// bucketSize is the size of all objects.
func (m *month) bucketSize() (size int64) {
	m.Helper()
	m.ok(filepath.WalkDir(m.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	}))
	return size
}

func (m *month) pass() retention.Pass {
	m.Helper()
	m.ok(m.worker("a").PassNow(m.Context()))
	doc, err := m.store.RetentionPass(m.Context(), runtest.ID.TenantID)
	m.ok(err)
	var out retention.Pass
	m.ok(json.Unmarshal(doc, &out))
	if out.Failed > 0 {
		m.Fatalf("day %d: the pass failed: %s", m.day, out.Error)
	}
	return out
}

// sqliteMonth is a month on SQLite, whose size is that of the file after a vacuum.
func sqliteMonth(t *testing.T) *month {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return newMonth(t, s, func() (size int64) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), `VACUUM`); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(t.Context(), `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).
			Scan(&size); err != nil {
			t.Fatal(err)
		}
		return size
	})
}

// postgresMonth is a month on PostgreSQL, whose size is that of the tables and indexes after a vacuum.
func postgresMonth(t *testing.T) *month {
	t.Helper()
	dsn := testserver.Postgres(t)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return newMonth(t, s, func() (size int64) {
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		if _, err := c.Exec(t.Context(), `VACUUM FULL`); err != nil {
			t.Fatal(err)
		}
		if err := c.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(oid)) FROM pg_class
			WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`).Scan(&size); err != nil {
			t.Fatal(err)
		}
		return size
	})
}

func eachStore(t *testing.T, test func(t *testing.T, m *month)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *month{"SQLite": sqliteMonth, "PostgreSQL": postgresMonth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// At a constant load the store and the bucket stop growing when the first archives are deleted.
func TestPass_KeepsStoreAndBucketFlatFor30Days(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, m *month) {
		perDay := testtime.Rounds(4)
		var at20 [2]int64
		for m.day = 1; m.day <= monthDays; m.day++ {
			for range perDay {
				m.run()
			}
			out := m.pass()
			if m.day == 20 {
				at20 = [2]int64{m.size(), m.bucketSize()}
			}
			if m.day > 12 && (out.Archived != int64(perDay) || out.Deleted != int64(perDay) ||
				out.Events != int64(7*perDay) || out.Receipts != int64(perDay)) {
				t.Fatalf("day %d: the pass was %+v, want %d runs archived, emptied and deleted", m.day, out, perDay)
			}
		}
		for i, now := range []int64{m.size(), m.bucketSize()} {
			what := []string{"store", "bucket"}[i]
			t.Logf("size of the %s: %d bytes on day 20, %d on day 30", what, at20[i], now)
			if diff := float64(now)/float64(at20[i]) - 1; diff > 0.05 || diff < -0.05 {
				t.Errorf("size of the %s: %d bytes on day 20, %d on day 30 (%+.1f %%), want within 5 %%", what, at20[i], now,
					100*diff)
			}
		}
		out, err := storeadmin.Verify(t.Context(), m.reading, storeadmin.VerifyOptions{}, nil)
		m.ok(err)
		if out.Differences > 0 || out.Runs < 10*perDay {
			t.Errorf("verify found %d differences in %d runs: %v", out.Differences, out.Runs, out.Found)
		}
	})
}

// A policy that keeps artifacts longer does so for new ones: the older ones are removed at the end that they had.
func TestPass_LongerPolicyDoesNotExtendWhatWasWritten(t *testing.T) {
	t.Parallel()
	m := sqliteMonth(t)
	exists := func(id run.Identity) bool {
		m.Helper()
		l, err := m.store.Load(m.Context(), id.RunID)
		m.ok(err)
		for _, ref := range l.State.Artifacts {
			if ref.Kind != run.KindDatasetSample {
				continue
			}
			body, err := m.bucket.Open(m.Context(), ref.URI)
			if err == nil {
				_ = body.Close()
			}
			return err == nil
		}
		return false
	}
	m.day = 1
	older := m.run()
	m.pass()
	m.samples = 0 // for ever
	m.day = 2
	newer := m.run()
	m.pass()
	if !exists(older) || !exists(newer) {
		t.Fatal("a sample was removed before its end")
	}
	m.day = 4
	m.pass()
	if exists(older) || !exists(newer) {
		t.Errorf("on day 4 the sample of day 1 exists: %v, that of day 2: %v; want only the one that has no end",
			exists(older), exists(newer))
	}
}
