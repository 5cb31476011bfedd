package watchview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
)

// Bounds of the memory of a long watch. Beyond them the oldest entries are dropped.
const (
	MaxLatencies = 100_000
	MaxEpisodes  = 1_000
)

// storeClock estimates the store's time. Latencies need it because the clock of this machine may be wrong. Set must
// succeed before Now is called.
type storeClock struct {
	Best atomic.Pointer[Tick]
}

// Tick is one sample of the store's time. The store read its clock at some moment between request and response, so the
// sample is off by at most within.
type Tick struct {
	At     time.Time // middle of the round trip, by the local clock
	Says   time.Time // the store's time
	within time.Duration
}

// Clock sync: take the fastest of five samples; repeat every minute because clocks drift. The pause keeps the server
// from answering two samples with one read.
const (
	clockSamples      = 5
	clockSamplePause  = 100 * time.Millisecond
	clockSyncInterval = time.Minute
)

// Set takes samples with ask and keeps the fastest one. It returns the first error of ask or ctx and then leaves the
// clock unchanged.
func (c *storeClock) Set(ctx context.Context, ask func(context.Context) (time.Time, error)) error {
	var best *Tick
	for i := range clockSamples {
		if i > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(clockSamplePause):
			}
		}
		began := time.Now()
		says, err := ask(ctx)
		if err != nil {
			return err
		}
		half := time.Since(began) / 2
		if best == nil || half < best.within {
			best = &Tick{At: began.Add(half), Says: says, within: half}
		}
	}
	c.Best.Store(best)
	return nil
}

// Keep sets the clock once a minute until ctx ends. A failed sample leaves the clock unchanged.
func (c *storeClock) Keep(ctx context.Context, ask func(context.Context) (time.Time, error)) {
	every := time.NewTicker(clockSyncInterval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			_ = c.Set(ctx, ask)
		}
	}
}

func (c *storeClock) Now() time.Time {
	t := c.Best.Load()
	return t.Says.Add(time.Since(t.At))
}

// Latencies measures a watch: the age of each change when it arrives, and how long the view was not fresh. Its Clock
// must be set first. It is not safe for concurrent use, except for the Clock.
type Latencies struct {
	Clock storeClock

	began    bool
	seq      int64
	frames   map[client.SyncState]int
	resets   int
	Ages     []float64 // ms, the newest MaxLatencies
	measured int
	episodes []*episode
	stale    int
	open     *episode // the episode that has not ended; nil: none
}

// episode is the time from a STALE frame to the next LIVE frame.
type episode struct {
	Cause string   `json:"cause"`
	MS    *float64 `json:"ms"` // null when the watch ended first

	began time.Time
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Frame records a frame that arrives now. If the frame shows a newer event than the frame before, Frame returns the age
// of that event since its commit, in milliseconds.
func (l *Latencies) Frame(f client.WatchRunRunUpdatesRunUpdate) (ms float64, newer bool) {
	if l.frames == nil {
		l.frames = map[client.SyncState]int{}
	}
	l.frames[f.Sync]++
	newer = l.began && !f.Reset && f.RunSeq > l.seq && f.CommittedAt != nil
	l.began, l.seq = true, f.RunSeq
	if f.Reset {
		l.resets++
	}
	switch {
	case f.Sync == client.SyncStateStale && l.open == nil:
		l.open = &episode{began: time.Now()}
		if f.Reason != nil {
			l.open.Cause = string(*f.Reason)
		}
		if l.stale++; len(l.episodes) == MaxEpisodes {
			l.episodes = slices.Delete(l.episodes, 0, 1)
		}
		l.episodes = append(l.episodes, l.open)
	case f.Sync == client.SyncStateLive && l.open != nil:
		took := inMS(time.Since(l.open.began))
		l.open.MS, l.open = &took, nil
	}
	if !newer {
		return 0, false
	}
	ms = max(0, inMS(l.Clock.Now().Sub(*f.CommittedAt)))
	if len(l.Ages) < MaxLatencies {
		l.Ages = append(l.Ages, ms)
	} else {
		l.Ages[l.measured%MaxLatencies] = ms
	}
	l.measured++
	return ms, true
}

// Summary is the result of a measurement.
type Summary struct {
	Frames  map[client.SyncState]int `json:"frames"`
	Resets  int                      `json:"resets"`
	Latency quantiles                `json:"latencyMs"`
	Stale   int                      `json:"stale"`
	// Episodes are the last MaxEpisodes times that the view was STALE.
	Episodes []*episode `json:"episodes"`
}

// quantiles are those of the last MaxLatencies ages, in milliseconds. Each may be off by Within.
type quantiles struct {
	Count  int     `json:"count"`
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
	Within float64 `json:"within"`
}

// Summary returns the result so far. Lists and maps in it are never nil, so that JSON has no null.
func (l *Latencies) Summary() Summary {
	out := Summary{Frames: l.frames, Resets: l.resets, Stale: l.stale, Episodes: l.episodes}
	if out.Frames == nil {
		out.Frames = map[client.SyncState]int{}
	}
	if out.Episodes == nil {
		out.Episodes = []*episode{}
	}
	out.Latency.Count = l.measured
	if t := l.Clock.Best.Load(); t != nil {
		out.Latency.Within = inMS(t.within)
	}
	sorted := slices.Sorted(slices.Values(l.Ages))
	if n := len(sorted); n > 0 {
		rank := func(percent int) float64 { return sorted[(n*percent+99)/100-1] }
		out.Latency.P50, out.Latency.P95, out.Latency.P99, out.Latency.Max = rank(50), rank(95), rank(99), sorted[n-1]
	}
	return out
}

// Render prints the summary for people.
func (s Summary) Render(d console.Display) {
	out := d.Out
	var frames []string
	for _, sync := range slices.SortedFunc(maps.Keys(s.Frames), func(a, b client.SyncState) int {
		return cmp.Or(cmp.Compare(s.Frames[b], s.Frames[a]), cmp.Compare(a, b))
	}) {
		frames = append(frames, fmt.Sprintf("%d %s", s.Frames[sync], sync))
	}
	fmt.Fprintf(out, "\nframes   %s, %d resets\n", cmp.Or(strings.Join(frames, ", "), "none"), s.Resets)
	if l := s.Latency; l.Count > 0 {
		fmt.Fprintf(out, "latency  p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms of %d frames with changes, from commit "+
			"to here; each %s%.1f ms\n",
			l.P50, l.P95, l.P99, l.Max, l.Count, d.Replace("±"), l.Within)
	} else {
		fmt.Fprintln(out, "latency  no frame with a change arrived")
	}
	fmt.Fprintf(out, "stale    %d times\n", s.Stale)
	for _, e := range s.Episodes {
		if e.MS == nil {
			fmt.Fprintf(out, "         %s, not LIVE again\n", e.Cause)
		} else {
			fmt.Fprintf(out, "         %s, LIVE again after %.0f ms\n", e.Cause, *e.MS)
		}
	}
}
