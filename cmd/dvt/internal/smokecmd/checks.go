package smokecmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
)

// pollEvery is the time between two questions about the run.
const pollEvery = 300 * time.Millisecond

// checkAPI asks who the caller is, and keeps the tenant for the plan.
func (s *smoke) checkAPI(ctx context.Context) (string, error) {
	out, err := client.WhoAmI(ctx, s.api)
	if err != nil {
		return "", cmdline.Failure(err) // says what to do about a server that does not answer, or knows no such token
	}
	s.tenant = out.Viewer.TenantId
	return fmt.Sprintf("the server knows %s of %s", out.Viewer.Principal, s.tenant), nil
}

func (s *smoke) checkHealth(ctx context.Context) (string, error) {
	out, err := client.ShowHealth(ctx, s.api)
	if err != nil {
		return "", err
	}
	var bad []string
	for _, c := range out.Health.Checks {
		if c.Status == client.HealthStatusUnhealthy {
			bad = append(bad, fmt.Sprintf("%s is %s (%s)", c.Name, c.Status, runtext.Deref(c.Message)))
		}
	}
	if len(bad) > 0 {
		return "", errors.New(strings.Join(bad, ", "))
	}
	return fmt.Sprintf("%d checks, the installation is %s", len(out.Health.Checks), out.Health.Status), nil
}

func (s *smoke) start(ctx context.Context) (string, error) {
	doc, err := s.plan(s.tenant, s.hello, time.Now())
	if err != nil {
		return "", err
	}
	return s.startPlan(ctx, doc)
}

func (s *smoke) startPlan(ctx context.Context, doc []byte) (string, error) {
	inline := doc
	out, err := client.StartRun(ctx, s.api, client.StartRunInput{Plan: client.PlanInput{Inline: (*rawMessage)(&inline)},
		RunRequestId: uuid.NewString(), ProjectId: s.project, EnvironmentId: s.environment, Priority: 5})
	if err != nil {
		return "", err
	}
	s.runID, s.ended = out.StartRun.Run.RunId, false
	return "the run " + s.runID + " was accepted", nil
}

// begin waits until a workflow of the run works. A run that needs an approval gets it when this token may give it.
func (s *smoke) begin(ctx context.Context) (string, error) {
	approved := false
	return s.wait(ctx, "the run began", func(r *client.ShowRunRun) (bool, error) {
		if r.WaitsForApprovals != nil && !approved {
			approved = true
			if _, err := client.ApproveRun(ctx, s.api, client.ApproveRunInput{RunId: s.runID, RequestId: uuid.NewString(),
				Decision: client.DecisionApprove}); err != nil {
				return false, fmt.Errorf("the run needs an approval, which this token may not give: approve %s, or use another "+
					"environment: %w", s.runID, client.AsAPIError(err))
			}
		}
		return r.StartedAt != nil, nil
	})
}

func (s *smoke) pause(ctx context.Context) (string, error) {
	if err := s.signal(ctx, client.SignalInput{Pause: &client.PauseInput{Reason: reason()}}); err != nil {
		return "", err
	}
	return s.wait(ctx, "the run is paused", func(r *client.ShowRunRun) (bool, error) {
		return r.Status == client.RunStatusPaused, nil
	})
}

func (s *smoke) resume(ctx context.Context) (string, error) {
	err := s.signal(ctx, client.SignalInput{Resume: &client.ResumeInput{Reason: reason()}})
	return "the engine resumed the run", err
}

func (s *smoke) retry(ctx context.Context) (string, error) {
	if s.noCommand {
		return "", skippedError("there are no COMMAND steps")
	}
	if _, err := s.wait(ctx, "", stepIs(stepFails, client.StepStatusFailed)); err != nil {
		return "", err
	}
	retry := client.SignalInput{RetryStep: &client.RetryStepInput{StepId: stepFails, Reason: reason()}}
	if err := s.signal(ctx, retry); err != nil {
		return "", err
	}
	return s.wait(ctx, "the step that failed once succeeded in its second attempt",
		stepIs(stepFails, client.StepStatusSuccess))
}

func (s *smoke) manual(ctx context.Context) (string, error) {
	if s.noManual {
		return "", skippedError("there is no manual step")
	}
	token, err := s.manualToken(ctx)
	if err != nil {
		return "", err
	}
	if _, err := client.CompleteManualStep(ctx, s.api, client.CompleteManualStepInput{RunId: s.runID, StepId: stepManual,
		Token: token, Outcome: client.ManualOutcomeSucceeded}); err != nil {
		return "", err
	}
	return s.wait(ctx, "the manual step was completed", stepIs(stepManual, client.StepStatusSuccess))
}

// manualToken waits until the manual step waits for a person, and returns the token that completes it.
func (s *smoke) manualToken(ctx context.Context) (token string, err error) {
	_, err = s.wait(ctx, "", func(*client.ShowRunRun) (bool, error) {
		out, err := client.ListManualTasks(ctx, s.api, &s.runID, nil, nil)
		if err != nil {
			return false, err
		}
		for _, e := range out.ManualTasks.Edges {
			if e.Node.StepId != stepManual {
				continue
			}
			if e.Node.Token == nil {
				return false, fmt.Errorf("this token may not complete manual steps (%s %s); give --no-manual to leave it out",
					runtext.Deref(e.Node.Action.Code), runtext.Deref(e.Node.Action.Reason))
			}
			token = *e.Node.Token
			return true, nil
		}
		return false, nil
	})
	return token, err
}

