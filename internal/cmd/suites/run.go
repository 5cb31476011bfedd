package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	progressEvery = 30 * time.Second // interval of the lines that list running tasks
	stopTimeout   = 15 * time.Second // time for an interrupted task to end before it is killed
	printedLines  = 200              // maximum of a log that the report prints
	excerptLines  = 10               // maximum of the output of a test that the end of the report prints
)

// gcPercent is GOGC of tests, and of the processes of dvt and Temporal that they start. Their heaps are small, so with
// Go's own 100 they collect garbage all the time: 6 to 24 % of the CPU time of a package. A test of the size of a heap
// sets the percentage of the product.
const gcPercent = "400"

// result is the result of one task.
type result struct {
	task    task
	err     error // nil: it passed
	time    time.Duration
	counts  counts
	printed string  // the end of the output, for the report of a failure
	tests   *goTest // of a suite of Go tests
}

type runner struct {
	root, logs string
	files      string // TMPDIR of tests; "" for that of this process
	out        io.Writer

	mu      sync.Mutex
	running map[string]time.Time
}

// run runs the chosen suites after the preparations that they need, prints the report, and returns whether all passed.
func (r *runner) run(ctx context.Context, preparations, chosen []task) bool {
	began := time.Now()
	r.running = map[string]time.Time{}
	done := make(chan struct{})
	go r.printProgress(done)
	results := r.schedule(ctx, needed(preparations, chosen), chosen)
	r.repeatFailures(ctx, results)
	close(done)
	return r.report(results, time.Since(began))
}

