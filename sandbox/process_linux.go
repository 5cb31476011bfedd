package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

const (
	maxTmp    = 10 << 30 // bytes of /tmp, unless the limit of memory or disk is lower
	openFiles = 8192
	// startTimeout bounds the time from the start of the shim to the start of the program.
	startTimeout = 30 * time.Second
)

// processRuntime isolates programs with the features of this machine's kernel.
type processRuntime struct {
	config   Config
	caps     Capabilities
	level    level
	landlock int
	seccomp  bool
	system   []mount
	hidden   []mount
	cgroups  *cgroups

	spawns  chan func()   // run by one thread that lives as long as the runtime
	spares  chan spare    // shims that are ready for a program
	prepare sync.Once     // starts the preparation of spares
	stopped chan struct{} // closed by Close
	close   sync.Once
	ends    sync.WaitGroup // goroutines that Close waits for
}

func newProcessRuntime(c Config) (Runtime, error) {
	r := &processRuntime{
		config: c, landlock: landlockABI(), system: systemMounts(c.Read), cgroups: findCgroups(c.Worker),
		spawns: make(chan func()), spares: make(chan spare), stopped: make(chan struct{}),
	}
	r.hidden = hiddenMounts(c)
	go r.runSpawns()
	missing := r.probe()
	for part := range controllers() {
		if _, ok := r.cgroups.parent[part]; !ok {
			missing[part] = r.cgroups.reason[part] + map[plan.SandboxPart]string{
				plan.SandboxMemory: "; the bound holds for each process",
				plan.SandboxCPU:    "; the processor is not bounded",
				plan.SandboxPIDs:   "; the bound holds for all processes of the worker's user, and for root there is none",
			}[part]
		}
	}
	digest, err := fileDigest("/proc/self/exe")
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("sandbox: digest of the program of this worker: %w", err)
	}
	r.caps = capabilities(RuntimeProcess, digest, missing)
	if !r.seccomp {
		r.caps.Unreported = "without seccomp the worker does not learn of refused actions; " +
			missing[plan.SandboxSyscalls]
	}
	for part, reason := range missing {
		c.Log.Warn("the sandbox of steps lacks a part", slog.String("part", string(part)), slog.String("reason", reason))
	}
	return r, nil
}

// Capabilities implements Runtime.
func (r *processRuntime) Capabilities() Capabilities { return r.caps }

// Close implements Runtime.
func (r *processRuntime) Close() error {
	r.close.Do(func() { close(r.stopped) })
	r.ends.Wait()
	return nil
}

// Start implements Runtime.
func (r *processRuntime) Start(ctx context.Context, p Program) (Process, error) {
	if err := errors.Join(p.check(), p.checkLinks()); err != nil {
		return nil, err
	}
	if err := r.caps.require(p.Require); err != nil {
		return nil, err
	}
	p.Limits = p.Limits.or(r.config.Limits)
	r.prepare.Do(func() {
		for range spareShims {
			r.ends.Go(r.keepSpare)
		}
	})
	started, err := r.start(ctx, p, r.takeSpare)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// describe builds the description by which the shim sets up the sandbox and starts the program.
func (r *processRuntime) describe(p Program, l level) *spec {
	s := &spec{
		Level: l, UID: os.Geteuid(), GID: os.Getegid(), Landlock: r.landlock, Seccomp: r.seccomp,
		Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir, Write: p.Write, Disk: p.Limits.Disk,
		Tmp: min(maxTmp, p.Limits.Memory, p.Limits.Disk),
	}
	all := slices.Concat(r.hidden, r.system)
	for _, path := range p.Read {
		all = append(all, mount{Path: path, Kind: mountRead})
	}
	for _, path := range p.Write {
		all = append(all, mount{Path: path, Kind: mountWrite})
	}
	s.Mounts = orderMounts(all)
	s.Hidden = slices.Concat(r.config.DeniedPaths, secretFiles())
	s.Rules = r.rules(s.Mounts, l)
	s.Limits = []rlimit{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, uint64(p.Limits.Disk)}, {unix.RLIMIT_MEMLOCK, 8 << 20},
		{unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_RTPRIO, 0}, {unix.RLIMIT_SIGPENDING, 4096},
		{unix.RLIMIT_NOFILE, capToHardLimit(unix.RLIMIT_NOFILE, openFiles)},
	}
	if _, ok := r.cgroups.parent[plan.SandboxMemory]; !ok {
		s.Limits = append(s.Limits, rlimit{unix.RLIMIT_DATA, uint64(p.Limits.Memory)})
	}
	if _, ok := r.cgroups.parent[plan.SandboxPIDs]; !ok {
		s.Limits = append(s.Limits, rlimit{unix.RLIMIT_NPROC, uint64(p.Limits.PIDs + shimThreads)})
	}
	for i, l := range s.Limits {
		s.Limits[i].Value = capToHardLimit(l.Resource, l.Value)
	}
	return s
}

