package artifactcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/run/nodeset"
)

const (
	maxReasons = 64 << 20 // bytes of the artifact with the reasons that are read
	maxIndent  = 20       // of a line of a long chain
)

// Why says why a node of a slim dbt step ran.
type Why struct {
	StepID  string `json:"stepId"`
	Attempt int    `json:"attempt"`
	nodeset.Reached
	// Chain leads from the node to the modified one.
	Chain []nodeset.Reached `json:"chain"`
	// Against is the run with whose manifest the step compared, and Manifest the SHA-256 of it.
	Against  string `json:"againstRunId"`
	Manifest string `json:"manifestSha256"`
}

// WhyCommand returns the command why.
func WhyCommand(s cmdline.Session) *cobra.Command {
	var step string
	c := &cobra.Command{
		Use: "why RUN NODE", Short: "Say why a node of a slim dbt step ran",
		Args: cmdline.ExactArgs(2),
		Long: "Say why a dbt step that runs only what was modified (state in the plan) ran a node: what of the node differs\n" +
			"from the run that the step compared with, or which modified node it reads. NODE is a unique id or a name.",
		RunE: func(c *cobra.Command, args []string) error {
			why, err := whyOf(c.Context(), s, args[0], step, args[1])
			if err != nil {
				return err
			}
			if s.IsData() {
				return s.Print(why)
			}
			writeWhy(s.Out(), why)
			return nil
		},
	}
	c.Flags().StringVar(&step, "step", "", "only this step")
	return c
}

// writeWhy prints the reasons, one node a line.
func writeWhy(out io.Writer, why Why) {
	for i, r := range why.Chain {
		fmt.Fprintf(out, "%s%s\n", strings.Repeat("  ", min(i, maxIndent)), printable(r.ID+" "+inWords(r)))
	}
	fmt.Fprintf(out, "Step %s, attempt %d, compared with run %s (manifest %.12s).\n", why.StepID, why.Attempt, why.Against,
		why.Manifest)
}

// printable replaces the characters of names that a terminal would interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// inWords returns the reason of a node, as the end of a sentence.
func inWords(r nodeset.Reached) string {
	switch r.Why {
	case nodeset.IsNew:
		return "is new"
	case nodeset.BodyModified:
		return "was modified"
	case nodeset.ConfigModified:
		return "has another configuration"
	case nodeset.MacroModified:
		return "uses the macro " + r.Of + ", which was modified"
	case nodeset.ReadsModified:
		return "reads " + r.Of
	case nodeset.WasSelected:
		return "was not modified; the selection of the step names it"
	}
	return string(r.Why)
}

// whyOf looks for a node in the reasons of the newest attempts first.
func whyOf(ctx context.Context, s cmdline.Session, runID, step, node string) (Why, error) {
	all, err := list(ctx, s, runID, options{step: step})
	if err != nil {
		return Why{}, err
	}
	all = slices.DeleteFunc(all, func(a Artifact) bool {
		return a.Path == "" || runtext.Deref(a.FileName) != nodeset.ReasonsFile
	})
	slices.SortStableFunc(all, func(a, b Artifact) int { return cmp.Compare(attemptOf(b), attemptOf(a)) })
	for _, a := range all {
		reasons, err := readReasons(ctx, s, runID, a)
		if err != nil {
			return Why{}, err
		}
		if chain := chainOf(reasons.Nodes, node); len(chain) > 0 {
			out := Why{StepID: runtext.Deref(a.StepId), Attempt: attemptOf(a), Reached: chain[0], Chain: chain,
				Against: reasons.Against.RunID}
			if m := reasons.Against.Manifest; m != nil {
				out.Manifest = m.SHA256
			}
			return out, nil
		}
	}
	why := fmt.Errorf("no slim dbt step of the run ran a node %q; `dvt run nodes` lists the nodes of a step", node)
	if len(all) == 0 {
		why = errors.New("the run has no dbt step that ran only what was modified (state in the plan), or it has not ended")
	}
	return Why{}, &cmdline.Error{Status: 4, Code: "NOT_FOUND", Err: why}
}

// attemptOf returns the logical attempt of an artifact, 0 when it is not known.
func attemptOf(a Artifact) int {
	if a.Attempt == nil {
		return 0
	}
	return *a.Attempt
}

// chainOf returns the reason of a node, by its id or its name, then that of the node that it reads, and so on.
func chainOf(nodes []nodeset.Reached, node string) (out []nodeset.Reached) {
	find := func(is func(id string) bool) *nodeset.Reached {
		if i := slices.IndexFunc(nodes, func(r nodeset.Reached) bool { return is(r.ID) }); i >= 0 {
			return &nodes[i]
		}
		return nil
	}
	at := find(func(id string) bool { return id == node })
	if at == nil {
		at = find(func(id string) bool { return strings.HasSuffix(id, "."+node) })
	}
	seen := map[string]bool{}
	for at != nil && !seen[at.ID] {
		out, seen[at.ID] = append(out, *at), true
		of := at.Of
		if at = nil; out[len(out)-1].Why == nodeset.ReadsModified {
			at = find(func(id string) bool { return id == of })
		}
	}
	return out
}

// readReasons downloads an artifact and checks its SHA-256.
func readReasons(ctx context.Context, s cmdline.Session, runID string, a Artifact) (out nodeset.Reasons, err error) {
	dir, err := os.MkdirTemp("", "dvt-why-")
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	saver := saver{client: s.Client().(*client.Client), notes: io.Discard, runID: runID, flat: true}
	if _, err := saver.save(ctx, dir, []Artifact{a}); err != nil {
		return out, err
	}
	f, err := os.Open(filepath.Join(dir, nodeset.ReasonsFile)) //nolint:gosec // of a directory that this call made
	if err != nil {
		return out, err
	}
	defer func() { _ = f.Close() }()
	if err := json.NewDecoder(io.LimitReader(f, maxReasons)).Decode(&out); err != nil {
		return out, fmt.Errorf("%s: %w", a.Path, err)
	}
	return out, nil
}
