package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// How long something may last before it is a fault.
const (
	drainLimit    = 5 * time.Minute // of a run whose policy has none
	startLimit    = time.Minute
	pollLimit     = 2 * time.Minute
	beatLimit     = time.Minute
	deliverLimit  = 30 * time.Second
	applyLimit    = time.Minute
	readyLimit    = 30 * time.Second
	slowFactor    = 3
	slowAtLeast   = time.Minute
	givenBackFrom = 2 // engine attempts
)

// metricBacklog has the tasks that wait in each queue.
const metricBacklog = "engine_queue_backlog"

// brokenParts names parts of the installation that do not work, when the run needs them.
func (d *diagnosis) brokenParts(rank int) {
	for _, p := range d.Parts {
		title := p.Name + " does not work."
		switch {
		case p.Slow && (d.Queue == nil || d.Now.Sub(d.Queue.Since) < startLimit):
			continue
		case p.Slow:
			title = p.Name + " is slow, so the start waits."
		case p.Engine && d.Engine != nil:
			continue // it has just answered about this run, which the check of a busy machine may have missed
		}
		if !p.Engine && !p.Store || rank == rankPartLater && len(d.found) > 0 && !d.has(run.CodeWriteBudget) {
			continue
		}
		metric := "state_store_write_timeouts_total"
		if p.Engine {
			metric = "engine_start_breaker_open"
		}
		d.add(rank, Cause{
			Code: CodePartDown, Kind: Fault, Confidence: Likely, Title: title,
			Evidence: []Evidence{{Source: FromHealth, Text: p.Message, Metric: metric}},
			Next: []Next{{Text: "Bring it back; see the health page. Runs then continue by themselves."},
				{Text: "Wait.", Safe: true}},
		})
	}
}

// held repeats what Run.waits says, unless the health has named the same part.
func (d *diagnosis) held() {
	for _, h := range d.Held {
		c := Cause{Code: h.Code, Kind: Fault, Confidence: Likely, Title: h.Message, Steps: h.Steps,
			More: max(0, h.StepCount-len(h.Steps)),
			Next: []Next{{Text: "Wait: the run then continues by itself.", Safe: true}, {Text: h.Help}}}
		seen := Evidence{Source: FromEngine, Text: "The engine named it when it was asked about the run."}
		rank := rankWorker
		switch h.Code {
		case CodePartDown:
			if d.down(func(p Part) bool { return h.Engine && p.Engine || !h.Engine && p.Store }) {
				continue
			}
			if h.Engine {
				seen.Text = "It gave no answer about this run."
			}
			rank = rankPart
		case CodeJournal:
			seen.Metric = "engine_refused_calls_total"
		case CodeWaitsForQuota:
			c.Kind, c.Confidence, rank = Wait, Certain, rankWait
			seen.Metric = "engine_tenant_quota_used"
		case CodePlanLoads:
			c.Kind, c.Confidence, rank = Wait, Certain, rankWait
		}
		c.Evidence = []Evidence{seen}
		if !h.Since.IsZero() {
			c.Since = &h.Since
		}
		if !h.Until.IsZero() {
			c.Until = &h.Until
		}
		d.add(rank, c)
	}
}

func (d *diagnosis) has(code Code) bool {
	return slices.ContainsFunc(d.found, func(c Cause) bool { return c.Code == code })
}

func (d *diagnosis) down(isDown func(Part) bool) bool { return slices.ContainsFunc(d.Parts, isDown) }

// engineLostIt finds a run that the log has as started, and that the engine has not or has ended.
func (d *diagnosis) engineLostIt() {
	st, e := d.State, d.Engine
	if e == nil || st.Engine == nil || st.Status == run.Pending || st.Status == run.Approved {
		return
	}
	code, title := run.CodeEngineLost, "The workflow engine does not know the run any more."
	text := "The engine has no execution of this run."
	switch {
	case !e.Known:
	case e.Closed:
		code, title = run.CodeEngineTerminated, "The run's execution was ended in the engine, without dvt."
		text = "The newest execution is " + e.Status + ", and the log has no end of the run."
	default:
		return
	}
	d.add(rankEngineLost, Cause{
		Code: code, Kind: Fault, Confidence: Certain, Title: title, Evidence: []Evidence{{Source: FromEngine,
			Text: text}},
		Next: []Next{{Text: "Wait: a server fails the run within minutes, and it can be rerun from where it " +
			"stopped.", Safe: true},
			{Text: "Find out who or what removed it from the engine."}},
	})
}

