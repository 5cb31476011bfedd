package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// failedSteps finds the cause of each failed step that nobody has retried. Steps that failed alike share one cause.
func (d *diagnosis) failedSteps() {
	type alike struct {
		code Code
		text string
	}
	at := map[alike]int{}
	var causes []Cause
	for _, s := range d.State.Steps {
		if s.Status != run.StepFailed || d.Retried[s.StepID] || len(s.Attempts) == 0 {
			continue
		}
		a := s.Attempts[len(s.Attempts)-1]
		if a.Error == nil || stoppedWithRun(a.Error.Code) {
			continue
		}
		c := d.stepCause(s, a)
		key := alike{c.Code, a.Error.Message}
		if i, known := at[key]; known {
			causes[i].Steps = append(causes[i].Steps, s.StepID)
			causes[i].Evidence = append(causes[i].Evidence, c.Evidence...)
			causes[i].Next = append(causes[i].Next, retries(c.Next)...)
			continue
		}
		at[key] = len(causes)
		causes = append(causes, c)
	}
	// What lies outside the steps comes first, then the root cause of the run, then the others.
	outside := slices.ContainsFunc(causes, func(c Cause) bool { return isEnvironment(c.Code) })
	root := d.State.RootCause
	for _, c := range causes {
		rank := rankStep
		if !isEnvironment(c.Code) && (outside || root != nil && !slices.Contains(c.Steps, root.StepID)) {
			rank = rankRun
		}
		if n := len(c.Steps); n > 1 {
			c.Title = fmt.Sprintf("%d steps failed alike. %s", n, c.Title)
		}
		if len(c.Evidence) > MaxNamed {
			c.Evidence = c.Evidence[:MaxNamed]
		}
		if len(c.Next) > MaxNamed {
			c.Next = c.Next[:MaxNamed]
		}
		d.add(rank, c)
	}
}

// stoppedWithRun reports whether an attempt ended because its run was stopped, cancelled or paused.
func stoppedWithRun(code string) bool {
	switch Code(code) {
	case run.CodeCancelled, run.CodeCancelledByPause, run.CodeTerminated:
		return true
	}
	return false
}

// stepCause explains the failure of one step by its code, and for programs by the line that names the error.
func (d *diagnosis) stepCause(s *run.Step, a run.Attempt) Cause {
	e := a.Error
	c := Cause{
		Code: Code(e.Code), Kind: Fault, Confidence: Certain, Steps: []string{s.StepID}, Since: a.CompletedAt,
		Until: d.State.RetryDeadline,
		Evidence: []Evidence{{Source: FromLog, Text: e.Code + ": " + e.Message, Seq: a.EndedSeq, StepID: s.StepID,
			Attempt: a.LogicalAttempt}},
	}
	var advice string
	mayRun, didWork := false, false
	switch Code(e.Code) {
	case run.CodeTimeout:
		if e.Source == "engine" && s.Type == string(plan.Manual) {
			c.Title = "Nobody completed the step in time."
			advice = "Ask who should have completed it. A retry asks again."
			break
		}
		if e.Source == "engine" {
			c.Code, c.Title, mayRun = CodeWorkerLost, "The worker of the step was lost while it ran.", true
			advice = "Look whether the worker runs and what ended it. Check that the old program is not still working."
			break
		}
		c.Title = "The step took longer than its timeout."
		advice = "Find out why it was slow, or raise its timeout."
	case run.CodeWriteBudget:
		c.Title, didWork = "The step did its work, but the store did not confirm in time.", true
		advice = "Find out why the store was slow. A retry does the work again."
	case run.CodeEventRejected:
		c.Title, didWork = "The step did its work, but its result was refused.", true
		advice = "Make the step's result smaller or valid. A retry does the work again."
	case run.CodeManualFailed:
		c.Kind, c.Title = End, "A person said that the step failed."
		advice = "Read what they wrote; a retry asks again."
	case "DIR_NOT_FOUND":
		c.Title, advice = meaningOf(e.Code)
		if strings.HasPrefix(s.Type, "DBT_") {
			c.Title = "The directory of the dbt project or of its profiles does not exist on the worker."
			advice = "Check projectDir and profilesDir of the step, and that the worker has the dbt project."
		}
	default:
		if code, title, what := classify(e.Message); code != "" && isProgram(e.Code) {
			c.Code, c.Confidence, c.Title, advice = code, Likely, title, what
			line := Evidence{Source: FromOutput, Text: outputLine(e.Message), StepID: s.StepID,
				Attempt: a.LogicalAttempt, Line: e.Line}
			if a.EngineAttempt > 1 {
				line.Line = 0 // it counts within the last try, and the log has all tries
			}
			c.Evidence = append(c.Evidence, line)
			break
		}
		c.Title, advice = meaningOf(e.Code)
		// That a program failed is known. What it printed last tells more.
		if line := outputLine(e.Message); isProgram(e.Code) && line != e.Message {
			c.Title = "The step failed: " + line
		}
	}
	c.Next = d.afterFailure(s, c.Code, advice, e.Retryable && !mayRun && !didWork)
	return c
}

