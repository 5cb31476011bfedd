// Command scale prints the tables of docs/scale.md: what limits an installation of 1, 10 and 100 boxes. It measures
// nothing: it takes figures of bench/results and simulates how the tenants of a large company spread over
// installations. The output depends on nothing but this file.
package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"strings"
)

// row is a line of bench/results that the model uses.
type row struct {
	file, figure, ratio, floor string
}

// The measured figures of a box of two cores. A test looks each of them up.
var (
	stepCPU  = row{"2-cores-2026-11-24.txt", "step-cpu-postgres", "1.46", "9.3ms"}
	appends  = row{"2-cores-2026-11-24.txt", "appenders-32", "1.03", "123µs"}
	viewers  = row{"2-cores-2026-11-22.txt", "viewers-10000", "1.02", "107ms"}
	measured = []row{stepCPU, appends, viewers}
)

// The numbers that follow from these rows.
const (
	cores        = 2
	cpuPerStep   = 9.3e-3 * 1.46       // seconds of one core, of worker, server, Temporal and PostgreSQL together
	eventsAtOnce = 1 / (123e-6 / 1.03) // events a second that one PostgreSQL commits, with a flush of 1 ms
	framesPerBox = 10_000 / (107e-3 * 1.02)
)

// The numbers that are not measured here.
const (
	eventsPerStep  = 2.0    // StepStarted and StepCompleted
	callsPerStep   = 4.0    // of a worker: two polls and two answers
	namespaceCalls = 2400.0 // a second: the default of frontend.namespaceRPS of Temporal, for each frontend
	tenants        = 1000
	skew           = 1.0 // exponent of the loads of tenants: the n-th largest has 1/n of the largest
)

// layout is how many boxes of two cores an operator has, and how they are divided.
type layout struct {
	boxes         int
	installations int // each with a PostgreSQL, a Redis and a Temporal of its own; a tenant is in one of them
	namespaces    int // of each installation
	frontends     int // of the Temporal of each installation
}

func layouts() []layout {
	return []layout{{1, 1, 1, 1}, {10, 1, 1, 1}, {10, 1, 3, 1}, {10, 1, 3, 3}, {100, 1, 3, 10}, {100, 4, 3, 3},
		{100, 8, 3, 3}, {100, 16, 3, 3}}
}

// result is what a layout reaches.
type result struct {
	wanted, reached float64 // steps a second
	limit           string
	hottest         float64 // share of the load in the busiest installation
}

// hottestShare returns the share of all load that the busiest of n installations has, when each tenant is put where the
// least load is, the largest first, as an operator does it; byHash is the same with tenants placed by a hash.
func hottestShare(n int, byHash bool) float64 {
	load, total := make([]float64, n), 0.0
	for t := range tenants {
		weight := 1 / math.Pow(float64(t+1), skew)
		total += weight
		at := 0
		if byHash {
			h := fnv.New32a()
			fmt.Fprintf(h, "tenant-%d", t)
			at = int(h.Sum32() % uint32(n)) //nolint:gosec // n is small
		} else {
			for i := range load {
				if load[i] < load[at] {
					at = i
				}
			}
		}
		load[at] += weight
	}
	most := 0.0
	for _, l := range load {
		most = max(most, l)
	}
	return most / total
}

// simulate returns the steps a second that a layout reaches before the first part of its busiest installation is full.
// Production has half of the load where there is more than one namespace.
func simulate(l layout) result {
	r := result{hottest: hottestShare(l.installations, false)}
	r.wanted = float64(l.boxes) * cores / cpuPerStep
	r.reached, r.limit = r.wanted, "processors"
	production := 1.0
	if l.namespaces > 1 {
		production = 0.5
	}
	for _, c := range []struct {
		name     string
		capacity float64 // steps a second of all installations together
	}{
		{"commits of one PostgreSQL", eventsAtOnce / eventsPerStep / r.hottest},
		{"calls of one namespace", namespaceCalls * float64(l.frontends) / callsPerStep / production / r.hottest},
	} {
		if c.capacity < r.reached {
			r.reached, r.limit = c.capacity, c.name
		}
	}
	return r
}

// tables returns the Markdown of the page.
func tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| Boxes | Installations | Namespaces each | Frontends each | Steps/s of the processors | Steps/s reached | "+
		"First limit | Share of the busiest installation |\n|---|---|---|---|---|---|---|---|\n")
	for _, l := range layouts() {
		r := simulate(l)
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %.0f | %.0f | %s | %.0f %% |\n", l.boxes, l.installations, l.namespaces,
			l.frontends, r.wanted, r.reached, r.limit, r.hottest*100)
	}
	fmt.Fprintf(&b, "\n| Installations | Busiest, largest tenants placed first | Busiest, tenants placed by a hash |\n|---|---|---|\n")
	for _, n := range []int{2, 4, 8, 16} {
		fmt.Fprintf(&b, "| %d | %.0f %% | %.0f %% |\n", n, hottestShare(n, false)*100, hottestShare(n, true)*100)
	}
	fmt.Fprintf(&b, "\n| Servers | Viewers with one update a second |\n|---|---|\n")
	for _, n := range []int{1, 10, 100} {
		fmt.Fprintf(&b, "| %d | %.0f |\n", n, float64(n)*framesPerBox)
	}
	return b.String()
}

func main() {
	if _, err := fmt.Fprint(os.Stdout, tables()); err != nil {
		os.Exit(1)
	}
}