// unserved reports whether no worker polls a queue, and since when.
func (d *diagnosis) unserved(queue string) (w Workers, since time.Time, none bool) {
	w, known := d.Workers[queue]
	if !known {
		return w, since, false
	}
	if since = w.LastPoll; since.IsZero() {
		since = w.Watched
	}
	return w, since, d.Now.Sub(since) >= pollLimit && w.Waiting > 0
}

// controlQueue finds that nobody serves the queue on which the run itself is decided.
func (d *diagnosis) controlQueue() {
	if d.Queue != nil || d.Approval != nil {
		return
	}
	if w, since, none := d.unserved(d.ControlQueue); none {
		d.add(rankControl, noWorker(d.ControlQueue, w, since, d.ago(since), nil))
	}
}

func noWorker(queue string, w Workers, since time.Time, ago string, steps []string) Cause {
	text := fmt.Sprintf("%s: the last poll was %s ago; %d tasks wait.", queue, ago, w.Waiting)
	if w.LastPoll.IsZero() {
		text = fmt.Sprintf("%s: no poll is known; %d tasks wait.", queue, w.Waiting)
	}
	return Cause{
		Code: run.CodeNoWorker, Kind: Fault, Confidence: Likely, Title: "No worker serves the queue " + queue + ".",
		Steps: steps, Since: &since, Evidence: []Evidence{{Source: FromWorkers, Text: text, Metric: metricBacklog}},
		Next: []Next{{Text: "Start a worker of the queue " + queue + ". The run then continues by itself."}},
	}
}

func (d *diagnosis) queued() {
	q := d.Queue
	if q == nil {
		return
	}
	seen := Evidence{Source: FromQueue, Text: q.Reason, Metric: "run_queue_pending"}
	switch {
	case q.Held:
		seen.Metric = ""
	case q.Limited:
		seen.Metric = "engine_tenant_queue_depth"
	}
	c := Cause{Kind: Wait, Confidence: Certain, Since: &q.Since, Evidence: []Evidence{seen}}
	if !q.Expires.IsZero() {
		c.Until = &q.Expires
	}
	switch {
	case q.Held:
		c.Code, c.Title = CodeHeld, "Nothing starts now: the tenant is frozen or dvt is not in normal mode."
		c.Next = []Next{{Text: "Wait, or ask who set it: the banner of the service says who and why.", Safe: true}}
		d.add(rankHeld, c)
	case q.Limited:
		c.Code, c.Title = CodeWaitsForSlot, fmt.Sprintf("The run waits for a free slot; it is number %d.", q.Position)
		c.Next = []Next{{Text: "Wait until an active run ends.", Safe: true},
			{Text: "Ask an administrator for a larger quota."}}
		d.add(rankWait, c)
	case d.Now.Sub(q.Since) >= startLimit && !d.down(func(p Part) bool { return p.Engine }):
		c.Code, c.Kind, c.Confidence = CodeNotDispatched, Fault, Likely
		c.Title = "The start is due, and no server makes it."
		c.Next = []Next{{Text: "Look whether a server with the duty dispatch runs, and what its log says."}}
		d.add(rankControl, c)
	}
}

func (d *diagnosis) approval() {
	if a := d.Approval; a != nil {
		d.add(rankWait, Cause{
			Code: CodeWaitsForApproval, Kind: Wait, Confidence: Certain,
			Title: fmt.Sprintf("The run waits for approval: %d of %d are given.", a.Given, a.Required), Since: &a.Since,
			Until:    &a.Expires,
			Evidence: []Evidence{{Source: FromQueue, Text: morePeople(a.Required-a.Given) + " must approve."}},
			Next:     []Next{{Text: d.askForApproval(*a)}},
		})
	}
}

func morePeople(n int) string {
	if n == 1 {
		return "1 more person"
	}
	return fmt.Sprintf("%d more people", n)
}

