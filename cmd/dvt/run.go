package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/artifactcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/contexts"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/plancmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run"
)

// session is the state that the client commands share: their flags and, after open, the connection and the outputs.
type session struct {
	server, token, context string
	output                 document.Format
	client                 *client.Client
	out, err               io.Writer
	colour                 console.ColourMode
	listStyle
	display console.Display
}

func dbtCommand() *cobra.Command {
	s := &session{}
	return s.command("dbt", "Explain steps of dbt", artifactcmd.WhyCommand(s.shared()))
}

func runCommand() *cobra.Command {
	s := &session{}
	return s.command("run", "Start, watch and steer runs", append([]*cobra.Command{
		s.startCommand(), s.rerunCommand(), s.listCommand(), s.showCommand(), s.stepCommand(), s.nodesCommand(),
		s.openCommand(), s.diffCommand(),
		s.compareCommand(), s.planOfCommand(), s.watchCommand(), s.logsCommand(), s.searchCommand(),
		artifactcmd.Command(s.shared(), func(w io.Writer) bool { return console.NewDisplay(w, s.colour).IsTerminal() }),
		s.eventsCommand(), s.approveCommand(), s.tagCommand(), s.noteCommand(), s.shareCommand(),
	}, s.signalCommands()...)...)
}

// command returns a command with the flags of a client command. Before it or a subcommand runs, the session is opened.
func (s *session) command(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if c.HasSubCommands() {
				return nil // a group only prints its help
			}
			return s.open(c)
		},
	}
	c.PersistentFlags().StringVar(&s.server, "server", "",
		"address of dvt (DVT_SERVER, or that of the context in use, or "+defaultServer+")")
	c.PersistentFlags().StringVar(&s.token, "token", "",
		"token (DVT_TOKEN, or that of the context; for a dvt dev that runs on DVT_DATA or .dvt, that of "+devPrincipal+")")
	c.PersistentFlags().StringVar(&s.context, "context", "", "server and token by name: see dvt context")
	_ = c.RegisterFlagCompletionFunc("context", contextNames) // cannot fail: the flag exists
	document.AddFlag(c, &s.output)
	s.listFlags(c)
	s.colour = console.ColourAuto
	c.PersistentFlags().Var(
		&s.colour, "color", "when to use colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	_ = c.RegisterFlagCompletionFunc("color", cobra.FixedCompletions( // cannot fail: the flag exists
		[]cobra.Completion{string(console.ColourAuto), string(console.ColourAlways), string(console.ColourNever)},
		cobra.ShellCompDirectiveNoFileComp))
	c.AddCommand(subcommands...)
	s.completeArgs(c)
	return c
}

// defaultServer is the default address of `dvt dev`.
const defaultServer = "http://127.0.0.1:8080"

// resolve sets the server and the token of the session. Flags win over the environment, the environment wins over the
// context in use, and that wins over the `dvt dev` on the data directory of this environment. The token of a context is
// sent to its own server only.
func (s *session) resolve() error {
	if s.context != "" && s.server != "" {
		return cmdline.Usage(errors.New("give --context or --server, not both"))
	}
	named := s.context != ""
	if !named && s.server == "" {
		s.server = os.Getenv("DVT_SERVER")
	}
	if s.token == "" && !named {
		s.token = os.Getenv("DVT_TOKEN")
	}
	if s.server == "" {
		f, err := contexts.Read()
		if err != nil {
			return err
		}
		if name := cmp.Or(s.context, f.Current); name != "" {
			p, err := f.Find(name)
			if err != nil {
				return err
			}
			if s.server = p.Server; s.token == "" {
				if s.token, err = p.Token(); err != nil {
					return err
				}
			}
		}
	}
	s.server = cmp.Or(s.server, runningDev(), defaultServer)
	if err := (contexts.Profile{Server: s.server}).Check(); err != nil {
		return err
	}
	if s.token == "" {
		s.token = os.Getenv("DVT_TOKEN")
	}
	return nil
}

func (s *session) open(c *cobra.Command) error {
	if err := s.resolve(); err != nil {
		return err
	}
	if s.token == "" {
		if err := s.beDevPrincipal(); err != nil {
			return err
		}
	}
	s.client, s.out, s.err = client.New(s.server, s.token), console.NewCleanWriter(c.OutOrStdout()),
		console.NewCleanWriter(c.ErrOrStderr())
	s.display = console.NewDisplay(s.out, s.colour)
	return nil
}

