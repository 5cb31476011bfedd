package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
)

// frame is what a stream of a run says at a moment.
type frame = client.WatchRunRunUpdatesRunUpdate

// syncOffline and connectionLost are the client's own words beside those of the API: it
// has no connection, so nothing newer can be known.
const (
	syncOffline    client.SyncState  = "OFFLINE"
	connectionLost client.SyncReason = "CONNECTION_LOST"
)

// view is what a watcher knows of a run.
type view struct {
	console.Charset
	run    client.RunRow
	steps  []client.StepRow    // in plan order
	index  map[string]int      // by step id
	behind map[string][]string // the steps that depend on one
	last   frame               // without its snapshot and delta
	came   time.Time           // last, by the local clock
	sync   client.SyncState    // "" before the first frame
	reason client.SyncReason
	since  time.Time // in that state, by the local clock
	lost   error     // why it is OFFLINE
	next   time.Time // when the connection is tried again
}

// frame takes a frame in.
func (v *view) frame(f frame, now time.Time) {
	if f.Snapshot != nil {
		v.run, v.steps, v.index, v.behind = f.Snapshot.RunRow, nil, map[string]int{}, map[string][]string{}
		for _, st := range f.Snapshot.Steps {
			v.step(st.StepRow)
		}
	}
	if f.Delta != nil {
		v.run = f.Delta.Header.RunRow
		for _, st := range f.Delta.Steps {
			v.step(st.StepRow)
		}
	}
	f.Snapshot, f.Delta = nil, nil
	v.last, v.came, v.lost = f, now, nil
	reason := client.SyncReason("")
	if f.Reason != nil {
		reason = *f.Reason
	}
	v.turn(f.Sync, reason, now)
}

func (v *view) step(st client.StepRow) {
	if i, known := v.index[st.StepId]; known {
		v.steps[i] = st
		return
	}
	v.index[st.StepId] = len(v.steps)
	v.steps = append(v.steps, st)
	for _, id := range st.DependsOn {
		v.behind[id] = append(v.behind[id], st.StepId)
	}
}

// offline takes in that the connection is lost.
func (v *view) offline(why error, next, now time.Time) {
	v.lost, v.next = why, next
	v.turn(syncOffline, connectionLost, now)
}

func (v *view) turn(to client.SyncState, why client.SyncReason, now time.Time) {
	if v.sync != to {
		v.since = now
	}
	v.sync, v.reason = to, why
}

// over reports whether the run has ended.
func (v *view) over() bool { return ended(v.run.Status) }

func ended(is client.RunStatus) bool {
	return is == client.RunStatusCompleted || is == client.RunStatusFailed || is == client.RunStatusCancelled
}

// elapsed is how long something has lasted by the store's clock. While the view is not LIVE it
// may have ended since: it says how long it lasted at least.
func (v *view) elapsed(since *time.Time, now time.Time) string {
	if since == nil {
		return ""
	}
	until, least := v.last.AsOf, "≥"
	if v.sync == client.SyncStateLive {
		until, least = until.Add(now.Sub(v.came)), ""
	}
	return least + short(until.Sub(*since))
}

// short is a duration as people read it.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return d.Truncate(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// waitsForPerson is true of a manual step: RUNNING for the API, and nothing runs.
func waitsForPerson(st client.StepRow) bool {
	return st.Status == client.StepStatusRunning && st.Substatus != nil &&
		*st.Substatus == client.RunSubstatusWaitingManual
}

// manual is how many steps wait for a person.
func (v *view) manual() (n int) {
	for _, st := range v.steps {
		if waitsForPerson(st) {
			n++
		}
	}
	return n
}

// failed are the steps that failed, in plan order, and waits are those that wait for a person;
// running are those that run, the longest first.
func (v *view) current() (failed, waits, running []client.StepRow) {
	for _, st := range v.steps {
		switch {
		case st.Status == client.StepStatusFailed:
			failed = append(failed, st)
		case waitsForPerson(st):
			waits = append(waits, st)
		case st.Status == client.StepStatusRunning:
			running = append(running, st)
		}
	}
	slices.SortStableFunc(running, func(a, b client.StepRow) int {
		if a.StartedAt == nil || b.StartedAt == nil {
			return 0
		}
		return a.StartedAt.Compare(*b.StartedAt)
	})
	return failed, waits, running
}

