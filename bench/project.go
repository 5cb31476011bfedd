package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/postgres"
)

const (
	watchedRuns   = 100
	watchedSteps  = 20
	watchInterval = 100 * time.Millisecond // per run: 1,000 appends a second in total
	warmUp        = 500 * time.Millisecond
	watchTime     = 2 * time.Second
	watchTurns    = 3
)

// busReceipt measures the time from the commit of an event to the receipt of its message from the bus. Store, projector
// and Redis are connected as in a server. The receiver runs in the same process, so that both times come from one
// clock. An event is received with the first message whose To is at least its seq.
func busReceipt(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	url, err := r.RedisURL()
	if err != nil {
		return nil, err
	}
	s, _, err := r.Store(ctx, rig.NativeFlush, postgres.DefaultMaxConns)
	if err != nil {
		return nil, err
	}
	bus, err := redisbus.Open(redisbus.Config{URL: url})
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, watchedRuns, watchedSteps)
	if err != nil {
		return nil, err
	}
	w := &watch{bus: bus, store: s, ids: ids, ws: rig.WritersOf(s, ids, watchedSteps)}
	return &rig.Trial{
		Repeat: rig.Alternate(watchTurns, w.measureProjected, w.measureBus),
		Done:   func() error { return errors.Join(bus.Close(), s.Close()) },
	}, nil
}

// watch appends events to many runs and receives their messages.
type watch struct {
	bus   *redisbus.Bus
	store *postgres.Store
	ids   []string
	ws    []*rig.Writer
}

// measureProjected returns the p99 of the time from the return of an append to the receipt of its message.
func (w *watch) measureProjected(ctx context.Context, _ int) (took time.Duration, err error) {
	p := projector.New(w.store, w.bus, projector.Config{})
	woken := decorate.WakeOnCommit(coalesced(w.store), p)
	running, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return p.Run(running) })
	for _, wr := range w.ws {
		wr.Log = woken
	}
	took, err = w.p99(ctx, func(ctx context.Context, i int, rc *receipts) error {
		seq, err := w.ws[i].Append(ctx, 1)
		rc.addSent(seq, time.Now())
		return err
	})
	stop()
	return took, errors.Join(err, g.Wait())
}

// measureBus returns the p99 of the bus alone. No projector runs; after each of the same appends it publishes a message
// as large as the projector's.
func (w *watch) measureBus(ctx context.Context, _ int) (time.Duration, error) {
	for _, wr := range w.ws {
		wr.Log = coalesced(w.store)
	}
	l, err := w.store.Load(ctx, w.ids[0])
	if err != nil {
		return 0, err
	}
	d := run.Delta{Header: l.State.Header, Steps: l.State.Steps[:1]}
	return w.p99(ctx, func(ctx context.Context, i int, rc *receipts) error {
		seq, err := w.ws[i].Append(ctx, 1)
		if err != nil {
			return err
		}
		m := live.Message{
			V: live.MessageVersion, TenantID: d.Header.TenantID, ProjectID: d.Header.ProjectID, RunID: w.ids[i],
			Epoch: l.Epoch, Rev: run.ReducerRev, From: seq - 1, To: seq, At: time.Now(), Delta: &d,
		}
		rc.addSent(seq, time.Now())
		return w.bus.Publish(ctx, m)
	})
}

// p99 calls send at the rate of the figure, waits for every receipt and returns the p99 without the warm-up.
func (w *watch) p99(ctx context.Context, send func(ctx context.Context, i int, rc *receipts) error) (time.Duration,
	error) {
	all := make([]*receipts, len(w.ids))
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, id := range w.ids {
		sub := w.bus.Subscribe(id)
		defer sub.Close()
		rc, confirmed := &receipts{}, make(chan struct{})
		all[i] = rc
		reading, stop := context.WithCancel(ctx)
		defer stop()
		wg.Go(func() { rc.read(reading, sub, confirmed) })
		select {
		case <-confirmed:
		case <-time.After(rig.Patience):
			return 0, errors.New("the bus did not confirm a subscription")
		}
	}
	began := time.Now()
	err := rig.Paced(ctx, len(w.ids), watchInterval, warmUp+watchTime, func(ctx context.Context, i int,
		_ time.Time) error {
		return send(ctx, i, all[i])
	})
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for _, rc := range all {
		t, err := rc.collect(ctx, began.Add(warmUp))
		if err != nil {
			return 0, err
		}
		took = append(took, t...)
	}
	return rig.Quantile(took, 0.99), nil
}

// receipts collects the times of sending and of receipt for one run. It is safe for concurrent use.
type receipts struct {
	mu      sync.Mutex
	to      run.Seq   // highest seq received
	at      time.Time // time of receipt of to
	waiting []sentEvent
	got     []receipt
}

type sentEvent struct {
	seq run.Seq
	at  time.Time
}

type receipt struct{ sent, got time.Time }

// addSent records that an event was sent. Its message may have arrived before.
func (r *receipts) addSent(seq run.Seq, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to >= seq {
		r.got = append(r.got, receipt{at, r.at})
		return
	}
	r.waiting = append(r.waiting, sentEvent{seq, at})
}

// read receives messages until ctx ends. It closes confirmed when the bus has confirmed the subscription.
func (r *receipts) read(ctx context.Context, sub live.Subscription, confirmed chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-sub.C():
			if d.Confirmed && confirmed != nil {
				close(confirmed)
				confirmed = nil
			}
			if d.Message != nil {
				r.addReceived(d.Message.To, time.Now())
			}
		}
	}
}

// addReceived records the receipt of all events up to to.
func (r *receipts) addReceived(to run.Seq, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to > r.to {
		r.to, r.at = to, at
	}
	for len(r.waiting) > 0 && r.waiting[0].seq <= to {
		r.got = append(r.got, receipt{r.waiting[0].at, at})
		r.waiting = r.waiting[1:]
	}
}

// collect waits for all receipts and returns the durations of the events that were sent after since.
func (r *receipts) collect(ctx context.Context, since time.Time) (took []time.Duration, err error) {
	for deadline := time.Now().Add(rig.Patience); r.open() > 0; {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d events of a run were not received within %s", r.open(), rig.Patience)
		}
		if err := rig.Wait(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.got {
		if c.sent.After(since) {
			took = append(took, max(0, c.got.Sub(c.sent)))
		}
	}
	return took, nil
}

// open returns the number of events that are not received yet.
func (r *receipts) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
