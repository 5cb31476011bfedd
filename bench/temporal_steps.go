package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

// besideBare measures dvt (the cost) and the bare workflow (the floor) alternately on one bed.
func besideBare(
	turns int, o bedOptions, steps, width int, of func(*bed, contender) rig.Measure,
) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		b, err := newBed(ctx, r, o)
		if err != nil {
			return nil, err
		}
		stop, err := b.startBare()
		if err != nil {
			return nil, b.closeAfter(err)
		}
		dvt, bare := b.dvt(layers(steps, width)), b.bare(steps, width)
		// Warm up: the first workflows of a worker fill connections and caches.
		for _, c := range []contender{bare, dvt} {
			if _, err := b.runAll(ctx, c, 10, 10); err != nil {
				stop()
				return nil, b.closeAfter(err)
			}
		}
		return &rig.Trial{
			Repeat: rig.Alternate(turns, of(b, dvt), of(b, bare)),
			Done:   func() error { stop(); return b.close() },
		}, nil
	}
}

// stepsOf measures the time of one step, over runs of this many steps, with atOnce runs at a time.
func stepsOf(runs, atOnce, steps int) func(*bed, contender) rig.Measure {
	return func(b *bed, c contender) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			took, err := b.runAll(ctx, c, runs, atOnce)
			return took / time.Duration(steps), err
		}
	}
}

// runsOf measures the time of one run.
func runsOf(runs, atOnce int) func(*bed, contender) rig.Measure { return stepsOf(runs, atOnce, 1) }

// cpuOf measures the processor time of a step: that of this process, with worker, caller and SQLite, and that of the
// servers.
func cpuOf(runs, atOnce, steps int) func(*bed, contender) rig.Measure {
	return func(b *bed, c contender) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			before, err := b.settledCPU(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := b.runAll(ctx, c, runs, atOnce); err != nil {
				return 0, err
			}
			after, err := b.settledCPU(ctx)
			return (after - before) / time.Duration(runs*steps), err
		}
	}
}

// settledCPU waits until the servers have finished the work that follows the end of workflows, and returns the
// processor time so far.
func (b *bed) settledCPU(ctx context.Context) (time.Duration, error) {
	if err := rig.Wait(ctx, time.Second); err != nil {
		return 0, err
	}
	all, err := ownCPU()
	for _, pid := range b.processes() {
		if err != nil {
			return 0, err
		}
		var one time.Duration
		one, err = cpuOfTree(pid)
		all += one
	}
	return all, err
}

// ownCPU returns the processor time of this process so far, including that in the kernel.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// cpuOfTree returns the processor time of a process, of its children, and of the ended children that it has waited for.
func cpuOfTree(pid int) (time.Duration, error) {
	own, err := processStat(pid)
	if err != nil {
		return 0, err
	}
	all := own.cpu
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := processStat(id); err == nil && s.parent == pid { // other processes may have ended
			all += s.cpu
		}
	}
	return all, nil
}

type stat struct {
	parent int
	cpu    time.Duration
}

func processStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name of the program, in parentheses, may contain spaces and parentheses.
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat contains %q, want more fields", pid, text)
	}
	var s stat
	if s.parent, err = strconv.Atoi(f[1]); err != nil {
		return stat{}, err
	}
	for _, n := range f[11:15] { // user, system, and both of the children waited for
		ticks, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(ticks) * tick
	}
	return s, nil
}
