package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits of what workers say about secrets.
const (
	maxSecretText    = 200  // bytes of a version or a code
	maxSecretMessage = 1000 // bytes of the message of a check
	maxSecretAnswers = 100  // answers of one poll
	maxSecretCount   = 1 << 30
	// openOrdersAge is how long a server remembers the open orders, so that polls of all workers cost one read a second.
	openOrdersAge = time.Second
)

var _ engine.SecretDispatcher = (*attempts)(nil)

// SecretReads implements engine.AttemptJournal. A worker can record only secrets that the step names, for an attempt
// whose key it has, and at most engine.MaxSecretReads in an engine attempt.
func (a *attempts) SecretReads(ctx context.Context, r engine.SecretReads) error {
	err := a.secretReads(ctx, r)
	call := refusedCall{call: "secret-reads", actor: a.worker.ID, runID: r.RunID, stepID: r.StepID}
	return a.journal.refusals.record(ctx, call, err)
}

func (a *attempts) secretReads(ctx context.Context, r engine.SecretReads) error {
	j := a.journal
	if err := a.checkKey(ctx, r.Key, ticket.Execution{
		RunID: r.RunID, StepID: r.StepID, LogicalAttempt: r.LogicalAttempt, N: r.N, EngineAttempt: r.EngineAttempt,
		Hook: r.Hook, StartedSeq: r.StartedSeq,
	}); err != nil {
		return err
	}
	f, i, err := j.openAttempt(ctx, r.RunID, r.StepID, r.LogicalAttempt, r.Hook)
	if err != nil {
		return err
	}
	if len(r.Reads) == 0 || len(r.Reads) > engine.MaxSecretReads {
		return newRefusal("secrets", "a call must record 1 to %d reads of secrets", engine.MaxSecretReads)
	}
	named := f.plan.Steps[i].SecretRefs
	rows := make([]store.SecretRead, len(r.Reads))
	for n, read := range r.Reads {
		at := slices.IndexFunc(named, func(ref plan.SecretRef) bool {
			return ref.Provider == read.Provider && ref.Key == read.Key && ref.Version == read.Version
		})
		switch {
		case at < 0:
			return newRefusal("secrets", "step %s does not name this secret", r.StepID)
		case read.No < 1 || read.No > engine.MaxSecretReads:
			return newRefusal("secrets", "the number of a read must be between 1 and %d", engine.MaxSecretReads)
		}
		rows[n] = store.SecretRead{
			TenantID: f.run.TenantID, RunID: r.RunID, StepID: r.StepID, LogicalAttempt: r.LogicalAttempt,
			EngineAttempt: engine.StoredAttempt(r.EngineAttempt, r.Hook), No: read.No, Account: a.worker.ID,
			Worker: run.Text(r.Worker, maxReportName), Provider: read.Provider, Key: read.Key, Version: read.Version,
			Answered: run.Text(read.Answered, maxSecretText), As: asOf(named, at, read.No), Cached: read.Cached,
			Code: run.Code(run.Text(string(read.Code), maxSecretText)),
		}
	}
	return j.cfg.Store.Secrets.PutSecretReads(ctx, rows)
}

// asOf says how the step gets the secret named[at]. A plan may name one secret several times, with the read No as the
// position of the reference.
func asOf(named []plan.SecretRef, at, no int) string {
	if i := no - 1; i < len(named) && named[i].Provider == named[at].Provider && named[i].Key == named[at].Key &&
		named[i].Version == named[at].Version {
		at = i
	}
	return named[at].Destination().String()
}

// openAttempt returns the facts of a run and the index of a step one of whose attempts, or whose hook, has not ended.
// It refuses another one, at most evidenceAge late.
func (j *Journal) openAttempt(ctx context.Context, runID, stepID string, logicalAttempt int,
	hook bool) (*RunFacts, int, error) {
	f, i, err := j.stepOf(ctx, runID, stepID)
	if err != nil {
		return nil, 0, err
	}
	over, err := j.learn(ctx, f, evidenceAge, func(k *KnownLog) bool {
		s := k.Step(i)
		return !hook && s.ended >= logicalAttempt || hook && s.hookEnd > 0
	})
	if err == nil && over {
		err = newRefusal("after_end", "evidence after the end: attempt %d of step %s has its end in the log",
			logicalAttempt, stepID)
	}
	return f, i, err
}

