package artifactcmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

const (
	// partPrefix begins the names of files that are not complete. No artifact is saved under such a name.
	partPrefix   = ".dvt-part-"
	maxCuts      = 5 // connections in a row that bring nothing
	firstPause   = 200 * time.Millisecond
	progressEach = 200 * time.Millisecond
)

// saver writes artifacts of a run below a directory.
type saver struct {
	client   *client.Client
	notes    io.Writer
	runID    string
	force    bool // replaces files
	flat     bool // without the folders of the path
	progress bool // notes is a terminal
}

// file is an artifact and the path below the directory under which it is saved.
type file struct {
	Artifact
	name string
}

// save writes artifacts below a directory, which it creates, and returns the written ones. It checks all names before
// it writes the first file.
func (s saver) save(ctx context.Context, dir string, all []Artifact) ([]Artifact, error) {
	files, err := s.files(dir, all)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, cmdline.Usage(err)
	}
	root, err := os.OpenRoot(dir) // no name and no symbolic link below it leaves it
	if err != nil {
		return nil, cmdline.Usage(err)
	}
	defer root.Close()
	for _, f := range files {
		info, err := root.Lstat(f.name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && s.force && info.Mode().IsRegular() {
			continue
		}
		return nil, cmdline.Usage(fmt.Errorf("%s exists; nothing was saved. Give another directory with --to, or --force",
			filepath.Join(dir, f.name)))
	}
	saved := []Artifact{}
	for _, f := range files {
		if err := s.saveFile(ctx, root, f); err != nil {
			return nil, cmdline.Failure(fmt.Errorf("%s: %w", f.Path, err))
		}
		saved = append(saved, f.Artifact)
	}
	return saved, nil
}

// files returns the files to write. Artifacts that dvt does not hold are left out.
func (s saver) files(dir string, all []Artifact) ([]file, error) {
	files, taken := []file{}, map[string]bool{}
	for _, a := range all {
		name := filepath.FromSlash(localName(a.Path))
		if s.flat {
			name = filepath.Base(name)
		}
		switch {
		case a.Path == "":
			fmt.Fprintf(s.notes, "%s is not stored in dvt and is left out\n", a.Uri)
			continue
		case path.Clean(a.Path) != a.Path || !filepath.IsLocal(name) || name == "." ||
			strings.HasPrefix(filepath.Base(name), partPrefix):
			return nil, &cmdline.Error{Status: 1, Err: fmt.Errorf("the name %q would leave %s; nothing was saved", a.Path, dir)}
		case taken[name]:
			return nil, &cmdline.Error{Status: 1, Err: fmt.Errorf("two artifacts would be saved as %q; nothing was saved", name)}
		}
		taken[name] = true
		files = append(files, file{a, name})
	}
	return files, nil
}

// localName replaces the characters of a name that a terminal would interpret when the file is listed later.
func localName(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
}

// saveFile downloads an artifact into a part beside its place, continues a part of an earlier try, and renames it when
// the content is the one that the run reported. Otherwise it removes the part.
func (s saver) saveFile(ctx context.Context, root *os.Root, f file) error {
	if err := root.MkdirAll(filepath.Dir(f.name), 0o750); err != nil {
		return err
	}
	id := sha256.Sum256([]byte(f.Uri + " " + runtext.Deref(f.Sha256)))
	d := &download{saver: s, file: f, part: filepath.Join(filepath.Dir(f.name), partPrefix+hex.EncodeToString(id[:12])),
		root: root, hash: sha256.New(), size: -1}
	if f.SizeBytes != nil {
		d.size = int64(*f.SizeBytes)
	}
	err := d.open()
	if err != nil {
		return err
	}
	err = cmp.Or(d.fill(ctx), d.to.Close())
	d.clearProgress()
	if err != nil {
		return err // the part stays, so that the next try continues
	}
	if err := d.verify(); err != nil {
		return errors.Join(err, root.Remove(d.part))
	}
	return root.Rename(d.part, f.name)
}

// download is a file on its way.
type download struct {
	saver
	file

	root  *os.Root
	part  string
	to    *os.File
	hash  hash.Hash
	at    int64 // bytes that part has, which hash has seen
	size  int64 // -1: not reported
	shown time.Time
}

// open opens the part and reads what an earlier try left. A part that is no file of ours is an error.
func (d *download) open() error {
	if info, err := d.root.Lstat(d.part); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: remove it", d.part)
	}
	to, err := d.root.OpenFile(d.part, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	d.to = to
	d.at, err = io.Copy(d.hash, to)
	if err == nil && d.size >= 0 && d.at > d.size {
		err = d.restart()
	}
	if err != nil {
		_ = to.Close()
	}
	return err
}

// restart forgets what the part has.
func (d *download) restart() error {
	d.hash.Reset()
	d.at = 0
	_, err := d.to.Seek(0, io.SeekStart)
	return cmp.Or(err, d.to.Truncate(0))
}

// fill reads the rest of the content. It continues after a cut connection, until several in a row bring nothing.
func (d *download) fill(ctx context.Context) error {
	for cuts := 0; ; {
		before := d.at
		done, err := d.read(ctx)
		if done || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		pause := firstPause << cuts
		if refused := (*client.Error)(nil); errors.As(err, &refused) {
			if refused.RetryAfter == 0 {
				return err
			}
			pause = refused.RetryAfter
		}
		if cuts++; d.at > before {
			cuts = 0
		}
		if cuts >= maxCuts {
			return fmt.Errorf("the connection was cut %d times after %s; run the command again to continue: %w", cuts,
				size(d.at), err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read makes one request for the rest. It reports whether the content is complete.
func (d *download) read(ctx context.Context) (done bool, err error) {
	if d.size >= 0 && d.at == d.size && d.at > 0 {
		return true, nil
	}
	body, from, err := d.client.OpenArtifact(ctx, d.runID, d.Path, d.at)
	if err != nil {
		return false, err
	}
	defer body.Close()
	if from != d.at { // the server gives the whole content
		if err := d.restart(); err != nil {
			return true, err
		}
	}
	var content io.Reader = body
	if d.size >= 0 {
		content = io.LimitReader(body, d.size-d.at+1)
	}
	_, err = io.Copy(d, content)
	if local := (*os.PathError)(nil); errors.As(err, &local) {
		return true, err // the disk, not the connection
	}
	return err == nil, err
}

// Write adds a part of the content.
func (d *download) Write(part []byte) (int, error) {
	n, err := d.to.Write(part)
	_, _ = d.hash.Write(part[:n])
	d.at += int64(n)
	if d.progress && time.Since(d.shown) >= progressEach {
		d.shown = time.Now()
		of := ""
		if d.size > 0 {
			of = fmt.Sprintf(" of %s, %d %%", size(d.size), 100*d.at/d.size)
		}
		fmt.Fprintf(d.notes, "\r\x1b[K%s: %s%s", localName(d.Path), size(d.at), of)
	}
	return n, err
}

func (d *download) clearProgress() {
	if !d.shown.IsZero() {
		fmt.Fprint(d.notes, "\r\x1b[K")
	}
}

// verify compares the content with the reference of the run.
func (d *download) verify() error {
	got := hex.EncodeToString(d.hash.Sum(nil))
	switch {
	case d.Sha256 == nil:
		fmt.Fprintf(d.notes, "%s: the run reported no SHA-256, so the content is not checked\n", localName(d.Path))
	case got != *d.Sha256:
		return &cmdline.Error{Status: 1, Err: fmt.Errorf(
			"the content has the SHA-256 %s, and the run reported %s; the file was removed", got, *d.Sha256)}
	}
	return nil
}
