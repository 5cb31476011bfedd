package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// fixedRuntime is a runtime with fixed capabilities.
type fixedRuntime struct {
	sandbox.Runtime
	capabilities sandbox.Capabilities
}

func (d fixedRuntime) Capabilities() sandbox.Capabilities { return d.capabilities }
func (d fixedRuntime) Close() error                       { return nil }

func allCapabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Runtime: "process", Digest: "abc", Parts: plan.SandboxParts()}
}

func capabilitiesWithout(parts ...plan.SandboxPart) sandbox.Capabilities {
	c := sandbox.Capabilities{Runtime: "process", Digest: "abc", Missing: map[plan.SandboxPart]string{}}
	for _, p := range parts {
		c.Missing[p] = "the kernel says no"
	}
	for _, p := range plan.SandboxParts() {
		if c.Has(p) {
			c.Parts = append(c.Parts, p)
		}
	}
	return c
}

func TestSandbox_WorkerRefusesAMachineThatCannotEnforceIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg     config.Config
		have    sandbox.Capabilities
		refused string
		warned  string
	}{
		"a whole sandbox": {have: allCapabilities()},
		"no namespaces": {have: capabilitiesWithout(plan.SandboxNetwork, plan.SandboxFiles),
			refused: "files (the kernel says no); network (the kernel says no)"},
		"no namespaces, one accepted": {
			cfg:  config.Config{SandboxSettings: config.SandboxSettings{SandboxAllowMissing: []string{"files"}}},
			have: capabilitiesWithout(plan.SandboxNetwork, plan.SandboxFiles), refused: ": network (the kernel says no)",
			warned: "part=files",
		},
		"no cgroup": {have: capabilitiesWithout(plan.SandboxMemory),
			warned: "part=memory reason=\"the kernel says no\""},
		"no namespaces in dvt dev": {cfg: config.Config{Dev: true}, have: capabilitiesWithout(plan.SandboxNetwork),
			warned: "part=network"},
		"the runtime none": {cfg: config.Config{SandboxSettings: config.SandboxSettings{SandboxRuntime: config.RuntimeNone}},
			have: executor.Plain().Capabilities(), warned: "steps run without a sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged bytes.Buffer
			err := judgeCapabilities(&c.cfg, c.have, slog.New(slog.NewTextHandler(&logged, nil)))
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("the error is %v, want one with %q", err, c.refused)
			}
			if !strings.Contains(logged.String(), c.warned) || c.warned == "" && logged.Len() > 0 {
				t.Errorf("the log is %q, want %q", logged.String(), c.warned)
			}
		})
	}
}

// newIsolation returns the isolation of a worker whose later verifications see the capabilities that now returns.
func newIsolation(now func() (sandbox.Capabilities, error)) *isolation {
	i := &isolation{
		cfg: &config.Config{}, log: slog.New(slog.DiscardHandler), worker: "host/1",
		runtime: fixedRuntime{capabilities: allCapabilities()},
		tenants: map[string]bool{},
		open: func(string) (sandbox.Runtime, error) {
			c, err := now()
			return fixedRuntime{capabilities: c}, err
		},
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "violations"}, []string{"worker", "tenant"}),
	}
	i.record(allCapabilities(), nil)
	return i
}

func TestSandbox_FailedVerificationStopsPolling(t *testing.T) {
	t.Parallel()
	incomplete, replaced := capabilitiesWithout(plan.SandboxNetwork), allCapabilities()
	replaced.Digest = "another"
	for name, broken := range map[string]func() (sandbox.Capabilities, error){
		"a lost part":           func() (sandbox.Capabilities, error) { return incomplete, nil },
		"another program":       func() (sandbox.Capabilities, error) { return replaced, nil },
		"a failed verification": func() (sandbox.Capabilities, error) { return sandbox.Capabilities{}, errors.New("gone") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				i := newIsolation(func() (sandbox.Capabilities, error) {
					if since := time.Since(began); since >= 2*verifyEvery && since < 2*verifyEvery+3*verifyAgain {
						return broken()
					}
					return allCapabilities(), nil
				})
				var polling atomic.Bool
				served := make(chan error, 1)
				go func() {
					served <- i.whileIsolated(ctx, func(ctx context.Context) error {
						polling.Store(true)
						<-ctx.Done()
						polling.Store(false)
						return nil
					})
				}()
				for _, at := range []struct {
					after time.Duration
					polls bool
				}{{verifyEvery + time.Second, true}, {2*verifyEvery + time.Second, false}, {2*verifyEvery + 3*verifyAgain +
					time.Second, true}} {
					time.Sleep(at.after - time.Since(began))
					synctest.Wait()
					report := i.workerReport()
					if polling.Load() != at.polls || report.OK != at.polls || (report.Problem == "") != at.polls {
						t.Errorf("after %s the worker polls: %t, and its report is %+v, want %t", at.after, polling.Load(), report,
							at.polls)
					}
				}
				cancel()
				if err := <-served; err != nil {
					t.Errorf("the worker ended with %v", err)
				}
			})
		})
	}
}

func TestSandbox_ViolationsNameABoundedNumberOfTenants(t *testing.T) {
	t.Parallel()
	i := newIsolation(nil)
	for n := range maxViolationTenants + 5 {
		i.countViolation(executor.Violation{TenantID: fmt.Sprint("tenant", n)})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(i.violations)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != maxViolationTenants+1 {
		t.Fatalf("there are %d metrics (%v), want %d series and one for all others", len(families), err, maxViolationTenants)
	}
	for _, m := range families[0].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetValue() == otherTenants && m.GetCounter().GetValue() != 5 {
				t.Errorf("%v violations are of other tenants, want 5", m.GetCounter().GetValue())
			}
		}
	}
}

func TestOwnAddresses_ContainEachAddressOfTheMachine(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := netip.MustParseAddrPort(ln.Addr().String()).Port()
	o := newOwnAddresses(&config.Config{
		Temporal: "127.0.0.1:7233", Server: "https://192.0.2.1", Redis: "rediss://:secret@192.0.2.2/0",
		MetricsListen: "0.0.0.0:9464",
		Store:         "postgres://dvt@192.0.2.3:6432,192.0.2.4/dvt?sslmode=require",
	}, slog.New(slog.DiscardHandler))
	for address, own := range map[string]bool{
		"127.0.0.1:7233": true, "127.0.0.2:7233": true, "[::1]:7233": true, "0.0.0.0:7233": true,
		"[::ffff:127.0.0.1]:7233": true,
		"192.0.2.1:443":           true, "192.0.2.1:80": false, "192.0.2.2:6379": true, "192.0.2.3:6432": true,
		"192.0.2.4:5432": true,
		"127.0.0.1:9464": true, "192.0.2.9:9464": false, "192.0.2.9:7233": false, "127.0.0.1:1": false,
		fmt.Sprintf("127.0.0.1:%d", port): true, fmt.Sprintf("192.0.2.9:%d", port): false,
	} {
		if got := o.contains(netip.MustParseAddrPort(address)); got != own {
			t.Errorf("%s is an address of the installation: %t, want %t", address, got, own)
		}
	}
}

func TestWorkspaces_AreClosedToOtherUsers(t *testing.T) {
	t.Parallel()
	root, outside := filepath.Join(t.TempDir(), "workspace"), t.TempDir()
	for _, dir := range []string{root, filepath.Join(root, "run")} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755), os.Chmod(outside, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(outside, filepath.Join(root, "link")), closeWorkspaces(root)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{root: 0o700, filepath.Join(root, "run"): 0o700, outside: 0o755} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, want %o (%v)", dir, info.Mode(), want, err)
		}
	}
}