// askForApproval names who may approve, or what to do when they are too few.
func (d *diagnosis) askForApproval(a Approval) string {
	names := strings.Join(a.WhoCould, ", ")
	switch {
	case a.More || len(a.WhoCould) >= a.Required-a.Given:
		return "Ask one of those who may approve: " + names + "."
	case len(a.WhoCould) == 0:
		names = "Nobody can approve it"
	default:
		names = "Only " + names + " can approve, which is not enough"
	}
	return names + ". Change the policy, or cancel the run: dvt run cancel " + d.State.RunID
}

func (d *diagnosis) pause() {
	p := d.State.Pause
	if p == nil {
		return
	}
	running := d.steps(func(s *run.Step) bool { return s.Status == run.StepRunning && s.Substatus != run.WaitingManual })
	at := Evidence{Source: FromLog, Text: p.RequestedBy + " paused the run and gave no reason.", Seq: p.Seq}
	if p.Reason != "" {
		at.Text = p.RequestedBy + " paused the run: " + p.Reason
	}
	if len(running) > 0 && d.Now.Sub(p.Since) >= d.drainLimit() {
		d.add(rankRunning, Cause{
			Code: run.CodePauseDrain, Kind: Fault, Confidence: Certain, Steps: running, Since: &p.Since,
			Title:    fmt.Sprintf("The pause still waits for %d running steps after %s.", len(running), d.ago(p.Since)),
			Evidence: []Evidence{at},
			Next: d.withResume(Next{Text: "Look at these steps and their workers."},
				"Resume the run, if the pause is no longer needed."),
		})
		return
	}
	d.add(rankPause, Cause{
		Code: CodePaused, Kind: Wait, Confidence: Certain, Title: "The run is paused by " + p.RequestedBy + ".",
		Since: &p.Since, Evidence: []Evidence{at},
		Next: d.withResume(Next{Text: "Ask " + p.RequestedBy + " whether the reason of the pause still holds."},
			"Resume the run when the reason of the pause no longer holds."),
	})
}

// drainLimit returns how long a pause may wait for running steps before it is a fault.
func (d *diagnosis) drainLimit() time.Duration {
	if p := d.State.Policy; p != nil && p.DrainTimeoutMS > 0 {
		return time.Duration(p.DrainTimeoutMS) * time.Millisecond
	}
	return drainLimit
}

// withResume returns the advice, and then the RESUME unless the run refuses it.
func (d *diagnosis) withResume(advice Next, text string) []Next {
	if run.Judge(d.State, run.Signal{Type: run.Resume}).Outcome != run.Accept {
		return []Next{advice}
	}
	return []Next{advice, {Text: text, Signal: run.Resume}}
}

func (d *diagnosis) steps(is func(*run.Step) bool) (ids []string) {
	for _, s := range d.State.Steps {
		if is(s) {
			ids = append(ids, s.StepID)
		}
	}
	return ids
}

