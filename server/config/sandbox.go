package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// SandboxSettings contains the settings of the sandbox for the programs of steps.
type SandboxSettings struct {
	SandboxRuntime string   `koanf:"sandbox-runtime"` // process, docker, gvisor or none
	SandboxImage   string   `koanf:"sandbox-image"`   // container image of the runtime docker
	SandboxMemory  string   `koanf:"sandbox-memory"`  // default of a step, such as 2Gi
	SandboxCPU     float64  `koanf:"sandbox-cpu"`     // cores
	SandboxPIDs    int      `koanf:"sandbox-pids"`    // concurrent processes and threads
	SandboxDisk    string   `koanf:"sandbox-disk"`    // size of one written file
	SandboxMax     []string `koanf:"sandbox-max"`     // maxima for a step: memory=8Gi, cpu=4, pids=256, disk=20Gi
	SandboxRead    []string `koanf:"sandbox-read"`    // files and directories that every step may read
	SandboxWrite   []string `koanf:"sandbox-write"`   // directories that every step may read and change
	SandboxRoots   []string `koanf:"sandbox-roots"`   // directories that steps may name in addition to the project root
	// SandboxAllowMissing names parts of the sandbox that the machine need not enforce for the worker to start.
	SandboxAllowMissing []string `koanf:"sandbox-allow-missing"`
}

// RuntimeNone is the value of sandbox-runtime without isolation.
const RuntimeNone = "none"

// sandboxRuntimes are the values of sandbox-runtime.
var sandboxRuntimes = []string{ //nolint:gochecknoglobals // a constant
	sandbox.RuntimeProcess, sandbox.RuntimeDocker, sandbox.RuntimeGVisor, RuntimeNone,
}

// helpOfSandboxing is the help text of the settings that are also flags of commands.
var sandboxHelp = map[string]string{ //nolint:gochecknoglobals // a table
	"sandbox-runtime":       "process, docker, gvisor, or none: programs of steps then run with all rights of the worker",
	"sandbox-image":         "container image that the runtime docker starts programs in",
	"sandbox-memory":        "default memory of a step, such as 2Gi",
	"sandbox-cpu":           "default processor time of a step, in cores",
	"sandbox-pids":          "default number of processes and threads of a step",
	"sandbox-disk":          "default maximum size of one file that a step writes, such as 10Gi",
	"sandbox-max":           "maximum for a step: memory=8Gi,cpu=4,pids=256,disk=20Gi",
	"sandbox-read":          "files and directories that every step may read",
	"sandbox-write":         "directories that every step may read and change",
	"sandbox-roots":         "directories that plans may name beside the project root, to work in, read or change",
	"sandbox-allow-missing": "parts of the sandbox that this worker may lack: files, network, connect, processes, syscalls",
}

// RequiredParts are the parts that a data worker needs to start, unless sandbox-allow-missing names them.
var RequiredParts = []plan.SandboxPart{ //nolint:gochecknoglobals // a constant
	plan.SandboxFiles, plan.SandboxNetwork, plan.SandboxConnect, plan.SandboxProcesses, plan.SandboxSyscalls,
}

// Allowed range of the limits in the settings. It equals the range in plans, except that the minimum of processes is
// higher: a default below it could not even start a shell.
var (
	leastLimits = sandbox.Limits{ //nolint:gochecknoglobals // constants
		Memory: plan.MinSandboxMemory, CPU: plan.MinSandboxCPU, PIDs: 8, Disk: plan.MinSandboxDisk,
	}
	mostLimits = sandbox.Limits{ //nolint:gochecknoglobals // constants
		Memory: plan.MaxSandboxMemory, CPU: plan.MaxSandboxCPU, PIDs: plan.MaxSandboxPIDs, Disk: plan.MaxSandboxDisk,
	}
)

func sandboxDefaults() map[string]any {
	return map[string]any{
		"sandbox-runtime": sandbox.RuntimeProcess, "sandbox-memory": "2Gi", "sandbox-cpu": 2.0, "sandbox-pids": 256,
		"sandbox-disk": "10Gi",
		"sandbox-max":  []string{"memory=8Gi", "cpu=4", "pids=256", "disk=20Gi"},
	}
}