// print prints v for programs.
func (s *session) print(v any) error { return s.output.Write(console.Verbatim(s.out), v) }

// note prints a remark on standard error. With -o json and -o yaml it prints nothing, so that standard error has the
// document of an error only.
func (s *session) note(format string, args ...any) {
	if !s.output.IsData() {
		fmt.Fprintf(s.err, format, args...)
	}
}

func (s *session) startCommand() *cobra.Command {
	var project, environment, request string
	var params runParams
	var priority int
	var watch bool
	c := &cobra.Command{
		Use: "start FILE", Short: "Start a run of a plan (JSON or YAML; - reads standard input)", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := document.ReadText(args[0], c.InOrStdin())
			if err != nil {
				return cmdline.Usage(err)
			}
			doc, err := document.ToJSON(args[0], text)
			if err != nil {
				return cmdline.Usage(err)
			}
			var scope struct {
				Scope struct{ ProjectID, EnvironmentID string }
			}
			if trimmed := bytes.TrimSpace(doc); len(trimmed) == 0 || trimmed[0] != '{' {
				return cmdline.Usage(fmt.Errorf(
					"%s is not a plan: a plan has schemaVersion, metadata, scope and steps; dvt plan new writes one",
					document.Name(args[0])))
			}
			_ = json.Unmarshal(doc, &scope) // the server reports errors of the document, with their locations
			in := client.StartRunInput{
				Plan: client.PlanInput{Inline: &doc}, RunRequestId: request, ProjectId: project, EnvironmentId: environment,
				Priority: priority,
			}
			if in.Params, err = params.document(c.InOrStdin()); err != nil {
				return cmdline.Usage(err)
			}
			if in.ProjectId == "" {
				in.ProjectId = scope.Scope.ProjectID
			}
			if in.EnvironmentId == "" {
				in.EnvironmentId = scope.Scope.EnvironmentID
			}
			if in.RunRequestId == "" {
				in.RunRequestId = uuid.NewString()
			}
			if cmdline.IsPreview(c) {
				return withLines(s.preview(c, client.ActionInput{Start: &in}), args[0], text)
			}
			out, err := client.StartRun(c.Context(), s.client, in)
			if err != nil {
				return withLines(cmdline.Failure(err), args[0], text)
			}
			return s.printStarted(c.Context(), watch, out.StartRun.Run, out.StartRun.Deduplicated, out.StartRun)
		},
	}
	c.Flags().StringVar(&project, "project", "", "project; default: the plan's scope")
	c.Flags().StringVar(&environment, "environment", "", "environment; default: the plan's scope")
	c.Flags().StringVar(&request, "request-id", "", "client key that makes repeating safe; default: a new one")
	params.flags(c, "")
	c.Flags().IntVar(&priority, "priority", 5, "from 0 to 9: while runs wait, higher goes first within the project")
	c.Flags().BoolVar(&watch, "watch", false, "watch the run")
	cmdline.AddPreview(c)
	return c
}

// withLines returns the refusal of a plan with the lines of the file and without fields of the request that the file
// does not have. It keeps the answer of the API for a plan in which this program finds no fault.
func withLines(err error, file string, text []byte) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Code != string(run.CodePlanInvalid) && e.Code != string(run.CodeBadInput) {
		return err
	}
	if wrong := plancmd.Check(file, text); wrong != nil {
		return wrong
	}
	return err
}

// printStarted prints the run that a request made, or watches it. payload is the whole answer, for programs.
func (s *session) printStarted(ctx context.Context, watch bool, r client.RunRow, deduplicated bool, payload any) error {
	switch {
	case watch:
		return s.watch(ctx, r.RunId, watchOptions{giveUp: patience})
	case s.output.IsData():
		return s.print(payload)
	case deduplicated:
		fmt.Fprintf(s.out, "%s was already started by this request id, and is %s\n", r.RunId, runtext.Words(r.StatusRaw))
	default:
		fmt.Fprintln(s.out, r.RunId)
	}
	return nil
}
