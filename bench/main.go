// Command bench measures the speeds that dvt claims: `make bench`, or `make bench ONLY=name`. Each figure is compared
// with a floor, a simpler program for the same task that is measured in the same minute. For each goal of a figure it
// prints one line: ok or short, name, value, goal, floor and spread of the repetitions. The repetitions of a figure and
// of its floor alternate and the median counts, because the speed of a machine drifts.
//
// All writes are durable. Where a figure says 1 ms, each flush of the database takes 1 ms longer than on this disk, to
// resemble a disk in a data centre.
//
// The exit status is 0 even if a figure is short of its goal. It is 1 if a figure could not be measured; the other
// figures are measured nevertheless. It is 2 if -only names no figure. With -results FILE the lines are also written to
// that file, after a description of the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/sandbox"
)

func main() {
	sandbox.Main() // does not return in the shim of a sandbox
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := bench(ctx)
	stop()
	os.Exit(status)
}

func bench(ctx context.Context) int {
	only := flag.String("only", "", "measure only this figure; empty measures all")
	results := flag.String("results", "", "also write the lines and a description of the machine to this file")
	once := flag.String(
		"once", "", "measure one repetition of this figure and print its two times in nanoseconds; bench "+
			"starts itself with it")
	kind := flag.String(
		"serve", "", "run the server of this kind for a figure, until standard input ends; bench starts itself "+
			"with it")
	profile := flag.String(
		"cpuprofile", "", "write a CPU profile of this process to this file, for `go tool pprof`")
	flag.Parse()
	if *profile != "" {
		stop, err := startProfile(*profile)
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: %v\n", err)
			return 1
		}
		defer stop()
	}
	if *kind != "" {
		return serve(ctx, *kind)
	}
	if *once != "" {
		return printOnce(ctx, *once)
	}
	chosen := figures()
	if *only != "" {
		f, ok := figureOf(*only)
		if !ok {
			fmt.Fprintf(os.Stderr, "error: figure %q does not exist; use one of %s\n", *only, strings.Join(names(), ", "))
			return 2
		}
		chosen = []rig.Figure{f}
	}
	r, err := rig.NewRig()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return 1
	}
	defer r.Close()
	var all strings.Builder
	status := 0
	for _, f := range chosen {
		began := time.Now()
		lines, err := f.Measure(ctx, r)
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "error: interrupted")
			return 1
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", f.Name, err)
			lines, status = []string{"error  " + f.Name}, 1
		} else {
			fmt.Fprintln(os.Stdout, strings.Join(lines, "\n"))
		}
		fmt.Fprintf(os.Stderr, "       %s took %s\n", f.Name, time.Since(began).Round(time.Second))
		all.WriteString(strings.Join(lines, "\n") + "\n")
	}
	if *results == "" {
		return status
	}
	if err := writeResults(ctx, r, *results, all.String()); err != nil {
		fmt.Fprintf(os.Stderr, "error: write the results: %v\n", err)
		return 1
	}
	return status
}

// startProfile starts a CPU profile of this process; stop ends it and closes the file.
func startProfile(file string) (stop func(), err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // pprof reports a truncated profile
	}, nil
}

// writeResults writes a description of the machine and the lines to a file.
func writeResults(ctx context.Context, r *rig.Rig, file, lines string) error {
	machine, err := r.Describe(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(machine+"\n"+lines), 0o644)
}

// printOnce runs in the processes that rig.Slowed and rig.Apart start: it measures one repetition and prints its two
// times.
func printOnce(ctx context.Context, name string) int {
	s, err := func() (s rig.Sample, err error) {
		f, ok := figureOf(name)
		if !ok {
			return s, fmt.Errorf("figure %q does not exist", name)
		}
		r, err := rig.NewRig()
		if err != nil {
			return s, err
		}
		defer r.Close()
		r.Child = true
		t, err := f.Setup(ctx, r)
		if err != nil {
			return s, err
		}
		defer t.Close()
		return t.Repeat(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, int64(s.Cost), int64(s.Floor))
	return 0
}
