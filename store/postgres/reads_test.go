package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// reads counts statements and the rows that they return or change.
type reads struct{ statements, rows int64 }

func (r *reads) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.statements++
	return ctx
}

func (r *reads) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	r.rows += d.CommandTag.RowsAffected()
}

func (r *reads) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *reads) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.statements++
	r.rows += d.CommandTag.RowsAffected()
}
func (r *reads) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Every read is one statement for any number of steps. Since reads only the steps that changed.
// contract: T212
func TestReads_OneStatementEach(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, testserver.Postgres(t), Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	count := &reads{}
	cfg := s.pool.Load().Config()
	cfg.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.pool.Swap(pool).Close()
	for _, steps := range []int{10, 1000} {
		id := run.Identity{RunID: fmt.Sprint("r", steps), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1",
			PlanID: runtest.ID.PlanID, PlanVersion: runtest.ID.PlanVersion}
		names := make([]string, steps)
		for i := range names {
			names[i] = fmt.Sprintf("s%04d", i)
		}
		if _, _, err := s.CreateRun(
			ctx, store.NewRun{Run: store.Run{Identity: id}, Events: []run.Draft{runtest.Start(names...)}}); err != nil {
			t.Fatal(err)
		}
		begin := func(step string) {
			if _, err := s.StartAttempt(ctx, store.StartAttempt{RunID: id.RunID, StepID: step, LogicalAttempt: 1,
				EngineAttempt: 1,
				EmittedAt:     time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		save := func() {
			l, err := s.Load(ctx, id.RunID)
			if err == nil {
				_, err = s.Save(ctx, l.State, l.Changes)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		begin(names[0])
		begin(names[1])
		save()
		begin(names[2])
		check := func(what string, maxRows int64, read func() error) {
			t.Helper()
			*count = reads{}
			if err := read(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if count.statements != 1 {
				t.Errorf("%s of a run with %d steps took %d statements, want 1", what, steps, count.statements)
			}
			if maxRows > 0 && count.rows > maxRows {
				t.Errorf("%s of a run with %d steps read %d rows, want at most %d", what, steps, count.rows, maxRows)
			}
		}
		check("Load with a tail", 0, func() error { _, err := s.Load(ctx, id.RunID); return err })
		check("Since with a tail", 0, func() error { _, _, err := s.Since(ctx, id.RunID, 2); return err })
		check("At", 0, func() error { _, err := s.At(ctx, id.RunID, 3); return err })
		save()
		check("Since at the head", 4, func() error {
			l, d, err := s.Since(ctx, id.RunID, 2)
			if err == nil && (len(d.Steps) != 2 || d.To != l.Head.LastSeq || l.State.Steps != nil) {
				t.Errorf("Since returned %d changed steps up to seq %d, head %d, and %d steps of the state; want 2 up to the "+
					"head and none", len(d.Steps), d.To, l.Head.LastSeq, len(l.State.Steps))
			}
			return err
		})
		check("Events", 3, func() error { _, err := s.Events(ctx, id.RunID, 1, 100); return err })
		check("EventsBefore", 2, func() error { _, err := s.EventsBefore(ctx, id.RunID, 3, 100); return err })
		check("Heads", 0, func() error { _, err := s.Heads(ctx, []string{id.RunID, "x"}); return err })
		check("List", 0, func() error { _, err := s.List(ctx, store.RunFilter{TenantID: "t1", Limit: 10}); return err })
		check("List of many", 0, func() error {
			_, err := s.List(ctx, store.RunFilter{
				TenantID: "t1", ProjectIDs: []string{"p1", "p2", "p3"}, Statuses: []run.Status{run.Running, run.Failed},
				Steps: true, Limit: 10,
			})
			return err
		})
		check("Tails", 3, func() error { _, err := s.Tails(ctx, []store.TailRequest{{RunID: id.RunID, Seq: 1}}); return err })
		check("Dirty", 0, func() error { _, err := s.Dirty(ctx, 0, 10); return err })
		check("Receipts", 0, func() error { _, err := s.Receipts(ctx, id.RunID, "", 10); return err })
		check("Checkpoint", 0, func() error { _, err := s.Checkpoint(ctx, id.RunID); return err })
	}
}
