package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// replay computes the text that a viewer must see of a log at each seq. It shares no code with the reducer of the
// product, so that a bug of the reducer does not hide itself.
type replay struct {
	mu    sync.Mutex
	text  []string // by seq
	run   shownRun
	steps []shownStep
}

// stateAt returns the text of the run at seq.
func (r *replay) stateAt(log []commit, seq run.Seq) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == nil {
		r.run.Status, r.text = "PENDING", []string{""}
	}
	for len(r.text) <= int(seq) {
		r.apply(log[len(r.text)-1].Event)
		r.text = append(r.text, describe(r.run, r.steps))
	}
	return r.text[seq]
}

func (r *replay) apply(e run.Event) {
	statuses := map[string]string{
		"RunApproved": "APPROVED", "RunStarted": "RUNNING", "RunPaused": "PAUSED", "RunResumed": "RUNNING",
		"RunCompleted": "COMPLETED", "RunFailed": "FAILED", "RunCancelled": "CANCELLED",
		"StepStarted": "RUNNING", "StepCompleted": "SUCCESS", "StepFailed": "FAILED", "StepSkipped": "SKIPPED",
	}
	to, moves := statuses[string(e.Type)]
	if e.Type == "RunStarted" {
		var p struct{ Steps []struct{ StepID string } }
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			panic(err)
		}
		for _, s := range p.Steps {
			r.steps = append(r.steps, shownStep{StepID: s.StepID, Status: "PENDING"})
		}
	}
	switch {
	case !moves:
	case e.StepID == "":
		r.run.Status = to
	default:
		i := slices.IndexFunc(r.steps, func(s shownStep) bool { return s.StepID == e.StepID })
		r.steps[i] = shownStep{e.StepID, to, e.LogicalAttempt}
	}
	count := map[string]int{}
	for _, s := range r.steps {
		count[s.Status]++
	}
	c := &r.run.StepCounts
	c.Total, c.Pending, c.Running = len(r.steps), count["PENDING"], count["RUNNING"]
	c.Success, c.Failed, c.Skipped = count["SUCCESS"], count["FAILED"], count["SKIPPED"]
}

// The longest times that the contract permits (contract T226, O9).
const (
	tailLossWithin = 3 * time.Second
	causeWithin    = 2 * time.Second
	repairedWithin = 5 * time.Second
	quietWithin    = 15 * time.Second
)

// judgeOptions says how strictly to judge the frames of a viewer.
type judgeOptions struct {
	// slack is the time that the machine and the network may add to a time of the contract.
	slack time.Duration
	// until is the time at which the viewer stopped.
	until time.Time
	// slow viewers pause between reads, so their times of arrival prove nothing.
	slow bool
	// resets permits resets, because the test restored the store.
	resets bool
	// away has the times without a stream.
	away []span
}

type span struct{ from, to time.Time }

func (s span) contains(t time.Time) bool { return !t.Before(s.from) && !t.After(s.to) }

// verdict counts faults by kind and keeps the details of the first three of each kind. Several goroutines may use it.
type verdict struct {
	mu      sync.Mutex
	frames  int
	live    int
	resync  int
	faults  map[string]int
	details []string
}

func (v *verdict) addFault(kind, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.faults == nil {
		v.faults = map[string]int{}
	}
	if v.faults[kind]++; v.faults[kind] <= 3 {
		v.details = append(v.details, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (v *verdict) String() string {
	kinds := make([]string, 0, len(v.faults))
	for kind, n := range v.faults {
		kinds = append(kinds, fmt.Sprintf("%d x %s", n, kind))
	}
	sort.Strings(kinds)
	return strings.Join(append(kinds, v.details...), "\n")
}

// judge checks each frame that one viewer got of one run.
func (v *verdict) judge(name string, us []update, h *history, r *replay, j judgeOptions) {
	log := h.log()
	at := func(i int) string {
		return fmt.Sprintf("%s of %s, frame %d: %s", name, h.id.RunID, i, formatUpdates(us[max(0, i-3):i+1]))
	}
	for i, u := range us {
		if u.RunSeq < 1 || int(u.RunSeq) > len(log) {
			v.addFault("a seq beyond the log", "%s", at(i))
			return
		}
		if want := r.stateAt(log, u.RunSeq); u.shows != want {
			v.addFault("wrong content", "%s\n shows %s\n  want %s", at(i), u.shows, want)
		}
		if u.Reset && !j.resets {
			v.addFault("unexpected reset", "%s", at(i))
		}
		if i > 0 && us[i-1].StoreEpoch == u.StoreEpoch && u.RunSeq < us[i-1].RunSeq && !u.Reset {
			v.addFault("frame behind the one before", "%s", at(i))
		}
		if isLive(u) {
			v.judgeLive(func() string { return at(i) }, u, log, j)
		}
		if i > 0 && !j.slow && !u.joined && u.at.Sub(us[i-1].at) > quietWithin+j.slack {
			v.addFault("silence of the stream", "%s came %s after the one before", at(i), u.at.Sub(us[i-1].at))
		}
	}
	if !j.slow {
		v.judgeSilence(name, us, h, log, j)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, u := range us {
		v.frames++
		if isLive(u) {
			v.live++
		}
		if u.Sync == "RESYNCING" {
			v.resync++
		}
	}
}

// judgeLive checks a LIVE frame: its head, its age and its asOf.
func (v *verdict) judgeLive(at func() string, u update, log []commit, j judgeOptions) {
	if u.HeadSeq != nil && *u.HeadSeq > u.RunSeq {
		v.addFault("LIVE below its own head", "%s", at())
	}
	if int(u.RunSeq) == len(log) {
		return
	}
	next := log[u.RunSeq]
	if late := u.at.Sub(next.after); !j.slow && late > tailLossWithin+j.slack {
		v.addFault("LIVE while behind", "%s came %s after %d was committed", at(), late, next.Seq)
	}
	if claim := u.AsOf.Sub(next.PersistedAt); claim > time.Second {
		v.addFault("asOf too late", "%s claims %s, but %d is not in it and was committed %s before", at(),
			u.AsOf.Format(time.StampMilli), next.Seq, claim)
	}
}

// judgeSilence finds moments at which the newest frame of a viewer was LIVE although a newer event had been committed
// for longer than the contract permits a loss to stay unnoticed.
func (v *verdict) judgeSilence(name string, us []update, h *history, log []commit, j judgeOptions) {
	i := -1
	for _, c := range log {
		due := c.after.Add(tailLossWithin + j.slack)
		if due.After(j.until) || slices.ContainsFunc(j.away, func(s span) bool { return s.contains(due) }) {
			continue
		}
		for i+1 < len(us) && !us[i+1].at.After(due) {
			i++
		}
		if i >= 0 && isLive(us[i]) && us[i].RunSeq < c.Seq {
			v.addFault("LIVE while behind", "%s of %s: %d was committed at %s, and %s later the newest frame was %s", name,
				h.id.RunID, c.Seq,
				c.after.Format(time.StampMilli), tailLossWithin+j.slack, formatUpdates(us[max(0, i-2):i+1]))
		}
	}
}
