// Package artifactcmd lists the artifacts of a run and saves them as files.
package artifactcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// Artifact is an artifact that a run reported.
type Artifact struct {
	client.ArtifactRow
	// Path is the address below that of the run: step, logical attempt, engine attempt and file, with slashes. It is
	// empty for an artifact that dvt does not hold.
	Path string `json:"path,omitempty"`
}

type options struct {
	step, kind, get, to, save string
	all, force                bool
}

// Command returns the command artifacts. isTerminal reports whether a writer is a terminal.
func Command(s cmdline.Session, isTerminal func(io.Writer) bool) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "artifacts RUN [STEP]", Short: "List the files that the steps of a run produced, or save them",
		Args: cmdline.RangeArgs(1, 2),
		Long: "List the artifacts of a run or of one step, of all attempts.\n\n" +
			"--get NAME saves one of them as DIR/NAME; NAME is a file, or a path such as load/1/1/rows.csv where several\n" +
			"have that name. --all saves each as DIR/STEP/ATTEMPT/ENGINE-ATTEMPT/FILE. The SHA-256 of every file is checked.\n" +
			"A download that was cut continues where it ended when the command runs again. Nothing is written outside of\n" +
			"DIR, and files that exist are only replaced with --force.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			all, err := list(c.Context(), s, args[0], o)
			if err != nil {
				return err
			}
			if !o.all && o.get == "" {
				return show(s, all)
			}
			chosen := all
			if o.get != "" {
				if chosen, err = named(all, o.get); err != nil {
					return err
				}
			}
			saver := saver{client: s.Client().(*client.Client), notes: s.Notes(), runID: args[0], force: o.force,
				flat: o.get != "", progress: isTerminal(s.Notes())}
			saved, err := saver.save(c.Context(), o.to, chosen)
			switch {
			case err != nil:
				return err
			case s.IsData():
				return s.Print(saved)
			}
			fmt.Fprintf(s.Out(), "%s saved in %s\n", cmdline.Count(len(saved), "file"), o.to)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.step, "step", "", "only those of this step")
	f.StringVar(&o.kind, "kind", "", "only those of this kind, such as dbt-manifest, dbt-run-results or custom")
	f.StringVar(&o.get, "get", "", "save the artifact with this name or path")
	f.BoolVar(&o.all, "all", false, "save all that the other flags select")
	f.StringVar(&o.to, "to", ".", "directory to save to; it is created")
	f.BoolVar(&o.force, "force", false, "replace files that exist")
	f.StringVar(&o.save, "save", "", "the same as --all --to DIR")
	_ = f.MarkHidden("save") // the name of earlier versions
	return c
}

// check completes the options and refuses those that contradict each other.
func (o *options) check(args []string) error {
	if len(args) > 1 {
		if o.step != "" && o.step != args[1] {
			return cmdline.Usage(errors.New("name the step once: as an argument or with --step"))
		}
		o.step = args[1]
	}
	if o.save != "" {
		o.all, o.to = true, o.save
	}
	if o.all && o.get != "" {
		return cmdline.Usage(errors.New("use --get or --all, not both"))
	}
	return nil
}

// pageSize is the number of artifacts of one page of the API.
const pageSize = 200

// list returns the artifacts of a run that the options select, in the order of the API.
func list(ctx context.Context, s cmdline.Session, runID string, o options) ([]Artifact, error) {
	all, size := []Artifact{}, pageSize
	var step, after *string
	var kinds []string
	if o.step != "" {
		step = &o.step
	}
	if o.kind != "" {
		kinds = []string{o.kind}
	}
	for {
		out, err := client.ListArtifacts(ctx, s.Client(), runID, step, kinds, &size, after)
		switch {
		case err != nil:
			return nil, cmdline.Failure(err)
		case out.Run == nil:
			return nil, cmdline.NotFound("run")
		}
		for _, e := range out.Run.ArtifactList.Edges {
			all = append(all, Artifact{ArtifactRow: e.Node, Path: pathOf(runID, e.Node.Uri)})
		}
		if after = out.Run.ArtifactList.PageInfo.EndCursor; !out.Run.ArtifactList.PageInfo.HasNextPage {
			return all, nil
		}
	}
}

// pathOf returns the part of an artifact's URI behind the tenant and the run. It is empty for the URI of another run or
// of a place outside of dvt, which the server does not serve.
func pathOf(runID, uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "artifact" {
		return ""
	}
	name, err := url.PathUnescape(u.Opaque)
	parts := strings.SplitN(name, "/", 3)
	if err != nil || len(parts) < 3 || parts[1] != runID {
		return ""
	}
	return parts[2]
}

// show prints artifacts as a table, or as data.
func show(s cmdline.Session, all []Artifact) error {
	if s.IsData() {
		return s.Print(all)
	}
	if len(all) == 0 {
		fmt.Fprintln(s.Notes(), "No artifact was reported.")
		return nil
	}
	t := s.Table("STEP", "ATTEMPT", "KIND", "FILE", "SIZE", "EXPIRES", "SHA-256")
	for _, a := range all {
		attempt := "-"
		if a.Attempt != nil {
			attempt = fmt.Sprint(*a.Attempt)
		}
		bytes := "-"
		if a.SizeBytes != nil {
			bytes = size(int64(*a.SizeBytes))
		}
		t.Row(cmp.Or(runtext.Deref(a.StepId), "-"), attempt, a.Kind, cmp.Or(runtext.Deref(a.FileName), a.Uri), bytes,
			s.When(a.ExpiresAt), cmp.Or(runtext.Deref(a.Sha256), "-"))
	}
	return t.Print()
}

// named returns the one artifact with this file name or path.
func named(all []Artifact, name string) ([]Artifact, error) {
	found := slices.DeleteFunc(slices.Clone(all), func(a Artifact) bool {
		return a.Path == "" || a.Path != name && runtext.Deref(a.FileName) != name
	})
	switch len(found) {
	case 0:
		return nil, &cmdline.Error{Status: 4, Code: "NOT_FOUND",
			Err: fmt.Errorf("the run reported no artifact %q that dvt holds; `dvt run artifacts` lists them", name)}
	case 1:
		return found, nil
	}
	paths := make([]string, len(found))
	for i, a := range found {
		paths[i] = a.Path
	}
	return nil, cmdline.Usage(fmt.Errorf("%d artifacts have this name; give the path of one to --get:\n  %s", len(found),
		strings.Join(paths, "\n  ")))
}

// size formats a number of bytes.
func size(bytes int64) string {
	switch n := float64(bytes); {
	case n < 1<<10:
		return fmt.Sprintf("%d B", bytes)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", n/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", n/(1<<30))
	}
}
