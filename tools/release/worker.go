package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// dbtDir is the directory of dbt in the image of data workers.
const dbtDir = "opt/dbt"

// workerImage builds the image of data workers for the architecture of this machine: a layer of Debian's packages, one
// of dbt, and the layer of dvt. It needs apt-get and dpkg-deb, and no root.
func (s *source) workerImage(ctx context.Context, dir, program string) error {
	work, err := os.MkdirTemp("", "dvt-worker-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	p := platform{"linux", runtime.GOARCH}
	programs, err := s.programs(ctx, []platform{p}, work, program)
	if err != nil {
		return err
	}
	system := filepath.Join(work, "system")
	if err := s.unpackPackages(ctx, work, system); err != nil {
		return err
	}
	packages, err := s.treeLayer(system, "", skippedOfSystem)
	if err != nil {
		return err
	}
	dbt, err := s.dbtLayer()
	if err != nil {
		return err
	}
	last, err := s.programLayer(programs[p])
	if err != nil {
		return err
	}
	img, err := s.imageOf(p, s.labels(s.Worker.Title, s.Worker.Description), s.Worker.Env, packages, dbt, last)
	if err != nil {
		return err
	}
	digest, err := s.writeLayout(dir, map[platform]v1.Image{p: img})
	if err != nil {
		return err
	}
	size, err := layersSize(img)
	fmt.Printf("%s:%s@%s in %s, %d MB\n", s.Worker.Title, s.version, digest, dir, size/1_000_000)
	return err
}

// unpackPackages downloads Debian's packages and unpacks them into a directory in which /bin, /lib and /sbin are links
// into /usr, as in Debian.
func (s *source) unpackPackages(ctx context.Context, work, to string) error {
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		err := errors.Join(os.MkdirAll(filepath.Join(to, "usr", d), 0o755), os.Symlink("usr/"+d, filepath.Join(to, d)))
		if err != nil {
			return err
		}
	}
	download := exec.CommandContext(ctx, "apt-get", slices.Concat([]string{"download", "-q"}, s.Worker.Packages)...)
	download.Dir = work
	if out, err := download.CombinedOutput(); err != nil {
		return fmt.Errorf("download Debian's packages (`apt-get update` may be needed): %w\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) != len(s.Worker.Packages) {
		return fmt.Errorf("%d of %d packages were downloaded: %w", len(files), len(s.Worker.Packages), err)
	}
	for _, f := range files {
		// tar must not replace the links of the directories.
		c := exec.CommandContext(ctx, "sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"`,
			"sh", f, to)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("unpack %s: %w\n%s", filepath.Base(f), err, out)
		}
	}
	// The scripts of these packages would make these links, but nothing runs them.
	for name, program := range map[string]string{"sh": "dash", "awk": "mawk"} {
		link := filepath.Join(to, "usr", "bin", name)
		if _, err := os.Lstat(link); errors.Is(err, fs.ErrNotExist) {
			if err := os.Symlink(program, link); err != nil {
				return err
			}
		}
	}
	return nil
}

// skippedOfSystem reports whether a file of Debian's packages is left out: manuals and translations, which no step
// reads, and what the layer of dvt has. The licences in usr/share/doc stay.
func skippedOfSystem(name string) bool {
	for _, prefix := range []string{"usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "tmp",
		"var", "run", "etc/passwd", "etc/group", "proc", "dev", "sys", "root", "home"} {
		if name == prefix || strings.HasPrefix(name, prefix+"/") {
			return true
		}
	}
	return false
}

// dbtLayer returns the packages of a virtual environment, with a program that starts dbt with the Python of the image.
func (s *source) dbtLayer() (v1.Layer, error) {
	packages := filepath.Join(s.root, s.Worker.DBT, "lib", s.Worker.Python, "site-packages")
	if _, err := os.Stat(packages); err != nil {
		return nil, fmt.Errorf("dbt is not there for %s (`make tools/dbt` takes the python3 on PATH): %w",
			s.Worker.Python, err)
	}
	entries, err := s.treeEntries(packages, dbtDir+"/lib", func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		return slices.Contains([]string{"pip", "setuptools", "_distutils_hack"}, first)
	})
	if err != nil {
		return nil, err
	}
	start := fmt.Sprintf("#!/usr/bin/%s\nimport sys\nsys.path.insert(0, \"/%s/lib\")\nfrom dbt.cli.main import cli\n"+
		"sys.exit(cli())\n", s.Worker.Python, dbtDir)
	entries = append([]entry{{name: "opt/", mode: 0o755}, {name: dbtDir + "/", mode: 0o755},
		{name: dbtDir + "/bin/", mode: 0o755}, {name: dbtDir + "/bin/dbt", mode: 0o755, content: []byte(start)},
		{name: dbtDir + "/bin/python3", mode: 0o777, link: "/usr/bin/" + s.Worker.Python},
		{name: dbtDir + "/lib/", mode: 0o755}}, entries...)
	return s.layer(entries)
}

func (s *source) treeLayer(dir, below string, skip func(name string) bool) (v1.Layer, error) {
	entries, err := s.treeEntries(dir, below, skip)
	if err != nil {
		return nil, err
	}
	return s.layer(entries)
}

// treeEntries returns the files below a directory, in order, as files of root that nobody else may change. They keep
// their times, because compiled files of Python name them.
func (s *source) treeEntries(dir, below string, skip func(name string) bool) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); skip(name) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{name: strings.TrimPrefix(below+"/"+name, "/"), mode: int64(info.Mode().Perm() &^ 0o022),
			time: info.ModTime().Truncate(1e9)}
		switch {
		case d.IsDir():
			e.name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			if e.link, err = os.Readlink(path); err != nil {
				return err
			}
		case d.Type().IsRegular():
			e.file = path
		default:
			return nil // no device and no socket belongs into an image
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}
