package installcmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/preflight"
)

// processSettings adds the settings of every process of an installation as flags.
func processSettings(c *cobra.Command) *pflag.FlagSet {
	settings := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	for _, of := range []*cobra.Command{Server(), Worker(), Migrate()} {
		of.Flags().VisitAll(func(f *pflag.Flag) {
			if settings.Lookup(f.Name) == nil && config.IsSetting(f.Name) {
				settings.AddFlag(f)
			}
		})
	}
	settings.String("config", "", "YAML file with settings")
	c.Flags().AddFlagSet(settings)
	return settings
}

// Preflight returns the command preflight.
func Preflight() *cobra.Command {
	var process string
	var output document.Format
	o := preflight.Options{}
	c := &cobra.Command{
		Use: "preflight", Short: "Say what is missing in a target before dvt is installed or started there",
		Long: "Reads the settings of a process, as dvt server and dvt worker do, and tries everything that it needs: " +
			"PostgreSQL and the\n" +
			"rights of its role, Temporal, Redis, the bucket, the Journal, providers of secrets, the sandbox, files and " +
			"ports. Prints every\n" +
			"finding at once, with the command or right that mends it, and changes nothing. Run it on the machine, and as " +
			"the user, of the\n" +
			"process. Exit status 0: nothing is missing; 1: something is; 2: the settings are wrong.",
		Args: cobra.NoArgs,
	}
	settings := processSettings(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(settings, false)
		if err != nil {
			return cmdline.Usage(err)
		}
		config.ForgetEnvironment()
		slog.SetDefault(slog.New(slog.DiscardHandler)) // libraries would repeat what a finding says
		if o.Process = preflight.Process(process); process == "" {
			o.Process = preflight.ProcessOf(&cfg)
		} else if err := knownProcess(process); err != nil {
			return err
		}
		return showPreflight(c.Context(), c.OutOrStdout(), output, preflight.Run(c.Context(), cfg, o))
	}
	processFlag(c, &process)
	c.Flags().IntVar(&o.Peers, "peers", preflight.DefaultPeers, "servers and control workers of the whole installation")
	c.Flags().DurationVar(&o.Timeout, "timeout", preflight.DefaultTimeout, "how long each component may take")
	document.AddFlag(c, &output)
	return c
}

// processFlag gives a command the flag --process.
func processFlag(c *cobra.Command, process *string) {
	c.Flags().StringVar(process, "process", "", "what the settings are for: "+strings.Join(processNames(), ", ")+
		"; by default a worker where they name queues, else server")
	_ = c.RegisterFlagCompletionFunc("process", cobra.FixedCompletions( // the flag is there
		processNames(), cobra.ShellCompDirectiveNoFileComp))
}

func processNames() (names []string) {
	for _, p := range preflight.Processes() {
		names = append(names, string(p))
	}
	return names
}

// knownProcess returns an error for the name of no process.
func knownProcess(name string) error {
	if slices.Contains(processNames(), name) {
		return nil
	}
	return cmdline.Usage(fmt.Errorf("--process must be one of %s, not %q", strings.Join(processNames(), ", "), name))
}

func showPreflight(ctx context.Context, out io.Writer, output document.Format, r preflight.Report) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if output.IsData() {
		if err := output.Write(out, r); err != nil {
			return err
		}
	} else {
		printFindings(out, r)
	}
	if r.Missing > 0 {
		return &cmdline.Error{Status: 1, Err: fmt.Errorf("%d of %d checks of a %s found something missing", r.Missing,
			len(r.Findings), r.Process)}
	}
	return nil
}

func printFindings(out io.Writer, r preflight.Report) {
	for _, f := range r.Findings {
		fmt.Fprintf(out, "%-8s %s, %s: %s\n", f.State, f.Component, f.Check, f.Found)
		if f.State == preflight.OK {
			continue
		}
		fmt.Fprintf(out, "%9swhy:  %s\n", "", f.Why)
		if f.Remedy != "" {
			fmt.Fprintf(out, "%9smend: %s\n", "", f.Remedy)
		}
	}
	if r.Missing == 0 {
		fmt.Fprintf(out, "Nothing is missing for a %s.\n", r.Process)
	}
}