// readySteps finds steps that could run and that no worker has taken.
func (d *diagnosis) readySteps() {
	if d.State.Pause != nil {
		return
	}
	byQueue := map[string][]string{}
	for _, s := range d.State.ReadySteps(func(id string) bool { return d.Retried[id] }) {
		if plan.StepType(s.Type).NeedsWorker() {
			byQueue[s.TaskQueue] = append(byQueue[s.TaskQueue], s.StepID)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(byQueue)) {
		ids := byQueue[queue]
		w, since, none := d.unserved(queue)
		switch {
		case len(d.Drains[queue]) > 0:
			d.add(rankWorker, d.drained(queue, ids))
		case none && !d.has(run.CodeNoWorker):
			d.add(rankWorker, noWorker(queue, w, since, d.ago(since), ids))
		case !none && w.Count > 0 && w.Waiting > 0 && d.quiet() >= readyLimit:
			d.add(rankWait, Cause{
				Code: CodeWorkersBusy, Kind: Wait, Confidence: Likely, Steps: ids, Since: d.lastChange(),
				Title: "All workers of the queue " + queue + " are busy.",
				Evidence: []Evidence{{Source: FromWorkers, Metric: metricBacklog, Text: fmt.Sprintf("%s: %d workers poll; "+
					"%d tasks wait.", queue, w.Count, w.Waiting)}},
				Next: []Next{{Text: "Wait until they have a free slot.", Safe: true},
					{Text: "Start more workers of the queue, or give them more slots."}},
			})
		}
	}
}

// drained explains that every worker of a queue was told to begin no steps, which only a person can end.
func (d *diagnosis) drained(queue string, steps []string) Cause {
	drains := d.Drains[queue]
	c := Cause{
		Code: run.CodeNoWorker, Kind: Wait, Confidence: Certain, Steps: steps, Since: &drains[0].Since,
		Title: fmt.Sprintf("All %d workers of the queue %s are drained.", len(drains), queue),
	}
	if len(drains) == 1 {
		c.Title = "The only worker of the queue " + queue + " is drained."
	}
	for _, x := range drains[:min(len(drains), MaxNamed)] {
		if x.Worker == "" {
			c.Evidence = []Evidence{{Source: FromWorkers, Text: "The people who operate this installation drained it " +
				d.ago(x.Since) + " ago."}}
			c.Next = []Next{{Text: "Ask the people who operate this installation."}}
			break
		}
		c.Evidence = append(c.Evidence, Evidence{Source: FromWorkers, Text: fmt.Sprintf("%s was drained by %s %s ago: %s",
			x.Worker, x.By, d.ago(x.Since), x.Reason)})
		c.Next = append(c.Next, Next{Text: "Ask " + x.By + " whether the reason still holds. It ends with: " +
			"dvt service undrain " + x.Worker})
	}
	return c
}

// lastChange returns when the log last said something of a step.
func (d *diagnosis) lastChange() *time.Time {
	last := d.State.StartedAt
	later := func(t *time.Time) {
		if t != nil && (last == nil || t.After(*last)) {
			last = t
		}
	}
	for _, s := range d.State.Steps {
		if n := len(s.Attempts); n > 0 {
			later(s.Attempts[n-1].StartedAt)
			later(s.Attempts[n-1].CompletedAt)
		}
	}
	return last
}

func (d *diagnosis) quiet() time.Duration {
	if t := d.lastChange(); t != nil {
		return d.Now.Sub(*t)
	}
	return 0
}

// runningSteps finds running steps whose worker is silent, that come back again and again, or that take far longer than
// usual.
func (d *diagnosis) runningSteps() {
	for _, s := range d.State.Steps {
		if s.Status != run.StepRunning || s.Substatus == run.WaitingManual || len(s.Attempts) == 0 {
			continue
		}
		a := s.Attempts[len(s.Attempts)-1]
		began := Evidence{Source: FromLog, Text: "The attempt began.", Seq: a.StartedSeq, StepID: s.StepID,
			Attempt: a.LogicalAttempt}
		act, known := d.activity(s.StepID)
		switch {
		case known && act.Started && act.LastHeartbeat != nil && d.Now.Sub(*act.LastHeartbeat) >= beatLimit:
			d.add(rankWorker, Cause{
				Code: CodeWorkerSilent, Kind: Fault, Confidence: Likely, Steps: []string{s.StepID},
				Since: act.LastHeartbeat,
				Title: "The worker of the step has been silent for " + d.ago(*act.LastHeartbeat) + ".",
				Evidence: []Evidence{{Source: FromEngine, Text: "The last heartbeat was " +
					d.ago(*act.LastHeartbeat) + " ago.",
					StepID: s.StepID, Attempt: a.LogicalAttempt}, began},
				Next: []Next{{Text: "Wait: the engine gives the step to another worker, or fails it so that it " +
					"can be retried.", Safe: true},
					{Text: "Look whether the worker's machine runs."}},
			})
		case known && !act.Started && act.Attempt >= givenBackFrom:
			d.add(rankWorker, Cause{
				Code: CodeStepGivenBack, Kind: Fault, Confidence: Likely, Steps: []string{s.StepID}, Since: a.StartedAt,
				Title: fmt.Sprintf("The step was given back %d times; workers cannot run it.", act.Attempt-1),
				Evidence: []Evidence{{Source: FromEngine, Text: fmt.Sprintf("The engine waits to make attempt %d.",
					act.Attempt),
					StepID: s.StepID, Attempt: a.LogicalAttempt}, began},
				Next: []Next{{Text: "Read the log of the workers of the queue " + s.TaskQueue + "."}},
			})
		case a.StartedAt != nil && d.slow(s.StepID, d.Now.Sub(*a.StartedAt)):
			d.add(rankSlow, Cause{
				Code: CodeStepSlow, Kind: Fault, Confidence: Possible, Steps: []string{s.StepID}, Since: a.StartedAt,
				Title: fmt.Sprintf("The step has run for %s; it usually takes %s.", d.ago(*a.StartedAt),
					plan.DurationWords(d.LastGreen.Usual[s.StepID])),
				Evidence: []Evidence{{Source: FromHistory, Text: "Its median in earlier runs is " +
					plan.DurationWords(d.LastGreen.Usual[s.StepID]) + ".", StepID: s.StepID}, began},
				Next: []Next{{Text: "Read its log to see what it does now.", Safe: true}},
			})
		}
	}
}

func (d *diagnosis) activity(stepID string) (Activity, bool) {
	if d.Engine == nil {
		return Activity{}, false
	}
	i := slices.IndexFunc(d.Engine.Pending, func(a Activity) bool { return a.StepID == stepID })
	if i < 0 {
		return Activity{}, false
	}
	return d.Engine.Pending[i], true
}

func (d *diagnosis) slow(stepID string, took time.Duration) bool {
	if d.LastGreen == nil {
		return false
	}
	usual := d.LastGreen.Usual[stepID]
	return usual > 0 && took > slowFactor*usual && took >= slowAtLeast
}

// persons finds steps that wait for somebody.
func (d *diagnosis) persons() {
	for _, s := range d.State.Steps {
		if s.Status != run.StepRunning || s.Substatus != run.WaitingManual || len(s.Attempts) == 0 {
			continue
		}
		a := s.Attempts[len(s.Attempts)-1]
		d.add(rankWait, Cause{
			Code: CodeWaitsForPerson, Kind: Wait, Confidence: Certain, Steps: []string{s.StepID}, Since: a.WaitingSince,
			Until: a.WaitDeadline, Title: "A step waits for a person.",
			Evidence: []Evidence{{Source: FromLog, Text: "The step waits to be completed.", Seq: a.StartedSeq,
				StepID:  s.StepID,
				Attempt: a.LogicalAttempt}},
			Next: []Next{{Text: d.askToComplete(s.StepID)}},
		})
	}
}

// askToComplete names who may complete a step.
func (d *diagnosis) askToComplete(stepID string) string {
	who, known := d.Tasks[stepID]
	switch {
	case !known:
		return "Ask somebody who may complete it; the inbox has the task."
	case len(who) == 0:
		return "Nobody may complete it. Change the policy, or cancel the run: dvt run cancel " + d.State.RunID
	}
	return "Ask one of those who may complete it in the inbox: " + strings.Join(who, ", ") + "."
}

// orders finds accepted signals that have no effect.
func (d *diagnosis) orders() {
	for _, s := range d.Signals {
		c := Cause{
			Kind: Fault, Confidence: Likely, Since: &s.AcceptedAt,
			Evidence: []Evidence{{Source: FromSignals, Seq: s.Seq, Metric: "engine_signal_latency_seconds",
				Text: fmt.Sprintf("%s was accepted %s ago.", s.Type, d.ago(s.AcceptedAt))}},
			Next: []Next{{Text: "Wait: an accepted signal is never lost.", Safe: true}},
		}
		if s.StepID != "" {
			c.Steps = []string{s.StepID}
		}
		switch {
		case s.Delivered == nil && d.Now.Sub(s.AcceptedAt) >= deliverLimit:
			c.Code, c.Title = CodeSignalUndelivered, "An accepted signal has not reached the engine."
			c.Next = append(c.Next, Next{Text: "Look whether a server with the duty deliver runs, and whether " +
				"the engine answers."})
		case s.Delivered != nil && d.Now.Sub(*s.Delivered) >= applyLimit && s.Type != run.Pause && d.State.Pause == nil:
			c.Code, c.Title = CodeSignalUnapplied, "An accepted signal reached the engine and has no effect yet."
			c.Next = append(c.Next, Next{Text: "Look whether workers serve the queue " + d.ControlQueue + "."})
		default:
			continue
		}
		d.add(rankSignal, c)
		return
	}
}
