package executor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

const (
	maxProcessLine = 256 << 10 // bytes of one line of a process; the rest of it is dropped
	pipeGrace      = 2 * time.Second
	groupPoll      = 20 * time.Millisecond
)

// process is a program in a process group of its own.
type process struct {
	argv  []string
	env   []string
	dir   string
	grace time.Duration
	print func(stream, line string) // called by one goroutine per stream
}

// run runs the program to its end and returns its exit status, -1 for the end by
// a signal. When ctx ends first, the whole group gets SIGTERM and, if anything
// of it is left after the grace, SIGKILL; run returns ctx's cause. Nothing of the
// group outlives run. On Linux the kernel kills the program when the worker dies.
func (p *process) run(ctx context.Context) (status int, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	program, err := lookUp(p.argv[0], p.env, p.dir)
	if err != nil {
		return 0, err
	}
	var outputs sync.WaitGroup
	readers := make([]*os.File, 0, 2)
	writers := make([]*os.File, 0, 2)
	defer func() {
		for _, f := range append(readers, writers...) {
			_ = f.Close()
		}
	}()
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, fmt.Errorf("executor: pipe: %w", err)
		}
		readers, writers = append(readers, r), append(writers, w)
	}
	cmd := &exec.Cmd{
		Path: program, Args: p.argv, Env: p.env, Dir: p.dir,
		Stdout: writers[0], Stderr: writers[1], SysProcAttr: ownGroup(),
	}
	started, exited := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel's signal at the parent's death is tied to the thread that
		// started the child: it must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return 0, &Failure{Code: CodeProgramNotFound, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: fmt.Sprintf("%q cannot be started: %s", p.argv[0], reason(err))}
	}
	for i, stream := range []string{"stdout", "stderr"} {
		_ = writers[i].Close()
		outputs.Go(func() { eachLine(readers[i], func(line string) { p.print(stream, line) }) })
	}

	group, cancelled := -cmd.Process.Pid, false
	var waited error
	select {
	case waited = <-exited:
	case <-ctx.Done():
		cancelled = true
		_ = syscall.Kill(group, syscall.SIGTERM)
		waited = p.stop(group, exited)
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // what the program left behind
	finished := make(chan struct{})
	go func() { outputs.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(pipeGrace): // a process that left the group holds a pipe
		for _, r := range readers {
			_ = r.Close()
		}
		<-finished
	}
	var exit *exec.ExitError
	switch {
	case cancelled:
		return 0, context.Cause(ctx)
	case errors.As(waited, &exit):
		return exit.ExitCode(), nil
	case waited != nil:
		return 0, fmt.Errorf("executor: wait: %w", waited)
	}
	return 0, nil
}

// stop waits until the group is gone, at most for the grace, and kills what is left.
func (p *process) stop(group int, exited <-chan error) (waited error) {
	grace := time.After(p.grace)
	select {
	case waited = <-exited:
	case <-grace:
		_ = syscall.Kill(group, syscall.SIGKILL)
		return <-exited
	}
	for tick := time.Tick(groupPoll); groupLives(group); {
		select {
		case <-tick:
		case <-grace:
			return waited
		}
	}
	return waited
}

// lookUp finds a program as a shell would, but on the PATH of the step.
func lookUp(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, kv := range env {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(path) {
			file := filepath.Join(d, name)
			if info, err := os.Stat(file); filepath.IsAbs(d) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", &Failure{Code: CodeProgramNotFound, Category: run.CategoryUser, Class: plan.ClassValidation,
		Message: fmt.Sprintf("there is no program %q on the worker's PATH", name)}
}

// reason is an operating system error without the paths around it.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "unknown reason"
}

// eachLine calls f with every line up to r's end, cut at maxProcessLine.
func eachLine(r io.Reader, f func(line string)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxProcessLine-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 || err == nil {
			f(strings.TrimRight(string(line), "\r\n"))
		}
		line = line[:0]
		if err != nil {
			return
		}
	}
}
