//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

func contextWithTimeout() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func limitAttempts() []attempt {
	return []attempt{
		{name: "start 200 processes", cause: sandbox.CausePIDs, needs: plan.SandboxPIDs,
			named: "process or thread was refused", attack: func(world) error {
				var started []*exec.Cmd
				defer func() {
					for _, cmd := range started {
						_ = cmd.Process.Kill()
						_ = cmd.Wait()
					}
				}()
				for range 200 {
					cmd := exec.Command("/bin/sleep", "60")
					if err := cmd.Start(); err != nil {
						return fmt.Errorf("after %d: %w", len(started), err)
					}
					started = append(started, cmd)
				}
				return nil
			}},
		{name: "start 200 processes by a shell that forks itself", named: "process or thread was refused",
			cause: sandbox.CausePIDs, needs: plan.SandboxPIDs,
			attack: func(world) error {
				out, err := exec.Command(
					"/bin/sh", "-c", `i=0; while [ $i -lt 200 ]; do sleep 2 & i=$((i+1)); done`).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%.60s: %w", out, err)
				}
				return nil
			}},
		{name: "use 600 MiB of memory", cause: sandbox.CauseMemory, needs: plan.SandboxMemory, named: "bytes of memory",
			attack: func(world) error { return useMemory(600) }},
		{name: "use 600 MiB of memory in four processes", named: "bytes of memory",
			cause: sandbox.CauseMemory, needs: plan.SandboxMemory,
			attack: func(w world) error {
				var all []*exec.Cmd
				for range 4 {
					cmd := exec.Command("/usr/bin/head", "-c", "150M", "/dev/zero")
					tail := exec.Command("/usr/bin/tail", "-n", "1")
					pipe, err := cmd.StdoutPipe()
					if err != nil {
						return err
					}
					tail.Stdin = pipe
					if err := errors.Join(tail.Start(), cmd.Start()); err != nil {
						return err
					}
					all = append(all, tail)
				}
				var err error
				for _, cmd := range all {
					err = errors.Join(err, cmd.Wait())
				}
				return err
			}},
		{name: "use 600 MiB of memory as files of the temporary directory", named: "a write was refused",
			cause: sandbox.CauseDisk,
			attack: func(world) error {
				var names []string
				for i := range 60 {
					name := filepath.Join(os.TempDir(), fmt.Sprintf("dvt-bomb-%d-%d", os.Getpid(), i))
					if err := os.WriteFile(name, make([]byte, 10*mebibyte), 0o600); err != nil {
						return err // the files stay, so that the sandbox sees the full directory
					}
					names = append(names, name)
				}
				for _, name := range names {
					_ = os.Remove(name)
				}
				return nil
			}},
		{name: "write a file of 64 MiB", named: "a write was refused", cause: sandbox.CauseDisk, attack: func(w world) error {
			return os.WriteFile(filepath.Join(w.Workspace, "bomb"), make([]byte, 64*mebibyte), 0o600)
		}},
		{name: "make a file of a terabyte", named: "truncation of", cause: "", attack: func(w world) error {
			name := filepath.Join(w.Workspace, "sparse")
			return errors.Join(os.WriteFile(name, nil, 0o600), unix.Truncate(name, 1<<40))
		}},
		{name: "lock 100 MiB of memory", unnamed: byTheKernel, attack: func(world) error {
			all, err := unix.Mmap(-1, 0, 100*mebibyte, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return err
			}
			return unix.Mlock(all)
		}},
		{name: "leave a core dump", unnamed: byTheKernel, attack: func(world) error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: mebibyte, Max: mebibyte})
		}},
	}
}

func useMemory(mebibytes int) error {
	all, err := unix.Mmap(-1, 0, mebibytes*mebibyte, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(all); i += 4096 {
		all[i] = 1
	}
	return nil
}
