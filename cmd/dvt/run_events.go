package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	"github.com/dvt-engine/dvt/run"
)

// eventOptions select the events of a run that are printed.
type eventOptions struct {
	after  int64
	types  []string
	follow bool
	giveUp time.Duration
}

func (s *session) eventsCommand() *cobra.Command {
	var how eventOptions
	c := &cobra.Command{
		Use: "events RUN", Short: "Print the log of a run, event by event", Args: cmdline.ExactArgs(1),
		Long: `Print the log of a run, event by event: seq, commit time, type, step and payload.

With -o json each event is one line of JSON; with -o yaml it is one document.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkEventTypes(how.types); err != nil {
				return err
			}
			if how.follow {
				return s.followEvents(c.Context(), args[0], how, &knownSteps{runID: args[0]})
			}
			return s.readEvents(c.Context(), args[0], how, &knownSteps{runID: args[0]})
		},
	}
	c.Flags().Int64Var(&how.after, "after", 0, "only events after this seq")
	c.Flags().StringSliceVar(&how.types, "type", nil, "only events of these types, such as StepFailed")
	c.Flags().BoolVarP(&how.follow, "follow", "f", false, "follow the log until the run has ended")
	c.Flags().DurationVar(&how.giveUp, "give-up-after", patience,
		"with --follow: stop after this time without a connection; 0: never")
	return c
}

// checkEventTypes returns a usage error for a type that no event has.
func checkEventTypes(types []string) error {
	all := run.EventTypes()
	for _, typed := range types {
		if !slices.Contains(all, run.EventType(typed)) {
			names := make([]string, len(all))
			for i, name := range all {
				names[i] = string(name)
			}
			return cmdline.Usage(fmt.Errorf("--type: no event has the type %q%s\n  the types are %s", typed,
				cmdline.DidYouMean(typed, names), strings.Join(names, ", ")))
		}
	}
	return nil
}

// knownSteps has the titles of the steps of a run. They are read when the first step is printed, and again for a step
// that was not known then, because the steps of a followed run appear when it starts.
type knownSteps struct {
	runID  string
	titles map[string]string
}

// title returns the title of a step, or its id when the name cannot be read: an event is printed in any case.
func (k *knownSteps) title(ctx context.Context, s *session, stepID string) string {
	if title, known := k.titles[stepID]; known || stepID == "" {
		return title
	}
	if out, err := client.ShowRun(ctx, s.client, k.runID, nil); err == nil && out.Run != nil {
		k.titles = stepTitles(out.Run)
	}
	if k.titles == nil {
		k.titles = map[string]string{}
	}
	if k.titles[stepID] == "" {
		k.titles[stepID] = stepID
	}
	return k.titles[stepID]
}

func (s *session) readEvents(ctx context.Context, runID string, how eventOptions, steps *knownSteps) error {
	for size, after := maxPage, how.after; ; {
		out, err := client.ReadEvents(ctx, s.client, runID, &size, &after, how.types)
		if err != nil {
			return cmdline.Failure(err)
		}
		if out.Run == nil {
			return cmdline.NotFound("run")
		}
		for _, e := range out.Run.Events.Edges {
			if err := s.event(ctx, e.Node, steps); err != nil {
				return err
			}
			after = e.Node.RunSeq
		}
		if !out.Run.Events.PageInfo.HasNextPage {
			return nil
		}
	}
}

// followEvents prints each event once until the run has ended. It reconnects when a connection is lost.
func (s *session) followEvents(ctx context.Context, runID string, how eventOptions, steps *knownSteps) error {
	from := client.Position{Seq: how.after}
	err := watchview.Follow(ctx, how.giveUp, from, func(ctx context.Context, at client.Position,
		took func(client.Position)) error {
		return s.client.Events(ctx, runID, at, func(u client.FollowEventsRunEventsRunEventUpdate) error {
			if u.Reset {
				fmt.Fprintln(s.err, "RESET: the store's history was replaced; the events printed so far are void")
			}
			over := false
			for _, e := range u.Events {
				at.Seq = e.RunSeq
				if len(how.types) == 0 || slices.Contains(how.types, e.EventType) {
					if err := s.event(ctx, e, steps); err != nil {
						return watchview.Stop{Cause: err}
					}
				}
				over = over || slices.Contains(ends, run.EventType(e.EventType))
			}
			at.Epoch = u.StoreEpoch
			took(at)
			if over {
				return watchview.Stop{Cause: errOver}
			}
			return nil
		})
	}, s.offlineReporter())
	if errors.Is(err, errOver) {
		return nil
	}
	return cmdline.Failure(err)
}

// ends are the types of a run's last event.
var ends = []run.EventType{run.RunCompleted, run.RunFailed, run.RunCancelled}

func (s *session) event(ctx context.Context, e client.EventRow, steps *knownSteps) error {
	switch s.output {
	case document.JSON:
		doc, err := json.Marshal(e)
		if err == nil {
			_, err = s.out.Write(append(doc, '\n'))
		}
		return err
	case document.YAML:
		return s.print(e)
	}
	subject := steps.title(ctx, s, runtext.Deref(e.StepId))
	if e.LogicalAttemptId > 1 && subject != "" {
		subject += fmt.Sprintf(" (attempt %d)", e.LogicalAttemptId)
	}
	says := ""
	if e.Payload != nil && string(*e.Payload) != "{}" {
		says = console.OneLine(plainJSON(string(*e.Payload)))
		if all := map[string]json.RawMessage{}; json.Unmarshal(*e.Payload, &all) == nil {
			says = pairsInWords(all, "errorCode", "errorMessage", "signalType", "actor", "reason", "reasonCode")
		}
	}
	l := console.Line{{Text: fmt.Sprintf("%6d  %s  ", e.RunSeq, e.PersistedAt.UTC().Format("2006-01-02 15:04:05.000Z")),
		Style: console.Dim},
		{Text: console.Pad(e.EventType, 18), Style: console.Bold}, {Text: "  " + console.Pad(subject, 20),
			Style: console.Plain}, {Text: "  " + says, Style: console.Plain}}
	if width, _ := s.display.Size(); s.display.IsTerminal() && !s.whole() {
		l = s.display.Fit(l, width)
	}
	_, err := fmt.Fprintln(s.out, s.display.Render(l))
	return err
}
