package executor

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/sandbox"
)

// Violation is an action of a step that the sandbox refused.
type Violation struct {
	TenantID, RunID, StepID string
	sandbox.Violation
}

// program returns the program of a task with its files, connections and limits. The program runs in dir and may also
// read dirs; the caller has checked that the task may use them.
func (c Config) program(t Task, h Host, argv, env []string, dir string, dirs ...string) (p sandbox.Program, err error) {
	p = sandbox.Program{Argv: argv, Env: env}
	if p.Dir, err = filepath.EvalSymlinks(dir); err != nil {
		return p, fmt.Errorf("executor: directory: %s", reason(err))
	}
	if p.Path, err = lookUp(argv[0], env, p.Dir); err != nil {
		return p, err
	}
	tree := c.treeOf(p.Path)
	// Keep the name of the file, because Python finds its virtual environment by the name of a link.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(p.Path)); err == nil {
		p.Path = filepath.Join(parent, filepath.Base(p.Path))
	}
	asked := plan.Sandbox{}
	if t.Step.Sandbox != nil {
		asked = *t.Step.Sandbox
	}
	view := c.view(t)
	read := slices.Concat(view.grants, c.Read, toolPaths(env), tree, []string{dir}, dirs)
	for _, named := range asked.Read {
		path, err := c.resolveNamed(t, view, named, "sandbox.read")
		if err != nil {
			return p, err
		}
		read = append(read, path)
	}
	if t.secretsDir != "" {
		read = append(read, t.secretsDir)
	}
	write := append([]string{t.Workspace}, c.Write...)
	for _, named := range asked.Write {
		path, err := c.resolveNamed(t, view, named, "sandbox.write")
		if err != nil {
			return p, err
		}
		write = append(write, path)
	}
	p.Read, p.Write = resolveAll(read), resolveAll(write)
	p.Limits = sandbox.Limits(plan.SandboxLimits(c.limits(asked, h)).Within(t.SandboxCeiling))
	p.Connect, p.Require = asked.Connect, asked.Require
	var refusals refusals
	p.Judge = func(address netip.AddrPort) error {
		err := c.judge(t.Identity.TenantID, address)
		refusals.note(address, err)
		return err
	}
	p.Violation = func(v sandbox.Violation) {
		v.Action += refusals.reason(v)
		h.Print("dvt", "sandbox ("+string(v.Part)+"): "+v.Action)
		if c.Violation != nil && !v.Notice {
			c.Violation(Violation{TenantID: t.Identity.TenantID, RunID: t.Identity.RunID, StepID: t.Step.StepID, Violation: v})
		}
	}
	return p, nil
}

// refusals remembers the reasons for which the judge refused addresses, for the step's log.
type refusals struct {
	mu  sync.Mutex
	why map[string]error
}

func (r *refusals) note(address netip.AddrPort, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || len(r.why) >= sandbox.MaxViolations {
		return
	}
	if r.why == nil {
		r.why = map[string]error{}
	}
	r.why[address.String()] = err
}

// reason returns ": " and the reason for a connection that the judge refused, or "".
func (r *refusals) reason(v sandbox.Violation) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, word := range strings.Fields(v.Action) {
		if err := r.why[word]; err != nil && v.Part == plan.SandboxConnect {
			return ": " + err.Error()
		}
	}
	return ""
}

// resolveAll resolves the links in paths. It omits duplicates, the root, and paths that do not exist.
func resolveAll(paths []string) (out []string) {
	for _, path := range paths {
		to, err := filepath.EvalSymlinks(path)
		if err != nil || !filepath.IsAbs(to) || to == "/" || slices.Contains(out, to) {
			continue
		}
		out = append(out, to)
	}
	return out
}

// errOwnAddress reports an address of the installation itself. It does not name the part that listens there.
var errOwnAddress = errors.New(
	"it belongs to dvt itself (Temporal, the API, the store, Redis or metrics), which no step may reach")

// judge returns an error for an address that a program of a tenant may not reach.
func (c Config) judge(tenant string, address netip.AddrPort) error {
	if c.Own != nil && c.Own(address) {
		return errOwnAddress
	}
	if err := c.Egress.Judge(tenant, address.Addr()); err != nil {
		return fmt.Errorf("%w: the setting `egress` of the worker must allow it for the tenant %q", err, tenant)
	}
	return nil
}