// verifySandbox returns all errors in these settings. It also cleans their paths.
func (c *Config) verifySandbox() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(sandboxRuntimes, c.SandboxRuntime) {
		bad("sandbox-runtime: %q is not one of %s", c.SandboxRuntime, strings.Join(sandboxRuntimes, ", "))
	}
	if c.SandboxRuntime == sandbox.RuntimeDocker && c.SandboxImage == "" {
		bad("sandbox-image is missing: name the image that sandbox-runtime docker starts programs in")
	}
	normal, most, err := c.StepLimits()
	if err != nil {
		errs = append(errs, err)
	} else if normal.Memory > most.Memory || normal.CPU > most.CPU || normal.PIDs > most.PIDs || normal.Disk > most.Disk {
		bad("sandbox-max: the maximum for a step is below the default for a step: raise it, or lower " +
			"sandbox-memory, sandbox-cpu, sandbox-pids or sandbox-disk")
	}
	for setting, paths := range map[string][]string{
		"sandbox-read": c.SandboxRead, "sandbox-write": c.SandboxWrite, "sandbox-roots": c.SandboxRoots,
	} {
		for i, path := range paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
				bad("%s: %q must be an absolute path, and not /", setting, path)
			}
			paths[i] = filepath.Clean(path)
		}
	}
	for _, part := range c.SandboxAllowMissing {
		if !slices.Contains(plan.SandboxParts(), plan.SandboxPart(part)) {
			bad("sandbox-allow-missing: %q is not one of %s", part, JoinWords(plan.SandboxParts()))
		}
	}
	return errs
}

// JoinWords returns the words with a comma and a space between them, for messages.
func JoinWords[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// StepLimits returns the default limits of a step and the maxima for every step.
func (c *Config) StepLimits() (normal, most sandbox.Limits, err error) {
	var errs []error
	set := func(setting string, l *sandbox.Limits, field, value string) {
		if err := setLimit(l, field, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", setting, err))
		}
	}
	set("sandbox-memory", &normal, "memory", c.SandboxMemory)
	set("sandbox-cpu", &normal, "cpu", strconv.FormatFloat(c.SandboxCPU, 'g', -1, 64))
	set("sandbox-pids", &normal, "pids", strconv.Itoa(c.SandboxPIDs))
	set("sandbox-disk", &normal, "disk", c.SandboxDisk)
	most = mostLimits
	seen := map[string]bool{}
	for _, entry := range c.SandboxMax {
		field, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if seen[field] {
			errs = append(errs, fmt.Errorf("sandbox-max: %s is given twice", field))
		}
		seen[field] = true
		set("sandbox-max", &most, field, value)
	}
	return normal, most, errors.Join(errs...)
}

func setLimit(l *sandbox.Limits, field, value string) (err error) {
	size := func(to *int64, least, most int64) {
		n, wrong := parseSize(value)
		if *to = n; wrong != nil || n < least || n > most {
			err = fmt.Errorf("%s must be a size from %dMi to %dTi, such as 512Mi or 2Gi, not %q", field, least>>20, most>>40,
				value)
		}
	}
	switch field {
	case "memory":
		size(&l.Memory, leastLimits.Memory, mostLimits.Memory)
	case "disk":
		size(&l.Disk, leastLimits.Disk, mostLimits.Disk)
	case "cpu":
		n, wrong := strconv.ParseFloat(value, 64)
		if l.CPU = n; wrong != nil || !(n >= leastLimits.CPU && n <= mostLimits.CPU) {
			err = fmt.Errorf("cpu must be a number of cores from %v to %v, not %q", leastLimits.CPU, mostLimits.CPU, value)
		}
	case "pids":
		n, wrong := strconv.Atoi(value)
		if l.PIDs = n; wrong != nil || n < leastLimits.PIDs || n > mostLimits.PIDs {
			err = fmt.Errorf("pids must be a whole number from %d to %d, not %q", leastLimits.PIDs, mostLimits.PIDs, value)
		}
	default:
		err = fmt.Errorf("%q is not one of memory, cpu, pids, disk", field)
	}
	return err
}

// parseSize parses a number of bytes, optionally with the unit Ki, Mi, Gi or Ti.
func parseSize(text string) (int64, error) {
	unit := int64(1)
	for i, suffix := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = number, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	return n * unit, nil
}

// WorkspaceBytes returns the bound of the files of one run in its workspace; 0 means none.
func (c *Config) WorkspaceBytes() (int64, error) {
	n, err := parseSize(cmp.Or(c.WorkspaceMax, "0"))
	if err != nil || n != 0 && n < 1<<20 {
		return 0, fmt.Errorf("workspace-max must be a size of at least 1Mi, such as 10Gi, or 0, not %q", c.WorkspaceMax)
	}
	return n, nil
}

// HiddenFiles returns the absolute paths that the sandbox hides from programs even below the project root: the data of
// this process, the workspaces of all runs, and files of secrets.
func (c *Config) HiddenFiles() []string {
	paths := append(c.SecretFiles(), c.Data, c.Workspace, c.SettingsFile)
	if path, ok := strings.CutPrefix(c.Store, "sqlite:"); ok {
		paths = append(paths, path, path+"-wal", path+"-shm")
	}
	if rest, ok := strings.CutPrefix(c.Artifacts, "file://"); ok {
		dir, _, _ := strings.Cut(rest, "?")
		paths = append(paths, dir)
	}
	var out []string
	for _, path := range paths {
		if abs, err := filepath.Abs(path); err == nil && path != "" {
			out = append(out, abs)
		}
	}
	return out
}