// capToHardLimit returns the value, or the current hard limit when that is lower, because raising it needs privileges.
func capToHardLimit(resource int, value uint64) uint64 {
	var now unix.Rlimit
	if unix.Getrlimit(resource, &now) == nil {
		return min(value, now.Max)
	}
	return value
}

// rules derives Landlock's rules from the mounts. Landlock repeats the protection of the mount namespace, and replaces
// it where the kernel refuses one.
func (r *processRuntime) rules(mounts []mount, l level) []landlockRule {
	rules := []landlockRule{{"/proc", landlockRead}, {"/dev", landlockRead}, {"/run", landlockRead}}
	if l.Space {
		// The root holds only paths of the step, so its directories may be listed.
		rules = append(rules, landlockRule{"/", unix.LANDLOCK_ACCESS_FS_READ_DIR})
		rules = append(rules, landlockRule{"/tmp", landlockWrite(r.landlock)}, landlockRule{"/dev/shm",
			landlockWrite(r.landlock)})
	}
	if !l.Space {
		// /proc may be read, because Landlock itself protects memory, environment and descriptors of other processes.
		rules = []landlockRule{{"/proc", landlockRead}}
	}
	for _, name := range deviceNames() {
		rules = append(rules, landlockRule{"/dev/" + name, landlockDevice})
	}
	for _, m := range mounts {
		switch m.Kind {
		case mountRead, mountSystem:
			rules = append(rules, landlockRule{m.Path, landlockRun})
		case mountLink:
			if !l.Space {
				rules = append(rules, landlockRule{m.Path, landlockRun})
			}
		case mountWrite:
			rules = append(rules, landlockRule{m.Path, landlockWrite(r.landlock)})
		case mountHide:
		}
	}
	return rules
}

// start starts a program in a shim from take and returns when the program runs.
func (r *processRuntime) start(ctx context.Context, p Program, take func(context.Context) (*shimProcess, error)) (
	*process, error) {
	connect, err := parseConnect(p.Connect)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		q, err := r.startOnce(ctx, p, connect, take)
		if errors.Is(err, errShimGone) && try < maxTries {
			continue // the spare shim ended while it waited, so the program has not run
		}
		return q, err
	}
}

func (r *processRuntime) startOnce(
	ctx context.Context, p Program, connect connectRules, take func(context.Context) (*shimProcess, error),
) (*process, error) {
	s, err := take(ctx)
	if err != nil {
		return nil, err
	}
	q := &process{
		shimProcess: s, program: p, resolve: r.config.Resolve, background: r.ends.Go,
		landlocked: r.landlock >= landlockConnects, exited: make(chan struct{}), violations: &violations{report: p.Violation},
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, q.Kill)
	err = s.group.limit(p.Limits)
	if err == nil {
		err = q.converse(r.describe(p, s.level), connect)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.kill()
		q.finish()
		return nil, err
	}
	go q.watch()
	return q, nil
}
