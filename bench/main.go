// Command bench measures the speeds that dvt claims, each against a floor that is
// measured in the same minute: `make bench`, or `make bench ONLY=name`. It prints
// one line for each goal of a figure: ok or short, name, value, goal, floor, spread
// of the repetitions. A figure's repetitions and those of its floor are interleaved
// and the median counts, because machines drift.
//
// Writes are durable everywhere. Where a figure says 1 ms, each flush of the
// database takes that much longer than this disk takes, which is what a disk in a
// data centre takes.
//
// A figure that is short is a fact, and the exit status stays 0. A figure that
// could not be measured is an error: the others are measured and the status is 1.
// With -results FILE the lines are also written there, under a description of the
// machine.
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
	only := flag.String("only", "", "the one figure to measure; all when empty")
	results := flag.String("results", "", "a file that the lines and the machine's description are written to")
	once := flag.String(
		"once", "", "measure one repetition of this figure and print its times in nanoseconds; bench starts itself like this")
	served := flag.String(
		"serve", "", "be the server of this kind that a figure measures, until standard input ends; bench starts "+
			"itself like this")
	profile := flag.String(
		"cpuprofile", "", "a file that a profile of this process's processor time is written to, for `go tool pprof`")
	flag.Parse()
	if *profile != "" {
		stop, err := startProfile(*profile)
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: %v\n", err)
			return 1
		}
		defer stop()
	}
	if *served != "" {
		return serve(ctx, *served)
	}
	if *once != "" {
		return printOnce(ctx, *once)
	}
	chosen := Figures()
	if *only != "" {
		f, ok := FigureOf(*only)
		if !ok {
			fmt.Fprintf(os.Stderr, "error: there is no figure %q; there are %s\n", *only, strings.Join(names(), ", "))
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
	var kept strings.Builder
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
		kept.WriteString(strings.Join(lines, "\n") + "\n")
	}
	if *results == "" {
		return status
	}
	if err := keep(ctx, r, *results, kept.String()); err != nil {
		fmt.Fprintf(os.Stderr, "error: write the results: %v\n", err)
		return 1
	}
	return status
}

// startProfile profiles the processor time of this process until stop.
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
		_ = f.Close() // a profile that was cut short is seen when it is read
	}, nil
}

func keep(ctx context.Context, r *rig.Rig, file, lines string) error {
	machine, err := r.Describe(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(machine+"\n"+lines), 0o644)
}

// printOnce is the other side of slowed and apart: one repetition, its two times on standard output.
func printOnce(ctx context.Context, name string) int {
	s, err := func() (s rig.Sample, err error) {
		f, ok := FigureOf(name)
		if !ok {
			return s, fmt.Errorf("there is no figure %q", name)
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