// blocked are the steps that cannot start because of a failed one, in plan order.
func (v *view) blocked(failed string) (out []string) {
	seen := map[string]bool{failed: true}
	for next := []string{failed}; len(next) > 0; next = next[1:] {
		for _, id := range v.behind[next[0]] {
			if !seen[id] && v.steps[v.index[id]].Status == client.StepStatusPending {
				seen[id] = true
				out, next = append(out, id), append(next, id)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(v.index[a], v.index[b]) })
	return out
}

// end says in one line how the run ended.
func (v *view) end() string {
	r := v.run
	var b strings.Builder
	b.WriteString(r.StatusRaw)
	if r.TotalDurationMs != nil {
		fmt.Fprintf(&b, " after %s", short(time.Duration(*r.TotalDurationMs*float64(time.Millisecond))))
	}
	n := r.StepCounts
	fmt.Fprintf(&b, ": %d of %d steps done", n.Success+n.Skipped, n.Total)
	if n.Failed > 0 {
		fmt.Fprintf(&b, ", %d failed", n.Failed)
	}
	if n.Pending > 0 {
		fmt.Fprintf(&b, ", %d not run", n.Pending)
	}
	fmt.Fprintf(&b, "  seq %d", r.RunSeq)
	if r.RootCause != nil {
		fmt.Fprintf(&b, "  cause %s", console.OneLine(strings.TrimSuffix(cause(r)+": "+deref(r.RootCause.Message), ": ")))
	}
	return b.String()
}

// causes say what a reason means.
var causes = map[client.SyncReason]string{
	client.SyncReasonGap:          "a part of the history did not arrive; dvt asks for it again",
	client.SyncReasonTailLoss:     "the newest part of the history did not arrive; dvt reads it from the store",
	client.SyncReasonProjectorLag: "the store is ahead of what is shown; dvt is catching up",
	client.SyncReasonBusDegraded:  "the message bus is down; dvt polls the store instead",
	client.SyncReasonStoreDown:    "the store does not answer; nothing new can be known until it does",
	client.SyncReasonEpochChanged: "the store holds another history than the one shown; dvt reads it anew",
	client.SyncReasonSlowConsumer: "this command was too slow for the stream; dvt reads the newest state",
	client.SyncReasonReconnected:  "the connection came back; dvt compares the view with the store",
	connectionLost:                "the run may have moved on",
}

// signs are what stands before a state's word, and how both look.
var signs = map[client.SyncState]console.Span{
	client.SyncStateLive:      {Line: "●", Style: console.Good},
	client.SyncStateVerifying: {Line: "◌", Style: console.Busy},
	client.SyncStateResyncing: {Line: "↻", Style: console.Busy},
	client.SyncStateStale:     {Line: "▲", Style: console.Warn},
	syncOffline:               {Line: "✗", Style: console.Bad},
}

var runSigns = map[client.RunStatus]console.Span{
	client.RunStatusPending: {Line: "○", Style: console.Plain}, client.RunStatusApproved: {Line: "○", Style: console.Plain}, client.RunStatusRunning: {Line: "▶", Style: console.Busy},
	client.RunStatusPaused: {Line: "‖", Style: console.Warn}, client.RunStatusCompleted: {Line: "✓", Style: console.Good}, client.RunStatusFailed: {Line: "✗", Style: console.Bad},
	client.RunStatusCancelled: {Line: "⊘", Style: console.Warn},
}

var stepSigns = map[client.StepStatus]console.Span{
	client.StepStatusPending: {Line: "○", Style: console.Plain}, client.StepStatusRunning: {Line: "▶", Style: console.Busy}, client.StepStatusSuccess: {Line: "✓", Style: console.Good},
	client.StepStatusFailed: {Line: "✗", Style: console.Bad}, client.StepStatusSkipped: {Line: "↷", Style: console.Dim},
}

// signed is a word with its sign; what this version does not know has a question mark.
func signed[K comparable](signs map[K]console.Span, of K, word string) console.Span {
	s := signs[of]
	return console.Span{Line: cmp.Or(s.Line, "?") + " " + word, Style: s.Style}
}
