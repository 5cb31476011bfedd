package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/client"
)

func policyCommand() *cobra.Command {
	s := &session{}
	return s.command("policy", "The policy of the tenant: who may do what where", s.policyShow(), s.policySet(), s.policyHistory(), s.policyWho())
}

func (s *session) policyShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print the policy as a document that `dvt policy set` takes", Args: exact(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowPolicy(c.Context(), s.client)
			if err != nil {
				return failure(err)
			}
			if s.output.data() {
				return s.print(out.Policy)
			}
			doc, err := documentOf(out.Policy.PolicyRow)
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

// documentOf is the input that makes a policy again; rules that follow the defaults are left out.
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

// documentYAML renders v with the names of its JSON.
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
	text, err := yaml.Marshal(plain)
	return string(text), err
}

func (s *session) policySet() *cobra.Command {
	return s.replace("the policy", "the policy has", func(ctx context.Context, file string, raw []byte, r replacing) (out replaced, err error) {
		in := client.SetPolicyInput{RequestId: r.requestID, ExpectedVersion: r.version, Reason: r.reason}
		if in.Document, err = readPolicy(raw); err != nil {
			return out, usage(fmt.Errorf("%s is no policy: %w", file, err))
		}
		before, err := client.ShowPolicy(ctx, s.client)
		if err != nil {
			return out, failure(err)
		}
		done, err := client.SetPolicy(ctx, s.client, in)
		if err != nil {
			return out, failure(err)
		}
		now := done.SetPolicy.Policy
		return replaced{now, now.Version, changes(policyLines(before.Policy.PolicyRow), policyLines(now.PolicyRow))}, nil
	})
}

// replacing is how a document is to be replaced, whole.
type replacing struct {
	version           int
	reason, requestID string
}

// replaced is what came of it: the document as the API shows it, its version, and what changed.
type replaced struct {
	shown   any
	version int
	changed []string
}

// replace is the command that replaces what, by the document in a file.
func (s *session) replace(what, moved string, do func(ctx context.Context, file string, raw []byte, r replacing) (replaced, error)) *cobra.Command {
	var r replacing
	c := &cobra.Command{
		Use: "set FILE", Short: "Replace " + what + " (JSON or YAML; - reads standard input) and print what changed", Args: exact(1),
		RunE: func(c *cobra.Command, args []string) error {
			if r.version < 0 {
				return usage(errors.New("give --expected-version: the version that FILE was made from, which " + c.Parent().CommandPath() + " show says in its first line"))
			}
			raw, err := readPlan(args[0], c.InOrStdin())
			if err != nil {
				return usage(err)
			}
			r.requestID = orNew(r.requestID)
			out, err := do(c.Context(), args[0], raw, r)
			if err != nil {
				return err
			}
			if s.output.data() {
				return s.print(out.shown)
			}
			fmt.Fprintf(s.out, "version %d is in force\n", out.version)
			for _, line := range out.changed {
				fmt.Fprintln(s.out, line)
			}
			return nil
		},
	}
	c.Flags().IntVar(&r.version, "expected-version", -1, "the version that FILE was made from; it is refused when "+moved+" moved")
	c.Flags().StringVar(&r.reason, "reason", "", "why; it stands in the audit")
	c.Flags().StringVar(&r.requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	c.Flags().Lookup("expected-version").DefValue = "0" // help says nothing of a default, for there is none
	_ = c.MarkFlagRequired("reason")                    // the flag is there
	return c
}

// readPolicy reads a document with the defaults of the schema for what it leaves out. A name
// that is not known is an error, and nothing at all is not everything.
func readPolicy(raw []byte) (client.PolicyInput, error) {
	doc := client.PolicyInput{
		Sod:    client.PolicySodInput{Approve: true, CompleteManual: true},
		Grants: []client.PolicyGrantInput{}, Approvals: []client.PolicyApprovalInput{}, BreakGlass: []client.PolicyBreakGlassInput{},
	}
	var plain map[string]any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return doc, err
	}
	for _, key := range []string{"rules", "grants", "approvals"} {
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
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return doc, d.Decode(&doc)
}

// policyLines says each part of a policy in a line.
func policyLines(p client.PolicyRow) (out []string) {
	for _, r := range p.Rules {
		out = append(out, fmt.Sprintf("rule %s may %s on %s/%s", r.Role, r.Action, r.ProjectId, r.EnvironmentId))
	}
	for _, g := range p.Grants {
		line := fmt.Sprintf("grant %s is %s on %s/%s", g.Principal, g.Role, g.ProjectId, g.EnvironmentId)
		if g.ExpiresAt != nil {
			line += " until " + g.ExpiresAt.Format(time.RFC3339)
		}
		if g.BreakGlass {
			line += " (break-glass)"
		}
		out = append(out, line)
	}
	out = append(out, fmt.Sprintf("sod approve=%t completeManual=%t", p.Sod.Approve, p.Sod.CompleteManual))
	for _, a := range p.Approvals {
		out = append(out, fmt.Sprintf("approvals on %s/%s: %d", a.ProjectId, a.EnvironmentId, a.Required))
	}
	for _, b := range p.BreakGlass {
		out = append(out, fmt.Sprintf("break-glass %s may be %s for %d minutes", b.Principal, b.Role, b.MaxMinutes))
	}
	return out
}

// changes are the lines that went, then those that came. A policy may have 10,000 of them.
func changes(before, after []string) (out []string) {
	add := func(sign string, lines, others []string) {
		known := make(map[string]bool, len(others))
		for _, line := range others {
			known[line] = true
		}
		for _, line := range lines {
			if !known[line] {
				out = append(out, sign+line)
			}
		}
	}
	add("- ", before, after)
	add("+ ", after, before)
	return out
}

func (s *session) policyHistory() *cobra.Command {
	l := listed{none: "The tenant has no policy of its own: the settings of the server hold (dvt policy show)."}
	c := &cobra.Command{
		Use: "history", Short: "List the versions of the policy, newest first, with what each changed", Args: exact(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var all client.ListPoliciesPolicyHistoryPolicyConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListPolicies(ctx, s.client, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.PolicyHistory
				return behind(before, &all.Edges, &all.PageInfo), nil
			}, func() *table {
				t := s.table("VERSION", "AT", "WHO", "WHY", "CHANGED")
				for i, e := range all.Edges {
					p, changed := e.Node.PolicyRow, "–"
					if i+1 < len(all.Edges) {
						changed = strings.Join(changes(policyLines(all.Edges[i+1].Node.PolicyRow), policyLines(p)), "; ")
					}
					t.row(p.Version, s.when(p.At), deref(p.Actor), deref(p.Reason), changed)
				}
				return t
			})
		},
	}
	l.flag(c, 20)
	return c
}
