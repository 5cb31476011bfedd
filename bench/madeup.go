package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// madeUp is runs in memory, with the bus that their updates travel on: the parts of
// a store and a bus that somebody who looks on needs.
type madeUp struct {
	store.Store // nil: the figure calls only the methods below

	order []*madeUpRun
	runs  map[string]*madeUpRun

	mu   sync.Mutex
	subs map[string][]*mailbox
}

const (
	madeUpEpoch = "e1"
	aBit        = 123 * time.Millisecond
)

// madeUpRun is a run whose steps begin and complete one after another, again and
// again as executions of the same attempt: it never grows, and an update costs the
// same whatever the number of steps.
type madeUpRun struct {
	mu     sync.Mutex
	header run.Header
	steps  []*run.Step
	moved  int
	at     time.Time
}

func newMadeUpRun(id string, steps int) (*madeUpRun, error) {
	names := make([]string, steps)
	for i := range names {
		names[i] = rig.StepName(i)
	}
	drafts := []run.Draft{runtest.Start(names...)}
	for n := range 2 * steps {
		drafts = append(drafts, rig.Draft(n, steps))
	}
	of := runtest.ID
	of.RunID = id
	events := runtest.Log(drafts...)
	for i := range events {
		events[i].RunID = id
	}
	s, _, _ := run.Fold(run.State{Header: run.Header{Identity: of}}, events)
	// Real times have milliseconds, which are not left out then.
	s.StartedAt = new(s.StartedAt.Add(aBit))
	for _, step := range s.Steps {
		a := &step.Attempts[0]
		a.StartedAt, a.CompletedAt = new(a.StartedAt.Add(aBit)), new(a.CompletedAt.Add(aBit))
	}
	return &madeUpRun{header: s.Header, steps: s.Steps, at: time.Now()}, nil
}

// move begins or completes a step, and is the message that says so.
func (r *madeUpRun) move(at time.Time) live.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.moved / 2 % len(r.steps)
	begins := r.moved%2 == 0
	r.moved++
	r.at = at
	r.header.Seq++
	step := *r.steps[n]
	a := step.Attempts[0]
	if begins {
		a.EngineAttempt++
		a.Status, a.StartedAt, a.CompletedAt, a.DurationMS = run.StepRunning, &at, nil, 0
		r.header.Counts.Running, r.header.Counts.Success = 1, len(r.steps)-1
	} else {
		a.Status, a.CompletedAt, a.DurationMS = run.StepSuccess, &at, at.Sub(*a.StartedAt).Milliseconds()
		r.header.Counts.Running, r.header.Counts.Success = 0, len(r.steps)
	}
	step.Attempts, step.Status, step.ChangedSeq = []run.Attempt{a}, a.Status, r.header.Seq
	r.steps[n] = &step
	return live.Message{
		V: live.MessageVersion, TenantID: r.header.TenantID, ProjectID: r.header.ProjectID, RunID: r.header.RunID,
		Epoch: madeUpEpoch, Rev: run.ReducerRev, From: r.header.Seq - 1, To: r.header.Seq, At: at, CommittedAt: at,
		Delta: &run.Delta{From: r.header.Seq - 1, To: r.header.Seq, Header: r.header, Steps: []*run.Step{&step}},
	}
}

func (r *madeUpRun) head() store.Head {
	r.mu.Lock()
	defer r.mu.Unlock()
	return store.Head{RunID: r.header.RunID, LastSeq: r.header.Seq, LastAt: r.at}
}

// Get implements store.Runs.
func (m *madeUp) Get(_ context.Context, runID string) (store.Run, error) {
	r := m.runs[runID]
	if r == nil {
		return store.Run{}, store.ErrNotFound
	}
	return store.Run{Identity: r.header.Identity}, nil
}

// Heads implements store.Log.
func (m *madeUp) Heads(_ context.Context, runIDs []string) (store.Heads, error) {
	out := store.Heads{Epoch: madeUpEpoch, Now: time.Now(), ByRun: map[string]store.Head{}}
	for _, id := range runIDs {
		if r := m.runs[id]; r != nil {
			out.ByRun[id] = r.head()
		}
	}
	return out, nil
}

// Since implements store.States; what changed is everything.
func (m *madeUp) Since(_ context.Context, runID string, _ run.Seq) (store.Loaded, run.Delta, error) {
	r := m.runs[runID]
	if r == nil {
		return store.Loaded{}, run.Delta{}, store.ErrNotFound
	}
	head := r.head()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := run.State{Header: r.header, Steps: slices.Clone(r.steps)}
	head.LastSeq = s.Seq
	return store.Loaded{State: s, Head: head, CheckpointAt: s.Seq, PublishedSeq: s.Seq, Epoch: madeUpEpoch,
		Now: time.Now()}, s.Since(0), nil
}

// Publish implements live.Bus.
func (m *madeUp) Publish(_ context.Context, msg live.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subs[msg.RunID] {
		s.put(live.Delivery{Message: &msg})
	}
	return nil
}

// WakeLists implements live.Bus.
func (*madeUp) WakeLists(context.Context, ...live.List) error { return nil }

// Subscribe implements live.Bus.
func (m *madeUp) Subscribe(runID string) live.Subscription {
	s := &mailbox{of: m, runID: runID, c: make(chan live.Delivery, 64)}
	s.put(live.Delivery{Confirmed: true})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subs[runID] = append(m.subs[runID], s)
	return s
}

// SubscribeList implements live.Bus.
func (m *madeUp) SubscribeList(_, projectID string) live.Subscription {
	return m.Subscribe("list " + projectID)
}

// Up implements live.Bus.
func (*madeUp) Up() bool { return true }

// Close implements live.Bus.
func (*madeUp) Close() error { return nil }

// mailbox is one subscription; its reader keeps up, because an update waits for the one before.
type mailbox struct {
	of    *madeUp
	runID string
	c     chan live.Delivery
}

func (s *mailbox) put(d live.Delivery) {
	select {
	case s.c <- d:
	default:
		<-s.c
		d.Overflow = true
		s.c <- d
	}
}

// C implements live.Subscription.
func (s *mailbox) C() <-chan live.Delivery { return s.c }

// Close implements live.Subscription.
func (s *mailbox) Close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.subs[s.runID] = slices.DeleteFunc(s.of.subs[s.runID], func(o *mailbox) bool { return o == s })
}