// openOrders remembers the open orders about secrets. It is safe for concurrent use.
type openOrders struct {
	mu    sync.Mutex
	until time.Time
	list  []store.SecretOrder
}

func (o *openOrders) read(ctx context.Context, s SecretStore) ([]store.SecretOrder, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return o.list, nil
	}
	list, err := s.OpenSecretOrders(ctx)
	if err != nil {
		return nil, err
	}
	o.list, o.until = list, time.Now().Add(openOrdersAge)
	return list, nil
}

// SecretOrders implements engine.SecretDispatcher. A worker gets the orders about tenants that it serves, and checks
// only for its queues. It cannot answer others.
func (a *attempts) SecretOrders(ctx context.Context, p engine.SecretPoll) ([]engine.SecretOrder, error) {
	orders, err := a.secretOrders(ctx, p)
	return orders, a.journal.refusals.record(ctx, refusedCall{call: "secret-orders", actor: a.worker.ID,
		tenants: a.tenants()}, err)
}

func (a *attempts) secretOrders(ctx context.Context, p engine.SecretPoll) ([]engine.SecretOrder, error) {
	if !isName(p.Worker) || len(p.Queues) > maxReportQueues || len(p.Answers) > maxSecretAnswers {
		return nil, newRefusal("secrets", "a poll must have the name of the worker, at most %d queues and %d answers",
			maxReportQueues, maxSecretAnswers)
	}
	if err := a.checkQueues(p.Queues); err != nil {
		return nil, err
	}
	open, err := a.journal.orders.read(ctx, a.journal.cfg.Store.Secrets)
	if err != nil {
		return nil, err
	}
	var mine []engine.SecretOrder
	for _, o := range open {
		if order, ok := a.orderFor(p.Queues, o); ok {
			mine = append(mine, order)
		}
	}
	for _, answer := range p.Answers {
		at := slices.IndexFunc(mine, func(o engine.SecretOrder) bool { return o.ID == answer.OrderID })
		if at < 0 {
			continue // its time is over, or it is not for this worker
		}
		doc, err := json.Marshal(checkedAnswer(mine[at], answer))
		if err != nil {
			return nil, fmt.Errorf("control: answer about secrets: %w", err)
		}
		err = a.journal.cfg.Store.Secrets.PutSecretAnswer(ctx, store.SecretAnswer{OrderID: answer.OrderID,
			Account: a.worker.ID, Worker: p.Worker, Doc: doc})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	return mine, nil
}

// orderFor returns an order as the worker gets it. ok is false for an order that is not for this worker.
func (a *attempts) orderFor(queues []string, o store.SecretOrder) (out engine.SecretOrder, ok bool) {
	if !a.worker.MayServe(o.TenantID) || json.Unmarshal(o.Doc, &out) != nil {
		return out, false
	}
	out.ID, out.TenantID = o.ID, o.TenantID
	if c := out.Check; c != nil {
		return out, slices.ContainsFunc(c.Queues, func(queue string) bool { return slices.Contains(queues, queue) })
	}
	return out, out.Revoke != nil
}

// checkedAnswer returns the part of an answer that fits its order, with bounded texts and numbers.
func checkedAnswer(o engine.SecretOrder, a engine.SecretAnswer) engine.SecretAnswer {
	out := engine.SecretAnswer{OrderID: o.ID}
	if o.Revoke != nil {
		count := func(n int) int { return min(max(n, 0), maxSecretCount) }
		out.Dropped, out.Ended, out.Failed = count(a.Dropped), count(a.Ended), count(a.Failed)
		return out
	}
	for _, c := range a.Checked[:min(len(a.Checked), len(o.Check.Refs))] {
		out.Checked = append(out.Checked, engine.CheckedSecret{Code: run.Code(run.Text(string(c.Code), maxSecretText)),
			Message: run.Text(c.Message, maxSecretMessage), Answered: run.Text(c.Answered, maxSecretText)})
	}
	return out
}
