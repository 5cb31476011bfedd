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

// Bounds of what a long watch remembers: the newest.
const (
	MaxLatencies = 100_000
	MaxEpisodes  = 1_000
)

// storeClock says what time it is by the store's clock, whatever this machine's says.
type storeClock struct {
	Best atomic.Pointer[Tick]
}

// Tick is one question and its answer: the store said a time at a moment between.
type Tick struct {
	At     time.Time // in the middle, by the local clock
	Says   time.Time // by the store's
	within time.Duration
}

// Questions: so many at once, of which the fastest counts, and how often anew, because
// clocks drift. They are far enough apart for the server to answer each by itself.
const (
	questions     = 5
	questionPause = 100 * time.Millisecond
	questionsAnew = time.Minute
)

// Set asks the server for the store's time.
func (c *storeClock) Set(ctx context.Context, ask func(context.Context) (time.Time, error)) error {
	var best *Tick
	for i := range questions {
		if i > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(questionPause):
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

// Keep sets the clock again and again until ctx ends. A failed question leaves the clock unchanged.
func (c *storeClock) Keep(ctx context.Context, ask func(context.Context) (time.Time, error)) {
	every := time.NewTicker(questionsAnew)
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

// Latencies measures a watch: how old news is when it comes, and how long the view
// was not fresh.
type Latencies struct {
	Clock storeClock

	began    bool
	seq      int64
	frames   map[client.SyncState]int
	resets   int
	Ages     []float64 // ms, the newest maxLatencies
	measured int
	episodes []*episode
	stale    int
	open     *episode // STALE and not LIVE since
}

// episode is a time that the view was STALE, until it was LIVE again.
type episode struct {
	Cause string   `json:"cause"`
	MS    *float64 `json:"ms"` // null when it was not over at the end

	began time.Time
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Frame takes note of a frame at the moment that it came; ms is the age of the
// newest fact that it shows, when that is news.
func (l *Latencies) Frame(f client.WatchRunRunUpdatesRunUpdate) (ms float64, news bool) {
	if l.frames == nil {
		l.frames = map[client.SyncState]int{}
	}
	l.frames[f.Sync]++
	news = l.began && !f.Reset && f.RunSeq > l.seq && f.CommittedAt != nil
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
	if !news {
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

// Summary is what was measured.
type Summary struct {
	Frames  map[client.SyncState]int `json:"frames"`
	Resets  int                      `json:"resets"`
	Latency quantiles                `json:"latencyMs"`
	Stale   int                      `json:"stale"`
	// Episodes are the last 1,000 times that the view was STALE.
	Episodes []*episode `json:"episodes"`
}

// quantiles are of the last 100,000 frames with news; each may be off by Within.
type quantiles struct {
	Count  int     `json:"count"`
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
	Within float64 `json:"within"`
}

// Summary returns what was measured so far.
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

// Render says it to a person.
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
		fmt.Fprintf(out, "latency  p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms of %d frames with news, from commit "+
			"to here; each %s%.1f ms\n",
			l.P50, l.P95, l.P99, l.Max, l.Count, d.Replace("±"), l.Within)
	} else {
		fmt.Fprintln(out, "latency  no frame with news came")
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