func (s *smoke) end(ctx context.Context) (string, error) {
	return s.wait(ctx, "every step succeeded and the run is completed", func(r *client.ShowRunRun) (bool, error) {
		switch r.Status {
		case client.RunStatusCompleted:
			s.ended = true
			return true, nil
		case client.RunStatusFailed, client.RunStatusCancelled:
			s.ended = true
			return false, fmt.Errorf("the run is %s", r.StatusRaw)
		}
		return false, nil
	})
}

func reason() *string {
	why := "dvt smoke"
	return &why
}

// signal sends a signal and waits until the engine applied it.
func (s *smoke) signal(ctx context.Context, in client.SignalInput) error {
	out, err := client.SignalRun(ctx, s.api, client.SignalRunInput{RunId: s.runID, SignalId: uuid.NewString(), Signal: in})
	if err != nil {
		return err
	}
	receipt := &out.SignalRun.Signal
	for {
		switch {
		case receipt.Rejection != nil:
			return fmt.Errorf("%s was rejected: %s", receipt.TypeRaw, receipt.Rejection.Message)
		case receipt.Application == nil:
		case *receipt.Application == client.SignalApplicationApplied:
			return nil
		case *receipt.Application == client.SignalApplicationNoop,
			*receipt.Application == client.SignalApplicationNotApplied:
			return fmt.Errorf("%s had no effect: %s", receipt.TypeRaw, runtext.Deref(receipt.ApplicationReason))
		}
		if !pause(ctx) {
			return fmt.Errorf("%s was accepted and not applied within %s: no control worker may be running", receipt.TypeRaw,
				plan.DurationWords(s.timeout))
		}
		next, err := client.GetSignal(ctx, s.api, s.runID, receipt.SignalId)
		if err == nil && next.Signal != nil {
			receipt = next.Signal
		}
	}
}

// stepIs returns a condition for wait: the step has that status.
func stepIs(id string, status client.StepStatus) func(*client.ShowRunRun) (bool, error) {
	return func(r *client.ShowRunRun) (bool, error) {
		for _, st := range r.Steps {
			if st.StepId == id {
				return st.Status == status, nil
			}
		}
		return false, nil
	}
}

// wait reads the run until cond holds, and returns detail. When the time is over, or the run ended without it, the
// error says what the run waits for.
func (s *smoke) wait(ctx context.Context, detail string, cond func(*client.ShowRunRun) (bool, error)) (string, error) {
	var last *client.ShowRunRun
	var trouble error
	for {
		out, err := client.ShowRun(ctx, s.api, s.runID, nil)
		switch {
		case err != nil:
			trouble = client.AsAPIError(err)
		case out.Run != nil:
			last, trouble = out.Run, nil
			done, err := cond(last)
			if err != nil || done {
				return detail, withCause(err, last)
			}
			if last.CompletedAt != nil {
				s.ended = true
				return "", withCause(fmt.Errorf("the run ended as %s", last.StatusRaw), last)
			}
		}
		if !pause(ctx) {
			break
		}
	}
	if trouble != nil && last == nil {
		return "", trouble
	}
	return "", fmt.Errorf("not within %s: %s%s", plan.DurationWords(s.timeout), describe(last),
		s.unwell(context.WithoutCancel(ctx)))
}

// unwellWithin bounds the question about the health after a check that took too long.
const unwellWithin = 5 * time.Second

// unwell names the checks of the health that are not HEALTHY now, in a clause; "" when there are none or nobody
// answers.
func (s *smoke) unwell(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, unwellWithin)
	defer cancel()
	out, err := client.ShowHealth(ctx, s.api)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range out.Health.Checks {
		if c.Status != client.HealthStatusHealthy {
			fmt.Fprintf(&b, "; %s is %s: %s", c.Name, c.Status, runtext.Deref(c.Message))
		}
	}
	return b.String()
}

// withCause adds the cause of a failure that the run names.
func withCause(err error, r *client.ShowRunRun) error {
	if err == nil || r.RootCause == nil {
		return err
	}
	return fmt.Errorf("%w: step %s: %s: %s", err, runtext.Deref(r.RootCause.StepId), r.RootCause.Code,
		runtext.Deref(r.RootCause.Message))
}

// describe says what a run waits for.
func describe(r *client.ShowRunRun) string {
	parts := []string{"the run is " + r.StatusRaw}
	for _, w := range r.Waits {
		parts = append(parts, w.Message+" "+w.Help)
	}
	for _, st := range r.Steps {
		if st.Status != client.StepStatusSuccess {
			text := "step " + st.StepId + " is " + st.StatusRaw
			if w := st.Wait; w != nil && w.TaskQueue != nil {
				text += " and waits for a worker of the queue " + *w.TaskQueue
				if w.PollerSeenAt == nil {
					text += ", which none serves"
				}
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// pause waits until the next question; false when the time is over.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pollEvery):
		return true
	}
}