// needed returns the preparations that the suites need, directly or not, in the given order.
func needed(preparations, chosen []task) []task {
	want := map[string]bool{}
	for _, t := range chosen {
		for _, n := range t.needs {
			want[n] = true
		}
	}
	for range preparations { // preparations can need other preparations
		for _, p := range preparations {
			if want[p.name] {
				for _, n := range p.needs {
					want[n] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(preparations), func(t task) bool { return !want[t.name] })
}

// execute runs one task and writes its output to its log.
func (r *runner) execute(ctx context.Context, t task, kind string) result {
	began := time.Now()
	r.mu.Lock()
	r.running[kind+" "+t.name] = began
	if kind == "suite" {
		fmt.Fprintf(r.out, "--- %-15s %s\n", t.name, t.what)
	}
	r.mu.Unlock()

	res := result{task: t}
	log, err := os.Create(filepath.Join(r.logs, kind+"-"+t.name+".log"))
	if err != nil {
		res.err = err
	} else {
		r.command(ctx, &res, log)
		res.err = errors.Join(res.err, log.Close())
	}
	res.time = time.Since(began)

	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, kind+" "+t.name)
	switch {
	case res.err != nil:
		fmt.Fprintf(r.out, "FAIL %-14s %s after %s: %v\n", t.name, kind, seconds(res.time), res.err)
	case kind == "suite" || res.time > time.Second:
		fmt.Fprintf(r.out, "ok   %-14s %s in %s\n", t.name, kind, seconds(res.time))
	}
	return res
}

// command runs the task of res, writes its output to log and sets the other fields of res.
func (r *runner) command(ctx context.Context, res *result, log *os.File) {
	t := res.task
	c := r.process(ctx, t, t.argv)
	if !t.goTest {
		c.Stdout, c.Stderr = log, log
		res.err = c.Run()
		text := readLog(log.Name())
		res.counts, res.printed = countsIn(text), lastLines(text)
		return
	}
	parser := newGoTest(log)
	c.Stdout, c.Stderr = parser, log
	if res.err = c.Run(); res.err == nil {
		res.err = parser.checkCoverage(t.floors)
	}
	res.counts, res.tests = parser.counts, parser
	res.counts.failing = parser.failures()
	for _, f := range res.counts.failing {
		res.printed += fmt.Sprintf("%s\n%s\n", f.name, lastLines(f.output))
	}
	res.printed += stderrOf(log.Name(), res.err, parser.counts)
}

// process returns the command argv with the directory and environment of a task.
func (r *runner) process(ctx context.Context, t task, argv []string) *exec.Cmd {
	if strings.Contains(argv[0], "/") {
		argv = slices.Concat([]string{filepath.Join(r.root, argv[0])}, argv[1:])
	}
	if t.yields {
		argv = slices.Concat([]string{"nice", "-n", "3"}, argv)
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir = filepath.Join(r.root, t.dir)
	c.Env = append(os.Environ(), "NO_COLOR=1")
	if t.tests {
		c.Env = append(c.Env, "GOGC="+gcPercent)
	}
	if t.tests && r.files != "" {
		c.Env = append(c.Env, "TMPDIR="+r.files, "GOTMPDIR="+os.TempDir(), "TEST_EVIDENCE_DIR="+r.logs)
	}
	for _, kv := range t.env {
		name, value, _ := strings.Cut(kv, "=")
		c.Env = append(c.Env, name+"="+strings.ReplaceAll(value, "$"+name, last(c.Env, name)))
	}
	// A process group of its own, so that an interrupt also ends the children of the task.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = stopTimeout
	return c
}

// stderrOf returns the end of the log when go test failed but no test did, for example in a build.
func stderrOf(log string, err error, c counts) string {
	if err == nil || c.failed > 0 {
		return ""
	}
	return lastLines(readLog(log))
}

// printProgress lists the running tasks every progressEvery until done is closed.
func (r *runner) printProgress(done <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			r.mu.Lock()
			names := make([]string, 0, len(r.running))
			for name, began := range r.running {
				names = append(names, fmt.Sprintf("%s %s", name, seconds(time.Since(began))))
			}
			slices.Sort(names)
			fmt.Fprintf(r.out, "... running: %s\n", strings.Join(names, ", "))
			r.mu.Unlock()
		}
	}
}

// report prints the failures, the packages, the skipped and flaky tests, the table, the names of the failed tests and
// the totals. It returns whether all suites passed. The names come last, because an excerpt of a long output often
// shows only its end.
func (r *runner) report(results []result, took time.Duration) bool {
	var total counts
	passed, failed := 0, 0
	for _, res := range results {
		total.add(res.counts)
		if res.err == nil {
			passed++
			continue
		}
		failed++
		fmt.Fprintf(r.out, "\n===== %s failed: %v\n%s\n", res.task.name, res.err, strings.TrimRight(res.printed, "\n"))
	}
	fmt.Fprintln(r.out)
	for _, line := range total.packages {
		fmt.Fprintln(r.out, line)
	}
	r.list("skipped tests, each with its reason:", total.skips)
	r.list("flaky tests, which failed and passed when they were repeated:", texts(total.flaky, printedLines))
	fmt.Fprintln(r.out)
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "suite\tresult\ttime\ttests\twhat")
	for _, res := range results {
		verdict := "ok"
		if res.err != nil {
			verdict = "FAIL"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", res.task.name, verdict, seconds(res.time), res.counts, res.task.what)
	}
	_ = table.Flush() // there is no other output to report an error to
	r.list("failed tests, each with its first lines:", texts(total.failing, excerptLines))
	fmt.Fprintf(r.out, "\n%d passed, %d failed (suites; tests: %s) in %s; logs in .tools/logs\n", passed, failed, total,
		seconds(took))
	return failed == 0
}

// list prints a head and the lines below it, or nothing without lines.
func (r *runner) list(head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(r.out, "\n"+head)
	for _, line := range lines {
		fmt.Fprintln(r.out, "  "+strings.ReplaceAll(line, "\n", "\n    "))
	}
}

// texts returns the name of each failure with up to limit lines of its output, without those by which go test marks
// the beginning of a test.
func texts(failures []failure, limit int) []string {
	out := make([]string, len(failures))
	for i, f := range failures {
		lines := []string{f.name}
		for line := range strings.Lines(f.output) {
			if line = strings.TrimRight(line, " \n"); line != "" && !strings.HasPrefix(line, "=== ") && len(lines) <= limit {
				lines = append(lines, line)
			}
		}
		out[i] = strings.Join(lines, "\n")
	}
	return out
}

func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

func last(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

func readLog(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > printedLines {
		lines = append([]string{fmt.Sprintf("(%d lines before)", len(lines)-printedLines)},
			lines[len(lines)-printedLines:]...)
	}
	return strings.Join(lines, "\n")
}
