package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// graph has the dependencies between the steps of a document. A node is the index of the first step with its id.
type graph struct {
	ids      []string       // by index of the step; empty for a step without an id
	first    map[string]int // the node of each id
	deps     [][]int        // by node, the nodes that it depends on
	lastFrom []int          // by node, one plus the index of the last step that was linked to it; finds duplicates
	declared bool           // at least one step declares dependsOn (contract T72)
	ordered  int            // number of steps with an order (contract T70)
}

func newGraph(docs []value) *graph {
	g := &graph{
		ids: make([]string, len(docs)), first: make(map[string]int, len(docs)),
		deps: make([][]int, len(docs)), lastFrom: make([]int, len(docs)),
	}
	for i, doc := range docs {
		if !doc.isObject() {
			continue
		}
		doc.each(func(key, val value) bool {
			if key.text() != "stepId" {
				return true
			}
			if val.isString() {
				g.ids[i] = val.text()
			}
			return false
		})
		if _, known := g.first[g.ids[i]]; !known && g.ids[i] != "" {
			g.first[g.ids[i]] = i
		}
	}
	return g
}

type link int

const (
	linkNew link = iota
	linkSelf
	linkTwice
	linkNowhere
)

// link adds the dependency of the step with index from on id, or returns why the dependency is invalid.
func (g *graph) link(from int, id string) link {
	to, known := g.first[id]
	switch {
	case !known:
		return linkNowhere
	case id == g.ids[from]:
		return linkSelf
	case g.lastFrom[to] == from+1:
		return linkTwice
	}
	g.lastFrom[to] = from + 1
	node := from
	if at, ok := g.first[g.ids[from]]; ok {
		node = at // steps with the same id are one node
	}
	g.deps[node] = append(g.deps[node], to)
	return linkNew
}

// judge reports the violations of the steps as a whole: cycles, duplicate ids, and wrong orders.
func (g *graph) judge(r *reader, p *at, steps []Step) {
	canonical := func(a, b int) int { return g.canonical(steps, a, b) }
	cycles := g.cycles()
	for _, members := range cycles {
		slices.SortFunc(members, canonical)
	}
	slices.SortFunc(cycles, func(a, b []int) int { return canonical(a[0], b[0]) })
	for _, members := range cycles {
		r.report(p, CodeCycle, "%s wait for one another; remove one of their dependencies", g.names(members))
	}
	for i, id := range g.ids {
		if at := g.first[id]; id != "" && at != i {
			r.report(p.item(i).field("stepId"), CodeDuplicate, "%s is the id of steps[%d] already; give each step an id of its own",
				formatID(id), at)
		}
	}
	switch {
	case g.ordered == 0:
	case g.ordered < len(steps):
		r.report(p, CodeOrder, "give every step an order or none: %d of %d have one", g.ordered, len(steps))
	default:
		g.judgeOrder(r, p, steps)
	}
}

// judgeOrder reports a gap in the orders, which must be 1, 2, 3 …. Several steps may have the same order.
func (g *graph) judgeOrder(r *reader, p *at, steps []Step) {
	var used [MaxSteps + 1]bool
	last := 0
	for _, s := range steps {
		if s.Order == 0 {
			return // reported with its step
		}
		used[s.Order] = true
		last = max(last, s.Order)
	}
	for n := 1; n < last; n++ {
		if !used[n] {
			r.report(p, CodeOrder, "no step has the order %d: number them 1, 2, 3 … without a gap, up to %d", n, last)
			return
		}
	}
}

// canonical compares two steps by (order, stepId) when all have an order, else
// by stepId, in byte order (contract T70, T71).
func (g *graph) canonical(steps []Step, a, b int) int {
	if g.ordered == len(steps) {
		if c := cmp.Compare(steps[a].Order, steps[b].Order); c != 0 {
			return c
		}
	}
	return cmp.Compare(g.ids[a], g.ids[b])
}

// names lists the ids of steps for a message, at most the first twenty.
func (g *graph) names(members []int) string {
	const most = 20
	list := make([]string, 0, most)
	for _, m := range members[:min(most, len(members))] {
		list = append(list, formatID(g.ids[m]))
	}
	text := strings.Join(list, ", ")
	if more := len(members) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// cycles returns every strongly connected component of at least two steps, in any order. It is Tarjan's algorithm, with
// a recursion depth of at most MaxSteps.
func (g *graph) cycles() [][]int {
	var (
		found   [][]int
		stack   []int
		number  = make([]int, len(g.ids)) // order of the visit; 0: not visited
		low     = make([]int, len(g.ids))
		onStack = make([]bool, len(g.ids))
		count   int
		visit   func(n int)
	)
	visit = func(n int) {
		count++
		number[n], low[n] = count, count
		stack, onStack[n] = append(stack, n), true
		for _, to := range g.deps[n] {
			if number[to] == 0 {
				visit(to)
				low[n] = min(low[n], low[to])
			} else if onStack[to] {
				low[n] = min(low[n], number[to])
			}
		}
		if low[n] != number[n] {
			return
		}
		from := len(stack) - 1
		for stack[from] != n {
			from--
		}
		members := slices.Clone(stack[from:])
		stack = stack[:from]
		for _, m := range members {
			onStack[m] = false
		}
		if len(members) > 1 {
			found = append(found, members)
		}
	}
	for n := range g.ids {
		if number[n] == 0 {
			visit(n)
		}
	}
	return found
}

// arrange puts valid steps into canonical order and sets the dependencies of steps that declare none: a chain if no
// step of the document declares any, else no dependency (contract T72).
func (g *graph) arrange(steps []Step) []Step {
	at := make([]int, len(steps))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return g.canonical(steps, a, b) })
	sorted := make([]Step, len(steps))
	for i, from := range at {
		s := steps[from]
		if s.DependsOn == nil {
			s.DependsOn = []string{}
			if !g.declared && i > 0 {
				s.DependsOn = []string{sorted[i-1].StepID}
			}
		}
		sorted[i] = s
	}
	return sorted
}
