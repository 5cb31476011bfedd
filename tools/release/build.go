package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// compile builds the program for a platform into a file. Two calls for the same commit, version and toolchain give the
// same bytes in any directory: no path, time or state of the checkout gets into the program.
func (s *source) compile(ctx context.Context, p platform, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.Join(s.Tags, ","),
		"-ldflags", "-s -w -X main.version="+s.version, "-o", to, s.Package)
	c.Dir = s.root
	// Micro-architectures are fixed, because they change the code.
	c.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS="+buildFlags(os.Getenv("GOFLAGS")), "GOEXPERIMENT=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", s.Package, p, err, out)
	}
	return nil
}

// buildFlags returns the flags of GOFLAGS that do not change the program: the number of parallel builds and the use of
// modules.
func buildFlags(flags string) string {
	var kept []string
	for _, f := range strings.Fields(flags) {
		if strings.HasPrefix(f, "-p=") || strings.HasPrefix(f, "-mod") {
			kept = append(kept, f)
		}
	}
	return strings.Join(kept, " ")
}

// entry is a file, directory or link of an archive.
type entry struct {
	name    string // without a leading slash; directories end with a slash
	mode    int64
	content []byte
	file    string // its content is that of this file
	link    string // target of a symbolic link
	uid     int
	time    time.Time // zero: that of the source
}

// writeTar writes entries with the time of the source and with no names of users, so that the bytes depend on nothing
// else.
func (s *source) writeTar(w io.Writer, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		if err := s.writeEntry(t, e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return t.Close()
}

func (s *source) writeEntry(t *tar.Writer, e entry) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, ModTime: s.time, Format: tar.FormatPAX,
		Typeflag: tar.TypeReg, Size: int64(len(e.content))}
	if !e.time.IsZero() {
		h.ModTime = e.time
	}
	content := io.Reader(bytes.NewReader(e.content))
	switch {
	case strings.HasSuffix(e.name, "/"):
		h.Typeflag = tar.TypeDir
	case e.link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
	case e.file != "":
		f, err := os.Open(e.file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h.Size, content = info.Size(), f
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, content)
	return err
}

// writeArchive writes the program for a platform and the files beside it as NAME_VERSION_OS_ARCH.tar.gz, and returns
// its path.
func (s *source) writeArchive(p platform, program, dir string) (file string, err error) {
	base := fmt.Sprintf("%s_%s_%s_%s", s.Name, s.version, p.os, p.arch)
	entries := []entry{{name: base + "/", mode: 0o755}, {name: path.Join(base, s.Name), mode: 0o755, file: program}}
	for _, f := range s.Files {
		entries = append(entries, entry{name: path.Join(base, path.Base(f)), mode: 0o644, file: filepath.Join(s.root, f)})
	}
	file = filepath.Join(dir, base+".tar.gz")
	out, err := os.Create(file)
	if err != nil {
		return "", err
	}
	z := gzip.NewWriter(out)
	if err := s.writeTar(z, entries); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return file, out.Close()
}
