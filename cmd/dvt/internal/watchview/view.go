// Package watchview follows the stream of a run over lost connections and draws the run on a terminal.
package watchview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
)

// Frame is one message of the stream of a run: a snapshot, a delta, or only the state of synchronisation.
type Frame = client.WatchRunRunUpdatesRunUpdate

// SyncOffline and ConnectionLost extend the values of the API for the time without a connection. Only the client can
// know that state.
const (
	SyncOffline    client.SyncState  = "OFFLINE"
	ConnectionLost client.SyncReason = "CONNECTION_LOST"
)

// View is the client's copy of a run, its steps and the state of its stream. The zero value has seen no frame. It is
// not safe for concurrent use.
type View struct {
	console.Charset
	Server string // base URL of the UI; "" leaves out the link to the run
	Run    client.RunRow
	steps  []client.StepRow    // in plan order
	Index  map[string]int      // by step id
	Behind map[string][]string // from a step id to the ids of the steps that depend on it
	Last   Frame               // without its snapshot and delta
	came   time.Time           // when Last arrived, by the local clock
	Sync   client.SyncState    // "" before the first frame
	reason client.SyncReason
	since  time.Time // when Sync began, by the local clock
	lost   error     // why the view is OFFLINE; nil while it is connected
	next   time.Time // of the next attempt to connect
}

// Frame applies f. now is the local time at which it arrived.
func (v *View) Frame(f Frame, now time.Time) {
	if f.Snapshot != nil {
		v.Run, v.steps, v.Index, v.Behind = f.Snapshot.RunRow, nil, map[string]int{}, map[string][]string{}
		for _, st := range f.Snapshot.Steps {
			v.Step(st)
		}
	}
	if f.Delta != nil {
		v.Run = f.Delta.Header
		for _, st := range f.Delta.Steps {
			v.Step(st)
		}
	}
	f.Snapshot, f.Delta = nil, nil
	v.Last, v.came, v.lost = f, now, nil
	reason := client.SyncReason("")
	if f.Reason != nil {
		reason = *f.Reason
	}
	v.setSync(f.Sync, reason, now)
}

// Step replaces the row of a step, or adds it.
func (v *View) Step(st client.StepRow) {
	if i, known := v.Index[st.StepId]; known {
		v.steps[i] = st
		return
	}
	v.Index[st.StepId] = len(v.steps)
	v.steps = append(v.steps, st)
	for _, id := range st.DependsOn {
		v.Behind[id] = append(v.Behind[id], st.StepId)
	}
}

// GoOffline marks the view as OFFLINE because of why, until the next frame. next is the time of the next attempt to
// connect.
func (v *View) GoOffline(why error, next, now time.Time) {
	v.lost, v.next = why, next
	v.setSync(SyncOffline, ConnectionLost, now)
}

func (v *View) setSync(to client.SyncState, why client.SyncReason, now time.Time) {
	if v.Sync != to {
		v.since = now
	}
	v.Sync, v.reason = to, why
}

// IsOver reports whether the run has ended.
func (v *View) IsOver() bool { return HasEnded(v.Run.Status) }

// HasEnded reports whether the status is final: COMPLETED, FAILED or CANCELLED.
func HasEnded(is client.RunStatus) bool {
	return is == client.RunStatusCompleted || is == client.RunStatusFailed || is == client.RunStatusCancelled
}

// elapsed returns the time since a moment by the store's clock; "" for nil. While the view is not LIVE the thing may
// have ended in the meantime. The result is then a lower bound and begins with ≥.
func (v *View) elapsed(since *time.Time, now time.Time) string {
	if since == nil {
		return ""
	}
	until, least := v.Last.AsOf, "≥"
	if v.Sync == client.SyncStateLive {
		until, least = until.Add(now.Sub(v.came)), ""
	}
	return least + ShortDuration(until.Sub(*since))
}

