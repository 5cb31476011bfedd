package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// runArtifact is an artifact that a run reported.
type runArtifact struct {
	client.ArtifactRow
	StepID string `json:"stepId,omitempty"`
	// Path is the address below that of the run: step, logical attempt, engine attempt and file, with slashes. It is
	// empty for an artifact that dvt does not hold.
	Path string `json:"path,omitempty"`
}

func (s *session) artifactsCommand() *cobra.Command {
	var save string
	c := &cobra.Command{
		Use: "artifacts RUN [STEP]", Short: "List the files that the steps of a run produced, or save them",
		Args: cmdline.RangeArgs(1, 2),
		Long: "List the artifacts of a run or of one step, of all attempts. With --save each is written to\n" +
			"DIR/STEP/ATTEMPT/ENGINE-ATTEMPT/FILE, and its SHA-256 is checked. Existing files are not replaced.",
		RunE: func(c *cobra.Command, args []string) error {
			all, err := s.artifacts(c.Context(), args[0])
			if err != nil {
				return err
			}
			if len(args) > 1 {
				all = slices.DeleteFunc(all, func(a runArtifact) bool { return a.StepID != args[1] })
			}
			if save != "" {
				if all, err = s.saveArtifacts(c.Context(), args[0], save, all); err != nil {
					return err
				}
			}
			switch {
			case s.output.IsData():
				return s.print(all)
			case save != "":
				fmt.Fprintf(s.out, "%s saved in %s\n", cmdline.Count(len(all), "file"), save)
				return nil
			case len(all) == 0:
				fmt.Fprintln(s.err, "No artifact was reported.")
				return nil
			}
			t := s.table("STEP", "KIND", "FILE", "SIZE", "SHA-256")
			for _, a := range all {
				name := a.Uri
				if a.Path != "" {
					name = path.Base(a.Path)
				}
				t.Row(cmp.Or(a.StepID, "-"), a.Kind, name, size(a.SizeBytes),
					cmp.Or(runtext.Deref(a.Sha256), "-"))
			}
			return t.Print()
		},
	}
	c.Flags().StringVar(&save, "save", "", "directory to write the files to")
	return c
}

// artifacts returns the artifacts of a run in the order in which its steps reported them.
func (s *session) artifacts(ctx context.Context, runID string) ([]runArtifact, error) {
	out, err := client.ListArtifacts(ctx, s.client, runID)
	switch {
	case err != nil:
		return nil, cmdline.Failure(err)
	case out.Run == nil:
		return nil, cmdline.NotFound("run")
	}
	all := []runArtifact{}
	for _, a := range out.Run.Artifacts {
		at := artifactPath(runID, a.Uri)
		step := ""
		if parts := strings.Split(at, "/"); len(parts) >= 4 {
			step = parts[0]
		}
		all = append(all, runArtifact{ArtifactRow: a, StepID: step, Path: at})
	}
	return all, nil
}

// artifactPath returns the part of an artifact's URI behind the tenant and the run. It is empty for the URI of another
// run or of a place outside of dvt, which the server does not serve.
func artifactPath(runID, uri string) string {
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

// size formats a number of bytes; "-" for none.
func size(bytes *float64) string {
	switch {
	case bytes == nil:
		return "-"
	case *bytes < 1<<10:
		return fmt.Sprintf("%.0f B", *bytes)
	case *bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", *bytes/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", *bytes/(1<<20))
}

// saveArtifacts writes artifacts below a directory, which it creates, and returns those that it wrote. It checks all
// names before it writes the first file.
func (s *session) saveArtifacts(ctx context.Context, runID, dir string, all []runArtifact) ([]runArtifact, error) {
	held := []runArtifact{}
	for _, a := range all {
		switch {
		case a.Path == "":
			fmt.Fprintf(s.err, "%s is not stored in dvt and is left out\n", a.Uri)
			continue
		case path.Clean(a.Path) != a.Path || !filepath.IsLocal(filepath.FromSlash(a.Path)):
			return nil, &cmdline.Error{Status: 1, Err: fmt.Errorf("the name %q would leave %s; nothing was saved", a.Path, dir)}
		}
		held = append(held, a)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, cmdline.Usage(err)
	}
	root, err := os.OpenRoot(dir) // no name and no symbolic link below it leaves it
	if err != nil {
		return nil, cmdline.Usage(err)
	}
	defer root.Close()
	for _, a := range held {
		if _, err := root.Lstat(filepath.FromSlash(a.Path)); !errors.Is(err, fs.ErrNotExist) {
			return nil, cmdline.Usage(fmt.Errorf("%s exists; nothing was saved. Give another directory",
				filepath.Join(dir, filepath.FromSlash(a.Path))))
		}
	}
	for _, a := range held {
		if err := s.saveArtifact(ctx, root, runID, a); err != nil {
			return nil, cmdline.Failure(fmt.Errorf("%s: %w", a.Path, err))
		}
	}
	return held, nil
}

// saveArtifact writes one artifact to a new file, and removes the file when its content is not what the run reported.
func (s *session) saveArtifact(ctx context.Context, root *os.Root, runID string, a runArtifact) (err error) {
	body, err := s.client.OpenArtifact(ctx, runID, a.Path)
	if err != nil {
		return err
	}
	defer body.Close()
	name := filepath.FromSlash(a.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if err = cmp.Or(err, f.Close()); err != nil {
			err = errors.Join(err, root.Remove(name))
		}
	}()
	hash := sha256.New()
	var content io.Reader = body
	if a.SizeBytes != nil {
		content = io.LimitReader(body, int64(*a.SizeBytes)+1)
	}
	if _, err := io.Copy(io.MultiWriter(f, hash), content); err != nil {
		return err
	}
	switch got := hex.EncodeToString(hash.Sum(nil)); {
	case a.Sha256 == nil:
		fmt.Fprintf(s.err, "%s: the run reported no SHA-256, so the content is not checked\n", a.Path)
	case got != *a.Sha256:
		return &cmdline.Error{Status: 1, Err: fmt.Errorf(
			"the content has the SHA-256 %s, and the run reported %s; the file was removed", got, *a.Sha256)}
	}
	return nil
}
