package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// maxTags is the API's limit for the tags of a run.
const maxTags = 20

func (s *session) tagCommand() *cobra.Command {
	var remove []string
	c := &cobra.Command{
		Use: "tag RUN [TAG...]", Short: "Add tags to a run, remove them, or print those that it has",
		Args: cmdline.RangeArgs(1, maxTags+1),
		Long: "Print the tags of a run, one per line, after adding each TAG and removing those of --remove. A tag is a\n" +
			"key, or key:value, such as late or team:data. A run that has ended can have tags, too.",
		RunE: func(c *cobra.Command, args []string) error {
			tags := []string{}
			if len(args) > 1 || len(remove) > 0 {
				out, err := client.ChangeRunTags(c.Context(), s.client, client.ChangeRunTagsInput{RunId: args[0],
					RequestId: orNew(""), Add: args[1:], Remove: remove})
				if err != nil {
					return cmdline.Failure(err)
				}
				tags = out.ChangeRunTags.Tags
			} else {
				out, err := client.ListTags(c.Context(), s.client, args[0])
				switch {
				case err != nil:
					return cmdline.Failure(err)
				case out.Run == nil:
					return cmdline.NotFound("run")
				}
				for _, r := range out.RunTags {
					tags = append(tags, r.Tags...)
				}
			}
			if s.output.IsData() {
				return s.print(tags)
			}
			for _, tag := range tags {
				fmt.Fprintln(s.out, tag)
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&remove, "remove", nil, "remove this tag; can be repeated")
	return c
}

func (s *session) noteCommand() *cobra.Command {
	var requestID string
	c := &cobra.Command{
		Use: "note RUN [TEXT]", Short: "Add a note to a run, or print its notes", Args: cmdline.RangeArgs(1, 2),
		Long: "With TEXT add a note, which nobody can change later. Without TEXT print the notes of the run.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				out, err := client.AddRunNote(c.Context(), s.client, client.AddRunNoteInput{RunId: args[0],
					RequestId: orNew(requestID), Body: args[1]})
				if err != nil {
					return cmdline.Failure(err)
				}
				if s.output.IsData() {
					return s.print(out.AddRunNote.Note)
				}
				_, err = fmt.Fprintf(s.out, "Added as note %d: dvt run note %s shows all.\n", out.AddRunNote.Note.No,
					shortID(args[0]))
				return err
			}
			out, err := client.ListNotes(c.Context(), s.client, args[0])
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case s.output.IsData():
				return s.print(out.RunNotes)
			case len(out.RunNotes) == 0:
				fmt.Fprintln(s.err, "The run has no notes.")
				return nil
			}
			for _, n := range out.RunNotes {
				fmt.Fprintf(s.out, "%s  %s\n", s.when(&n.At), n.Author)
				for line := range strings.Lines(n.Body) {
					fmt.Fprintf(s.out, "  %s\n", strings.TrimRight(line, "\r\n"))
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	return c
}

func (s *session) shareCommand() *cobra.Command {
	var requestID string
	c := &cobra.Command{
		Use: "share RUN", Short: "Print a link that shows the status of a run without sign-in", Args: cmdline.ExactArgs(1),
		Long: "Print a link that shows to everybody who has it: the plan's id and version, the status, when the run\n" +
			"started, how long it took, and how many steps failed. It shows no step, error, log, parameter or person.\n" +
			"The tenant must permit such links: dvt tenant share-links.",
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ShareRun(c.Context(), s.client, client.ShareRunInput{RunId: args[0],
				RequestId: orNew(requestID)})
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.ShareRun)
			}
			_, err = fmt.Fprintln(s.out, strings.TrimSuffix(s.server, "/")+out.ShareRun.Path)
			return err
		},
	}
	c.Flags().StringVar(&requestID, "request-id", "", "client key of the request; default: a new one")
	return c
}
