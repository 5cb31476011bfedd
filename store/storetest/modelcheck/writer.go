package modelcheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/storetest/history"
)

// remembered is how many of its appends a writer may send again.
const remembered = 32

// writer appends and begins at random.
type writer struct {
	*history.Client
	*rand.Rand
	fashion
	body *body
	seen map[string]*sight
	sent []store.Append
}

// sight is what a writer knows about a run.
type sight struct {
	head run.Seq
	n    int // its own writes: attempts and pauses move on with it
}

func (b *body) writer(n int) *writer {
	dice := b.dice(1, uint64(n))
	return &writer{
		Client: b.actor("writer", n), Rand: dice, body: b, seen: map[string]*sight{},
		fashion: fashion{dice: dice, written: &b.written},
	}
}

func (w *writer) work(ctx context.Context) {
	for ctx.Err() == nil {
		id := w.pick()
		s := w.seen[id]
		if s == nil {
			s = &sight{}
			w.seen[id] = s
		}
		s.n++
		w.body.written.Add(1)
		w.try(ctx, id, w.move(id, s))
	}
}

// calls are the ways to write; each may be repeated as it is.
type calls func(ctx context.Context) error

// move draws what to do next.
func (w *writer) move(id string, s *sight) calls {
	switch draw := w.IntN(100); {
	case draw < 25:
		b := w.begin(id, s)
		return func(ctx context.Context) error { return w.sendBegin(ctx, b) }
	case draw < 33:
		entries := w.entries(id, s)
		return func(ctx context.Context) error { return w.Batch(ctx, id, entries) }
	case draw < 40:
		return w.signal(id, s)
	case draw < 42:
		return func(ctx context.Context) error { return w.Create(ctx, newRun(id)) }
	case draw < 55 && len(w.sent) > 0: // again, on purpose
		return w.sending(w.sent[w.IntN(len(w.sent))])
	}
	a := w.append(id, s)
	if len(w.sent) < remembered {
		w.sent = append(w.sent, a)
	} else {
		w.sent[w.IntN(remembered)] = a
	}
	return w.sending(a)
}

func (w *writer) sending(a store.Append) calls {
	return func(ctx context.Context) error { return w.send(ctx, a) }
}

// tries bound the repetitions of one call; after them the writer goes on, and
// nobody ever learns what became of it.
const tries = 5

// try does one thing until it is answered. A few calls are cut short by their
// context, which may or may not have committed.
func (w *writer) try(ctx context.Context, id string, do calls) {
	for n := range tries {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience/2)
		if n == 0 && w.IntN(40) == 0 {
			cancel()
			call, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Duration(w.IntN(4000))*time.Microsecond)
		}
		err := do(call)
		cancel()
		switch {
		case err == nil:
			return
		case errors.Is(err, store.ErrNotFound):
			_ = w.Create(ctx, newRun(id)) // recorded; the next try tells
		case !pause(ctx, time.Duration(w.IntN(20))*time.Millisecond):
			return
		}
	}
}

func (w *writer) send(ctx context.Context, a store.Append) error {
	out, err := w.Append(ctx, a)
	if err != nil {
		return err
	}
	w.look(a.RunID, out.Head)
	return nil
}

func (w *writer) sendBegin(ctx context.Context, b store.StartAttempt) error {
	out, err := w.StartAttempt(ctx, b)
	if err != nil {
		return err
	}
	w.look(b.RunID, out.Head)
	return nil
}

func (w *writer) look(id string, h store.Head) {
	if s := w.seen[id]; s != nil {
		s.head = max(s.head, h.LastSeq)
	}
	if h.Terminal && w.IntN(4) == 0 {
		w.over(id)
	}
}

func newRun(runID string) store.NewRun {
	id := runtest.ID
	id.RunID = runID
	return store.NewRun{
		Run: store.Run{
			Identity: id, RequestID: "req-" + runID, TriggeredBy: "ola", TriggerSource: "api",
			Params:     []byte(`{"day":"2026-02-16"}`),
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, "req-"+runID),
			PlanRef: plan.Ref{SHA256: strings.Repeat("ab", 32), SchemaVersion: "v1.2", PlanID: id.PlanID,
				PlanVersion: id.PlanVersion},
			Policy: run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: []byte(`{}`), Enqueue: &store.Enqueue{Terms: store.Unlimited()},
		Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(steps...)},
	}
}

var steps = []string{"s1", "s2", "s3<s1", "s4<s1,s2", "s5<s3", "s6"}

// signal accepts one of the run's next signals; other writers want the same ones.
func (w *writer) signal(id string, s *sight) calls {
	signalID := fmt.Sprintf("sig-%d", s.n/8+w.IntN(6))
	a := store.Append{RunID: id, Events: []run.Draft{runtest.Draft(run.SignalAccepted, signalID, 1)}}
	if w.IntN(3) == 0 {
		a.Events = append(a.Events, w.drafts(s, 2)...)
	}
	receipt := run.Receipt{
		Signal: run.Signal{ID: signalID, Type: run.Pause}, Actor: "ola", Reason: "maintenance",
		Payload: []byte(`{"pause":{"reason":"maintenance"}}`),
	}
	return func(ctx context.Context) error {
		_, err := w.Accept(ctx, a, receipt)
		return err
	}
}
