// Package plancmd has the commands that write, check and try out files of plans. They call no server.
package plancmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/engine/mock"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// planCommands is the state that the commands on plan documents share. They call no server.
type planCommands struct {
	output document.Format
	queues plan.Queues
	out    io.Writer
	// receiver returns the URL for the notifications of a sample.
	receiver func() string
}

// Plan returns the command plan. receiver returns the URL for the notifications of a sample.
func Plan(receiver func() string) *cobra.Command {
	p := &planCommands{receiver: receiver}
	c := &cobra.Command{
		Use: "plan", Short: "Check plans and try them out, without a server",
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			p.out = c.OutOrStdout()
			if err := p.queues.Check(); err != nil {
				return cmdline.Usage(err)
			}
			return nil
		},
	}
	document.AddFlag(c, &p.output)
	p.queues = plan.DefaultQueues()
	f, q := c.PersistentFlags(), &p.queues
	f.StringVar(&q.Control, "control-queue", q.Control,
		"the server's control queue; {env} and {tenant} are replaced by those of the plan")
	f.StringVar(&q.Data, "data-queue", q.Data, "the server's data queue")
	f.StringVar(&q.Isolation, "isolation-queue", q.Isolation, "the server's isolation queue")
	f.StringSliceVar(&q.IsolationTenants, "isolation-tenants", nil,
		"tenants whose data steps run on their isolation queue only")
	f.StringSliceVar(&q.Known, "known-queues", nil, "other queues that the server knows")
	c.AddCommand(p.newCommand(), p.validateCommand(), p.testCommand())
	return c
}

// problem is a violation and its location in the file; Line and Column are 0 if it is unknown.
type problem struct {
	plan.Violation
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// MaxProblems bounds the problems in an error message, because a generated plan may have one at each step.
const MaxProblems = 50

// problems is the error of an invalid plan, with all its violations.
type problems struct {
	file string
	list []problem
}

func (p *problems) Error() string {
	name := document.Name(p.file)
	var b strings.Builder
	fmt.Fprintf(&b, "PLAN_INVALID: %s has %s:", name, cmdline.Count(len(p.list), "problem"))
	for _, v := range p.list[:min(len(p.list), MaxProblems)] {
		b.WriteString("\n  ")
		if v.Line > 0 {
			fmt.Fprintf(&b, "%s:%d:%d: ", name, v.Line, v.Column)
		}
		fmt.Fprintf(&b, "%s %s: %s", v.Code, cmp.Or(v.Path, "the document"), v.Message)
	}
	if more := len(p.list) - MaxProblems; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more, which -o json lists", more)
	}
	return b.String()
}

// Violations returns all problems with their locations, for programs.
func (p *problems) Violations() []cmdline.Violation {
	out := make([]cmdline.Violation, 0, len(p.list))
	for _, v := range p.list {
		out = append(out, cmdline.Violation{Path: v.Path, Code: v.Code, Message: v.Message,
			File: document.Name(p.file), Line: v.Line, Column: v.Column})
	}
	return out
}

// read returns a plan and its document as JSON. An invalid plan is a usage error that names every violation and its
// line; it wraps *problems.
func (p *planCommands) read(name string, stdin io.Reader) (plan.Plan, []byte, error) {
	text, err := document.ReadText(name, stdin)
	if err != nil {
		return plan.Plan{}, nil, cmdline.Usage(err)
	}
	return p.parse(name, text)
}

// Check returns a usage error that names every violation of a plan and its line, or nil. It knows the usual queues of a
// server only. name is that of the file, or "-".
func Check(name string, text []byte) error {
	p := planCommands{queues: plan.DefaultQueues()}
	_, _, err := p.parse(name, text)
	return err
}

func (p *planCommands) parse(name string, text []byte) (plan.Plan, []byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return plan.Plan{}, nil, cmdline.Usage(fmt.Errorf("%s is empty", document.Name(name)))
	}
	doc, err := document.ToJSON(name, text)
	if err != nil {
		return plan.Plan{}, nil, cmdline.Usage(err)
	}
	pl, err := plan.Parse(doc, p.queues)
	var invalid *plan.InvalidError
	if !errors.As(err, &invalid) {
		if err != nil {
			err = cmdline.Usage(err)
		}
		return pl, doc, err
	}
	var lines yaml.Node
	known := yaml.Unmarshal(text, &lines) == nil
	wrong := &problems{file: name}
	for _, v := range invalid.Violations {
		at := document.Location{}
		if known {
			at = document.LocationOf(&lines, v.Path)
		}
		wrong.list = append(wrong.list, problem{v, at.Line, at.Column})
	}
	return pl, doc, cmdline.Usage(wrong)
}

