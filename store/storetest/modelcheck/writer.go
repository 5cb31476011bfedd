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

// remembered is the number of appends that a writer keeps to send again.
const remembered = 32

// writer makes random writes.
type writer struct {
	*history.Client
	*rand.Rand
	runPicker
	body *body
	seen map[string]*runView
	sent []store.Append
}

// runView is the knowledge of a writer about a run.
type runView struct {
	head run.Seq
	n    int // number of its writes; the drawn attempts and pauses increase with it
}

func (b *body) writer(n int) *writer {
	dice := b.dice(1, uint64(n))
	return &writer{
		Client: b.actor("writer", n), Rand: dice, body: b, seen: map[string]*runView{},
		runPicker: runPicker{dice: dice, written: &b.written},
	}
}

func (w *writer) work(ctx context.Context) {
	for ctx.Err() == nil {
		id := w.pick()
		s := w.seen[id]
		if s == nil {
			s = &runView{}
			w.seen[id] = s
		}
		s.n++
		w.body.written.Add(1)
		w.try(ctx, id, w.nextWrite(id, s))
	}
}

// calls is one write. It may be called again with the same effect.
type calls func(ctx context.Context) error

// nextWrite draws the next write.
func (w *writer) nextWrite(id string, s *runView) calls {
	switch draw := w.IntN(100); {
	case draw < 25:
		b := w.startAttempt(id, s)
		return func(ctx context.Context) error { return w.sendStart(ctx, b) }
	case draw < 33:
		entries := w.entries(id, s)
		return func(ctx context.Context) error { return w.Batch(ctx, id, entries) }
	case draw < 40:
		return w.signal(id, s)
	case draw < 42:
		return func(ctx context.Context) error { return w.Create(ctx, newRun(id)) }
	case draw < 55 && len(w.sent) > 0: // a repetition
		return w.sendCall(w.sent[w.IntN(len(w.sent))])
	}
	a := w.append(id, s)
	if len(w.sent) < remembered {
		w.sent = append(w.sent, a)
	} else {
		w.sent[w.IntN(remembered)] = a
	}
	return w.sendCall(a)
}

func (w *writer) sendCall(a store.Append) calls {
	return func(ctx context.Context) error { return w.send(ctx, a) }
}

// tries bounds the repetitions of one call. After them the writer continues without a result.
const tries = 5

// try repeats a write until it succeeds. The context of a few calls ends early; they may have been committed or not.
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
			_ = w.Create(ctx, newRun(id)) // its error is recorded, and the next try shows the result
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
	w.observe(a.RunID, out.Head)
	return nil
}

func (w *writer) sendStart(ctx context.Context, b store.StartAttempt) error {
	out, err := w.StartAttempt(ctx, b)
	if err != nil {
		return err
	}
	w.observe(b.RunID, out.Head)
	return nil
}

func (w *writer) observe(id string, h store.Head) {
	if s := w.seen[id]; s != nil {
		s.head = max(s.head, h.LastSeq)
	}
	if h.Terminal && w.IntN(4) == 0 {
		w.markEnded(id)
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

// signal returns a write that accepts one of the next signals of the run. Other writers accept the same ones.
func (w *writer) signal(id string, s *runView) calls {
	signalID := fmt.Sprintf("sig-%d", s.n/8+w.IntN(6))
	a := store.Append{RunID: id, Events: []run.Draft{runtest.Draft(run.SignalAccepted, signalID, 1)}}
	if w.IntN(3) == 0 {
		a.Events = append(a.Events, w.drafts(s, 2)...)
	}
	receipt := run.SignalReceipt{
		Signal: run.Signal{ID: signalID, Type: run.Pause}, Actor: "ola", Reason: "maintenance",
		Payload: []byte(`{"pause":{"reason":"maintenance"}}`),
	}
	return func(ctx context.Context) error {
		_, err := w.Accept(ctx, a, receipt)
		return err
	}
}
