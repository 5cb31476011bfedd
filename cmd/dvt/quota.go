package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/retentioncmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func quotaCommand() *cobra.Command {
	s := &session{}
	return s.command("quota", "Show what the tenant may use, and set its own limits", s.quotaShow(), s.quotaSet(),
		s.quotaHistory())
}

func retentionCommand() *cobra.Command {
	s := &session{}
	return s.command("retention", "How long runs, logs and artifacts of the tenant live",
		retentioncmd.Retention(s.shared())...)
}

func holdCommand() *cobra.Command {
	s := &session{}
	return s.command("hold", "Legal holds: what is neither archived nor deleted", retentioncmd.Holds(s.shared())...)
}

func (s *session) quotaShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print limits and usage, and the tenant's settings as a document that `dvt " +
			"quota set` takes", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ShowQuota(c.Context(), s.client)
			if err != nil {
				return s.showUsage(c.Context(), cmdline.Failure(err))
			}
			if s.output.IsData() {
				return s.print(*out)
			}
			if err := s.quotaTable(out.Quotas).Print(); err != nil {
				return err
			}
			doc, err := quotaDocument(out.QuotaSettings)
			if err != nil {
				return err
			}
			text, err := documentYAML(doc)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "# version %d, tier %s\n%s", out.QuotaSettings.Version, out.QuotaSettings.Tier, text)
			return err
		},
	}
}

// quotaNames say what a quota counts.
var quotaNames = map[client.QuotaAction]string{client.QuotaActionStartRun: "starts of runs",
	client.QuotaActionHeavyStep: "heavy steps", client.QuotaActionSignal: "signals"}

func (s *session) quotaTable(quotas []client.QuotaRow) *console.Table {
	t := s.table("PROJECT", "WHAT", "MOST", "USED", "NEXT TOKEN")
	t.Before = "# "
	for _, q := range quotas {
		project := "(tenant)"
		if q.ProjectId != nil {
			project = *q.ProjectId
		}
		for _, b := range q.Buckets {
			t.Row(project, quotaNames[b.Action]+" a minute", b.PerMinute, fmt.Sprintf("%.0f %%", b.UsedPercent),
				s.when(b.NextRefillAt))
		}
		t.Row(project, "active runs", q.MaxActive, q.Active)
		t.Row(project, "waiting runs", q.MaxQueueDepth, q.QueueDepth)
	}
	return t
}

// showUsage handles the refusal of the tenant's settings: people still see the limits and the usage, which more people
// may read, and what they may not see. For programs, which expect both, it is an error.
func (s *session) showUsage(ctx context.Context, refused error) error {
	var e *client.Error
	if !errors.As(refused, &e) || e.Code != string(run.CodeForbidden) {
		return refused
	}
	e.Message = strings.Replace(e.Message, "to read the policy", "to read the settings of the quotas", 1)
	out, err := client.ShowUsage(ctx, s.client)
	if err != nil || s.output.IsData() {
		return refused
	}
	if err := s.quotaTable(out.Quotas).Print(); err != nil {
		return err
	}
	s.note("The tenant's own settings are not shown: %s\n", notYou(e.Message, e.Denial.WhoCould))
	return nil
}

// quotaDocument returns the settings without the values that are not set.
func quotaDocument(row client.QuotaSettingsRow) (map[string]any, error) {
	var in client.QuotaSettingsInput
	raw, err := json.Marshal(row)
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err == nil {
		raw, err = json.Marshal(in)
	}
	doc := map[string]any{}
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	return dropNulls(doc), err
}

// dropNulls deletes null members of m at every depth and returns m.
func dropNulls(m map[string]any) map[string]any {
	for name, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, name)
		case map[string]any:
			dropNulls(v)
		case []any:
			for _, item := range v {
				if inner, ok := item.(map[string]any); ok {
					dropNulls(inner)
				}
			}
		}
	}
	return m
}

func (s *session) quotaSet() *cobra.Command {
	return s.setCommand("the tenant's settings", "the settings have", func(ctx context.Context, file string, raw []byte,
		r replaceRequest) (out replaceResult, err error) {
		in := client.SetQuotaInput{RequestId: r.requestID, ExpectedVersion: r.version, Reason: r.reason}
		if in.Settings, err = readQuota(raw); err != nil {
			return out, cmdline.Usage(fmt.Errorf("%s is not a document of quota settings: %w", file, err))
		}
		done, err := client.SetQuota(ctx, s.client, in)
		if err != nil {
			return out, cmdline.Failure(err)
		}
		now, effect := done.SetQuota.Settings, done.SetQuota.Effect
		return replaceResult{shown: now, version: now.Version, changed: effect.Changed, warnings: effect.Warnings}, nil
	})
}