// limits returns the limits of the step, or the worker's defaults where the step sets none, at most MaxLimits.
func (c Config) limits(asked plan.Sandbox, h Host) sandbox.Limits {
	l := sandbox.Limits{
		Memory: capLimit(h, "sandbox.memory", asked.Memory, c.Limits.Memory, c.MaxLimits.Memory, formatBytes),
		CPU: capLimit(h, "sandbox.cpu", asked.CPU, c.Limits.CPU, c.MaxLimits.CPU,
			func(n float64) string { return fmt.Sprint(n) }),
		PIDs: capLimit(h, "sandbox.pids", asked.PIDs, c.Limits.PIDs, c.MaxLimits.PIDs, strconv.Itoa),
		Disk: capLimit(h, "sandbox.disk", asked.Disk, c.Limits.Disk, c.MaxLimits.Disk, formatBytes),
	}
	return l
}

// capLimit returns the requested limit, or normal if it is 0, at most most. It prints a line when it lowers the limit.
func capLimit[T int | int64 | float64](h Host, field string, asked, normal, most T, format func(T) string) T {
	if asked == 0 {
		asked = normal
	}
	if most == 0 || asked <= most {
		return asked
	}
	h.Print("dvt", fmt.Sprintf("%s: the step asks for %s; this worker gives at most %s (sandbox-max)", field,
		format(asked), format(most)))
	return most
}

// formatBytes returns a size in the form of the settings.
func formatBytes(n int64) string {
	const units = "KMGT"
	if n < 1<<10 || n%(1<<10) != 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	unit := -1
	for n%(1<<10) == 0 && unit < len(units)-1 {
		n >>= 10
		unit++
	}
	return fmt.Sprintf("%d%ci", n, units[unit])
}

// boundFailure returns the failure of a program that a limit ended, or nil.
func boundFailure(exit sandbox.Exit, l sandbox.Limits, name string) *Failure {
	if exit.Status == 0 {
		return nil
	}
	orDefault := func(bound string) string {
		if bound == "" {
			return "the limit of this worker"
		}
		return bound
	}
	size := func(n int64) string {
		if n == 0 {
			return ""
		}
		return formatBytes(n)
	}
	switch exit.Cause {
	case sandbox.CauseMemory:
		return &Failure{Code: string(run.CodeStepOOM), Retryable: true, Category: run.CategorySystem, Message: fmt.Sprintf(
			"%s used all of its memory (%s) and was ended by the kernel; raise `sandbox.memory` of the step, or "+
				"`sandbox-memory` and `sandbox-max` of the worker", name, orDefault(size(l.Memory)))}
	case sandbox.CausePIDs:
		pids := ""
		if l.PIDs > 0 {
			pids = fmt.Sprintf("%d processes and threads at once", l.PIDs)
		}
		return &Failure{Code: string(run.CodeStepProcessLimit), Category: run.CategoryUser, Message: fmt.Sprintf(
			"%s could not start a process: it reached its limit (%s); raise `sandbox.pids` of the step, or "+
				"`sandbox-pids` and `sandbox-max` of the worker", name, orDefault(pids))}
	case sandbox.CauseDisk:
		return &Failure{Code: string(run.CodeStepDiskLimit), Category: run.CategoryUser, Message: fmt.Sprintf(
			"%s wrote a file larger than its limit (%s); raise `sandbox.disk` of the step, or `sandbox-disk` and "+
				"`sandbox-max` of the worker", name, orDefault(size(l.Disk)))}
	}
	return nil
}

// view decides which paths a plan may name. The longest grant or hidden path above a path decides, because a worker's
// data may be below its project root, and a run's workspace is below that data.
type view struct {
	grants []string // resolved
	hidden []string // resolved
	all    bool     // whether paths below none of them are allowed
}

func (c Config) view(t Task) view {
	return view{
		all:    c.AllowAnyDir,
		grants: resolveAll(slices.Concat([]string{t.ProjectRoot, t.Workspace}, c.AllowedRoots, c.Write)),
		hidden: resolveAll(c.Hidden),
	}
}