// afterFailure returns the advice, and then the retry or the rerun. Only the retry of a step that met another writer
// removes the cause by itself, so it comes first.
func (d *diagnosis) afterFailure(s *run.Step, code Code, advice string, isSafe bool) []Next {
	next := []Next{{Text: advice}}
	if d.State.Status == run.Failed {
		return append(next, Next{Text: "After that, rerun the run from the failure."})
	}
	retry, permitted := d.retry(s)
	if !permitted {
		return next
	}
	retry.Safe = isSafe && !retry.Force
	if code == CodeContention && !retry.Force {
		retry.Text = "Retry the step."
		return []Next{retry, next[0]}
	}
	return append(next, retry)
}

// retry returns the retry of a failed step that the run accepts, with force where the policy refuses it; false when the
// run accepts none.
func (d *diagnosis) retry(s *run.Step) (n Next, permitted bool) {
	n = Next{Text: "After that, retry the step.", Signal: run.RetryStep, StepID: s.StepID}
	sig := run.Signal{Type: run.RetryStep, StepID: s.StepID, ExpectedAttempt: s.LogicalAttempt}
	judged := run.Judge(d.State, sig)
	if judged.Code == run.CodeRetryDenied {
		n.Force, sig.Force = true, true
		n.Text = "After that, retry the step by force: its error is marked as not retryable."
		if view, _ := d.State.FindStep(s.StepID); view.Retryable {
			n.Text = fmt.Sprintf("After that, retry the step by force: it has had %d attempts, and the run allows %d.",
				s.LogicalAttempt, d.State.MaxAttempts())
		}
		judged = run.Judge(d.State, sig)
	}
	return n, judged.Outcome == run.Accept
}

func retries(next []Next) (out []Next) {
	for _, n := range next {
		if n.Signal == run.RetryStep {
			out = append(out, n)
		}
	}
	return out
}

// meaningOf returns what a code of an error means and what to do, from the tables of codes.
func meaningOf(code string) (meaning, whatToDo string) {
	for _, info := range run.StepCodeTable() {
		if string(info.Code) == code {
			return info.Meaning, info.WhatToDo
		}
	}
	if info, known := run.Code(code).Info(); known {
		return info.Meaning, info.WhatToDo
	}
	return "The step failed with the code " + code + ".", "Read the message and the log of the step."
}

// runFailure explains the end of a run that no failed step explains.
func (d *diagnosis) runFailure() {
	f := d.State.Failure
	if f == nil || len(d.found) > 0 {
		return
	}
	title, advice := meaningOf(f.Code)
	d.add(rankRun, Cause{
		Code: Code(f.Code), Kind: Fault, Confidence: Certain, Title: title, Since: d.State.CompletedAt,
		Evidence: []Evidence{{Source: FromLog, Text: f.Code + ": " + f.Message, Seq: f.Seq}},
		Next:     []Next{{Text: advice}},
	})
}

func (d *diagnosis) cancelled() {
	c := d.State.Cancellation
	if c == nil {
		return
	}
	title, text := "The run was cancelled by "+c.Actor+".", "Reason: "+c.Reason
	code := CodeCancelledBy
	if c.Code != "" {
		code = c.Code
		title, _ = meaningOf(string(c.Code))
	}
	d.add(rankRun, Cause{
		Code: code, Kind: End, Confidence: Certain, Title: title, Since: &c.At,
		Evidence: []Evidence{{Source: FromLog, Text: text, Seq: c.Seq}},
		Next:     []Next{{Text: "Rerun the run when the reason no longer holds."}},
	})
}

// changed names a plan that changed since it last completed, beside causes that such a change can have.
func (d *diagnosis) changed() {
	g := d.LastGreen
	if g == nil || g.Changed == 0 {
		return
	}
	versions := fmt.Sprintf("with version %s; this run has version %s", g.PlanVersion, d.State.PlanVersion)
	if g.PlanVersion == d.State.PlanVersion {
		versions = fmt.Sprintf("with the same version %s and other content", g.PlanVersion)
	}
	changes := strings.Join(g.Changes, ", ")
	if more := g.Changed - len(g.Changes); more > 0 {
		changes += fmt.Sprintf(" and %d more", more)
	}
	for _, c := range d.found {
		if c.Kind != Fault || len(c.Steps) == 0 || c.Code == CodeWorkerLost || isTransient(c.Code) {
			continue
		}
		d.add(rankChange, Cause{
			Code: CodePlanChanged, Kind: Fault, Confidence: Possible,
			Title: "The plan has changed since it last completed.",
			Evidence: []Evidence{{Source: FromHistory, RunID: g.RunID,
				Text: fmt.Sprintf("Run %s completed %s. Changed: %s.", g.RunID, versions, changes)}},
			Next: []Next{{Text: "Compare the run with the last green one: dvt run compare " + d.State.RunID}},
		})
		return
	}
}
