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
	watchInterval = 100 * time.Millisecond // of each run: 1,000 appends a second in all
	warmUp        = 500 * time.Millisecond
	watchTime     = 2 * time.Second
	watchTurns    = 3
)

// busReceipt is wired as a server is: a store that wakes a projector, which
// publishes to Redis. The receiver is in the same process, so both times come
// from one clock; each event's receipt is the first message that reaches its seq.
func busReceipt(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	url, err := r.RedisURL()
	if err != nil {
		return nil, err
	}
	s, _, err := r.Store(ctx, rig.AsItIs, postgres.DefaultMaxConns)
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
		Repeat: rig.ByTurns(watchTurns, w.projected, w.published),
		Done:   func() error { return errors.Join(bus.Close(), s.Close()) },
	}, nil
}

type watch struct {
	bus   *redisbus.Bus
	store *postgres.Store
	ids   []string
	ws    []*rig.Writer
}

// projected is the p99 of the time from the return of an append to the receipt of its message.
func (w *watch) projected(ctx context.Context, _ int) (took time.Duration, err error) {
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
		rc.sent(seq, time.Now())
		return err
	})
	stop()
	return took, errors.Join(err, g.Wait())
}

// published is the p99 of the bus alone: the same appends wake nobody, and a
// message as large as a projector's is published after each.
func (w *watch) published(ctx context.Context, _ int) (time.Duration, error) {
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
		rc.sent(seq, time.Now())
		return w.bus.Publish(ctx, m)
	})
}

// p99 sends at the pace of the figure and waits for every receipt.
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
	err := rig.Paced(ctx, len(w.ids), watchInterval, warmUp+watchTime, func(ctx context.Context, i int, _ time.Time) error {
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

// receipts are those of one run.
type receipts struct {
	mu      sync.Mutex
	to      run.Seq // the highest seq received, and when
	at      time.Time
	waiting []sending
	got     []receipt
}

type sending struct {
	seq run.Seq
	at  time.Time
}

type receipt struct{ sent, got time.Time }

func (r *receipts) sent(seq run.Seq, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to >= seq {
		r.got = append(r.got, receipt{at, r.at})
		return
	}
	r.waiting = append(r.waiting, sending{seq, at})
}

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
				r.reached(d.Message.To, time.Now())
			}
		}
	}
}

func (r *receipts) reached(to run.Seq, at time.Time) {
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

// collect waits for the last receipt and returns how long those took that were sent after since.
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

func (r *receipts) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
