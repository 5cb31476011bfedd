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

// replay is what a viewer must see of a log at each seq, by a reading of the events
// that shares nothing with the product's.
type replay struct {
	mu    sync.Mutex
	text  []string // by seq
	run   shownRun
	steps []shownStep
}

// at is the picture at seq.
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

// Times that are allowed: T226, O9, api.md §5.
const (
	tailLossWithin = 3 * time.Second
	causeWithin    = 2 * time.Second
	repairedWithin = 5 * time.Second
	quietWithin    = 15 * time.Second
)

// judgement is what a viewer's frames are held to.
type judgeOptions struct {
	// slack is what the machine and the wire may add to a time.
	slack time.Duration
	// until is when the viewer stopped looking.
	until time.Time
	// slow viewers read late by their own doing: the times of arrival say nothing.
	slow bool
	// resets may come, when the test restored the store.
	resets bool
	// away are times at which the viewer had no stream.
	away []span
}

type span struct{ from, to time.Time }

func (s span) contains(t time.Time) bool { return !t.Before(s.from) && !t.After(s.to) }

// verdict collects what is wrong, a few of each kind.
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

// judge looks at every frame that one viewer got of one run.
func (v *verdict) judge(name string, us []update, h *history, r *replay, j judgeOptions) {
	log := h.log()
	at := func(i int) string {
		return fmt.Sprintf("%s of %s, frame %d: %s", name, h.id.RunID, i, formatUpdates(us[max(0, i-3):i+1]))
	}
	for i, u := range us {
		if u.RunSeq < 1 || int(u.RunSeq) > len(log) {
			v.addFault("a seq that the log does not have", "%s", at(i))
			return
		}
		if want := r.stateAt(log, u.RunSeq); u.shows != want {
			v.addFault("content", "%s\n shows %s\n  want %s", at(i), u.shows, want)
		}
		if u.Reset && !j.resets {
			v.addFault("reset", "%s", at(i))
		}
		if i > 0 && us[i-1].StoreEpoch == u.StoreEpoch && u.RunSeq < us[i-1].RunSeq && !u.Reset {
			v.addFault("back", "%s", at(i))
		}
		if isLive(u) {
			v.judgeLive(func() string { return at(i) }, u, log, j)
		}
		if i > 0 && !j.slow && !u.joined && u.at.Sub(us[i-1].at) > quietWithin+j.slack {
			v.addFault("silence", "%s came %s after the one before", at(i), u.at.Sub(us[i-1].at))
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

// fresh judges what a LIVE frame claims.
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
		v.addFault("asOf", "%s claims %s of which %d is %s old", at(), u.AsOf.Format(time.StampMilli), next.Seq, claim)
	}
}

// unsaid finds moments at which a viewer had a LIVE frame before it, while something
// newer had been committed for longer than a loss may stay unnoticed.
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
			v.addFault("LIVE while behind", "%s of %s: %d was committed at %s and %s later the newest frame was %s", name,
				h.id.RunID, c.Seq,
				c.after.Format(time.StampMilli), tailLossWithin+j.slack, formatUpdates(us[max(0, i-2):i+1]))
		}
	}
}
