package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

const (
	cpuPeriod = 100_000 // microseconds
	// shimThreads is added to the limit of processes, because the shim of a sandbox has its own threads.
	shimThreads = 16
	// cgroupLeaf is the child of a delegated cgroup of version 2 into which a worker moves itself. In version 2 only
	// leaves may hold processes.
	cgroupLeaf = "dvt-worker"
	// cgroupRemoval bounds the attempts to remove a directory: the kernel needs a moment after the last process.
	cgroupRemoval = 5 * time.Second
)

// cgroups creates a child cgroup for each program, in one hierarchy of version 2 or in one per controller of version 1.
type cgroups struct {
	prefix string // of the names of children
	parent map[plan.SandboxPart]string
	v2     bool
	count  atomic.Int64
	reason map[plan.SandboxPart]string // why a part is missing
}

// controllers maps the parts that cgroups enforce to the kernel's names of their controllers.
func controllers() map[plan.SandboxPart]string {
	return map[plan.SandboxPart]string{plan.SandboxMemory: "memory", plan.SandboxCPU: "cpu", plan.SandboxPIDs: "pids"}
}

// findCgroups finds the cgroups in which this process may create children. It removes the children of workers of the
// same name that died.
func findCgroups(worker string) *cgroups {
	c := &cgroups{
		parent: map[plan.SandboxPart]string{}, reason: map[plan.SandboxPart]string{}, prefix: fmt.Sprintf("dvt-sandbox-%s-",
			worker),
	}
	mounts, own := cgroupMounts(), ownCgroups()
	if at, ok := mounts[""]; ok {
		c.useV2(filepath.Join(at, own[""]))
	}
	for part, controller := range controllers() {
		if c.reason[part] == "" {
			c.reason[part] = "no cgroup with this controller is delegated to the worker: use systemd's Delegate=yes, or a " +
				"container with a writable cgroup"
		}
		at, mounted := mounts[controller]
		if _, done := c.parent[part]; done || !mounted {
			continue
		}
		dir := filepath.Join(at, own[controller])
		probe := filepath.Join(dir, fmt.Sprintf("%s%d-probe", c.prefix, os.Getpid()))
		if err := os.Mkdir(probe, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			c.reason[part] = fmt.Sprintf(
				"the cgroup %s cannot be written: delegate it to the worker (systemd: Delegate=yes) or run the worker as root", dir)
			continue
		}
		if !hasFile(filepath.Join(probe, limitFile(part, false))) {
			c.reason[part] = fmt.Sprintf("the cgroup controller %s has no limits in this kernel", controller)
		} else {
			c.parent[part] = dir
		}
		_ = os.Remove(probe)
	}
	c.removeLeftovers()
	return c
}

// useV2 enables the controllers for children of a cgroup of version 2.
func (c *cgroups) useV2(dir string) {
	if filepath.Base(dir) == cgroupLeaf {
		dir = filepath.Dir(dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	available := " " + strings.TrimSpace(string(text)) + " "
	for part, controller := range controllers() {
		if !strings.Contains(available, " "+controller+" ") {
			continue
		}
		err := enableController(dir, controller)
		if errors.Is(err, unix.EBUSY) && moveToLeaf(dir) == nil {
			err = enableController(dir, controller)
		}
		if err != nil {
			c.reason[part] = fmt.Sprintf("the cgroup %s is not delegated to the worker: use systemd's Delegate=yes (%s)", dir,
				errnoText(err))
			continue
		}
		c.parent[part], c.v2 = dir, true
	}
}

func enableController(dir, controller string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
}

func moveToLeaf(dir string) error {
	leaf := filepath.Join(dir, cgroupLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(text)) {
		if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0); err != nil &&
			!errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// cgroupMounts returns where each hierarchy is mounted, by controller; "" is version 2.
func cgroupMounts() map[string]string {
	found := map[string]string{}
	eachLine("/proc/self/mountinfo", func(line string) {
		left, right, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			return
		}
		switch kind[0] {
		case "cgroup2":
			found[""] = fields[4]
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				found[option] = fields[4]
			}
		}
	})
	return found
}

// ownCgroups returns the path of this process in each hierarchy, by controller; "" is version 2.
func ownCgroups() map[string]string {
	own := map[string]string{}
	eachLine("/proc/self/cgroup", func(line string) {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				own[controller] = parts[2]
			}
		}
	})
	return own
}

func eachLine(name string, f func(string)) {
	file, err := os.Open(name)
	if err != nil {
		return
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f(lines.Text())
	}
}

