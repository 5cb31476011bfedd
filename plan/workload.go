package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Workload names step types that share the slots of a worker. The steps of one workload have a task queue of the
// engine to themselves, so that a workload whose slots are all taken waits there and holds up no other.
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

// WorkloadOn gives the workload of a step type on a queue of a configuration.
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

// suffix is what the name of the engine's task queue has behind that of the queue. No id has a colon, which is how
// Queues.Check knows that the names of two scopes differ.
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

// TaskQueue gives the name of the engine's task queue for this workload of a queue. People, plans, tickets and the
// settings of workers name the queue alone: a worker of a queue serves all its workloads.
func (w Workload) TaskQueue(queue string) string { return queue + w.suffix() }

// workloadCollisions finds names of queues that can be the task queue of a workload of another queue. Task queues of
// two workloads differ where the queues do, since their suffixes differ or are the same.
func workloadCollisions(templates []setting) (errs []error) {
	for _, a := range templates {
		last := strings.LastIndexByte(a.name, ':')
		if last < 0 {
			continue // no name of a workload is without a colon
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
					"let its part behind the last colon not be %s", a.key, a.name, w, b.key, b.name, w.suffix()[1:]))
			}
		}
	}
	return errs
}
