package connect

import (
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/sandbox"
	"github.com/dvt-engine/dvt/server/config"
)

var invalidNameChars = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// maxWorkerName limits the length, in bytes, of a worker's name in names of cgroups and containers.
const maxWorkerName = 48

// VerifierSuffix ends the name of a second runtime that a process opens while the first is in use.
const VerifierSuffix = "-verify"

// Sandbox opens the runtime of the setting sandbox-runtime. Runtimes that one process has open at the same time need
// different names, because opening one removes the leftovers of an earlier runtime with its name.
func Sandbox(c *config.Config, name string, normal sandbox.Limits) (sandbox.Runtime, error) {
	if c.SandboxRuntime == config.RuntimeNone {
		return executor.Plain(), nil
	}
	name, verifier := strings.CutSuffix(invalidNameChars.ReplaceAllString(name, "-"), VerifierSuffix)
	name = name[:min(len(name), maxWorkerName)]
	if verifier {
		name += VerifierSuffix
	}
	var denied []string
	for _, path := range c.HiddenFiles() {
		if to, err := filepath.EvalSymlinks(path); err == nil && to != "/" {
			denied = append(denied, to)
		}
	}
	return sandbox.New(sandbox.Config{
		Runtime: c.SandboxRuntime, Limits: normal, Worker: name, DeniedPaths: denied, Image: c.SandboxImage,
		Log: slog.New(slog.DiscardHandler), // the caller judges missing parts
	})
}