// ShortDuration formats a duration with at most two units. A negative one counts as 0.
func ShortDuration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return plan.DurationText(d.Truncate(100 * time.Millisecond))
	case d < time.Minute:
		return plan.DurationText(d.Truncate(time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// waitsForPerson reports whether st is a manual step that waits. The API calls it RUNNING although no worker works on
// it.
func waitsForPerson(st client.StepRow) bool {
	return st.Status == client.StepStatusRunning && st.Substatus != nil &&
		*st.Substatus == client.RunSubstatusWaitingManual
}

// manual returns how many steps wait for a person.
func (v *View) manual() (n int) {
	for _, st := range v.steps {
		if waitsForPerson(st) {
			n++
		}
	}
	return n
}

// current returns the failed steps and those that wait for a person, both in plan order, and the running steps, the
// longest first.
func (v *View) current() (failed, waits, running []client.StepRow) {
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

// blocked returns the ids of the steps that cannot start because of the failed one, in plan order.
func (v *View) blocked(failed string) (out []string) {
	seen := map[string]bool{failed: true}
	for next := []string{failed}; len(next) > 0; next = next[1:] {
		for _, id := range v.Behind[next[0]] {
			if !seen[id] && v.steps[v.Index[id]].Status == client.StepStatusPending {
				seen[id] = true
				out, next = append(out, id), append(next, id)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(v.Index[a], v.Index[b]) })
	return out
}

// End returns one line about how the run ended.
func (v *View) End() string {
	r := v.Run
	var b strings.Builder
	b.WriteString(r.StatusRaw)
	if r.TotalDurationMs != nil {
		fmt.Fprintf(&b, " after %s", ShortDuration(time.Duration(*r.TotalDurationMs*float64(time.Millisecond))))
	}
	n := r.StepCounts
	fmt.Fprintf(&b, ": steps %s", runtext.Steps(r))
	if n.Pending > 0 {
		fmt.Fprintf(&b, ", %d not run", n.Pending)
	}
	fmt.Fprintf(&b, "  seq %d", r.RunSeq)
	if r.Cancellation != nil {
		fmt.Fprintf(&b, "  %s", console.OneLine(runtext.CancelledBy(r.Cancellation)))
	}
	if r.RootCause != nil {
		fmt.Fprintf(&b, "  cause %s", console.OneLine(strings.TrimSuffix(runtext.Cause(r)+": "+
			runtext.Deref(r.RootCause.Message), ": ")))
	}
	return b.String()
}

// causes explain each reason to people.
var causes = map[client.SyncReason]string{
	client.SyncReasonGap:          "a part of the history did not arrive; dvt asks for it again",
	client.SyncReasonTailLoss:     "the newest part of the history did not arrive; dvt reads it from the store",
	client.SyncReasonProjectorLag: "the store is ahead of what is shown; dvt is catching up",
	client.SyncReasonBusDegraded:  "the message bus is down; dvt polls the store instead",
	client.SyncReasonStoreDown:    "the store does not answer; nothing new can be known until it does",
	client.SyncReasonEpochChanged: "the store holds another history than the one shown; dvt reads it again",
	client.SyncReasonSlowConsumer: "this command was too slow for the stream; dvt reads the newest state",
	client.SyncReasonReconnected:  "the connection came back; dvt compares the view with the store",
	ConnectionLost:                "the run may have moved on",
}

// Signs are the symbol and the style of each state. The symbol lets people without colours tell the states apart.
var Signs = map[client.SyncState]console.Span{
	client.SyncStateLive:      {Text: "●", Style: console.Good},
	client.SyncStateVerifying: {Text: "◌", Style: console.Busy},
	client.SyncStateResyncing: {Text: "↻", Style: console.Busy},
	client.SyncStateStale:     {Text: "▲", Style: console.Warn},
	SyncOffline:               {Text: "✗", Style: console.Bad},
}

// RunSigns are the symbol and the style of each status of a run.
var RunSigns = map[client.RunStatus]console.Span{
	client.RunStatusPending: {Text: "○", Style: console.Plain}, client.RunStatusApproved: {Text: "○",
		Style: console.Plain}, client.RunStatusRunning: {Text: "▶", Style: console.Busy},
	client.RunStatusPaused: {Text: "‖", Style: console.Warn}, client.RunStatusCompleted: {Text: "✓", Style: console.Good},
	client.RunStatusFailed:    {Text: "✗", Style: console.Bad},
	client.RunStatusCancelled: {Text: "⊘", Style: console.Warn},
}

// StepSigns are the symbol and the style of each status of a step.
var StepSigns = map[client.StepStatus]console.Span{
	client.StepStatusPending: {Text: "○", Style: console.Plain}, client.StepStatusRunning: {Text: "▶",
		Style: console.Busy}, client.StepStatusSuccess: {Text: "✓", Style: console.Good},
	client.StepStatusFailed: {Text: "✗", Style: console.Bad}, client.StepStatusSkipped: {Text: "↷", Style: console.Dim},
}

// withSign returns word behind the symbol of the value. Values that this version does not know have a question mark.
func withSign[K comparable](signs map[K]console.Span, of K, word string) console.Span {
	s := signs[of]
	return console.Span{Text: cmp.Or(s.Text, "?") + " " + word, Style: s.Style}
}
