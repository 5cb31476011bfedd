package projector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// sealsOf returns the positions of the seals of a run's log and checks each against the log.
func sealsOf(t *testing.T, s store.Store, runID string) (at []run.Seq) {
	t.Helper()
	if _, err := s.LinkAudit(t.Context(), store.MaxPage); err != nil {
		t.Fatal(err)
	}
	links, err := s.AuditLinks(t.Context(), store.AuditFilter{TenantID: runtest.ID.TenantID, RunID: runID,
		Action: store.ActionSealLog, Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		seal, err := store.ParseLogSeal(l.Row.Object, l.Row.Digest)
		if err != nil {
			t.Fatal(err)
		}
		want, err := store.LogHash(t.Context(), s, runID, store.LogSeal{}, seal.Seq)
		if err != nil || want != seal {
			t.Errorf("the seal at event %d is %x, and the log has %x there: %v", seal.Seq, seal.Hash, want.Hash, err)
		}
		at = append(at, seal.Seq)
	}
	return at
}

func requireProjected(t *testing.T, s store.Store, p *projector.Projector, runID string) {
	t.Helper()
	if err := p.Project(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Load(t.Context(), runID); err != nil || l.CheckpointAt != l.Head.LastSeq {
		t.Fatalf("the checkpoint is at %d and the head at %d: %v", l.CheckpointAt, l.Head.LastSeq, err)
	}
}

func appendTo(t *testing.T, s store.Store, runID string, drafts ...run.Draft) run.Seq {
	t.Helper()
	out, err := s.Append(t.Context(), store.Append{RunID: runID, Events: drafts})
	if err != nil {
		t.Fatal(err)
	}
	return out.Head.LastSeq
}

func TestSeal_LogOfAnEndedRunIsSealedOnce(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	runID := create(t, s, 1)
	p := projector.New(s, &fakeBus{}, projector.Config{})
	begin(t, s, runID, 0)
	requireProjected(t, s, p, runID)
	if at := sealsOf(t, s, runID); len(at) != 0 {
		t.Errorf("the log of an open run of 3 events has seals at %v, want none", at)
	}
	end := appendTo(t, s, runID, runtest.Draft(run.StepCompletedEvent, steps[0], 1),
		runtest.Draft(run.RunCancelled, "", 1))
	for range 2 {
		requireProjected(t, s, p, runID)
		// another server, or this one after a restart
		requireProjected(t, s, projector.New(s, &fakeBus{}, projector.Config{}), runID)
	}
	if at := sealsOf(t, s, runID); fmt.Sprint(at) != fmt.Sprint([]run.Seq{end}) {
		t.Errorf("the log of a run that ended at %d has seals at %v, want one there", end, at)
	}
}

// failingAdvance refuses checkpoints, like a server that dies between the seal and the checkpoint.
type failingAdvance struct {
	store.Store
	saves bool
}

func (c *failingAdvance) Advance(ctx context.Context, sent []store.PublishedTo, save []store.CheckpointSave) ([]bool,
	error) {
	if len(save) > 0 && !c.saves {
		return nil, errors.New("checkpoint refused")
	}
	return c.Store.Advance(ctx, sent, save)
}

func TestSeal_IsWrittenBeforeTheCheckpoint(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	runID := create(t, s, 1)
	end := appendTo(t, s, runID, runtest.Draft(run.RunCancelled, "", 1))
	if err := projector.New(&failingAdvance{Store: s}, &fakeBus{}, projector.Config{}).Project(t.Context(),
		runID); err == nil {
		t.Fatal("the checkpoint was saved although the store refused it")
	}
	if at := sealsOf(t, s, runID); fmt.Sprint(at) != fmt.Sprint([]run.Seq{end}) {
		t.Errorf("before the checkpoint the log has seals at %v, want one at %d", at, end)
	}
	requireProjected(t, s, projector.New(s, &fakeBus{}, projector.Config{}), runID)
	if at := sealsOf(t, s, runID); len(at) != 1 {
		t.Errorf("after the checkpoint the log has seals at %v, want the one", at)
	}
}

// failingAudit is a store that cannot write the audit.
type failingAudit struct{ store.Store }

func (failingAudit) Audit(context.Context, ...store.AuditRow) error { return errors.New("disk full") }

func TestSeal_FailureKeepsTheMarkAndDelaysNoOtherRun(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	open, ended := create(t, s, 1), create(t, s, 2)
	begin(t, s, open, 0)
	appendTo(t, s, ended, runtest.Draft(run.RunCancelled, "", 1))
	p := projector.New(failingAudit{s}, &fakeBus{}, projector.Config{})
	requireProjected(t, s, p, open)
	if err := p.Project(t.Context(), ended); err == nil {
		t.Error("a failed seal returned no error")
	}
	dirty, err := s.Dirty(t.Context(), 0, 10)
	if err != nil || len(dirty) != 1 || dirty[0].RunID != ended {
		t.Errorf("runs that are still marked: %v, %v; want %s", dirty, err, ended)
	}
}

func TestSeal_LongLogOfAnOpenRunIsSealed(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	runID := create(t, s, 1)
	p := projector.New(s, &fakeBus{}, projector.Config{})
	var want []run.Seq
	for attempt := 1; len(want) < 2; attempt++ {
		drafts := make([]run.Draft, 0, 2*len(steps))
		for _, step := range steps {
			drafts = append(drafts, runtest.Draft(run.StepStartedEvent, step, attempt), runtest.Draft(run.StepFailedEvent, step,
				attempt))
		}
		head := appendTo(t, s, runID, drafts...)
		if attempt%3 == 0 {
			p = projector.New(s, &fakeBus{}, projector.Config{}) // a new projector without cached seals
		}
		requireProjected(t, s, p, runID)
		last := run.Seq(0)
		if len(want) > 0 {
			last = want[len(want)-1]
		}
		if head-last >= 1000 {
			want = append(want, head)
		}
	}
	if at := sealsOf(t, s, runID); fmt.Sprint(at) != fmt.Sprint(want) {
		t.Errorf("seals at %v, want %v", at, want)
	}
}
