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

// memoryLive implements the parts of a store and of a bus that viewers need, with runs in memory.
type memoryLive struct {
	store.Store // nil: the figure calls only the methods below

	order []*memoryRun
	runs  map[string]*memoryRun

	mu   sync.Mutex
	subs map[string][]*mailbox
}

const (
	memoryEpoch = "e1"
	timeOffset  = 123 * time.Millisecond
)

// memoryRun is a run whose steps start and complete one after another, repeatedly, as engine attempts of the same
// logical attempt. The run does not grow, and the cost of an update does not depend on the number of steps.
type memoryRun struct {
	mu      sync.Mutex
	header  run.Header
	steps   []*run.Step
	updates int // number of calls of advance
	at      time.Time
}

func newMemoryRun(id string, steps int) (*memoryRun, error) {
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
	// Real times have milliseconds. JSON omits them when they are 0, so the frames would be shorter than real ones.
	s.StartedAt = new(s.StartedAt.Add(timeOffset))
	for _, step := range s.Steps {
		a := &step.Attempts[0]
		a.StartedAt, a.CompletedAt = new(a.StartedAt.Add(timeOffset)), new(a.CompletedAt.Add(timeOffset))
	}
	return &memoryRun{header: s.Header, steps: s.Steps, at: time.Now()}, nil
}

// advance starts or completes a step and returns the message of the update.
func (r *memoryRun) advance(at time.Time) live.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.updates / 2 % len(r.steps)
	begins := r.updates%2 == 0
	r.updates++
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
		Epoch: memoryEpoch, Rev: run.ReducerRev, From: r.header.Seq - 1, To: r.header.Seq, At: at, CommittedAt: at,
		Delta: &run.Delta{From: r.header.Seq - 1, To: r.header.Seq, Header: r.header, Steps: []*run.Step{&step}},
	}
}

func (r *memoryRun) head() store.Head {
	r.mu.Lock()
	defer r.mu.Unlock()
	return store.Head{RunID: r.header.RunID, LastSeq: r.header.Seq, LastAt: r.at}
}

// Get implements store.Runs.
func (m *memoryLive) Get(_ context.Context, runID string) (store.Run, error) {
	r := m.runs[runID]
	if r == nil {
		return store.Run{}, store.ErrNotFound
	}
	return store.Run{Identity: r.header.Identity}, nil
}

// Heads implements store.Log.
func (m *memoryLive) Heads(_ context.Context, runIDs []string) (store.Heads, error) {
	out := store.Heads{Epoch: memoryEpoch, Now: time.Now(), ByRun: map[string]store.Head{}}
	for _, id := range runIDs {
		if r := m.runs[id]; r != nil {
			out.ByRun[id] = r.head()
		}
	}
	return out, nil
}

// Since implements store.States. It returns all steps as changed.
func (m *memoryLive) Since(_ context.Context, runID string, _ run.Seq) (store.Loaded, run.Delta, error) {
	r := m.runs[runID]
	if r == nil {
		return store.Loaded{}, run.Delta{}, store.ErrNotFound
	}
	head := r.head()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := run.State{Header: r.header, Steps: slices.Clone(r.steps)}
	head.LastSeq = s.Seq
	return store.Loaded{State: s, Head: head, CheckpointAt: s.Seq, PublishedSeq: s.Seq, Epoch: memoryEpoch,
		Now: time.Now()}, s.Since(0), nil
}

// Publish implements live.Bus.
func (m *memoryLive) Publish(_ context.Context, msg live.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subs[msg.RunID] {
		s.put(live.Delivery{Message: &msg})
	}
	return nil
}

// WakeLists implements live.Bus.
func (*memoryLive) WakeLists(context.Context, ...live.List) error { return nil }

// Subscribe implements live.Bus.
func (m *memoryLive) Subscribe(runID string) live.Subscription {
	s := &mailbox{of: m, runID: runID, c: make(chan live.Delivery, 64)}
	s.put(live.Delivery{Confirmed: true})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subs[runID] = append(m.subs[runID], s)
	return s
}

// SubscribeList implements live.Bus.
func (m *memoryLive) SubscribeList(_, projectID string) live.Subscription {
	return m.Subscribe("list " + projectID)
}

// Up implements live.Bus.
func (*memoryLive) Up() bool { return true }

// Close implements live.Bus.
func (*memoryLive) Close() error { return nil }

// mailbox is one subscription. It does not overflow, because a figure publishes an update only after all viewers have
// the previous one.
type mailbox struct {
	of    *memoryLive
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
