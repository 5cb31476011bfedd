package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func policyCommand() *cobra.Command {
	s := &session{}
	return s.command("policy", "Show and set the tenant's policy: who may do what where", s.policyShow(), s.policySet(),
		s.policyHistory(), s.policyWho())
}

func (s *session) policyShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print the policy as a document that `dvt policy set` takes", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowPolicy(c.Context(), s.client)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.Policy)
			}
			doc, err := documentOf(out.Policy)
			if err != nil {
				return err
			}
			text, err := documentYAML(doc)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "# version %d\n%s", out.Policy.Version, text)
			return err
		},
	}
}

// documentOf returns the input that would make the same policy. It leaves out rules that follow the defaults, so that
// setting the document does not freeze them.
func documentOf(p client.PolicyRow) (client.PolicyInput, error) {
	var doc client.PolicyInput
	raw, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	if p.DefaultRules {
		doc.Rules = nil
	}
	return doc, err
}

// documentYAML renders v as YAML with the names of its JSON.
func documentYAML(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return "", err
	}
	if m, ok := plain.(map[string]any); ok && m["rules"] == nil {
		delete(m, "rules")
	}
	text, err := yaml.Marshal(cleanForYAML(plain))
	return string(text), err
}

// cleanForYAML prepares a document for people who edit it: whole numbers get no exponent, and null fields of rows are
// left out.
func cleanForYAML(v any) any {
	switch v := v.(type) {
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
	case []any:
		for i, row := range v {
			v[i] = cleanForYAML(row)
			if fields, ok := v[i].(map[string]any); ok {
				maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
			}
		}
	case map[string]any:
		for name, field := range v {
			v[name] = cleanForYAML(field)
		}
	}
	return v
}

func (s *session) policySet() *cobra.Command {
	return s.setCommand("the policy", "the policy has", func(ctx context.Context, file string, raw []byte,
		r replaceRequest) (out replaceResult, err error) {
		in := client.SetPolicyInput{RequestId: r.requestID, ExpectedVersion: r.version, Reason: r.reason}
		if in.Document, err = readPolicy(raw); err != nil {
			return out, cmdline.Usage(fmt.Errorf("%s is not a policy: %w", file, err))
		}
		done, err := client.SetPolicy(ctx, s.client, in)
		if err != nil {
			return out, cmdline.Failure(err)
		}
		now, effect := done.SetPolicy.Policy, done.SetPolicy.Effect
		return replaceResult{shown: now, version: now.Version, changed: effect.Changed, warnings: effect.Warnings}, nil
	})
}

// replaceRequest is the part of a request to replace a document that all documents share.
type replaceRequest struct {
	version           int
	reason, requestID string
}

// replaceResult is the outcome: the document as the API shows it, its version, the changed lines, and warnings about
// them.
type replaceResult struct {
	shown             any
	version           int
	changed, warnings []string
}

// setCommand returns the command that replaces a document by the one in a file. what names the document, and moved is
// the beginning of "… moved" in the help of --expected-version.
func (s *session) setCommand(what, moved string, do func(ctx context.Context, file string, raw []byte,
	r replaceRequest) (replaceResult, error)) *cobra.Command {
	var r replaceRequest
	c := &cobra.Command{
		Use: "set FILE", Short: "Replace " + what + " (JSON or YAML; - reads standard input) and print what changed",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := document.Read(args[0], c.InOrStdin())
			if err != nil {
				return cmdline.Usage(err)
			}
			r.requestID = orNew(r.requestID)
			out, err := do(c.Context(), args[0], raw, r)
			if err != nil {
				return err
			}
			for _, warning := range out.warnings {
				fmt.Fprintln(s.err, "Warning: "+console.OneLine(warning))
			}
			if s.output.IsData() {
				return s.print(out.shown)
			}
			fmt.Fprintf(s.out, "version %d is in force\n", out.version)
			for _, line := range out.changed {
				fmt.Fprintln(s.out, line)
			}
			return nil
		},
	}
	c.Flags().IntVar(&r.version, "expected-version", 0,
		"the version that FILE is based on, which the command show prints; the change is refused when "+
			moved+" changed since")
	c.Flags().StringVar(&r.reason, "reason", "", "why; kept in the audit")
	c.Flags().StringVar(&r.requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("expected-version") // cannot fail: the flags exist
	_ = c.MarkFlagRequired("reason")
	return c
}

