package main

import (
	"context"
	"errors"
	"fmt"
)

// slots is the maximum number of concurrent tasks by kind. Two heavy suites keep two cores busy while some of their
// tests wait. Preparations mostly wait for the network.
var slots = map[string]int{"heavy": 2, "light": 1, "prepare": 3}

// job is one task to run, with the kind of slot that it takes.
type job struct {
	task
	kind string // prepare or suite
	slot string
}

func newJob(t task, kind string) *job {
	j := &job{task: t, kind: kind, slot: "light"}
	switch {
	case t.heavy:
		j.slot = "heavy"
	case kind == "prepare":
		j.slot = kind
	}
	return j
}

// schedule runs every task once, after the preparations that it needs. A free slot goes to the first task in order that
// may start. A task fails when a preparation that it needs failed. The results are those of the chosen suites, in their
// order.
func (r *runner) schedule(ctx context.Context, preparations, chosen []task) []result {
	var waiting []*job
	for _, t := range preparations {
		waiting = append(waiting, newJob(t, "prepare"))
	}
	for _, t := range chosen {
		waiting = append(waiting, newJob(t, "suite"))
	}
	type end struct {
		*job
		result
	}
	ends := make(chan end)
	running, used := 0, map[string]int{}
	prepared, results := map[string]error{}, map[string]result{}
	record := func(j *job, res result) {
		switch {
		case j.kind == "suite":
			results[j.name] = res
		case res.err != nil:
			prepared[j.name] = fmt.Errorf("%w\n%s", res.err, res.printed)
		default:
			prepared[j.name] = nil
		}
	}
	for len(waiting)+running > 0 {
		var later []*job
		for _, j := range waiting {
			need, err, ready := state(j.task, prepared)
			switch {
			case err != nil:
				record(j, result{task: j.task, err: fmt.Errorf("%s could not be prepared", need), printed: err.Error()})
			case !ready || used[j.slot] == slots[j.slot]:
				later = append(later, j)
			case ctx.Err() != nil:
				record(j, result{task: j.task, err: errors.New("interrupted")})
			default:
				used[j.slot]++
				running++
				go func() { ends <- end{j, r.execute(ctx, j.task, j.kind)} }()
			}
		}
		if waiting = later; running == 0 {
			continue // a failed task can make tasks fail that need it
		}
		e := <-ends
		used[e.slot]--
		running--
		record(e.job, e.result)
	}
	out := make([]result, len(chosen))
	for i, t := range chosen {
		out[i] = results[t.name]
	}
	return out
}

// state returns whether all preparations that a task needs are done, or the name and error of one that failed.
//
//nolint:revive // err belongs to need, and ready follows both
func state(t task, prepared map[string]error) (need string, err error, ready bool) {
	ready = true
	for _, n := range t.needs {
		err, done := prepared[n]
		if err != nil {
			return n, err, false
		}
		ready = ready && done
	}
	return "", nil, ready
}
