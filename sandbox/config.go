package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/plan"
)

// The names of the runtimes.
const (
	RuntimeProcess = "process" // namespaces, Landlock, seccomp, rlimits and cgroups of this machine's kernel
	RuntimeDocker  = "docker"  // a container of the docker program
	RuntimeGVisor  = "gvisor"  // runsc of gVisor
)

// The defaults of Config.Limits.
const (
	DefaultMemory = 8 << 30
	DefaultCPU    = 4.0
	DefaultPIDs   = 256
	DefaultDisk   = 20 << 30
)

// Config configures a Runtime for one worker. The zero value selects the process runtime with all defaults.
type Config struct {
	Runtime string // RuntimeProcess, RuntimeDocker or RuntimeGVisor; empty means RuntimeProcess
	Limits  Limits // for fields that a program leaves zero; zero values mean the defaults

	// Worker is part of the names of cgroups and containers: at most 64 letters, digits, dots, dashes and underscores.
	// Empty means "worker".
	Worker string
	// Read lists the files and directories of the system that every program may read and execute. nil means
	// DefaultRead.
	Read []string
	// DeniedPaths are hidden from every program, even below a path that a program may read or write. A path below a
	// denied one stays visible when a program names it explicitly.
	DeniedPaths []string
	// Resolve looks up the addresses of a name for the programs of steps; network is "ip4" or "ip6". nil means the
	// resolver of the system.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// Image is the container image of RuntimeDocker.
	Image string

	Log *slog.Logger // nil discards
}

// DefaultRead lists the system's programs, libraries and settings.
func DefaultRead() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"}
}

// New returns the runtime that the configuration names. The error names the missing program or setting and the remedy.
func New(c Config) (Runtime, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	open := newContainerRuntime
	switch c.Runtime {
	case RuntimeProcess:
		open = newProcessRuntime
	case RuntimeDocker, RuntimeGVisor:
	default:
		return nil, fmt.Errorf("sandbox: the runtime %q is unknown; use %s, %s or %s", c.Runtime, RuntimeProcess,
			RuntimeDocker, RuntimeGVisor)
	}
	r, err := open(c)
	if err != nil {
		return nil, err
	}
	if reason := r.Capabilities().Unreported; reason != "" {
		c.Log.Warn("the sandbox does not report refused actions", slog.String("reason", reason))
	}
	return r, nil
}

var workerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (c *Config) complete() error {
	if c.Runtime == "" {
		c.Runtime = RuntimeProcess
	}
	if c.Worker == "" {
		c.Worker = "worker"
	}
	if !workerName.MatchString(c.Worker) {
		return fmt.Errorf(
			"sandbox: the worker's name %q has characters besides letters, digits, dot, dash and underscore, or more than 64",
			c.Worker)
	}
	if c.Read == nil {
		c.Read = DefaultRead()
	}
	for _, path := range slices.Concat(c.Read, c.DeniedPaths) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return fmt.Errorf("sandbox: the path %q is not absolute or not in its shortest form", path)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	l := &c.Limits
	if l.Memory < 0 || l.CPU < 0 || l.PIDs < 0 || l.Disk < 0 {
		return errors.New("sandbox: a default limit is negative")
	}
	*l = l.or(Limits{Memory: DefaultMemory, CPU: DefaultCPU, PIDs: DefaultPIDs, Disk: DefaultDisk})
	return nil
}

// or returns l with each zero value replaced by the default.
func (l Limits) or(defaults Limits) Limits {
	if l.Memory == 0 {
		l.Memory = defaults.Memory
	}
	if l.CPU == 0 {
		l.CPU = defaults.CPU
	}
	if l.PIDs == 0 {
		l.PIDs = defaults.PIDs
	}
	if l.Disk == 0 {
		l.Disk = defaults.Disk
	}
	return l
}

// capabilities derives the parts in force from the missing ones.
func capabilities(runtime, digest string, missing map[plan.SandboxPart]string) Capabilities {
	c := Capabilities{Runtime: runtime, Digest: digest, Missing: missing}
	for _, part := range plan.SandboxParts() {
		if c.Has(part) {
			c.Parts = append(c.Parts, part)
		}
	}
	return c
}

// require returns *Unavailable when a required part is missing.
func (c Capabilities) require(parts []plan.SandboxPart) error {
	missing := map[plan.SandboxPart]string{}
	for _, part := range parts {
		switch reason, absent := c.Missing[part]; {
		case absent:
			missing[part] = reason
		case !slices.Contains(plan.SandboxParts(), part):
			missing[part] = "this worker does not know the part"
		}
	}
	if len(missing) > 0 {
		return &Unavailable{Missing: missing}
	}
	return nil
}

// check returns an error for a program that breaks the contract of Program.
func (p Program) check() error {
	if !filepath.IsAbs(p.Path) || len(p.Argv) == 0 || p.Stdout == nil || p.Stderr == nil {
		return errors.New("sandbox: a program needs an absolute path, arguments, stdout and stderr")
	}
	for _, path := range slices.Concat([]string{p.Dir}, p.Read, p.Write) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
			return fmt.Errorf("%w: %q is not absolute, not in its shortest form, or the root", ErrPath, path)
		}
	}
	for _, s := range slices.Concat([]string{p.Path, p.Dir}, p.Argv, p.Env) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%w: its path, arguments or environment contain a zero byte", ErrProgram)
		}
	}
	_, err := parseConnect(p.Connect)
	return err
}

// checkLinks refuses paths that lead through symbolic links: a program of an earlier step may have planted them. The
// process runtime repeats the check when it opens the mounts, because a link may appear in between.
func (p Program) checkLinks() error {
	for _, path := range slices.Concat([]string{p.Dir}, p.Read, p.Write) {
		resolved, err := filepath.EvalSymlinks(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %q does not exist", ErrPath, path)
		case err != nil:
			return fmt.Errorf("%w: %q cannot be read", ErrPath, path)
		case resolved != path:
			return fmt.Errorf("%w: %q leads through a symbolic link; name the target of the link", ErrPath, path)
		}
	}
	return nil
}

// hasFile reports whether a file exists.
func hasFile(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