// readPolicy parses a document and fills in the defaults of the API's schema. An unknown name is an error. An absent
// list is an empty one, because the document replaces the whole policy.
func readPolicy(raw []byte) (client.PolicyInput, error) {
	doc := client.PolicyInput{
		Sod:    client.PolicySodInput{Approve: true, CompleteManual: true},
		Grants: []client.PolicyGrantInput{}, Approvals: []client.PolicyApprovalInput{},
		BreakGlass: []client.PolicyBreakGlassInput{},
		Sandbox:    []client.PolicySandboxInput{}, // nil would keep the ceilings of the policy in force
	}
	var plain map[string]any
	if err := document.Decode(raw, &plain); err != nil {
		return doc, err
	}
	for _, key := range []string{"rules", "grants", "approvals", "sandbox"} {
		rows, _ := plain[key].([]any)
		for _, row := range rows {
			fields, ok := row.(map[string]any)
			for _, name := range []string{"projectId", "environmentId"} {
				if _, given := fields[name]; ok && !given {
					fields[name] = "*"
				}
			}
		}
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return doc, err
	}
	err = document.Decode(raw, &doc)
	for i := range doc.Sandbox {
		doc.Sandbox[i].Require = append([]string{}, doc.Sandbox[i].Require...) // the API refuses null
	}
	return doc, err
}

func (s *session) policyHistory() *cobra.Command {
	l := listing{none: "The tenant has no policy of its own: the server's settings apply (dvt policy show)."}
	c := &cobra.Command{
		Use: "history", Short: "List the versions of the policy, newest first, with what each changed",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var all client.ListPoliciesPolicyHistoryPolicyConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListPolicies(ctx, s.client, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.PolicyHistory
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("VERSION", "AT", "WHO", "WHY", "CHANGED")
				for _, e := range all.Edges {
					t.Row(e.Node.Version, s.when(e.Node.At), runtext.Deref(e.Node.Actor), runtext.Deref(e.Node.Reason),
						strings.Join(e.Node.Changed, "; "))
				}
				return t
			})
		},
	}
	l.flag(c, 20)
	return c
}

// maxNames is the greatest number of principals that the API returns.
const maxNames = 10

// commandActions has the action behind each command whose name is not that of the action.
var commandActions = map[string]client.Action{
	"show": client.ActionRead, "retry": client.ActionRetryStep, "skip": client.ActionSkipStep,
	"override": client.ActionInjectOverride, "alert": client.ActionEscalateAlert, "set-target": client.ActionUpdateTarget,
	"stop": client.ActionEmergencyStop, "complete": client.ActionCompleteManualStep,
	"manual complete": client.ActionCompleteManualStep, "complete step": client.ActionCompleteManualStep,
	"note": client.ActionAnnotate, "tag": client.ActionAnnotate, "dead-letters": client.ActionReadDeadLetters,
	"audit": client.ActionReadAudit, "policy show": client.ActionReadPolicy, "policy set": client.ActionSetPolicy,
	"token create": client.ActionCreateToken, "token revoke": client.ActionManageTokens,
	"quota set": client.ActionSetQuota, "freeze": client.ActionFreezeTenant, "unfreeze": client.ActionFreezeTenant,
	"mode": client.ActionSetEngineMode, "workflow debug": client.ActionDebug,
}

