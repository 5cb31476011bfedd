package server

import (
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/dvt-engine/dvt/sandbox"
)

var invalidNameChars = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// maxWorkerName limits the length, in bytes, of a worker's name in names of cgroups and containers.
const maxWorkerName = 48

// openRuntime opens a runtime that isolates. Runtimes that one process has open at the same time need different names,
// because opening one removes the leftovers of an earlier runtime with its name.
func openRuntime(c *config.Config, name string, normal sandbox.Limits) (sandbox.Runtime, error) {
	name, verifier := strings.CutSuffix(invalidNameChars.ReplaceAllString(name, "-"), verifierSuffix)
	name = name[:min(len(name), maxWorkerName)]
	if verifier {
		name += verifierSuffix
	}
	var denied []string
	for _, path := range c.HiddenFiles() {
		if to, err := filepath.EvalSymlinks(path); err == nil && to != "/" {
			denied = append(denied, to)
		}
	}
	return sandbox.New(sandbox.Config{
		Runtime: c.SandboxRuntime, Limits: normal, Worker: name, DeniedPaths: denied, Image: c.SandboxImage,
		Log: slog.New(slog.DiscardHandler), // judgeCapabilities already logs missing parts
	})
}
