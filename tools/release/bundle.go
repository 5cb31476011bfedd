package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// makeBundle unpacks the image of this machine's platform from a layout into a bundle for runc: the files of the image
// in rootfs, and a config.json with the restrictions that an installation should have. The root is read-only, there is
// no capability, and the profile of seccomp is the default of engines. The container shares the network of the machine.
func makeBundle(layoutDir, dir string) error {
	img, err := imageFor(layoutDir, platform{"linux", runtime.GOARCH})
	if err != nil {
		return err
	}
	rootfs := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		return err
	}
	content := mutate.Extract(img)
	err = errors.Join(unpack(content, rootfs), content.Close())
	if err != nil {
		return fmt.Errorf("unpack the image: %w", err)
	}
	spec, err := runtimeSpec(img)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), append(text, '\n'), 0o644)
}

// imageFor returns the image of a platform in a layout that this program wrote.
func imageFor(dir string, p platform) (v1.Image, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := outer.IndexManifest()
	if err != nil || len(m.Manifests) != 1 {
		return nil, fmt.Errorf("%s has no index with one image: %w", dir, err)
	}
	index, err := outer.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	if m, err = index.IndexManifest(); err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		if d.Platform != nil && d.Platform.OS == p.os && d.Platform.Architecture == p.arch {
			return index.Image(d.Digest)
		}
	}
	return nil, fmt.Errorf("%s has no image for %s", dir, p)
}

// unpack writes the files of a layer below a directory that did not exist before. It refuses names and links that lead
// out of the directory.
func unpack(content io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, strings.Trim(h.Name, "/"), h, r); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	if name == "" || name == "." {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(strings.Trim(h.Linkname, "/"), name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the type %q is none of an image of dvt", h.Typeflag)
	}
	if err := root.Lchown(name, h.Uid, h.Gid); err != nil && os.Getuid() == 0 {
		return err
	}
	if err := root.Chtimes(name, h.ModTime, h.ModTime); err != nil {
		return err
	}
	return root.Chmod(name, h.FileInfo().Mode())
}

// runtimeSpec returns the configuration of a container of an image.
func runtimeSpec(img v1.Image) (*specs.Spec, error) {
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	user, group, _ := strings.Cut(c.Config.User, ":")
	uid, err := strconv.ParseUint(user, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user of the image is %q: want a number", c.Config.User)
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the group of the image is %q: want a number", c.Config.User)
	}
	private := func(kind, to, from string, options ...string) specs.Mount {
		return specs.Mount{Destination: to, Type: kind, Source: from, Options: append(options, "nosuid", "noexec", "nodev")}
	}
	owned := fmt.Sprintf("uid=%d", uid)
	s := &specs.Spec{
		Version: specs.Version,
		Process: &specs.Process{User: specs.User{UID: uint32(uid), GID: uint32(gid)}, Args: c.Config.Entrypoint,
			Env: c.Config.Env, Cwd: c.Config.WorkingDir, NoNewPrivileges: true, Capabilities: &specs.LinuxCapabilities{}},
		Root: &specs.Root{Path: "rootfs", Readonly: true},
		Mounts: []specs.Mount{
			private("proc", "/proc", "proc"),
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=64k"}},
			private("mqueue", "/dev/mqueue", "mqueue"),
			private("tmpfs", "/dev/shm", "shm", "mode=1777", "size=64m"),
			private("tmpfs", "/tmp", "tmpfs", "mode=1777", "size=1g"),
			private("tmpfs", c.Config.WorkingDir, "tmpfs", "mode=0750", owned, "size=1g"),
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}},
			MaskedPaths: []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/scsi", "/proc/sched_debug", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	s.Linux.Seccomp, err = defaultSeccomp(s)
	return s, err
}