// actionNamed returns the action that people call by a name: that of a command, such as retry, or that of the API, in
// any case and with - for _.
func actionNamed(typed string) (client.Action, error) {
	name := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(typed, "dvt "), "run "))
	if action, known := commandActions[name]; known {
		return action, nil
	}
	action := client.Action(strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(name)))
	if slices.Contains(client.AllAction, action) && cmdline.IsGiven(action) {
		return action, nil
	}
	var names []string
	for _, a := range client.AllAction {
		if cmdline.IsGiven(a) {
			names = append(names, strings.ToLower(strings.ReplaceAll(string(a), "_", "-")))
		}
	}
	for command := range commandActions {
		if !strings.Contains(command, " ") && !slices.Contains(names, command) {
			names = append(names, command)
		}
	}
	slices.Sort(names)
	return "", cmdline.Usage(fmt.Errorf("there is no action %q%s\n  give the name of a command or of an action: %s", typed,
		cmdline.DidYouMean(name, names), strings.Join(names, ", ")))
}

func (s *session) policyWho() *cobra.Command {
	var project, environment string
	c := &cobra.Command{
		Use: "who ACTION [RUN]", Short: "List who may do an action to a run or in an environment: at most ten principals",
		Args: cmdline.RangeArgs(1, 2),
		Long: "Print principals of the tenant that may do ACTION to RUN, or in --project and --environment, at most ten, " +
			"one per line.\n" +
			"ACTION is the name of a command, such as retry, complete or start, or of an action of the API.\n" +
			"For complete with a RUN the list leaves out people who may not complete a step that waits there, because\n" +
			"they requested or approved the run. You need the right to read the policy there.",
		RunE: func(c *cobra.Command, args []string) error {
			action, err := actionNamed(args[0])
			if err != nil {
				return err
			}
			placed := project != "" || environment != ""
			switch {
			case len(args) == 1 && (project == "" || environment == ""):
				return cmdline.Usage(fmt.Errorf("give a RUN, or --project and --environment: dvt policy who %s --project shop "+
					"--environment prod", args[0]))
			case len(args) > 1 && placed:
				return cmdline.Usage(errors.New("give a RUN, or --project and --environment, not both"))
			}
			where, runID := "in "+project+"/"+environment, (*string)(nil)
			if len(args) > 1 {
				where, runID = "to this run", &args[1]
			}
			out, err := client.WhoCould(c.Context(), s.client, string(action), runID, orNil(project), orNil(environment))
			if err != nil {
				return cmdline.Failure(err)
			}
			names := out.WhoCould
			if runID != nil && action == client.ActionCompleteManualStep {
				if names, err = s.whoCouldComplete(c.Context(), *runID, names); err != nil {
					return err
				}
			}
			if s.output.IsData() {
				return s.print(names)
			}
			for _, name := range names {
				fmt.Fprintln(s.out, console.OneLine(name))
			}
			switch len(names) {
			case 0:
				if runID != nil && action == client.ActionApprove {
					fmt.Fprintln(s.err, "Nobody may approve this run who has not decided about it: dvt run show "+*runID)
					return nil
				}
				fmt.Fprintf(s.err, "Nobody may do %s %s.\n", args[0], where)
			case maxNames:
				fmt.Fprintln(s.err, "There may be more: dvt policy show")
			}
			return nil
		},
	}
	c.Flags().StringVar(&project, "project", "", "project, instead of RUN")
	c.Flags().StringVar(&environment, "environment", "", "environment, instead of RUN")
	return c
}

// whoCouldComplete returns those of names that may complete a manual step that waits in the run. When no step waits
// there, it returns all.
func (s *session) whoCouldComplete(ctx context.Context, runID string, names []string) ([]string, error) {
	size := maxPage
	tasks, err := client.ListManualTasks(ctx, s.client, &runID, &size, nil)
	if err != nil {
		return nil, cmdline.Failure(err)
	}
	if len(tasks.ManualTasks.Edges) == 0 {
		s.note("No step of this run waits for a person now. " +
			"A person who requested or approved the run may not complete its steps.\n")
		return names, nil
	}
	out := []string{}
	for _, e := range tasks.ManualTasks.Edges {
		if a := e.Node.Action; a.Outcome == client.ActionOutcomeApply && len(a.WhoCould) == 0 {
			return names, nil // an older server, which names nobody to those who may do it themselves
		}
		for _, name := range e.Node.Action.WhoCould {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}
