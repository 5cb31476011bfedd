// Package smokecmd has the command that proves an installation through its API: it runs a plan with a step of every
// type, steers it, and reads back what the run left.
package smokecmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// options are the flags of the command.
type options struct {
	project, environment string
	notify, dbt          string
	noCommand, noManual  bool
	drain                bool
	timeout              time.Duration
}

// State is the outcome of a check.
type State string

// The outcomes.
const (
	Passed  State = "OK"
	Failed  State = "FAILED"
	Skipped State = "SKIPPED" // an earlier check failed, or the options leave it out
)

// Check is one check with its outcome.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"` // one sentence
	TookMS int64  `json:"tookMs"`
}

// Report is the answer of the command.
type Report struct {
	RunID  string  `json:"runId,omitempty"`
	Passed int     `json:"passed"`
	Failed int     `json:"failed"`
	Checks []Check `json:"checks"`
}

// skippedError is the reason of a check that was not tried.
type skippedError string

func (e skippedError) Error() string { return string(e) }

// smoke is the state of one proof.
type smoke struct {
	options
	session cmdline.Session
	api     *client.Client
	runID   string // empty until the run is requested
	tenant  string // of the caller
	hello   string // the text that a step prints
	ended   bool   // the run reached an end
	undrain func(context.Context) error
	report  Report
}

// Short is the short help of the command.
const Short = "Prove an installation: run a plan with every type of step, steer it and read back its results"

// Configure completes the command smoke, which has the flags of a client command.
func Configure(c *cobra.Command, session cmdline.Session) *cobra.Command {
	var o options
	c.Long = "Starts a run with a step of every type, pauses and resumes it, retries a step that fails once, completes a " +
		"manual step, and\n" +
		"reads back its log, its artifacts and all of its events. Each check is one line with its time. What is left open " +
		"is cancelled at\n" +
		"the end. Exit status 0: every check that was tried succeeded; 1: one failed."
	c.Args = cmdline.ExactArgs(0)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s := &smoke{options: o, session: session, api: session.Client().(*client.Client),
			hello: "dvt-smoke-" + strings.ToLower(rand.Text())}
		s.run(c.Context())
		return s.show()
	}
	f := c.Flags()
	f.StringVar(&o.project, "project", "", "project of the run")
	f.StringVar(&o.environment, "environment", "", "environment of the run")
	_ = c.MarkFlagRequired("project")     // cannot fail: the flag exists
	_ = c.MarkFlagRequired("environment") // cannot fail: the flag exists
	f.StringVar(&o.notify, "notify", "", "URL that an HTTP_NOTIFY step calls; without it that type is left out")
	f.StringVar(&o.dbt, "dbt", "", "directory of a dbt project on the workers; without it dbt steps are left out")
	f.BoolVar(&o.noCommand, "no-command", false, "leave out COMMAND steps, which need sh in the sandbox")
	f.BoolVar(&o.noManual, "no-manual", false, "leave out the manual step, which this token must be allowed to complete")
	f.BoolVar(&o.drain, "drain", false, "drain a worker whose queue another one serves, run a step, and end the drain")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long each check may take")
	return c
}

// run carries out all checks in order, and cleans up.
func (s *smoke) run(ctx context.Context) {
	defer s.cleanUp(context.WithoutCancel(ctx))
	if !s.check(ctx, "api", s.checkAPI) {
		return
	}
	s.check(ctx, "health", s.checkHealth)
	if !s.check(ctx, "start", s.start) {
		return
	}
	well := true
	for _, c := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{{"begin", s.begin}, {"pause", s.pause}, {"resume", s.resume}, {"retry", s.retry}, {"manual", s.manual},
		{"end", s.end}} {
		if !well {
			c.do = func(context.Context) (string, error) { return "", skippedError("an earlier check failed") }
		}
		well = s.check(ctx, c.name, c.do) && well
	}
	s.check(ctx, "log", s.readLog)
	s.check(ctx, "artifacts", s.readArtifacts)
	s.check(ctx, "events", s.readEvents)
	s.check(ctx, "drain", s.drainWorker)
}

// check carries out one check within the timeout and notes its outcome. It reports whether the check did not fail.
func (s *smoke) check(ctx context.Context, name string, do func(context.Context) (string, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	began := time.Now()
	detail, err := do(ctx)
	c := Check{Name: name, State: Passed, Detail: detail, TookMS: time.Since(began).Milliseconds()}
	var skipped skippedError
	switch {
	case errors.As(err, &skipped):
		c.State, c.Detail = Skipped, err.Error()
	case err != nil:
		c.State, c.Detail = Failed, strings.ReplaceAll(client.AsAPIError(err).Error(), "\n", ";")
		s.report.Failed++
	default:
		s.report.Passed++
	}
	s.report.Checks = append(s.report.Checks, c)
	if !s.session.IsData() {
		fmt.Fprintf(s.session.Out(), "%-8s %-10s %6.1fs  %s\n", c.State, c.Name, float64(c.TookMS)/1000, c.Detail)
	}
	return c.State != Failed
}

// show prints the report for programs, and returns the error of a report with failures.
func (s *smoke) show() error {
	s.report.RunID = s.runID
	if s.session.IsData() {
		if err := s.session.Print(s.report); err != nil {
			return err
		}
	}
	if s.report.Failed > 0 {
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d of %d checks failed", s.report.Failed, len(s.report.Checks))}
	}
	return nil
}

// cleanUpTime bounds the cancellation of what is open.
const cleanUpTime = 30 * time.Second

// cleanUp ends a drain and cancels a run that is open. A failure is a check of its own, because somebody must do it by
// hand then.
func (s *smoke) cleanUp(ctx context.Context) {
	if s.undrain == nil && (s.runID == "" || s.ended) {
		return
	}
	s.timeout = cleanUpTime
	s.check(ctx, "clean up", func(ctx context.Context) (string, error) {
		var done []string
		if s.undrain != nil {
			if err := s.undrain(ctx); err != nil {
				return "", fmt.Errorf("the drain was not ended; use dvt service undrain: %w", err)
			}
			done = append(done, "the drain was ended")
		}
		if s.runID != "" && !s.ended {
			why := "dvt smoke ended before the run"
			if _, err := client.CancelRun(ctx, s.api, client.CancelRunInput{RunId: s.runID, SignalId: uuid.NewString(),
				Reason: &why}); err != nil {
				return "", fmt.Errorf("the run %s was not cancelled; use dvt run cancel: %w", s.runID, err)
			}
			done = append(done, "the run "+s.runID+" was cancelled")
		}
		return strings.Join(done, "; "), nil
	})
}