func (p *planCommands) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE", Short: "Check a plan (JSON or YAML; - reads standard input) and report every violation",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			pl, doc, err := p.read(args[0], c.InOrStdin())
			var wrong *problems
			if errors.As(err, &wrong) && p.output.IsData() {
				if err := p.output.Write(p.out, map[string]any{"valid": false, "violations": wrong.list}); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
			ref := plan.RefOf(doc, pl, "")
			if p.output.IsData() {
				return p.output.Write(p.out, map[string]any{"valid": true, "planId": ref.PlanID, "planVersion": ref.PlanVersion,
					"steps": len(pl.Steps), "sha256": ref.SHA256, "warnings": pl.Warnings()})
			}
			printWarnings(c.ErrOrStderr(), pl.Warnings())
			fmt.Fprintf(p.out, "%s %s is a valid plan of %s.\n", ref.PlanID, ref.PlanVersion,
				cmdline.Count(len(pl.Steps), "step"))
			return nil
		},
	}
}

func printWarnings(out io.Writer, warnings []plan.Warning) {
	for _, w := range warnings[:min(len(warnings), MaxProblems)] {
		fmt.Fprintln(out, "Warning: "+console.OneLine(w.Message))
	}
	if more := len(warnings) - MaxProblems; more > 0 {
		fmt.Fprintf(out, "and %s, which -o json lists\n", cmdline.Count(more, "more warning"))
	}
}

func (p *planCommands) testCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "test FILE", Short: "Simulate a run of a plan and print its log", Args: cmdline.ExactArgs(1),
		Long: "Runs the plan on the interpreter that runs it in production, in memory and in virtual time. Every step " +
			"succeeds at once\n" +
			"unless the script says otherwise:\n\n" +
			"  steps:   # one entry per execution; load/2 is for attempt 2 only\n" +
			"    load: [{takes: 30s, fails: DB_DOWN}, {takes: 10s}]\n" +
			"  compensations:\n    load: [{fails: NO_ACCESS, retryable: false}]\n" +
			"  signals:\n    - {after: \"StepFailed(load,1)\", at: 5m, signal: RETRY_STEP, step: load}\n" +
			"  expect: COMPLETED\n\n" +
			"Exit status 0 when the run ends as expected, 1 when it does not, 2 when the plan or the script is wrong.",
		RunE: func(c *cobra.Command, args []string) error {
			pl, doc, err := p.read(args[0], c.InOrStdin())
			if err != nil {
				return err
			}
			script := mock.Script{}
			if file != "" {
				text, err := document.Read(file, c.InOrStdin())
				if err != nil {
					return cmdline.Usage(err)
				}
				if script, err = mock.ParseScript(text); err != nil {
					return cmdline.Usage(err)
				}
			}
			sim, err := mock.Simulate(doc, pl, p.queues, run.DefaultPolicy().For(pl), script)
			if errors.Is(err, mock.ErrScript) {
				return cmdline.Usage(err)
			}
			if err := p.show(sim); err != nil {
				return err
			}
			want := script.Expect
			if want == "" {
				want = run.Completed
			}
			switch got := sim.State.Status; {
			case err != nil:
				return fmt.Errorf("%w (the run is %s)", err, got)
			case got != want:
				return fmt.Errorf("the run ended as %s, not as %s", got, want)
			}
			return nil
		},
	}
	c.Flags().StringVar(&file, "script", "", "how steps end and which signals arrive (JSON or YAML)")
	return c
}

func (p *planCommands) show(s mock.Simulation) error {
	if p.output.IsData() {
		return p.output.Write(p.out, map[string]any{"status": s.State.Status, "tookMs": s.Took.Milliseconds(),
			"events": s.Events})
	}
	t := &console.Table{Display: console.NewDisplay(p.out, console.ColourAuto), Whole: p.output == document.Wide}
	for _, e := range s.Events {
		after := e.PersistedAt.Sub(s.Events[0].PersistedAt).Round(time.Millisecond)
		t.Row(e.Seq, plan.DurationText(after), e.Notation(), note(e))
	}
	if err := t.Print(); err != nil {
		return err
	}
	n := s.State.Counts
	fmt.Fprintf(p.out, "\n%s after %s: %d steps, %d succeeded, %d failed, %d skipped.\n", s.State.Status,
		plan.DurationWords(s.Took), n.Total, n.Success, n.Failed, n.Skipped)
	return nil
}

// note returns the most useful detail of an event for people: an error, a reason or a signal; "" for none.
func note(e run.Event) string {
	switch e.Type {
	case run.StepFailedEvent, run.RunFailed, run.StepCompensationFailed:
		if f, err := run.PayloadOf[run.FailurePayload](e.Payload); err == nil {
			return strings.TrimSuffix(f.ErrorCode+": "+f.ErrorMessage, ": ")
		}
	case run.StepSkippedEvent:
		if s, err := run.PayloadOf[run.StepSkippedPayload](e.Payload); err == nil {
			return string(s.ReasonCode)
		}
	case run.SignalAccepted, run.SignalRejected:
		if s, err := run.PayloadOf[run.SignalPayload](e.Payload); err == nil {
			return strings.TrimSpace(fmt.Sprintf("%s %s %s", s.SignalType, s.StepID, s.Code))
		}
	}
	return ""
}
