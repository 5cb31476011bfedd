package rig

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// delay is added to each slowed flush.
const delay = time.Millisecond

//go:embed shim/fsync.c
var shim string

// buildShim compiles a library and returns its path. A PostgreSQL that preloads it takes delay longer for each flush.
// strace can inject the same delay, but it stops the server's processes at each signal and serialises them in one
// tracer. On two cores with 32 clients that cost a quarter of the commits: 7,350 a second, against 9,980 with the
// library (683 against 728 with one client).
func buildShim(ctx context.Context, dir string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", errors.New(
			"there is no C compiler on this machine, which builds what makes a flush take 1 ms: run `make tools/bench`")
	}
	source, library := filepath.Join(dir, "fsync.c"), filepath.Join(dir, "fsync.so")
	if err := os.WriteFile(source, []byte(shim), 0o644); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, cc, "-O2", "-shared", "-fPIC", "-o", library, source,
		"-ldl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s shim/fsync.c: %w: %s", cc, err, out)
	}
	return library, os.Chmod(library, 0o755)
}

// Slowed wraps the Setup of the named figure: each repetition runs in a process of its own whose flushes take 1 ms
// longer. strace injects the delay. A preloaded library cannot, because a Go program makes the system call itself.
func Slowed(name string, setup func(context.Context, *Rig) (*Trial, error)) func(context.Context, *Rig) (*Trial,
	error) {
	return func(ctx context.Context, r *Rig) (*Trial, error) {
		if r.Child {
			if err := slowDisk(r.Dir); err != nil {
				return nil, err
			}
			return setup(ctx, r)
		}
		strace, err := exec.LookPath("strace")
		if err != nil {
			return nil, errors.New("strace is not on this machine, which makes a flush take 1 ms: run `make tools/bench`")
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return &Trial{Repeat: func(ctx context.Context) (Sample, error) {
			child := exec.CommandContext(ctx, strace, "-D", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e",
				"trace=fsync,fdatasync",
				"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", delay.Microseconds()), self, "-once", name)
			// Each preemption signal of Go's scheduler would stop the thread in the tracer.
			child.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
			return repetition(child, child.Start)
		}}, nil
	}
}

// slowDisk returns an error when flushes under dir are not slowed.
func slowDisk(dir string) error {
	took, err := flush(dir)
	if err == nil && took < delay {
		err = fmt.Errorf("a flush takes %s under strace: the delay is not in force", Short(took))
	}
	return err
}

// flush returns the time to make 8 KiB of a file under dir durable, the median of 100.
func flush(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := make([]byte, 8<<10)
	return Median(100, func(int) error {
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		return f.Sync()
	})
}
