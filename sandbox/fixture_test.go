//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

const mebibyte = 1 << 20

// fixture is a runtime with a workspace and a project.
type fixture struct {
	t         *testing.T
	runtime   sandbox.Runtime
	project   string
	workspace string
	denied    string // a file of the project that no program may read

	mu       sync.Mutex
	resolved []string // names that reached the worker's resolver
}

// newFixture fails where the kernel lacks a part other than a limit, because a test without it would prove nothing.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, project: filepath.Join(dir, "project"), workspace: filepath.Join(dir, "workspace")}
	f.denied = filepath.Join(f.project, "token")
	for _, dir := range []string{f.project, f.workspace} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(f.denied, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.runtime, err = sandbox.New(sandbox.Config{Worker: "test", DeniedPaths: []string{f.denied}, Resolve: f.resolve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.runtime.Close(); err != nil {
			t.Error(err)
		}
	})
	for part, reason := range f.runtime.Capabilities().Missing {
		if part == plan.SandboxMemory || part == plan.SandboxCPU || part == plan.SandboxPIDs {
			t.Logf("the part %s is missing: %s", part, reason) // rlimits stand in; tests that need the part fail
			continue
		}
		t.Fatalf("this machine cannot test the sandbox, because the part %s is missing: %s", part, reason)
	}
	return f
}

// resolve answers every name with the IPv4 loopback and no IPv6 address.
func (f *fixture) resolve(_ context.Context, network, host string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resolved = append(f.resolved, host)
	if network != "ip4" {
		return nil, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func (f *fixture) resolvedNames() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.resolved...)
}

// program returns a program that the test changes before it starts it.
func (f *fixture) program(argv ...string) sandbox.Program {
	return sandbox.Program{
		Path: argv[0], Argv: argv, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"}, Dir: f.workspace,
		Read: []string{f.project}, Write: []string{f.workspace}, Connect: []string{},
		Limits: sandbox.Limits{Memory: 256 * mebibyte, CPU: 2, PIDs: 64, Disk: 16 * mebibyte},
	}
}

// result holds the exit, output and violations of a program.
type result struct {
	exit       sandbox.Exit
	output     string
	violations []sandbox.Violation
}

// start starts a program whose output goes to one pipe. wait may be called once.
func (f *fixture) start(p sandbox.Program) (running sandbox.Process, wait func() result) {
	f.t.Helper()
	var r result
	r2, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	p.Stdout, p.Stderr = w, w
	var mu sync.Mutex
	p.Violation = func(v sandbox.Violation) {
		mu.Lock()
		defer mu.Unlock()
		r.violations = append(r.violations, v)
	}
	running, err = f.runtime.Start(f.t.Context(), p)
	w.Close()
	if err != nil {
		r2.Close()
		f.t.Fatalf("the program %q did not start: %s", p.Argv, err)
	}
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(&out, r2)
		close(read)
	}()
	return running, func() result {
		defer r2.Close()
		watchdog := time.AfterFunc(time.Minute, running.Kill)
		defer watchdog.Stop()
		exit, err := running.Wait()
		if err != nil {
			f.t.Errorf("Wait for the program %q returned the error %s", p.Argv, err)
		}
		<-read
		mu.Lock()
		defer mu.Unlock()
		r.exit, r.output = exit, out.String()
		return r
	}
}

func (f *fixture) run(p sandbox.Program) result {
	f.t.Helper()
	_, wait := f.start(p)
	return wait()
}

// shell runs a script.
func (f *fixture) shell(script string) result {
	f.t.Helper()
	return f.run(f.program("/bin/sh", "-c", script))
}

// wantOutput checks that a program succeeded with an output.
func (r result) wantOutput(t *testing.T, want string) {
	t.Helper()
	if r.exit != (sandbox.Exit{}) || strings.TrimSpace(r.output) != want {
		t.Errorf("the program ended with %+v and the output %q, want success and %q", r.exit, r.output, want)
	}
}

// noLoopback is a Judge that refuses loopback, private and link-local addresses.
func noLoopback(to netip.AddrPort) error {
	a := to.Addr().Unmap()
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(a) || a.IsLoopback() || a.IsPrivate() ||
		a.IsLinkLocalUnicast() || a.IsUnspecified() {
		return errors.New("refused")
	}
	return nil
}
