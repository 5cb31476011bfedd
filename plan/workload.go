package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Workload is a group of step types that share the slots of a worker. Each workload has its own task queue in the
// engine, so that a workload without a free slot waits there and does not delay the others.
type Workload string

// The workloads.
const (
	NoopWorkload    Workload = "NOOP"        // every step of a control queue
	CommandWorkload Workload = "COMMAND"     // COMMAND steps, and NOOP steps of a data queue
	DBTWorkload     Workload = "DBT"         // DBT_COMPILE, DBT_RUN and DBT_TEST
	HTTPWorkload    Workload = "HTTP_NOTIFY" // HTTP_NOTIFY steps
)

// Workloads lists all workloads.
func Workloads() []Workload {
	return []Workload{NoopWorkload, CommandWorkload, DBTWorkload, HTTPWorkload}
}

// WorkloadsOf lists the workloads of a queue of a configuration.
func WorkloadsOf(queue string) []Workload {
	if strings.HasPrefix(queue, ControlPrefix) {
		return []Workload{NoopWorkload}
	}
	return []Workload{CommandWorkload, DBTWorkload, HTTPWorkload}
}

// WorkloadOn returns the workload of a step type on a queue of a configuration.
func (t StepType) WorkloadOn(queue string) Workload {
	switch {
	case strings.HasPrefix(queue, ControlPrefix):
		return NoopWorkload
	case t == DBTCompile, t == DBTRun, t == DBTTest:
		return DBTWorkload
	case t == HTTPNotify:
		return HTTPWorkload
	}
	return CommandWorkload
}

// suffix returns the part of the engine's task queue after the name of the queue. It begins with a colon, which no id
// has, so that Queues.Check can prove that the names of two scopes differ.
func (w Workload) suffix() string {
	switch w {
	case DBTWorkload:
		return ":dbt"
	case HTTPWorkload:
		return ":http"
	case NoopWorkload, CommandWorkload:
	}
	return ""
}

// TaskQueue returns the name of the engine's task queue for this workload of a queue. People, plans, tickets and the
// settings of workers use the name of the queue, because a worker of a queue serves all its workloads.
func (w Workload) TaskQueue(queue string) string { return queue + w.suffix() }

// workloadCollisions finds queues whose name can be the task queue of a workload of another queue. It need not compare
// two names with suffixes: they differ whenever the queues differ.
func workloadCollisions(templates []setting) (errs []error) {
	for _, a := range templates {
		last := strings.LastIndexByte(a.name, ':')
		if last < 0 {
			continue // the suffix of a workload has a colon
		}
		for _, w := range []Workload{DBTWorkload, HTTPWorkload} {
			if !overlap(a.name[last:], w.suffix()) {
				continue
			}
			i := slices.IndexFunc(templates, func(b setting) bool {
				return slices.Contains(WorkloadsOf(b.name), w) && overlap(a.name, w.TaskQueue(b.name))
			})
			if i >= 0 {
				b := templates[i]
				errs = append(errs, fmt.Errorf("%s (%s) can be the name that the %s steps of %s (%s) have in the engine: "+
					"do not use %s after its last colon", a.key, a.name, w, b.key, b.name, w.suffix()[1:]))
			}
		}
	}
	return errs
}