// readQuota parses a document and fills in the defaults of the API's schema. An unknown name is an error.
func readQuota(raw []byte) (client.QuotaSettingsInput, error) {
	in := client.QuotaSettingsInput{Projects: []client.ProjectQuotaInput{}}
	var doc struct {
		Projects []struct {
			Weight *int `json:"weight"`
		} `json:"projects"`
	}
	if err := document.Decode(raw, &in); err != nil {
		return in, err
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return in, err
	}
	for i, p := range doc.Projects {
		if p.Weight == nil {
			in.Projects[i].Weight = 1
		}
	}
	return in, nil
}

func (s *session) quotaHistory() *cobra.Command {
	l := listing{none: "The tenant has no settings of its own: those of its tier apply (dvt quota show)."}
	c := &cobra.Command{
		Use: "history", Short: "List the versions of the tenant's settings, newest first, with what each changed",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var all client.ListQuotaSettingsQuotaHistoryQuotaSettingsConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListQuotaSettings(ctx, s.client, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.QuotaHistory
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

// waitWords returns what a run waits for.
func waitWords(w client.QueueWait) string {
	switch w {
	case client.QueueWaitPlace:
		return "slot"
	case client.QueueWaitTurn:
		return "runs ahead"
	case client.QueueWaitHold:
		return "freeze or mode"
	default:
		return strings.ToLower(string(w))
	}
}

// leastAbout is the width that the list of waiting runs keeps for its last column, such as "until a run ends".
const leastAbout = 18

func queueCommand() *cobra.Command {
	s := &session{}
	list := s.queueList()
	c := s.command("queue", "Show the runs that wait for quota or a free slot", list)
	// There is nothing else to choose, so the group lists by itself.
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return s.open(c) }
	c.Args, c.RunE = list.Args, list.RunE
	c.Flags().AddFlagSet(list.Flags())
	return c
}

func (s *session) queueList() *cobra.Command {
	var project string
	l := listing{none: "No run waits that you may see."}
	c := &cobra.Command{
		Use: "list", Short: "List the waiting runs by project, in the order in which they will start",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var all client.ListQueueQueueQueueEntryConnection
			held := false // a run waits for a slot
			err := s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListQueue(ctx, s.client, orNil(project), &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.Queue
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("RUN", "PLAN", "WHERE", "BY", "POSITION", "PRIORITY", "SINCE", "WAITS FOR", "ABOUT")
				t.Flex, t.FlexLeast, t.Yield = "ABOUT", leastAbout, []string{"PRIORITY", "BY", "SINCE"}
				var ids []string
				for _, e := range all.Edges {
					ids = append(ids, e.Node.RunId)
				}
				id := s.shortIDs(ids)
				for _, e := range all.Edges {
					q := e.Node
					position, waits, about := "–", "–", "–"
					if q.Position != nil {
						position = fmt.Sprint(*q.Position)
					}
					if q.WaitsFor != nil {
						waits = waitWords(*q.WaitsFor)
					}
					switch {
					case q.WaitsFor != nil && *q.WaitsFor == client.QueueWaitHold:
						about = "does not expire meanwhile"
					case q.Slots != nil:
						about, held = "until a run ends", true
					case q.EstimatedWaitMs != nil:
						about = plan.DurationText(time.Duration(*q.EstimatedWaitMs * float64(time.Millisecond)).Round(time.Second))
					}
					t.Row(id(q.RunId), q.PlanId+"@"+q.PlanVersion, q.ProjectId+"/"+q.EnvironmentId, q.TriggeredBy, position,
						q.Priority, s.when(&q.CreatedAt), waits, about)
				}
				return t
			})
			if err == nil && !s.output.IsData() {
				fmt.Fprintf(s.err, "%s of the tenant waiting\n", cmdline.Count(all.Depth, "run"))
				if held {
					fmt.Fprintln(s.err, "All slots are in use: dvt run show RUN names the runs that hold them.")
				}
			}
			return err
		},
	}
	c.Flags().StringVar(&project, "project", "", "only runs of this project")
	l.flag(c, 50)
	return c
}
