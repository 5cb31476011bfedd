// Package retentioncmd has the commands that show and set how long things of a tenant live, and keep legal holds.
package retentioncmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// commands are the commands of a session.
type commands struct{ cmdline.Session }

// maxPage is the greatest number of rows of one page of the API.
const maxPage = 200

// Retention returns the commands get, set, preview and history.
func Retention(session cmdline.Session) []*cobra.Command {
	s := commands{session}
	return []*cobra.Command{s.get(), s.set(), s.preview(), s.history()}
}

func (s commands) get() *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Print how long things live, the tenant's own policy and what the last pass did",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowRetention(c.Context(), s.Client())
			if err != nil {
				return cmdline.Failure(err)
			}
			p := out.RetentionPolicy
			if s.IsData() {
				return s.Print(p)
			}
			if err := s.table(p.Days).Print(); err != nil {
				return err
			}
			var own bytes.Buffer
			if err := json.Indent(&own, p.Own, "", "  "); err != nil {
				return err
			}
			if p.Version == 0 {
				fmt.Fprintln(s.Out(), "\nThe tenant has no policy of its own: these are the values of the installation.")
			} else {
				fmt.Fprintf(s.Out(), "\nThe tenant's own policy is version %d, a document for `dvt retention set`:\n%s\n",
					p.Version, own.String())
			}
			if l := p.LastPass; l != nil {
				fmt.Fprintf(s.Out(), "\nThe last pass, %s: %d archived, %d deleted, %d kept by a hold, %d that wait, %d failed.\n",
					s.When(&l.StartedAt), l.Archived, l.Deleted, l.Held, l.Waiting, l.Failed)
				if l.OverdueSince != nil {
					fmt.Fprintf(s.Out(), "Something is late since %s: the policy no longer keeps it, and it is still there.\n",
						s.When(l.OverdueSince))
				}
				if l.Error != nil {
					fmt.Fprintln(s.Out(), "The first failure: "+console.OneLine(*l.Error))
				}
			} else {
				fmt.Fprintln(s.Notes(), "No pass was made yet; the duty `retain` of a server makes one each hour.")
			}
			return nil
		},
	}
}

// table shows the effective days.
func (s commands) table(d client.RetentionPolicyRowDaysRetentionDays) *console.Table {
	t := s.Table("WHAT", "KEPT FOR")
	row := func(what string, days int) {
		words := "ever"
		if days > 0 {
			words = cmdline.Count(days, "day")
		}
		t.Row(what, words)
	}
	row("runs, until they are archived", d.ArchiveRuns)
	row("archived runs", d.DeleteArchives)
	row("step logs", d.StepLogs)
	row("receipts of archived runs", d.Receipts)
	row("dead letters", d.DeadLetters)
	row("resolved alerts", d.Alerts)
	row("records of the audit", d.Audit)
	for _, a := range d.Artifacts {
		row("artifacts of kind "+a.Kind, a.Days)
	}
	return t
}

// read parses a policy. An unknown name is an error.
func (s commands) read(c *cobra.Command, file string) (client.RetentionDaysInput, error) {
	in := client.RetentionDaysInput{Artifacts: []client.ArtifactRetentionInput{}}
	raw, err := document.Read(file, c.InOrStdin())
	if err != nil {
		return in, cmdline.Usage(err)
	}
	if err := document.Decode(raw, &in); err != nil {
		return in, cmdline.Usage(fmt.Errorf("%s is not a retention policy: %w", file, err))
	}
	if in.Artifacts == nil {
		in.Artifacts = []client.ArtifactRetentionInput{}
	}
	return in, nil
}

func (s commands) set() *cobra.Command {
	var in client.SetRetentionInput
	c := &cobra.Command{
		Use: "set FILE", Short: "Replace the tenant's policy (JSON or YAML; - reads standard input) and print what changed",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if in.Policy, err = s.read(c, args[0]); err != nil {
				return err
			}
			if in.RequestId == "" {
				in.RequestId = uuid.NewString()
			}
			out, err := client.SetRetention(c.Context(), s.Client(), in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.IsData() {
				return s.Print(out.SetRetention)
			}
			fmt.Fprintf(s.Out(), "version %d is in force\n", out.SetRetention.Policy.Version)
			s.show(out.SetRetention.Effect)
			return nil
		},
	}
	c.Flags().IntVar(&in.ExpectedVersion, "expected-version", 0,
		"the version that FILE is based on, which the command get prints; the change is refused when the policy has changed "+
			"since")
	c.Flags().StringVar(&in.Reason, "reason", "", "why; kept in the audit")
	c.Flags().StringVar(&in.RequestId, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("expected-version") // cannot fail: the flags exist
	_ = c.MarkFlagRequired("reason")
	return c
}

// show prints what a policy changes, and its warnings.
func (s commands) show(e client.RetentionPreviewRow) {
	for _, line := range e.Changed {
		fmt.Fprintln(s.Out(), line)
	}
	for _, warning := range e.Warnings {
		fmt.Fprintln(s.Notes(), console.OneLine(warning))
	}
}

func (s commands) preview() *cobra.Command {
	return &cobra.Command{
		Use: "preview FILE", Short: "Print what a policy would change, archive and delete, and change nothing",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in, err := s.read(c, args[0])
			if err != nil {
				return err
			}
			out, err := client.PreviewRetention(c.Context(), s.Client(), in)
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case s.IsData():
				return s.Print(out.PreviewRetention)
			}
			s.show(out.PreviewRetention)
			if len(out.PreviewRetention.Warnings) == 0 {
				fmt.Fprintln(s.Notes(), "The next pass would archive and delete nothing because of this change.")
			}
			return nil
		},
	}
}

func (s commands) history() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "history", Short: "List the versions of the tenant's policy, newest first, with what each changed",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxPage {
				return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxPage))
			}
			out, err := client.ListRetentionPolicies(c.Context(), s.Client(), &limit, nil)
			if err != nil {
				return cmdline.Failure(err)
			}
			page := out.RetentionHistory
			switch {
			case s.IsData():
				return s.Print(page)
			case len(page.Edges) == 0:
				fmt.Fprintln(s.Notes(), "The tenant has no policy of its own: that of the installation applies (dvt retention get).")
				return nil
			}
			t := s.Table("VERSION", "AT", "WHO", "WHY", "CHANGED")
			for _, e := range page.Edges {
				t.Row(e.Node.Version, s.When(e.Node.At), runtext.Deref(e.Node.Actor), runtext.Deref(e.Node.Reason),
					strings.Join(e.Node.Changed, "; "))
			}
			return s.end(t, page.PageInfo.HasNextPage)
		},
	}
	c.Flags().IntVar(&limit, "limit", 20, fmt.Sprintf("greatest number of rows, up to %d", maxPage))
	return c
}

// end prints a table and says when there is more.
func (s commands) end(t *console.Table, more bool) error {
	err := t.Print()
	if err == nil && more {
		fmt.Fprintf(s.Notes(), "more rows exist; use --limit %d\n", maxPage)
	}
	return err
}