// allows reports whether a step may name a resolved path.
func (v view) allows(path string) bool {
	longest, allowed := -1, v.all
	for _, g := range v.grants {
		if below(path, g) && len(g) >= longest { // a grant wins over an equal hidden path
			longest, allowed = len(g), true
		}
	}
	for _, h := range v.hidden {
		if below(path, h) && len(h) > longest {
			longest, allowed = len(h), false
		}
	}
	return allowed
}

// below reports whether path is dir or is below it. Both are clean and absolute.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// resolveNamed resolves a path that a step's sandbox names. The error is a *Failure when the path does not exist or the
// step may not use it.
func (c Config) resolveNamed(t Task, v view, named, field string) (string, error) {
	path := named
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.ProjectRoot, path)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", &Failure{Code: CodeDirNotFound, Retryable: true, Category: run.CategoryUser,
			Message: fmt.Sprintf("%s: %q does not exist, or the worker cannot open it", field, named)}
	}
	if v.allows(resolved) || field == "sandbox.read" && slices.ContainsFunc(c.Read, func(root string) bool {
		root, err := filepath.EvalSymlinks(root)
		return err == nil && below(resolved, root)
	}) {
		return resolved, nil
	}
	return "", &Failure{Code: CodeDirNotAllowed, Category: run.CategoryUser, Class: plan.ClassPolicyDeny,
		Message: fmt.Sprintf(
			"%s: %q is outside the run's workspace, the project root and the directories that the worker allows (sandbox-roots)",
			field, named)}
}

// ownPath lists the directories of the worker's PATH.
func ownPath() []string {
	path, _ := os.LookupEnv("PATH")
	return filepath.SplitList(path)
}

// toolPaths returns the directories of a program's PATH that are also in the worker's PATH, because its operator chose
// those.
func toolPaths(env []string) (dirs []string) {
	own := ownPath()
	for _, kv := range env {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if filepath.IsAbs(dir) && filepath.Clean(dir) != "/" && slices.Contains(own, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// treeOf returns the files that a program of the worker needs: the file itself, its Python environment, and the
// interpreter's installation. It returns nothing for a program that is neither DBTPath nor in the worker's PATH.
func (c Config) treeOf(program string) (paths []string) {
	trusted := program == c.DBTPath || slices.Contains(ownPath(), filepath.Dir(program))
	if !trusted {
		return nil
	}
	for _, file := range []string{program, interpreter(program)} {
		resolved, err := filepath.EvalSymlinks(file)
		if file == "" || err != nil {
			continue
		}
		paths = append(paths, file, resolved)
		for _, f := range []string{file, resolved} {
			paths = append(paths, pythonTree(f)...)
		}
	}
	return paths
}

// interpreter returns the absolute path in the first line of a script, or "".
func interpreter(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _, err := bufio.NewReaderSize(f, 4096).ReadLine()
	words := strings.Fields(strings.TrimPrefix(string(line), "#!"))
	if err != nil || !strings.HasPrefix(string(line), "#!") || len(words) == 0 || !filepath.IsAbs(words[0]) {
		return ""
	}
	return words[0]
}

// pythonTree returns the virtual environment of PREFIX/bin/FILE and its base installation, or PREFIX when that is an
// installation of Python itself.
func pythonTree(file string) (paths []string) {
	bin := filepath.Dir(file)
	prefix := filepath.Dir(bin)
	if filepath.Base(bin) != "bin" || prefix == "/" || prefix == "/usr" {
		return nil
	}
	config, err := os.ReadFile(filepath.Join(prefix, "pyvenv.cfg"))
	if err != nil {
		if found, _ := filepath.Glob(filepath.Join(prefix, "lib", "python3*")); strings.HasPrefix(filepath.Base(file),
			"python") && len(found) > 0 {
			return []string{prefix}
		}
		return nil
	}
	paths = append(paths, prefix)
	for line := range strings.Lines(string(config)) {
		key, value, _ := strings.Cut(line, "=")
		if home := strings.TrimSpace(value); strings.TrimSpace(key) == "home" && filepath.Base(home) == "bin" &&
			filepath.Dir(home) != "/" {
			paths = append(paths, filepath.Dir(home))
			if resolved, err := filepath.EvalSymlinks(filepath.Join(home, "python3")); err == nil &&
				filepath.Base(filepath.Dir(resolved)) == "bin" {
				paths = append(paths, filepath.Dir(filepath.Dir(resolved)))
			}
		}
	}
	return paths
}
