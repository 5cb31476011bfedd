package executor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/sandbox"
	"github.com/dvt-engine/dvt/secret/mask"
)

const (
	maxProcessLine = 256 << 10 // bytes of one line of a program; the rest of the line is dropped
	// pipeGrace is the time for which run reads the output after the end of a program, because a process that left the
	// group may hold a pipe open.
	pipeGrace = 2 * time.Second
)

// process is a program of a step. program lacks its path and its outputs.
type process struct {
	runtime sandbox.Runtime
	program sandbox.Program
	grace   time.Duration
	print   func(stream, line string) // called by one goroutine per pipe
	secrets *mask.Masker              // hides secrets before the output is cut into lines
	exited  func(sandbox.Exit)        // called once, when the program has ended
}

// run runs the program to its end. When ctx ends first, every process of the sandbox gets SIGTERM, and the remaining
// ones get SIGKILL after the grace; run then returns the cause of ctx. The error is a *Failure when the program cannot
// be started.
func (p *process) run(ctx context.Context) (exit sandbox.Exit, err error) {
	if err := context.Cause(ctx); err != nil {
		return exit, err
	}
	var outputs sync.WaitGroup
	streams := outputsOf(p.runtime)
	readers := make([]*os.File, 0, len(streams))
	writers := make([]*os.File, 0, len(streams))
	defer func() {
		for _, f := range append(readers, writers...) {
			_ = f.Close()
		}
	}()
	for range streams {
		r, w, err := os.Pipe()
		if err != nil {
			return exit, fmt.Errorf("executor: pipe: %w", err)
		}
		readers, writers = append(readers, r), append(writers, w)
	}
	p.program.Stdout, p.program.Stderr = writers[0], writers[len(writers)-1]
	running, err := p.runtime.Start(ctx, p.program)
	if err != nil {
		return exit, startFailure(p.program.Argv[0], err)
	}
	write := p.print
	if len(streams) > 1 {
		write = noteSeparate(write)
	}
	for i, stream := range streams {
		_ = writers[i].Close()
		outputs.Go(func() { eachLine(p.secrets.Reader(readers[i]), func(line string) { write(stream, line) }) })
	}
	ended := make(chan struct{})
	var waited error
	go func() {
		defer close(ended)
		exit, waited = running.Wait()
	}()
	cancelled := false
	select {
	case <-ended:
	case <-ctx.Done():
		cancelled = true
		running.Terminate()
		grace := time.NewTimer(p.grace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
			running.Kill()
			<-ended
		}
	}
	finished := make(chan struct{})
	go func() { outputs.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(pipeGrace):
		for _, r := range readers {
			_ = r.Close()
		}
		<-finished
	}
	switch {
	case cancelled:
		p.exited(exit)
		return exit, context.Cause(ctx)
	case waited != nil:
		return exit, fmt.Errorf("executor: wait: %w", waited)
	}
	p.exited(exit)
	return exit, nil
}

// outputsOf returns the streams of a program. Each gets a pipe. The kernel keeps the order of writes within a pipe and
// not between two of them. Both outputs therefore share one, and nobody knows to which of them the program wrote a
// line. A runtime that carries the outputs separately has lost the order before, so there the marks are worth more.
func outputsOf(runtime sandbox.Runtime) []string {
	if runtime.Capabilities().SeparateOutputs {
		return []string{"stdout", "stderr"}
	}
	return []string{"output"}
}

// noteSeparate says once, when both streams have lines, that their order is not known.
func noteSeparate(write func(stream, line string)) func(stream, line string) {
	var mu sync.Mutex
	first, noted := "", false
	return func(stream, line string) {
		mu.Lock()
		if first == "" {
			first = stream
		}
		note := !noted && stream != first
		noted = noted || note
		mu.Unlock()
		if note {
			write("dvt", "stdout and stderr are read separately: the order of their lines to each other is not known")
		}
		write(stream, line)
	}
}

// startFailure returns the error for a program that a runtime did not start, a *Failure if the reason is known.
func startFailure(name string, err error) error {
	var missing *sandbox.Unavailable
	switch {
	case errors.As(err, &missing):
		return &Failure{Code: string(run.CodeNoSandbox), Retryable: true, Category: run.CategoryPlatform,
			Message: fmt.Sprintf("%s: nothing of the program has run; run the step on a worker that has these parts, "+
				"or take them out of `sandbox.require` of the step", missing)}
	case errors.Is(err, sandbox.ErrProgram):
		return &Failure{Code: CodeProgramNotFound, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: fmt.Sprintf("%q cannot be started: %s", name, reason(err))}
	case errors.Is(err, sandbox.ErrPath):
		return &Failure{Code: CodeDirNotAllowed, Category: run.CategoryUser, Class: plan.ClassPolicyDeny,
			Message: err.Error()}
	case errors.Is(err, sandbox.ErrConnect):
		return &Failure{Code: CodeInputsInvalid, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: "sandbox.connect: " + err.Error()}
	}
	return fmt.Errorf("executor: start: %w", err)
}

// lookUp returns the path of a program like a shell, but with the PATH of the step instead of the worker's. dir is the
// directory to which a relative name with a slash refers.
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

// reason returns the text of an operating system error without the paths around it, because a step's log must not show
// the worker's directories.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "unknown reason"
}

// eachLine calls f with every line of r, cut at maxProcessLine bytes.
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
