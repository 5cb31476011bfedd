package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

const probeTimeout = 20 * time.Second

// probe finds the best level at which a program starts, sets it, and returns the parts that are missing there.
func (r *processRuntime) probe() map[plan.SandboxPart]string {
	missing := map[plan.SandboxPart]string{}
	r.seccomp = true
	levels := []level{{User: true, Space: true}}
	if os.Geteuid() == 0 {
		levels = append(levels, level{Space: true})
	}
	var reason string
	for _, l := range levels {
		err := r.try(l)
		if err == nil {
			r.level = l
			break
		}
		if reason == "" {
			reason = spaceAdvice(err)
		}
	}
	if !r.level.Space {
		for _, part := range []plan.SandboxPart{plan.SandboxNetwork, plan.SandboxProcesses} {
			missing[part] = reason
		}
		if err := r.try(level{}); err != nil {
			r.seccomp = false
			missing[plan.SandboxSyscalls] = "seccomp with user notification was refused; use Linux 5.9 or later and permit " +
				"the call seccomp (" + errnoText(err) + ")"
			missing[plan.SandboxConnect] = missing[plan.SandboxSyscalls]
		}
	}
	if _, err := workersNetwork(); err != nil {
		missing[plan.SandboxConnect] = "the kernel does not tell the network of a socket; use Linux 5.14 or later (" +
			errnoText(err) + ")"
	}
	switch {
	case !r.level.Space && r.landlock == 0:
		missing[plan.SandboxFiles] = "neither mount namespaces nor Landlock are available; use Linux 5.13 or later with " +
			"landlock in the boot parameter lsm=; " + reason
	case !r.level.Space:
		missing[plan.SandboxFiles] = "Landlock alone closes files, without a mount namespace their names stay visible; " +
			reason
	}
	return missing
}

// try starts a program in a new shim at this level and ends it. It returns nil when the sandbox was applied.
func (r *processRuntime) try(l level) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	fresh := func(context.Context) (*shimProcess, error) { return r.newShim(l) }
	q, err := r.start(ctx, Program{
		Path: "/proc/self/exe", Argv: []string{shimName + "-absent"}, Dir: "/", Stdout: null, Stderr: null,
		Limits:  r.config.Limits,
		Connect: []string{},
	}, fresh)
	if err != nil {
		// The execution itself may be refused, because the sandbox is complete before it.
		if errors.Is(err, ErrProgram) {
			return nil
		}
		return err
	}
	q.Kill()
	_, _ = q.Wait()
	return nil
}

// spaceAdvice returns the reason for missing namespaces and a way to permit them.
func spaceAdvice(err error) string {
	return "user, mount, process and network namespaces are refused (" + err.Error() + "); " + NamespaceRemedy()
}

// NamespaceRemedy returns a way to permit the namespaces of the process runtime on this machine, as an order to its
// operator.
func NamespaceRemedy() string {
	switch {
	case strings.TrimSpace(readFile("/proc/sys/user/max_user_namespaces")) == "0":
		return "set user.max_user_namespaces above 0"
	case strings.TrimSpace(readFile("/proc/sys/kernel/unprivileged_userns_clone")) == "0":
		return "set kernel.unprivileged_userns_clone to 1"
	case strings.TrimSpace(readFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) == "1":
		return "set kernel.apparmor_restrict_unprivileged_userns to 0 or give the worker an AppArmor profile with userns"
	}
	return "permit clone with namespaces, mount and pivot_root in the container's seccomp profile, and an unmasked /proc"
}

func readFile(name string) string {
	text, _ := os.ReadFile(name)
	return string(text)
}

// secretFiles are files of /etc that no program of a step needs.
func secretFiles() []string {
	return []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh",
		"/etc/ssl/private",
		"/etc/krb5.keytab", "/etc/kubernetes", "/etc/docker", "/etc/security/opasswd",
	}
}

// maxHidden bounds how many files of /etc are hidden one by one.
const maxHidden = 200

// hiddenMounts returns the paths to hide in every sandbox. The program runs as the worker's user, so file modes protect
// nothing from it when the worker is root. Files of /etc that are not readable by all users are then hidden too.
func hiddenMounts(c Config) []mount {
	paths := map[string]bool{}
	for _, path := range slices.Concat(c.DeniedPaths, secretFiles()) {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			paths[resolved] = true
		}
	}
	if os.Geteuid() == 0 {
		_ = filepath.WalkDir("/etc", func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return fs.SkipDir
			}
			info, err := e.Info()
			if err != nil || info.Mode()&os.ModeSymlink != 0 || info.Mode()&0o004 != 0 {
				return nil //nolint:nilerr // A file that no longer exists needs no cover.
			}
			if dir := filepath.Dir(path); len(paths) >= maxHidden && dir != "/etc" {
				paths[dir] = true // hide the whole directory to stay near the bound
				return fs.SkipDir
			}
			paths[path] = true
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
	}
	var hidden []mount
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		hidden = append(hidden, mount{Path: path, Kind: mountHide})
	}
	return hidden
}
