package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// runsc is the command line of gVisor. It runs an OCI bundle, because `runsc do` would show the whole file system of
// the host.
type runsc struct{}

func (runsc) signal(name, signal string) []string { return append(runscFlags(), "kill", name, signal) }

func runscFlags() []string {
	flags := []string{"--network=none"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--rootless", "--ignore-cgroups")
	}
	return flags
}

// The parts of an OCI configuration that a step needs.
type (
	ociConfig struct {
		Version string     `json:"ociVersion"`
		Root    ociRoot    `json:"root"`
		Process ociProcess `json:"process"`
		Mounts  []ociMount `json:"mounts"`
		Linux   ociLinux   `json:"linux"`
	}
	ociRoot struct {
		Path     string `json:"path"`
		ReadOnly bool   `json:"readonly"`
	}
	ociProcess struct {
		User         map[string]int      `json:"user"`
		Args         []string            `json:"args"`
		Env          []string            `json:"env"`
		Dir          string              `json:"cwd"`
		Capabilities map[string][]string `json:"capabilities"`
		Limits       []ociLimit          `json:"rlimits"`
		NoNew        bool                `json:"noNewPrivileges"`
	}
	ociLimit struct {
		Type string `json:"type"`
		Hard int64  `json:"hard"`
		Soft int64  `json:"soft"`
	}
	ociMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	ociLinux struct {
		Namespaces []map[string]string       `json:"namespaces"`
		Resources  map[string]map[string]any `json:"resources,omitempty"`
	}
)

// prepare writes a bundle that only this user can read. argv[0] is the path of the program.
func (runsc) prepare(name string, p Program, c Config) (prepared, error) {
	dir, err := os.MkdirTemp("", "dvt-bundle-")
	if err != nil {
		return prepared{}, fmt.Errorf("sandbox: bundle: %w", err)
	}
	clean := func() { _ = os.RemoveAll(dir) }
	text, err := json.Marshal(bundle(p, c))
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "rootfs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		clean()
		return prepared{}, fmt.Errorf("sandbox: bundle: %w", err)
	}
	return prepared{args: append(runscFlags(), "run", "--bundle", dir, name), clean: clean}, nil
}

func bundle(p Program, c Config) ociConfig {
	bind := func(path, mode string) ociMount {
		return ociMount{Destination: path, Type: "bind", Source: path, Options: []string{"rbind", mode, "nosuid", "nodev"}}
	}
	o := ociConfig{
		Version: "1.0.2", Root: ociRoot{Path: "rootfs", ReadOnly: true},
		Process: ociProcess{
			User: map[string]int{"uid": os.Geteuid(), "gid": os.Getegid()}, Args: slices.Concat([]string{p.Path}, p.Argv[1:]),
			Env: p.Env, Dir: p.Dir,
			Capabilities: map[string][]string{"bounding": {}, "effective": {}, "inheritable": {}, "permitted": {},
				"ambient": {}}, NoNew: true,
			Limits: []ociLimit{{"RLIMIT_CORE", 0, 0}, {"RLIMIT_FSIZE", p.Limits.Disk, p.Limits.Disk}},
		},
		Mounts: []ociMount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev",
				fmt.Sprintf("size=%d", min(p.Limits.Disk, p.Limits.Memory))}},
		},
		Linux: ociLinux{Resources: map[string]map[string]any{
			"memory": {"limit": p.Limits.Memory, "swap": p.Limits.Memory},
			"cpu":    {"quota": int64(p.Limits.CPU * 100_000), "period": 100_000},
			"pids":   {"limit": p.Limits.PIDs},
		}},
	}
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount"} {
		o.Linux.Namespaces = append(o.Linux.Namespaces, map[string]string{"type": kind})
	}
	read := slices.DeleteFunc(slices.Concat(c.Read, p.Read), func(path string) bool { return !hasFile(path) })
	for _, m := range containerMounts(read, p.Write, c.DeniedPaths) {
		switch {
		case m.hidden && m.dir:
			o.Mounts = append(o.Mounts, ociMount{Destination: m.path, Type: "tmpfs", Source: "tmpfs",
				Options: []string{"ro", "size=4k"}})
		case m.hidden:
			o.Mounts = append(o.Mounts, ociMount{Destination: m.path, Type: "bind", Source: os.DevNull,
				Options: []string{"bind", "ro"}})
		case !m.writable:
			o.Mounts = append(o.Mounts, bind(m.path, "ro"))
		default:
			o.Mounts = append(o.Mounts, bind(m.path, "rw"))
		}
	}
	return o
}
