package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/bench/rig"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/spans"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/tracer"
)

const (
	tracedRuns     = 50
	tracedSteps    = int((traceWarmUp+traceTime)/tracedInterval)/2 + 1
	tracedInterval = 100 * time.Millisecond // per run: 500 appends a second in total
	traceWarmUp    = 3 * time.Second        // the export catches up with what was written without it
	traceTime      = 6 * time.Second
	traceTurns     = 8
	requestShare   = 0.1
)

// traceExport measures the processor time for each event of a server process that appends and projects 500 events a
// second, with the export of the traces of all runs and of a tenth of the calls, and without. The cost is the
// difference; its floor is the time that one core has for each of these events, so the ratio is the share of a core.
// The receiver is a process of its own.
func traceExport(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
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
	receiver, err := rig.StartOwn(ctx, rig.AnyCore, "traces", rig.Options{})
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+receiver.Addr); err != nil {
		return nil, err
	}
	client, err := otlp.Open(ctx, os.Getenv, "bench", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	b := &traceBench{store: s, bus: bus, client: client}
	both := rig.Pairs(traceTurns, b.withExport, b.withoutExport)
	return &rig.Trial{
		Repeat: func(ctx context.Context) (rig.Sample, error) {
			s, err := both(ctx)
			return rig.Sample{Cost: max(0, s.Cost-s.Floor), Floor: tracedInterval / tracedRuns}, err
		},
		Done: func() error {
			return errors.Join(client.Close(context.Background()), receiver.Close(), bus.Close(), s.Close())
		},
	}, nil
}

// serveTraces is a receiver of traces that keeps none.
func serveTraces(context.Context, rig.Options) (figureServer, error) {
	return figureServer{
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/x-protobuf")
		}),
		close: func() error { return nil },
	}, nil
}

type traceBench struct {
	store  *postgres.Store
	bus    *redisbus.Bus
	client *otlp.Client
	runs   int // that were made
}

func (b *traceBench) withExport(ctx context.Context, _ int) (time.Duration, error) {
	requests := spans.New(spans.Config{Client: b.client, Ratio: requestShare, Runs: 1})
	running, stop := context.WithCancel(ctx)
	var g errgroup.Group
	sent := &counted{to: b.client}
	g.Go(func() error {
		return tracer.New(tracer.Config{Store: b.store, Sender: sent, Owner: "bench", Ratio: 1}).Run(running)
	})
	cpu, err := b.cpu(ctx, func(s store.Store) store.Store {
		return decorate.Trace(s, func(ctx context.Context, call, runID string) (context.Context, func(string)) {
			return requests.Store(ctx, "postgresql", call, runID)
		})
	})
	stop()
	err = errors.Join(err, g.Wait(), requests.Close(ctx))
	if want := int64(traceTime/tracedInterval) * tracedRuns / 2; err == nil && sent.spans.Load() < want {
		err = fmt.Errorf("%d spans were exported, want at least the %d attempts that ended", sent.spans.Load(), want)
	}
	return cpu, err
}

// counted counts the spans that the receiver accepted.
type counted struct {
	to    tracer.Sender
	spans atomic.Int64
}

func (c *counted) Send(ctx context.Context, spans []trace.Span) error {
	err := c.to.Send(ctx, spans)
	if err == nil {
		c.spans.Add(int64(len(spans)))
	}
	return err
}

func (b *traceBench) withoutExport(ctx context.Context, _ int) (time.Duration, error) {
	return b.cpu(ctx, func(s store.Store) store.Store { return s })
}

// cpu returns the processor time of this process for each event. It writes to new runs, because a step that succeeded
// gives no more spans.
func (b *traceBench) cpu(ctx context.Context, wrap func(store.Store) store.Store) (took time.Duration, err error) {
	p := projector.New(b.store, b.bus, projector.Config{})
	log := wrap(decorate.WakeOnCommit(coalesced(b.store), p))
	running, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return p.Run(running) })
	var ids []string
	for range tracedRuns {
		ids = append(ids, rig.RunName(b.runs))
		b.runs++
		err = errors.Join(err, rig.MakeRun(ctx, b.store, ids[len(ids)-1], tracedSteps))
	}
	writers := rig.WritersOf(log, ids, tracedSteps)
	write := func(d time.Duration) error {
		return rig.Paced(ctx, tracedRuns, tracedInterval, d, func(ctx context.Context, i int, _ time.Time) error {
			_, err := writers[i].Append(ctx, 1)
			return err
		})
	}
	err = errors.Join(err, write(traceWarmUp))
	runtime.GC() // so that what the warm-up left is no part of the measure
	before, cpuErr := ownCPU()
	err = errors.Join(err, cpuErr, write(traceTime))
	after, cpuErr := ownCPU()
	stop()
	events := int64(traceTime/tracedInterval) * tracedRuns
	return (after - before) / time.Duration(events), errors.Join(err, cpuErr, g.Wait())
}
