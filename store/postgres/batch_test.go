package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// An event that the database cannot store fails alone with run.ErrSchema, both in a batch and by itself.
// contract: T190
func TestBatch_ARefusedEventFailsAlone(t *testing.T) {
	s := open(t, migratedTemplate.Postgres(t))
	create(t, s, "r1")
	poison := stepStarted("s2", 1)
	poison.Payload = []byte("{\"note\":\"\xff\"}")
	invalid := stepStarted("s3", 1)
	invalid.LogicalAttempt = 0
	entries := make([]store.Entry, 4)
	for i, d := range []run.Draft{stepStarted("s1", 1), poison, invalid, stepStarted("s4", 1)} {
		entries[i].Append = &store.Append{RunID: "r1", Events: []run.Draft{d}}
	}
	out, err := s.Batch(t.Context(), "r1", entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []run.Seq{1, 0, 0, 2} {
		if want == 0 {
			if !errors.Is(out[i].Err, run.ErrSchema) {
				t.Errorf("entry %d: %v, want %v", i, out[i].Err, run.ErrSchema)
			}
			continue
		}
		if out[i].Err != nil || out[i].Appended.Outcomes[0].Seq != want {
			t.Errorf("entry %d: %+v, want seq %d", i, out[i], want)
		}
	}
	if _, err := appendTo(t.Context(), s, "r1", poison); !errors.Is(err, run.ErrSchema) {
		t.Errorf("append of the bad event alone: %v, want %v", err, run.ErrSchema)
	}
}

func TestBatch_IsBounded(t *testing.T) {
	s := open(t, migratedTemplate.Postgres(t))
	create(t, s, "r1")
	begin := store.StartAttempt{RunID: "r1", StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1}
	entries := make([]store.Entry, store.MaxEntries+1)
	for i := range entries {
		entries[i].Start = &begin
	}
	if _, err := s.Batch(t.Context(), "r1", entries); err == nil {
		t.Error("Batch wrote more than store.MaxEntries entries, want an error")
	}
	if _, err := s.Batch(t.Context(), "nobody", entries[:2]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("batch for an unknown run: %v, want %v", err, store.ErrNotFound)
	}
}

// When all connections are in use and MaxWaiting callers wait, another call fails at once.
func TestAppend_RefusesCallsBeyondTheLimits(t *testing.T) {
	dsn := testserver.Postgres(t)
	open(t, dsn)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{MaxConns: 1, MaxWaiting: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	create(t, s, "r1")
	holding, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.InRun(t.Context(), "r1", func(store.RunTx) error {
			close(holding)
			<-release
			return nil
		})
	}()
	<-holding
	waits := make(chan error, 2)
	for i := range cap(waits) { // one waits in the pool, one is the allowed waiter
		go func() {
			_, err := appendTo(t.Context(), s, "r1", stepStarted("s1", i+1))
			waits <- err
		}()
	}
	refused := func() error {
		_, err := appendTo(t.Context(), s, "r1", stepStarted("s2", 1))
		return err
	}
	for s.Queued() < int64(cap(waits)) {
		time.Sleep(time.Millisecond)
	}
	var full *store.OverloadedError
	if err := refused(); !errors.As(err, &full) || full.RetryAfter <= 0 {
		t.Errorf("a call beyond the limit: %v, want an OverloadedError with RetryAfter", err)
	}
	close(release)
	if err := errors.Join(<-done, <-waits, <-waits); err != nil {
		t.Errorf("the calls within the limit: %v, want no error", err)
	}
	if err := refused(); err != nil {
		t.Errorf("a call after the others ended: %v, want no error", err)
	}
}