func limitFile(part plan.SandboxPart, v2 bool) string {
	switch {
	case part == plan.SandboxPIDs:
		return "pids.max"
	case part == plan.SandboxMemory && v2:
		return "memory.max"
	case part == plan.SandboxMemory:
		return "memory.limit_in_bytes"
	case v2:
		return "cpu.max"
	}
	return "cpu.cfs_quota_us"
}

// group is the cgroup of one program.
type group struct {
	dirs map[plan.SandboxPart]string // several parts may share one
	v2   bool
}

// create creates a cgroup with limits. Without any controller it returns an empty group.
func (c *cgroups) create(l Limits) (*group, error) {
	g := &group{dirs: map[plan.SandboxPart]string{}, v2: c.v2}
	name := fmt.Sprintf("%s%d-%d", c.prefix, os.Getpid(), c.count.Add(1))
	for part, parent := range c.parent {
		g.dirs[part] = filepath.Join(parent, name)
		if err := os.Mkdir(g.dirs[part], 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			g.remove()
			return nil, fmt.Errorf("sandbox: cgroup: %w", err)
		}
	}
	if err := g.limit(l); err != nil {
		g.remove()
		return nil, fmt.Errorf("sandbox: cgroup: %w", err)
	}
	return g, nil
}

func (g *group) limit(l Limits) error {
	quota := max(int64(l.CPU*cpuPeriod), 1000)
	write := func(part plan.SandboxPart, file, value string) error {
		dir, ok := g.dirs[part]
		if !ok {
			return nil
		}
		return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
	}
	cpu := strconv.FormatInt(quota, 10)
	if g.v2 {
		cpu = fmt.Sprintf("%d %d", quota, cpuPeriod)
	}
	err := errors.Join(write(plan.SandboxCPU, limitFile(plan.SandboxCPU, g.v2), cpu),
		write(plan.SandboxPIDs, "pids.max", strconv.Itoa(l.PIDs+shimThreads)))
	memory, file := strconv.FormatInt(l.Memory, 10), limitFile(plan.SandboxMemory, g.v2)
	bounded := write(plan.SandboxMemory, file, memory)
	// Swap may be off in the kernel; then there is nothing to bound.
	if g.v2 {
		_ = write(plan.SandboxMemory, "memory.swap.max", "0")
	} else if write(plan.SandboxMemory, "memory.memsw.limit_in_bytes", memory) == nil && bounded != nil {
		// The limit of memory may not exceed that of memory with swap, which was lower until now.
		bounded = write(plan.SandboxMemory, file, memory)
	}
	return errors.Join(err, bounded)
}

// add moves a process into the group. Its later children start in the group; earlier ones are not moved.
func (g *group) add(pid int) error {
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("sandbox: cgroup: %w", err)
		}
	}
	return nil
}

// oomKills returns how many processes the kernel ended because of the memory limit.
func (g *group) oomKills() int64 {
	file := "memory.oom_control"
	if g.v2 {
		file = "memory.events"
	}
	return g.counter(plan.SandboxMemory, file, "oom_kill")
}

// refusedForks returns how many processes or threads were refused because of the limit of processes.
func (g *group) refusedForks() int64 { return g.counter(plan.SandboxPIDs, "pids.events", "max") }

func (g *group) counter(part plan.SandboxPart, file, key string) int64 {
	var count int64
	if dir, ok := g.dirs[part]; ok {
		eachLine(filepath.Join(dir, file), func(line string) {
			if name, value, ok := strings.Cut(line, " "); ok && name == key {
				count, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			}
		})
	}
	return count
}

// remove deletes the group's directories. All of its processes must have ended.
func (g *group) remove() {
	for _, dir := range g.dirs {
		removeCgroup(dir)
	}
}

func removeCgroup(dir string) {
	for deadline := time.Now().Add(cgroupRemoval); ; {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return
		}
		<-time.After(2 * time.Millisecond)
	}
}

// childName matches a child's name after the prefix: the worker's process id and a number.
var childName = regexp.MustCompile(`^(\d+)-(?:\d+|probe)$`)

// removeLeftovers ends the programs of workers of this name that died, and removes their cgroups.
func (c *cgroups) removeLeftovers() {
	for _, parent := range c.parent {
		dirs, _ := filepath.Glob(filepath.Join(parent, c.prefix+"*"))
		for _, dir := range dirs {
			match := childName.FindStringSubmatch(strings.TrimPrefix(filepath.Base(dir), c.prefix))
			if match == nil {
				continue // the cgroup belongs to a worker whose name begins with this worker's name
			}
			pid, err := strconv.Atoi(match[1])
			if err != nil || pid == os.Getpid() || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				continue
			}
			text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for _, left := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(left); err == nil {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			go removeCgroup(dir)
		}
	}
}

func errnoText(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "unknown reason"
}
